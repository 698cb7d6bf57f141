//! `vzero restore`.

use operations::{connection::Connection, error::OperationError, item_change::Wanted};

use super::item_write::ItemWrite;
use crate::{error::CliError, output::Output, target::Target, write_options::WriteOptions};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    options: WriteOptions,
}

const EXAMPLES: &str = "\
Examples:
  vzero restore Equipment#1 3 --reason 'the update was wrong'
  vzero --table Orders restore c1 7 3 --dry-run
On an attached table, the version attribute is increased, and nothing is written if another client changed the item meanwhile.";

impl Restore {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let write = ItemWrite::new(&self.target, 1, &self.options, (connection, output))?;
        let (item, text) = (&write.item, write.item.word(0));
        // A version by its number can still be on its way into history.
        let number = match text.starts_with(|first: char| first == 'v' || first.is_ascii_digit()) {
            true => item.number(text).await?,
            false => item.select(text).await?.version,
        };
        let done = match item.store().attached_table() {
            Some(_) => write.change(Wanted::Version(number)).await,
            None => write.restore(Some(number)).await,
        };
        match done {
            Err(CliError::Operation(OperationError::NoVersion)) => Err(item.missing(number).await),
            done => done,
        }
    }
}
