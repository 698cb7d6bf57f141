//! `vzero plan`: calculates the load that a rate of updates causes, the limits that it exceeds, and the cost of a month.
//!
//! It sends no request, and needs neither a table nor credentials. The formulas are in `docs/scaling.md`. Data flows from the arguments to `Inputs`,
//! then `Load` (`model`, with `units` for one update), then limits and cost (`limits`, `calculate`, with `prices`), then the output (`render`).

#![allow(
    clippy::cast_precision_loss,
    reason = "rates, bytes and prices are estimates of a few digits"
)]

pub(crate) mod attached;
mod calculate;
mod curve;
mod figures;
mod limits;
mod model;
mod prices;
mod render;
#[cfg(test)]
mod tests;
mod units;
mod zipf;

use std::path::PathBuf;

use shared::{domain::recent_requests::Window, dynamodb::write::Idempotency};

use crate::{error::CliError, output::Output, write_options::Method};
use calculate::Plan;
use model::{Inputs, Settings, TableClass, within};
use prices::Prices;
use units::{HistoryTable, Writing};

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Updates per second of all entities, 0.001 to 1000000000
    #[arg(long, value_name = "R", value_parser = |text: &str| within(text, 0.001, 1e9), required_unless_present = "print_prices")]
    updates_per_second: Option<f64>,
    /// Number of entities, 1 to 1000000000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), required_unless_present = "print_prices")]
    entities: Option<u64>,
    /// Size of a version item in bytes, with names, keys and `RequestId`
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), required_unless_present = "print_prices")]
    item_bytes: Option<u64>,
    /// Updates of the hottest entity, as a share of all updates, up to 1 [default: 1/N]
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| within(text, 0.0, 1.0))]
    hottest_share: Option<f64>,
    /// Exponent of a Zipf distribution of the updates over the entities, 0 to 10, instead of --hottest-share
    #[arg(long, value_name = "S", value_parser = |text: &str| within(text, 0.0, 10.0), conflicts_with = "hottest_share")]
    zipf: Option<f64>,
    /// Partitions of each table, which are the shards of its stream [default: the minimum for writes and storage]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    partitions: Option<u32>,
    /// Days of history that are stored; if you pass it, the cost includes pruning [default: 30]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| within(text, 0.0, 36_500.0))]
    retention_days: Option<f64>,
    /// Table that stores history: `HistoryTable`
    #[arg(long, value_enum, default_value_t = HistoryTable::Same)]
    history_table: HistoryTable,
    /// Table class of the history table: `HistoryTableClass` [default: standard]
    #[arg(long, value_enum, value_name = "CLASS")]
    history_class: Option<TableClass>,
    /// No stream-fn with modes that write version items themselves
    #[arg(long)]
    no_stream_fn: bool,
    #[command(flatten)]
    settings: Settings,
    /// JSON file with prices that replace all or some of the compiled-in ones
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print the price list instead of a plan
    #[arg(long)]
    print_prices: bool,
    #[command(flatten)]
    method: Method,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  vzero plan --updates-per-second 1000 --entities 50000 --item-bytes 500
  vzero plan --updates-per-second 1000 --entities 50000 --item-bytes 500 --hottest-share 0.5 --mode transaction
  vzero plan --updates-per-second 1000 --entities 50000 --item-bytes 500 --history-table own --history-class infrequent-access
  vzero plan --print-prices > prices.json

The command needs no table. --mode, --idempotency, --idempotency-window [default: 10] and --ledger-ttl-days are the
settings of the functions. The formulas are in docs/scaling.md.";

pub(crate) fn run(args: &PlanArgs, output: &Output) -> Result<(), CliError> {
    let replacements = match &args.prices {
        Some(path) => {
            let failed = |error| CliError::usage(&path.display().to_string(), error);
            Some(std::fs::read_to_string(path).map_err(failed)?)
        }
        None => None,
    };
    let prices = Prices::read(replacements.as_deref()).map_err(|error| CliError::usage("the prices", error))?;
    if args.print_prices {
        return render::prices(prices.list());
    }
    render::plan(&Plan::of(inputs(args)?, &prices), &prices, output)
}

fn inputs(args: &PlanArgs) -> Result<Inputs, CliError> {
    let (Some(updates_per_second), Some(entities), Some(item_bytes)) =
        (args.updates_per_second, args.entities, args.item_bytes)
    else {
        let text = "pass --updates-per-second, --entities and --item-bytes";
        return Err(CliError::Usage(text.to_owned()));
    };
    let average = 1.0 / entities as f64;
    let by_rank = args.zipf.map(|exponent| zipf::hottest_share(entities, exponent));
    let hottest_share = args.hottest_share.or(by_rank).unwrap_or(average);
    if hottest_share < average {
        return Err(CliError::Usage(format!(
            "--hottest-share is less than 1/{entities}, the share of an average entity"
        )));
    }
    if args.history_class.is_some() && args.history_table == HistoryTable::Same {
        let text = "--history-class needs --history-table own";
        return Err(CliError::Usage(text.to_owned()));
    }
    let idempotency = args.method.idempotency(Window::default())?;
    Ok(Inputs {
        updates_per_second,
        entities,
        item_bytes,
        writing: Writing {
            history: args.history_table,
            mode: args.method.mode,
            idempotency,
            stream_behind: !args.no_stream_fn,
            pruned: args.retention_days.is_some(),
        },
        history_class: args.history_class.unwrap_or(TableClass::Standard),
        hottest_share,
        zipf: args.zipf,
        partitions: args.partitions.map(f64::from),
        retention_days: args.retention_days.unwrap_or(30.0),
        ledger_days: match idempotency {
            Idempotency::Ledger(retention) => retention.duration().as_secs_f64() / figures::DAY_SECONDS,
            Idempotency::Recent(_) => 0.0,
        },
        settings: args.settings,
    })
}
