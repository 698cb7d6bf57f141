//! `vzero admin purge`.

use std::time::Duration;

use operations::{
    connection::Connection,
    purge::{self, to_json},
};
use serde_json::json;

use super::values::age;
use crate::{
    confirmation::Confirmation,
    error::CliError,
    output::{self, Output},
    role,
    selector::Subject,
    target::Target,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin purge Equipment#1 --dry-run")]
pub(crate) struct Purge {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Reason, which the log of a sealed history keeps
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait this long for versions that are still in the stream; 0s if nothing reads the stream
    #[arg(long, value_name = "AGE", default_value = "90s", value_parser = age)]
    wait: Duration,
}

impl Purge {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.confirmation.check()?;
        let Subject { entity, id, .. } = self.target.subject(connection, 0..=0)?;
        let mut purge = purge::Purge::of(&connection.store, &id).await?;
        if self.confirmation.dry_run {
            return output.object(&json!({"ID": entity.as_str(), "WouldDelete": to_json(&purge.existing)}));
        }
        let record = role::record(connection, self.reason.as_deref()).await?;
        purge = purge.with_record(record);
        let existing = to_json(&purge.existing);
        self.confirmation
            .ask(&format!("Permanently delete all of {id}, which has {existing}?"))?;
        let waiting = |wait: Duration| {
            let seconds = wait.as_secs_f64().ceil();
            output::note(&format!(
                "waiting {seconds} s for versions that are still in the stream"
            ));
        };
        let done = purge.run(self.wait, waiting).await;
        // Also after an error.
        output.object(&json!({"ID": entity.as_str(), "Deleted": to_json(&purge.deleted)}))?;
        Ok(done?)
    }
}
