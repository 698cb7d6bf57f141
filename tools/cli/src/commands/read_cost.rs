//! Cost of a command that scans whole tables, which it says before it starts.

use operations::connection::Connection;
use shared::{
    domain::layout::table_name,
    dynamodb::{Store, read::describe_table::items_of},
};

use crate::{confirmation::ask_to_read, error::CliError, next, output, plan};

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct MaxCost {
    /// Ask before reads that cost more than this [default: 1]
    #[arg(long, value_name = "USD", value_parser = |text: &str| plan::within(text, 0.0, 1e9))]
    max_cost: Option<f64>,
    /// Read without confirmation
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

/// Size of the tables that are scanned, and what the reads cost so far. DynamoDB updates the size about every six hours.
pub(super) struct ReadCost {
    pub(super) items: u64,
    bytes: u64,
    units: f64,
    max: MaxCost,
}

#[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
impl ReadCost {
    /// Says what an eventually consistent scan reads, and asks above the limit.
    pub(super) async fn of_scan(store: &Store, max: MaxCost) -> Result<Self, CliError> {
        let (mut items, mut bytes) = (0, 0);
        for name in store.tables() {
            let table = Store::new(store.client().clone(), name, store.digits())
                .description()
                .await?;
            items += items_of(&table);
            bytes += table
                .table_size_bytes
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or_default();
        }
        let names: Vec<_> = store.tables().map(table_name).collect();
        let (tables, megabytes) = (names.join(" and "), bytes.div_ceil(1_000_000));
        let mut cost = Self {
            items,
            bytes,
            units: 0.0,
            max,
        };
        let scan = format!("segmented scan of {tables}: about {items} items, {megabytes} MB");
        cost.add(&scan, (bytes as f64 / 8192.0).ceil())?;
        Ok(cost)
    }

    /// Says what reads of at most so many items by their keys cost, and asks if all reads together are above the limit.
    pub(super) fn add_items(&mut self, items: u64, connection: &Connection) -> Result<(), CliError> {
        let average = self.bytes.checked_div(self.items).unwrap_or_default();
        let each = plan::read_units(average) * if connection.consistent { 1.0 } else { 0.5 };
        self.add(&format!("then reads of at most {items} items"), items as f64 * each)
    }

    fn add(&mut self, reads: &str, units: f64) -> Result<(), CliError> {
        self.units += units;
        let (cost, total) = (plan::cost_of_units(units, 0.0), plan::cost_of_units(self.units, 0.0));
        output::status(&format!("{reads}, {units:.0} read units, USD {cost:.2} on demand"));
        let max = self.max.max_cost.unwrap_or(1.0);
        if self.max.yes || total <= max {
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
