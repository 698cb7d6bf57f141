//! Options of all commands.

use std::path::PathBuf;

use shared::domain::keys::VersionDigits;

use crate::output::Format;

/// Options of all commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
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
    /// Use the history of a table that other programs write. FILE defines it, as for local --attach. Keys are plain JSON, such as
    /// {"customerId": "c1", "orderNo": 7}
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) attached: Option<PathBuf>,
    /// Endpoint of DynamoDB, such as <http://127.0.0.1:8000> [default: AWS]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Profile of the AWS configuration
    #[arg(long, global = true)]
    pub(crate) profile: Option<String>,
    /// AWS Region
    #[arg(long, global = true)]
    pub(crate) region: Option<String>,
    /// Print the consumed capacity of each request to standard error
    #[arg(long, global = true)]
    pub(crate) consumed_capacity: bool,
    /// Output format [default: table on a terminal, json otherwise]
    #[arg(long, global = true, value_enum)]
    pub(crate) output: Option<Format>,
    /// Width of version keys [default: the width that the table was created with, 1 for a new table]
    #[arg(
        long,
        global = true,
        env = "VERSION_DIGITS",
        hide_env_values = true,
        value_name = "N"
    )]
    pub(crate) version_digits: Option<VersionDigits>,
    /// Use eventually consistent reads, at half the price
    #[arg(long, global = true)]
    pub(crate) eventual: bool,
    /// Print all causes of an error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}
