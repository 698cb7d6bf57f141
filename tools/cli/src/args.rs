//! The command line.

mod operations;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use shared::{
    domain::{keys::VersionDigits, ledger::Retention, recent::Window, update::Ordering},
    dynamodb::write::WriteMode,
};

use crate::{
    console,
    plan::{self, PlanArgs},
    redrive::Redrive,
    repair::Repair,
};
use operations::AUDIT;
pub(crate) use operations::{Audit, Backfill, Pin, Prune, Purge, SEGMENTS};

/// Versions of the items of a DynamoDB table: write, read, compare, restore.
///
/// Exit codes: 0 done, 2 usage, 3 not found, 4 conflict, stale, or something wrong or not in, 5 service or network.
#[derive(Debug, Parser)]
#[command(name = "vzero", version, after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,

    /// The table
    #[arg(long, global = true, env = "TABLE_NAME", default_value = "VersionControl")]
    pub(crate) table: String,
    /// Another endpoint than AWS, such as <http://127.0.0.1:8000>
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// The profile of the AWS configuration
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,
    /// The AWS Region
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,
    /// Say on standard error what each request consumed
    #[arg(long, global = true)]
    pub(crate) consumed_capacity: bool,
    /// How answers are shown [default: table on a terminal, json otherwise]
    #[arg(long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// The width of version keys [default: what the table was begun with, 1 for a new one]
    #[arg(long, global = true, env = "VERSION_DIGITS", value_name = "N")]
    pub(crate) version_digits: Option<VersionDigits>,
    /// Read at half the price what may be a moment old
    #[arg(long, global = true)]
    pub(crate) eventual: bool,
    /// Say every cause of an error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    /// How a write makes its version: stream, inline or transaction
    #[arg(
        long,
        global = true,
        env = "WRITE_MODE",
        default_value = "stream",
        value_name = "MODE"
    )]
    pub(crate) mode: WriteMode,
    /// By what a repeated write is known again: recent, or ledger
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY",
        default_value = "recent",
        value_name = "KIND"
    )]
    pub(crate) idempotency: String,
    /// How many of its last requests an entity remembers, with --idempotency recent: no fewer than the functions have it [default: 100]
    #[arg(long, global = true, env = "IDEMPOTENCY_WINDOW", value_name = "N")]
    pub(crate) idempotency_window: Option<Window>,
    /// How long requests are remembered, with --idempotency ledger
    #[arg(long, global = true, env = "LEDGER_TTL_DAYS", default_value_t, value_name = "DAYS")]
    pub(crate) ledger_ttl_days: Retention,
    /// What decides between two updates: arrival, or time
    #[arg(long, global = true, env = "ORDERING", default_value = "arrival")]
    pub(crate) ordering: Ordering,
    /// Make no version where nothing would change
    #[arg(long, global = true)]
    pub(crate) skip_unchanged: bool,
    /// Write only if this is the latest version, 0 for none
    #[arg(long, global = true, value_name = "N")]
    pub(crate) expect: Option<u64>,
    /// The idempotency key of a write [default: a fresh one]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// The time of a write or a state, ISO 8601
    #[arg(long, global = true)]
    pub(crate) time: Option<String>,
    /// Who makes a version: its attribute Actor
    #[arg(long, global = true)]
    pub(crate) actor: Option<String>,
    /// Why a version is made: its attribute Reason
    #[arg(long, global = true)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new version: named attributes change, all others stay
    #[command(
        after_help = "Example: vzero put Equipment#1 --set State=OK --set-json Speed=1.5 --unset Note --actor me"
    )]
    Put(Put),
    /// Show the latest version, one by its number, or the one that was the latest at a time
    #[command(after_help = "Example: vzero get Equipment#1 --at 2020-11-01T20:04:00")]
    Get(Get),
    /// Show the versions of an entity, the newest first
    #[command(after_help = "Example: vzero history Equipment#1 --from 3 --oldest-first --output json")]
    History(History),
    /// Show what changed from one version to another
    #[command(after_help = "Example: vzero diff Equipment#1 3 7")]
    Diff(Diff),
    /// Make a new version with the attributes of an old one
    #[command(after_help = "Example: vzero restore Equipment#1 3 --reason 'the update was wrong'")]
    Restore(Restore),
    /// Make a tombstone: a version that says the entity is deleted
    Delete(Entity),
    /// Make a new version of a deleted entity, with what it was
    Undelete(Entity),
    /// Show how far history is behind the latest version
    Lag {
        /// The entity
        id: String,
    },
    /// Show or change what is true of the entity as such
    #[command(after_help = "Example: vzero metadata Equipment#1 --set Name=Equipment-001")]
    Metadata(Metadata),
    /// States under their time, without numbers
    #[command(subcommand)]
    State(State),
    /// Look for versions that are missing or should not be there, and for latest items that differ from theirs
    #[command(after_help = AUDIT)]
    Audit(Audit),
    /// Bring items that are there under versioning, as version 1
    #[command(
        after_help = "Example: vzero backfill --from-table Orders --id '{CustomerId}#{OrderId}' --rename TTL=Expires --state b.json"
    )]
    Backfill(Backfill),
    /// Take old versions away: mark them for deletion, and begin history after them
    #[command(after_help = "Example: vzero prune Equipment#1 --older-than 90d")]
    Prune(Prune),
    /// Keep a version whatever is pruned
    #[command(after_help = "Example: vzero pin Equipment#1 7")]
    Pin(Pin),
    /// Delete an entity with all its items, for good
    #[command(after_help = "Example: vzero purge Equipment#1 --dry-run")]
    Purge(Purge),
    /// Replay failure documents: what could not be written down then is written down now
    #[command(after_help = REDRIVE)]
    Redrive(Redrive),
    /// Put back what an audit finds to be missing, and let counters go on that were set back
    #[command(after_help = REPAIR)]
    Repair(Repair),
    /// Serve a history browser for the web browser, on this machine, and open it
    #[command(after_help = CONSOLE)]
    Console(console::Args),
    /// Say what a rate of updates asks of each part, which limit it meets first, and what a month costs; it needs no table
    #[command(after_help = plan::EXAMPLES)]
    Plan(PlanArgs),
    /// Write a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Entity {
    /// The entity: its partition key
    pub(crate) id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// The entity: its partition key
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

/// What changes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Changes {
    /// Set an attribute to a text
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Set an attribute to a JSON value
    #[arg(long, value_name = "NAME=JSON", value_parser = pair)]
    pub(crate) set_json: Vec<(String, String)>,
    /// Take an attribute away
    #[arg(long, value_name = "NAME")]
    pub(crate) unset: Vec<String>,
    /// Attributes as a JSON object, or a version as `get` shows it, from a file, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "set_json", "unset"])]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The entity: its partition key
    pub(crate) id: String,
    /// The number of a version
    #[arg(long = "version", value_name = "N", conflicts_with = "at")]
    pub(crate) number: Option<u64>,
    /// A time, ISO 8601: the version that was the latest then
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Show it though it is a tombstone
    #[arg(long)]
    pub(crate) deleted: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The entity: its partition key
    pub(crate) id: String,
    /// The first version
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<u64>,
    /// The last version
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// The most versions
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// The oldest first
    #[arg(long)]
    pub(crate) oldest_first: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The entity: its partition key
    pub(crate) id: String,
    /// From this version
    pub(crate) from: u64,
    /// To this version
    pub(crate) to: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The entity: its partition key
    pub(crate) id: String,
    /// The version to bring back
    pub(crate) number: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Metadata {
    /// The entity: its partition key
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Store a state under its time (--time)
    #[command(after_help = "Example: vzero state put Equipment#1 --time 2020-11-12T20:04:00 --set State=WARNING1")]
    Put {
        /// The entity: its partition key
        id: String,
        /// Replace the state that this time has
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the newest state
    Latest {
        /// The entity: its partition key
        id: String,
    },
    /// Show the states between two times, the oldest first
    List {
        /// The entity: its partition key
        id: String,
        /// The first time
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// The last time
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
    },
}

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For the eye
    Table,
    /// One object a line
    Json,
}

const REDRIVE: &str = "\
Example: vzero redrive https://sqs.eu-west-1.amazonaws.com/123456789012/StreamDeadLetterQueue --dry-run

A message is deleted when all of its records are in history. What is not in stays in the queue, and is named.";

const CONSOLE: &str = "\
Examples:
  vzero console --endpoint-url http://127.0.0.1:8000
  vzero console --from s3://failed-records --allow-write --no-open

Nothing is changed without --allow-write. Nobody else is let in without --bind and --token.";

const REPAIR: &str = "\
Examples:
  vzero repair Equipment#1
  vzero repair --all --from s3://failed-records --stream --yes

The plan is shown first. No version is overwritten.";

const EXAMPLES: &str = "\
Examples:
  vzero put Equipment#1 --set State=WARNING1 --time 2020-11-01T20:04:00
  vzero get Equipment#1 --version 7
  vzero history Equipment#1 --limit 10
  vzero diff Equipment#1 6 7
  vzero restore Equipment#1 6 --actor me --reason 'wrong reading'
Against the local stack: --endpoint-url http://127.0.0.1:8000 (no credentials are needed there)";

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is given as NAME=VALUE")?;
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
