//! `vzero diff` and `vzero show`.

use item_diff::versions::{Comparison, is_comparable};
use operations::connection::Connection;
use shared::domain::version::Version;

use crate::{error::CliError, output::Output, target::Target, times::TimeFormat};

#[derive(Debug, clap::Args)]
pub(crate) struct Compared {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    times: TimeFormat,
}

pub(crate) const DIFF_HELP: &str = "\
Without versions, it shows the last change; with one, the changes from it to the latest version.
Versions: 7, latest, -1 for the one before the latest, @yesterday, @14:05, @2d, @2026-11-20.
Example: vzero diff Equipment#1 3 7";

impl Compared {
    pub(crate) async fn diff(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let item = self.target.subject(connection, 0..=2)?;
        let to = item.select(item.word(1)).await?;
        let from = match (item.words.first(), to.version.get()) {
            (Some(from), _) => from.clone(),
            (None, 1) => return output.diff(None, &to, self.times),
            (None, latest) => (latest - 1).to_string(),
        };
        output.diff(Some(&item.select(&from).await?), &to, self.times)
    }

    pub(crate) async fn show(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let item = self.target.subject(connection, 0..=1)?;
        let view = item.find(item.word(0)).await?;
        let previous = match Version::new(view.version.get() - 1) {
            Some(previous) => item.version(previous).await?,
            None => None,
        };
        let comparison = is_comparable(previous.as_ref(), &view).then(|| Comparison::new(previous.as_ref(), &view));
        output.shown(&view, comparison.as_ref(), self.times)
    }
}
