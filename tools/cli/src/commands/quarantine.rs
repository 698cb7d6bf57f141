//! `vzero admin quarantine`.

use operations::{
    connection::Connection,
    progress::Progress as _,
    quarantine::{self, to_json},
};
use shared::domain::quarantine::QuarantinedRecord;

use super::segments::ReadRate;
use crate::{
    error::CliError,
    output::{self, Output},
    progress::Counter,
};

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Quarantine {
    /// Partition keys of the entities [default: all entities, which reads the whole table]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    rate: ReadRate,
}

const AFTER_HELP: &str = "\
A record is in quarantine if stream-fn can never store it as a version. To store it after a repair, or to delete it:
  vzero admin redrive quarantine:Equipment#1
  vzero admin redrive quarantine:Equipment#1 --drop-conflicts --drop-malformed";

impl Quarantine {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let store = connection.store.clone();
        let ids = self.ids.iter().map(|id| connection.entity(id));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let mut quarantine = if ids.is_empty() {
            quarantine::Quarantine::of_table(store, self.rate.limiter(connection))
        } else {
            quarantine::Quarantine::named(store, ids)
        };
        let counter = Counter::new("items read");
        let mut rows = Vec::new();
        while let Some(records) = quarantine.next().await? {
            counter.at(quarantine.read());
            for record in records {
                match output.is_json() {
                    true => output.object(&to_json(&record))?,
                    false => rows.push(row(&record)),
                }
            }
        }
        drop(counter);
        if output.is_json() {
            return Ok(());
        }
        if rows.is_empty() {
            return output::print("no record is in quarantine");
        }
        output::print_table(
            &["ID", "SequenceNumber", "Kind", "Version", "QuarantinedAt", "Reason"],
            rows,
        )
    }
}

fn row(record: &QuarantinedRecord) -> Vec<String> {
    vec![
        record.entity.as_str().to_owned(),
        record.number.to_string(),
        record.kind.clone(),
        record.version.map(|version| version.to_string()).unwrap_or_default(),
        record.at.map(|at| at.to_string()).unwrap_or_default(),
        record.reason.clone(),
    ]
}
