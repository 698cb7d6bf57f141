//! Options of all commands.

use std::path::PathBuf;

use clap::Args as _;
use shared::domain::{compression::Compression, keys::VersionDigits};

use crate::output::Format;

/// Options of all commands. The help of a command lists the first ones; `vzero --help` lists the others, too.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options (`vzero --help` lists all)")]
pub(crate) struct Globals {
    /// Name or ARN of the table
    #[arg(
        long,
        global = true,
        env = "TABLE_NAME",
        hide_env_values = true,
        default_value = "VersionControl"
    )]
    pub(crate) table: String,
    /// Endpoint of DynamoDB, such as <http://127.0.0.1:8000> [default: AWS]
    #[arg(long, global = true, value_name = "URL", value_parser = endpoint)]
    pub(crate) endpoint_url: Option<String>,
    /// Profile of the AWS configuration
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,
    /// AWS Region
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,
    /// Output format [default: table on a terminal, json otherwise]
    #[arg(long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// Show long values completely in tables and lines
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// Use the history of a table that other programs write. FILE defines it, as for local --attach. Keys are plain JSON, such as
    /// {"customerId": "c1", "orderNo": 7}
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    pub(crate) attached: Option<PathBuf>,
    /// Maximum duration of one attempt of a request, in milliseconds [default: 2000]
    #[arg(long, global = true, hide = true, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub(crate) attempt_timeout_ms: Option<u64>,
    /// Print the consumed capacity of each request to standard error
    #[arg(long, global = true, hide = true)]
    pub(crate) consumed_capacity: bool,
    /// Width of version keys [default: the width that the table was created with, 1 for a new table]
    #[arg(
        long,
        global = true,
        env = "VERSION_DIGITS",
        hide_env_values = true,
        value_name = "N",
        hide = true
    )]
    pub(crate) version_digits: Option<VersionDigits>,
    /// Compression of the versions that a command writes into a history table: none or deflate [default: none]
    #[arg(
        long,
        global = true,
        env = "HISTORY_COMPRESSION",
        hide_env_values = true,
        value_name = "NAME",
        hide = true
    )]
    pub(crate) history_compression: Option<Compression>,
    /// Use eventually consistent reads, at half the price
    #[arg(long, global = true, hide = true)]
    pub(crate) eventual: bool,
    /// Program that shows long output on a terminal page by page; cat for none
    #[arg(
        long,
        global = true,
        env = "PAGER",
        hide_env_values = true,
        value_name = "COMMAND",
        default_value = "less",
        hide = true
    )]
    pub(crate) pager: String,
    /// Print long output without a pager
    #[arg(long, global = true, hide = true)]
    pub(crate) no_pager: bool,
    /// Print all causes of an error
    #[arg(short, long, global = true, hide = true)]
    pub(crate) verbose: bool,
}

/// Returns the options that the help of a command does not list.
pub(crate) fn others() -> String {
    let command = Globals::augment_args(clap::Command::new("vzero"));
    let hidden = command.get_arguments().filter(|argument| argument.is_hide_set());
    let lines = hidden.map(|argument| {
        let short = argument
            .get_short()
            .map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        let value = argument
            .get_value_names()
            .filter(|_| argument.get_action().takes_values());
        let value = value
            .and_then(|names| Some(format!(" <{}>", names.first()?)))
            .unwrap_or_default();
        let name = format!("{short}--{}{value}", argument.get_long().unwrap_or_default());
        let variable = argument.get_env().and_then(std::ffi::OsStr::to_str);
        let variable = variable.map(|name| format!(" [env: {name}]")).unwrap_or_default();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        format!("  {name}\n          {help}{variable}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Parses the URL of an endpoint.
fn endpoint(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).ok();
    let is_endpoint = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    match url.is_some_and(|url| is_endpoint(&url)) {
        true => Ok(text.to_owned()),
        false => Err("expected a URL such as http://127.0.0.1:8000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_with_a_host() {
        for text in [
            "http://127.0.0.1:8000",
            "https://dynamodb.eu-central-1.amazonaws.com/",
            "http://[::1]:8000",
        ] {
            assert_eq!(endpoint(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "foo",
            "localhost:8000",
            "127.0.0.1:8000",
            "ht tp://x",
            "http://",
            "ftp://x",
            "http://x:99999",
        ] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_of_the_program_lists_the_other_options() {
        let text = others();
        for expected in [
            "  -v, --verbose\n",
            "      --version-digits <N>\n",
            "[env: VERSION_DIGITS]",
            "--eventual\n          Use eventually",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("--table") && !text.contains("--region"), "{text}");
    }
}
