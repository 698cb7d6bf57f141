//! The command line.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use clap::Parser;

/// Runs the versioned table, both functions and the stream between them on this machine.
///
/// Without flags, it feeds sample updates, lists the entities, and serves until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "local", version, after_help = EXAMPLES)]
pub struct Args {
    /// Feed, wait until every history is complete, and exit: 0, or 1 if versions are missing or records were dropped
    #[arg(long)]
    pub once: bool,

    /// With --once, maximum number of seconds to wait for the histories
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,

    /// Updates to feed, JSON Lines, - for standard input [default: sample updates, if the table is empty]
    #[arg(long, value_name = "FILE")]
    pub feed: Option<PathBuf>,

    /// Write every item as DynamoDB JSON, one per line, by PK then SK
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,

    /// Keep the database, the mapping's position and failure documents here over restarts [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Address of all ports. Only 127.0.0.1 keeps other machines out
    #[arg(long, value_name = "ADDRESS", env = "LOCAL_BIND", default_value_t = Ipv4Addr::LOCALHOST.into())]
    pub bind: IpAddr,

    /// Port of DynamoDB, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub dynamodb_port: u16,

    /// Port of Lambda, 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = 9001)]
    pub lambda_port: u16,

    /// Port of the history browser, 0 for a free one [default: 8100, or a free one]. Not started with --once
    #[arg(long, value_name = "PORT")]
    pub console_port: Option<u16>,

    /// Time from the start to the first read of the stream. AWS takes about a minute after it creates or enables a mapping
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub mapping_startup: u32,

    /// Template to run [default: template.yaml in this folder or a parent, otherwise built in]
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,

    /// Serve an empty table with history attached, for clients on the port of DynamoDB. FILE is the JSON of aws dynamodb
    /// create-table --cli-input-json, with the optional members that docs/attach.md describes
    #[arg(long, value_name = "FILE", conflicts_with = "feed")]
    pub attach: Option<PathBuf>,

    /// Parameter of the template; can be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = pair::<String>)]
    pub parameters: Vec<(String, String)>,

    /// Seal the versions in a public log in this folder, which docs/log-format.md describes. Turns the time index on
    #[arg(long, value_name = "FOLDER")]
    pub seal: Option<PathBuf>,

    /// Program of a function, from sam build or cargo lambda build; can be repeated [default: built in]
    #[arg(long = "bootstrap", value_name = "FUNCTION=FILE", value_parser = pair::<PathBuf>)]
    pub bootstraps: Vec<(String, PathBuf)>,
}

const EXAMPLES: &str = "\
Examples:
  local                                          sample updates, then serve
  local --once --feed updates.jsonl --dump out   feed a file, check it, dump the table
  local --data-dir data                          keep everything over restarts
  local --parameter VersionDigits=10             padded version keys
  local --parameter HistoryTable=own             history in a table of its own
  local --data-dir data --seal log               a history that can be proven
  local --attach orders.json                     history of a table that your own programs write";

fn pair<V: for<'a> From<&'a str>>(text: &str) -> Result<(String, V), &'static str> {
    let (name, value) = text.split_once('=').ok_or("an equals sign is missing")?;
    Ok((name.to_owned(), value.into()))
}
