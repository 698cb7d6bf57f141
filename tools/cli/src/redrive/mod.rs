//! Failure documents, replayed: what could not be written down then is written down now.
//!
//! Data runs one way: a source → its documents → their records, from the document or from the stream → stream-fn's own
//! code → what became of each → a summary.

mod bucket;
mod feed;
mod folder;
mod listing;
mod queue;
mod reader;
mod replay;
mod request_error;
mod stream;
mod tally;

pub(crate) use feed::{Feed, Sink};
pub(crate) use listing::{Entry, Listed};
pub(crate) use reader::Reader;
pub(crate) use replay::Replay;
pub(crate) use request_error::RequestError;
pub(crate) use stream::TableStream;
pub(crate) use tally::Tally;

use crate::{connection::Connection, error::CliError, failures::source::Source, output::Output, progress::Count};

/// How long a message is hidden, in seconds, unless asked otherwise.
const VISIBILITY_TIMEOUT: u16 = 900;

/// What to redrive, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Redrive {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete a message though records of it met different items, which are never overwritten
    #[arg(long)]
    pub(crate) drop_conflicts: bool,
    /// Take documents of this table instead, such as the one that this was restored from
    #[arg(long, value_name = "TABLE")]
    pub(crate) from_table: Option<String>,
}

/// Where documents are.
#[derive(Debug, clap::Args)]
pub(crate) struct Sources {
    /// A failure document, a folder of them, <s3://bucket/prefix>, or the URL of the dead-letter queue
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<Source>,
    #[command(flatten)]
    pub(crate) services: Services,
}

/// How to reach what documents are in.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Services {
    /// Another endpoint of S3 than AWS
    #[arg(long, value_name = "URL")]
    pub(crate) s3_endpoint_url: Option<String>,
    /// Another endpoint of SQS than AWS
    #[arg(long, value_name = "URL")]
    pub(crate) sqs_endpoint_url: Option<String>,
    /// How long a message is hidden from others while its documents are worked on, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = VISIBILITY_TIMEOUT, value_parser = clap::value_parser!(u16).range(1..=43200))]
    pub(crate) visibility_timeout: u16,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            s3_endpoint_url: None,
            sqs_endpoint_url: None,
            visibility_timeout: VISIBILITY_TIMEOUT,
        }
    }
}

pub(crate) async fn run(connection: &Connection, args: &Redrive, output: &Output) -> Result<(), CliError> {
    let services = &args.sources.services;
    let feed = Feed::new(connection, services, Count::new("documents"));
    let mut replay = Replay::new(connection, services, args.dry_run);
    replay.drop_conflicts = args.drop_conflicts;
    replay
        .reader
        .table
        .clone_from(args.from_table.as_ref().unwrap_or(&connection.table));
    let mut tally = Tally::default();
    let fed = feed.all(&args.sources.sources, &replay, &mut tally).await;
    // Its line would be in the way of the summary.
    drop(feed);
    tally.say(args.dry_run, output)?;
    fed.and(tally.verdict())
}
