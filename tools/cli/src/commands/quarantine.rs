//! `vzero admin quarantine`.

use operations::{
    connection::Connection,
    progress::Progress as _,
    quarantine::{each_quarantined, to_json},
};
use shared::domain::quarantine::QuarantinedRecord;

use super::segments::ReadRate;
use crate::{error::CliError, output::Output, progress::Bar, target::Target};

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("words", |words| words.required(false)))]
pub(crate) struct Quarantine {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    rate: ReadRate,
}

const COLUMNS: [&str; 6] = ["ID", "SequenceNumber", "Kind", "Version", "QuarantinedAt", "Reason"];

const AFTER_HELP: &str = "\
Without keys, the whole table is read.
A record is in quarantine if stream-fn can never store it as a version. To store it after a repair, or to delete it:
  vzero admin redrive quarantine:Equipment#1 --yes
  vzero admin redrive quarantine:Equipment#1 --drop-conflicts --drop-malformed --yes";

impl Quarantine {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let ids = self.target.ids(connection)?;
        let ids = ids.iter().map(|id| connection.entity(id));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let counter = Bar::counter("items read", 0);
        let mut listing = output.listing(&COLUMNS);
        let take = async |read, records: Vec<QuarantinedRecord>| {
            counter.at(read);
            records.iter().try_for_each(|record| listing.add(&to_json(record)))
        };
        let (ids, limiter) = ((!ids.is_empty()).then_some(ids), self.rate.limiter(connection));
        each_quarantined(&connection.store, ids, &limiter, take).await?;
        drop(counter);
        listing.end(Some("no record is in quarantine"))
    }
}
