//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Runs the versioned table, both functions and the stream between them on this machine.
///
/// Without flags it feeds a few sample updates, shows each entity's items, and serves until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "local", version, after_help = EXAMPLES)]
pub struct Args {
    /// Feed, wait until every history is complete, and exit: 0, or 1 with what is missing
    #[arg(long)]
    pub once: bool,

    /// With --once, how many seconds to wait for the histories
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,

    /// Updates to feed, JSON Lines, - for standard input [default: a few samples, where the table is empty]
    #[arg(long, value_name = "FILE")]
    pub feed: Option<PathBuf>,

    /// Write every item as DynamoDB JSON, one a line, by PK then SK
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,

    /// The folder for documents of records that failed for good [default: failed, beside the database]
    #[arg(long, value_name = "DIR")]
    pub failed: Option<PathBuf>,

    /// An SQS, such as that of moto: its queue feeds writer-fn. The queues of the template are made there
    #[arg(long, value_name = "URL")]
    pub sqs_endpoint: Option<String>,

    /// An S3: failure documents go to the template's bucket there, and word of them to the dead-letter queue of --sqs-endpoint
    #[arg(long, value_name = "URL", conflicts_with = "failed")]
    pub s3_endpoint: Option<String>,

    /// Keep the database here over restarts, and the mapping's position with it [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The port of DynamoDB, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub dynamodb_port: u16,

    /// The port of Lambda, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 9001)]
    pub lambda_port: u16,

    /// The port of the history browser, 0 for a free one [default: 8100, or a free one]. There is none with --once
    #[arg(long, value_name = "PORT")]
    pub console_port: Option<u16>,

    /// The template to run [default: template.yaml in this folder or one above it]
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,

    /// A parameter of the template, as often as needed
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    pub parameters: Vec<(String, String)>,

    /// A function's program, as sam build or cargo lambda build makes it, for each function [default: built in]
    #[arg(long = "bootstrap", value_name = "FUNCTION=FILE", value_parser = bootstrap)]
    pub bootstraps: Vec<(String, PathBuf)>,
}

const EXAMPLES: &str = "\
Examples:
  local                                          sample updates, then serve
  local --once --feed updates.jsonl --dump out   feed a file, check it, write down the table
  local --data-dir data                          keep everything over restarts
  local --parameter VersionDigits=10             padded version keys
  local --sqs-endpoint http://127.0.0.1:4566 --s3-endpoint http://127.0.0.1:4566
                                                 with the queues and the bucket, on MiniStack";

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a parameter is given as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn bootstrap(text: &str) -> Result<(String, PathBuf), String> {
    let (function, file) = text.split_once('=').ok_or("a bootstrap is given as FUNCTION=FILE")?;
    Ok((function.to_owned(), file.into()))
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
