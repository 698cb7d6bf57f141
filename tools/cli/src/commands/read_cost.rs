//! Cost of a command that scans whole tables, which it says before it starts.

use operations::{connection::Connection, table_size::TableSize};
use shared::{domain::layout::table_name, dynamodb::Store};

use crate::{confirmation::ask_to_read, error::CliError, next, output, plan};

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

/// Size of the tables that are scanned, and what the command costs so far. DynamoDB updates the size about every six hours.
pub(super) struct ReadCost {
    pub(super) items: u64,
    bytes: u64,
    usd: f64,
    max: MaxCost,
}

#[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
impl ReadCost {
    /// Says what an eventually consistent scan reads, and asks above the limit.
    pub(super) async fn of_scan(store: &Store, max: MaxCost) -> Result<Self, CliError> {
        let TableSize { items, bytes } = TableSize::of(store).await?;
        let names: Vec<_> = store.tables().map(table_name).collect();
        let (tables, megabytes) = (names.join(" and "), bytes.div_ceil(1_000_000));
        let mut cost = Self {
            items,
            bytes,
            usd: 0.0,
            max,
        };
        let scan = format!("segmented scan of {tables}: about {items} items, {megabytes} MB");
        cost.add(&scan, [(bytes as f64 / 8192.0).ceil(), 0.0])?;
        Ok(cost)
    }

    /// Says what reads of at most so many items by their keys cost, and asks if all reads together are above the limit.
    pub(super) fn add_items(&mut self, items: u64, connection: &Connection) -> Result<(), CliError> {
        let each = plan::read_units(self.item_bytes()) * if connection.consistent { 1.0 } else { 0.5 };
        self.add(
            &format!("then reads of at most {items} items"),
            [items as f64 * each, 0.0],
        )
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

    /// Says what writes of at most so many items cost, and asks.
    pub(super) fn add_writes(&mut self, items: u64, question: &str) -> Result<(), CliError> {
        let (units, is_confirmed) = (items as f64 * plan::write_units(self.item_bytes()), self.max.yes);
        self.max.yes = true;
        self.add(&format!("then writes of at most {items} items"), [0.0, units])?;
        match is_confirmed {
            true => Ok(()),
            false => ask_to_read(question, &next::again("--yes")),
        }
    }

    fn item_bytes(&self) -> u64 {
        self.bytes.checked_div(self.items).unwrap_or_default()
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
