//! Many updates through real function processes that are killed at random, ending in an audit. `tools/soak` runs it on
//! Amazon's DynamoDB Local.

use std::{collections::BTreeMap, io::Write as _, process::ExitCode, time::Duration};

use clap::Parser;
use local::{
    dynamodb::{endpoint::Dynamodb, sdk_config},
    function,
    soak::{self, Settings, edge},
    stack::{Options, Stack},
    template::Template,
};
use shared::dynamodb::write::{WriteMode, WriteOptions};

/// What goes wrong is shown as it is.
type Failure = Box<dyn std::error::Error>;

/// Sends updates to functions that are killed at random, and audits what is left: 0 without findings, 1 with some.
///
/// The last line of standard output is a summary in JSON.
#[derive(Debug, Parser)]
struct Args {
    /// How many updates
    #[arg(long, default_value_t = 10_000)]
    updates: usize,
    /// Of how many entities
    #[arg(long, default_value_t = 200)]
    entities: usize,
    /// What a run is repeated with [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    /// How many updates are under way at once
    #[arg(long, default_value_t = 16)]
    senders: usize,
    /// How many updates of one entity are under way at once
    #[arg(long, default_value_t = 3)]
    of_one_entity: usize,
    /// How many invocations begin, on average, until the next process is killed; 0 for never
    #[arg(long, default_value_t = 20)]
    kill_one_in: u64,
    /// How many seconds the histories may take after the last update
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Where DynamoDB is [default: an embedded one]
    #[arg(long, value_name = "URL")]
    dynamodb_url: Option<String>,
    /// A parameter of the template, as often as needed
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(binary) = function::asked_for() {
        return function::main(&binary);
    }
    let args = Args::parse();
    let outcome = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<bool, Failure> {
    let parameters: Vec<_> = (args.parameters.iter())
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
    let stack = Stack::start_on(
        Options {
            template: Template::read(template.as_ref(), &parameters)?,
            dynamodb_port: 0,
            lambda_port: 0,
            data_dir: None,
            failed: None,
            sqs_endpoint: None,
            s3_endpoint: None,
            program: function::this_program(),
            bootstraps: BTreeMap::new(),
        },
        args.dynamodb_url.map(Dynamodb::At),
    )
    .await?;
    let settings = Settings {
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
        updates: args.updates,
        entities: args.entities,
        senders: args.senders,
        of_one_entity: args.of_one_entity,
        kill_one_in: args.kill_one_in,
        timeout: Duration::from_secs(args.timeout),
    };
    let summary = soak::run(&stack, &settings).await?;
    let edges = edges(&stack).await?;
    let mut line = serde_json::to_value(&summary)?;
    line["edge"] = edges.into();
    let mut out = std::io::stdout();
    for finding in &summary.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{line}")?;
    Ok(summary.findings.is_empty())
}

/// The largest latest item has a version item that fits, in each mode.
async fn edges(stack: &Stack) -> Result<Vec<String>, Failure> {
    let client = aws_sdk_dynamodb::Client::new(&sdk_config(stack.dynamodb_endpoint()).await);
    let mut edges = Vec::new();
    for (name, mode) in [
        ("stream", WriteMode::Stream),
        ("inline", WriteMode::Inline),
        ("transaction", WriteMode::Transaction),
    ] {
        let id = format!("Edge#{name}");
        let options = WriteOptions {
            mode,
            ..WriteOptions::default()
        };
        let edge = edge::find(&client, &stack.table, &stack.store, &id, options).await?;
        edges.push(format!(
            "{name}: v0 {} bytes, vN {}, marked: {}",
            edge.latest, edge.version, edge.marked
        ));
    }
    Ok(edges)
}
