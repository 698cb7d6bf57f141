//! Cost of a command that reads a whole table: a sentence before it starts, and a question above a limit.

use operations::connection::Connection;
use shared::dynamodb::{Store, read::describe_table::items_of};

use super::segments::Segments;
use crate::{confirmation::Confirmation, error::CliError, output, plan};

#[derive(Debug, clap::Args)]
pub(crate) struct CostLimit {
    /// Ask before reads and writes that cost more than this, in USD
    #[arg(long, value_name = "USD", default_value = "1", value_parser = |text: &str| plan::within(text, 0.0, 1e9))]
    max_cost: f64,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
}

/// Approximate size of what a run reads. DynamoDB updates these figures about every six hours.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Items that are scanned.
    pub(crate) items: u64,
    bytes: u64,
    /// Maximum number of entities.
    entities: u64,
}

impl Size {
    /// Describes the tables that a scan of entities reads. `None` if this is not allowed.
    pub(crate) async fn of(store: &Store) -> Option<Self> {
        let history = Store::new(store.client().clone(), store.history_table(), store.digits());
        let history = history.description().await.ok()?;
        let bytes = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
        let (mut items, mut size) = (items_of(&history), bytes(history.table_size_bytes));
        let mut entities = items;
        if store.attached_table().is_none() {
            // In one table, each entity has a latest item and a version at least.
            entities /= 2;
            if store.has_own_history() {
                let latest = store.description().await.ok()?;
                entities = items_of(&latest);
                (items, size) = (items + entities, size + bytes(latest.table_size_bytes));
            }
        }
        let bytes = size;
        Some(Self { items, bytes, entities })
    }

    fn item_bytes(self) -> u64 {
        self.bytes.checked_div(self.items).unwrap_or_default()
    }

    /// Returns the read units of a scan, and of a search for the version at each of so many times in each entity, at most.
    #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
    fn read_units(self, times: u32, connection: &Connection) -> f64 {
        // A binary search, after the newest version, and in an attached table with a query of late versions.
        let versions = self.items.checked_div(self.entities).unwrap_or(1).max(1);
        let is_attached = connection.store.attached_table().is_some();
        let reads = 1 + versions.ilog2() + if is_attached { 2 } else { 1 };
        let unit = plan::read_units(self.item_bytes()) * if connection.consistent { 1.0 } else { 0.5 };
        let searches = self.entities as f64 * f64::from(times * reads) * unit;
        (self.bytes as f64 / 8_192.0).ceil() + searches
    }
}

impl CostLimit {
    /// Prints what the command will read, and its cost, and asks if that is above the limit, or if there is a `question` anyway. Returns
    /// `false` if nothing is to be done. `times` is the number of times whose state is read of each entity.
    #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
    pub(crate) fn may_run(
        &self,
        connection: &Connection,
        size: Option<Size>,
        (times, question): (u32, Option<String>),
        segments: &Segments,
    ) -> Result<bool, CliError> {
        let (table, segments) = (connection.store.history_table(), segments.count());
        let Some(size) = size else {
            output::note(&format!(
                "the size of {table} is not known: dynamodb:DescribeTable is not allowed"
            ));
            return self.asked(format!("Read {table} in {segments} segments, at an unknown cost?"));
        };
        let reads = size.read_units(times, connection);
        let writes = question.as_ref().map_or(0.0, |_| {
            let items = if connection.store.attached_table().is_some() {
                1.0
            } else {
                2.0
            };
            size.entities as f64 * plan::write_units(size.item_bytes()) * items
        });
        let cost = plan::cost_of_units(reads, writes);
        let written = if writes > 0.0 {
            format!(" and {writes:.0} write units")
        } else {
            String::new()
        };
        output::status(&format!(
            "reads {table} (about {} items) in {segments} segments, then the versions at the time: at most about {reads:.0} read \
             units{written}, USD {cost:.2} on demand",
            size.items
        ));
        match question {
            Some(question) => self.asked(question),
            None if self.confirmation.dry_run || cost > self.max_cost => {
                self.asked(format!("Read {table} for about USD {cost:.2}?"))
            }
            None => Ok(true),
        }
    }

    fn asked(&self, question: String) -> Result<bool, CliError> {
        self.confirmation.ask(&question)
    }
}
