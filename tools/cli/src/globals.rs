//! Options of all commands.

use std::path::PathBuf;

use clap::Args as _;
use shared::domain::{compression::Compression, keys::VersionDigits};

use crate::output::Format;

/// Default name of the table.
pub(crate) const TABLE: &str = "VersionControl";

/// Options of all commands. The help of a command lists the first ones; `vzero --help` lists the others, too.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options (`vzero --help` lists all)")]
#[command(mut_args(|argument| argument.global(true).hide_env_values(true)))]
pub(crate) struct Globals {
    /// Name or ARN of the table: a versioned one, or any table with an attached history
    #[arg(long, env = "TABLE_NAME", default_value = TABLE)]
    pub(crate) table: String,
    /// Endpoint of DynamoDB, such as <http://127.0.0.1:8000> [default: AWS]
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    pub(crate) endpoint_url: Option<String>,
    /// Profile of the AWS configuration
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// AWS Region
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Output format [default: table on a terminal, json otherwise]
    #[arg(long, value_enum)]
    pub(crate) output: Option<Format>,
    /// Show long values completely, and in `vzero log` whole items
    #[arg(long)]
    pub(crate) full: bool,
    /// Member that identifies an element of a list of maps, before id, ID, key, sku and name; can be repeated
    #[arg(long, value_name = "MEMBER", hide = true)]
    pub(crate) identity: Vec<String>,
    /// History table of a table that other programs write [default: the table's name and -history, or the one of its SSM parameter]
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) history_table: Option<String>,
    /// Endpoint of SSM, which has the definitions of attached tables [default: AWS; none if DynamoDB is on this machine]
    #[arg(long, env = "AWS_ENDPOINT_URL_SSM", value_name = "URL", value_parser = endpoint, hide = true)]
    pub(crate) ssm_endpoint_url: Option<String>,
    /// Use the history of a table that other programs write. FILE defines it, as for local --attach. Keys are plain JSON, such as
    /// {"customerId": "c1", "orderNo": 7}
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) attached: Option<PathBuf>,
    /// Maximum duration of one attempt of a request, in milliseconds [default: 2000]
    #[arg(long, hide = true, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub(crate) attempt_timeout_ms: Option<u64>,
    /// Print the consumed capacity of each request to standard error
    #[arg(long, hide = true)]
    pub(crate) consumed_capacity: bool,
    /// Width of version keys [default: the width that the table was created with, 1 for a new table]
    #[arg(long, env = "VERSION_DIGITS", value_name = "N", hide = true)]
    pub(crate) version_digits: Option<VersionDigits>,
    /// Compression of the versions that a command writes into a history table: none or deflate [default: none]
    #[arg(long, env = "HISTORY_COMPRESSION", value_name = "NAME", hide = true)]
    pub(crate) history_compression: Option<Compression>,
    /// Use eventually consistent reads, at half the price
    #[arg(long, hide = true)]
    pub(crate) eventual: bool,
    /// Program that shows long output on a terminal page by page; cat for none
    #[arg(long, env = "PAGER", value_name = "COMMAND", default_value = "less", hide = true)]
    pub(crate) pager: String,
    /// Print long output without a pager
    #[arg(long, hide = true)]
    pub(crate) no_pager: bool,
    /// Print all causes of an error
    #[arg(short, long, hide = true)]
    pub(crate) verbose: bool,
}

/// Returns the options that the help of a command does not list.
pub(crate) fn others() -> String {
    let command = Globals::augment_args(clap::Command::new("vzero"));
    let hidden = command.get_arguments().filter(|argument| argument.is_hide_set());
    let lines = hidden.map(|argument| {
        let short = argument.get_short().map(|short| format!("-{short}, "));
        let names = argument.get_value_names();
        let names = names.filter(|_| argument.get_action().takes_values());
        let value = names.and_then(|names| Some(format!(" <{}>", names.first()?)));
        let variable = argument.get_env().and_then(std::ffi::OsStr::to_str);
        let variable = variable.map(|name| format!(" [env: {name}]"));
        let [short, value, variable] = [short, value, variable].map(Option::unwrap_or_default);
        let long = argument.get_long().unwrap_or_default();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        format!("  {short:4}--{long}{value}\n          {help}{variable}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Parses the URL of an endpoint.
fn endpoint(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).ok();
    let is_endpoint = url.is_some_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    is_endpoint
        .then(|| text.to_owned())
        .ok_or("expected a URL such as http://127.0.0.1:8000")
}
