//! Cost of a command that reads whole tables or the index, which it says before it starts.

use std::time::Duration;

use operations::{
    connection::Connection,
    rate_limit::RateLimiter,
    table_size::TableSize,
    time_index::{
        pages::{EMPTY_UNITS, sample},
        source::Source,
    },
};
use shared::{
    domain::{
        layout::table_name,
        recorded_at::RecordedAt,
        time_index::{INDEX_NAME, PARTITIONS},
    },
    dynamodb::{Store, read::describe_table::items_of},
};

use crate::{confirmation::ask_to_read, error::CliError, next, output, plan};

const DAY_SECONDS: f64 = 86_400.0;
/// Items that an undo reads of an entity, about: the latest one and the versions from the selected ones on, twice.
const ITEMS_OF_UNDO: u64 = 10;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct MaxCost {
    /// Ask before reads that cost more than this [default: 1]
    #[arg(long, value_name = "USD", value_parser = |text: &str| plan::within(text, 0.0, 1e9))]
    max_cost: Option<f64>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl MaxCost {
    pub(super) fn new(max_cost: Option<f64>, yes: bool) -> Self {
        Self { max_cost, yes }
    }

    pub(super) fn is_given(self) -> bool {
        self.yes || self.max_cost.is_some()
    }
}

/// Items that are read, and what the command costs so far.
pub(super) struct ReadCost {
    /// Items of the tables, or entries of the index.
    pub(super) items: u64,
    /// Average size of an item. DynamoDB updates the size of a table about every six hours.
    item_bytes: u64,
    usd: f64,
    max: MaxCost,
    /// `true` if the number of items is an estimate.
    is_sampled: bool,
    /// Read units of the source if nothing is new.
    round_units: f64,
}

/// Chooses between the index and a scan for the versions that were recorded in a period, and says why an index is not used.
pub(super) async fn source(
    store: &Store,
    since: Option<RecordedAt>,
    until: Option<RecordedAt>,
) -> Result<Source, CliError> {
    let (source, why) = Source::choose(store, since, until).await?;
    if let Some(why) = why {
        output::status(&why);
    }
    Ok(source)
}

#[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
impl ReadCost {
    /// Says what eventually consistent reads of the source cost, and asks above the limit.
    pub(super) async fn of(store: &Store, source: &Source, pace: &RateLimiter, max: MaxCost) -> Result<Self, CliError> {
        let size = TableSize::of(store).await?;
        let (mut items, mut round_units) = (size.items, (size.bytes as f64 / 8192.0).ceil());
        let (what, units) = if let Source::Index(window) = source {
            let (entries, units) = sample(store, pace, *window).await?;
            let table = table_name(store.history_table());
            (items, round_units) = (entries, 2.0 * f64::from(PARTITIONS) * EMPTY_UNITS);
            let queries = format!(
                "queries of the index {INDEX_NAME} of {table}: about {entries} versions, if its partitions are alike"
            );
            (queries, units)
        } else {
            let tables = store.tables().map(table_name).collect::<Vec<_>>().join(" and ");
            let megabytes = size.bytes.div_ceil(1_000_000);
            let scan = format!("segmented scan of {tables}: about {items} items, {megabytes} MB");
            (scan, round_units)
        };
        let mut cost = Self {
            items,
            item_bytes: size.bytes.checked_div(size.items).unwrap_or_default(),
            usd: 0.0,
            max,
            is_sampled: *source != Source::Scan,
            round_units,
        };
        cost.add(&what, [units, 0.0])?;
        if *source == Source::Scan && store.has_own_history() && store.attached_table().is_none() {
            // Of each entity: the latest item, and what history has of it.
            let reads = 2 * items_of(&store.description().await?);
            let units = reads as f64 * plan::read_units(cost.item_bytes) * 0.5;
            cost.add(&format!("then at most {reads} items by their keys"), [units, 0.0])?;
        }
        Ok(cost)
    }

    /// Says what the undo of so many entities reads, and asks above the limit.
    pub(super) async fn of_entities(entities: u64, connection: &Connection, max: MaxCost) -> Result<Self, CliError> {
        let size = TableSize::of(&connection.store).await?;
        let mut cost = Self {
            items: entities,
            item_bytes: size.bytes.checked_div(size.items).unwrap_or_default(),
            usd: 0.0,
            max,
            is_sampled: true,
            round_units: 0.0,
        };
        output::status(&format!("queries of the histories of {entities} entities"));
        cost.add_items(entities * ITEMS_OF_UNDO, connection)?;
        Ok(cost)
    }

    /// Says what reads of at most so many items by their keys cost, and asks if all reads together are above the limit.
    pub(super) fn add_items(&mut self, items: u64, connection: &Connection) -> Result<(), CliError> {
        let each = plan::read_units(self.item_bytes) * if connection.consistent { 1.0 } else { 0.5 };
        let bound = if self.is_sampled { "about" } else { "at most" };
        let reads = format!("then reads of {bound} {items} items");
        self.add(&reads, [items as f64 * each, 0.0])
    }

    /// Says what the search for the versions at so many times costs, and asks as [`Self::add_items`] does. An entity with few versions
    /// needs the most reads for each of them: the newest version and a late one, if there are any, and the one at the time.
    pub(super) fn add_searches(&mut self, times: u64, connection: &Connection) -> Result<(), CliError> {
        let reads = if connection.store.attached_table().is_some() {
            3
        } else {
            1
        };
        self.add_items(self.items * reads * times, connection)
    }

    /// Says what repeated reads of the source cost a day, and asks.
    pub(super) fn add_rounds(&mut self, interval: Duration) -> Result<(), CliError> {
        let rounds = DAY_SECONDS / interval.as_secs_f64();
        let reads = format!("then the same every {} s: at most, in a day", interval.as_secs());
        self.add(&reads, [rounds * self.round_units, 0.0])
    }

    /// Says what writes of at most so many items cost, and asks.
    pub(super) fn add_writes(&mut self, items: u64, question: &str) -> Result<(), CliError> {
        let (units, is_confirmed) = (items as f64 * plan::write_units(self.item_bytes), self.max.yes);
        self.max.yes = true;
        self.add(&format!("then writes of at most {items} items"), [0.0, units])?;
        match is_confirmed {
            true => Ok(()),
            false => ask_to_read(question, &next::again("--yes")),
        }
    }

    fn add(&mut self, what: &str, [read, write]: [f64; 2]) -> Result<(), CliError> {
        let usd = plan::cost_of_units(read, write);
        self.usd += usd;
        let kind = if write > 0.0 { "write" } else { "read" };
        output::status(&format!(
            "{what}, {:.0} {kind} units, USD {usd:.2} on demand",
            read + write
        ));
        let max = self.max.max_cost.unwrap_or(1.0);
        if self.max.yes || self.usd <= max {
            return Ok(());
        }
        self.max.yes = true;
        let question = format!("This is more than --max-cost {max}: read them?");
        ask_to_read(
            &question,
            &format!("a greater --max-cost, or type {}", next::again("--yes")),
        )
    }
}
