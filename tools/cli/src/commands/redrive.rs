//! `vzero admin redrive`.

use operations::{
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    redrive::{CONFLICTS, Count, Options, Tally, redrive},
};

use super::services::{ServiceOptions, print_tally};
use crate::{confirmation::Confirmation, error::CliError, output::Output, progress::Bar};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Redrive {
    /// A failure document, a folder of them, <s3://bucket/prefix>, the URL of a dead-letter queue, or `quarantine:`, for one
    /// entity `quarantine:ID`
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<Source>,
    #[command(flatten)]
    services: ServiceOptions,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Delete a message or a quarantined record even if it is in conflict with an existing item, which is never overwritten
    #[arg(long)]
    drop_conflicts: bool,
    /// Delete a message or a quarantined record even if it is malformed and can never become a version
    #[arg(long)]
    drop_malformed: bool,
    /// Replay documents of this table instead, such as the table that this one was restored from: a name in the same account and
    /// Region, or an ARN
    #[arg(long, value_name = "TABLE")]
    from_table: Option<String>,
    /// Queue that the updates of a dead-letter queue are sent to [default: its source queue]
    #[arg(long, value_name = "URL")]
    queue: Option<String>,
}

const EXAMPLE: &str = "\
Example: vzero admin redrive https://sqs.eu-west-1.amazonaws.com/123456789012/StreamDeadLetterQueue --dry-run

A message is deleted when all of its records are in history, or when its update was sent to the source queue again. Other
messages stay in the queue, and their records and updates are listed. A record leaves quarantine when it is in history.";

impl Redrive {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let drops = if self.drop_conflicts || self.drop_malformed {
            " or never can be"
        } else {
            ""
        };
        self.confirmation.ask(&format!(
            "Put the records into {}, and delete messages and quarantined records whose records are there{drops}?",
            connection.table
        ))?;
        let mut dropped = Vec::new();
        if self.drop_conflicts {
            dropped.extend(CONFLICTS);
        }
        if self.drop_malformed {
            dropped.push(Count::Malformed);
        }
        let options = Options {
            is_dry: self.confirmation.dry_run,
            drop: dropped,
            from_table: self.from_table.clone(),
            to: self.queue.clone(),
        };
        let (services, counter) = (self.services.to_services(), Bar::counter("documents and updates", 0));
        let mut tally = Tally::default();
        let redriven = redrive(connection, &services, &self.sources, &options, &counter, &mut tally).await;
        // Ends the counter's line before the summary.
        drop(counter);
        print_tally(&tally, self.confirmation.dry_run, output)?;
        match redriven.and(tally.verdict()) {
            Err(error @ OperationError::SourceQueues { .. }) => {
                Err(CliError::Usage(format!("{error}; name the queue with --queue URL")))
            }
            done => Ok(done?),
        }
    }
}
