//! The soak test: sends updates to real function processes, kills them at random, and audits the table. `tools/soak` runs
//! it on Amazon's DynamoDB Local.

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

type Failure = Box<dyn std::error::Error>;

/// Sends updates, kills functions at random, and audits the table: exits with 0 without findings, else with 1.
///
/// The last line of standard output is a summary in JSON.
#[derive(Debug, Parser)]
struct Args {
    /// Number of updates
    #[arg(long, default_value_t = 10_000)]
    updates: usize,
    /// Number of entities
    #[arg(long, default_value_t = 200)]
    entities: usize,
    /// Seed of the run [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of updates in flight at once
    #[arg(long, default_value_t = 16)]
    senders: usize,
    /// Maximum number of updates of one entity in flight at once
    #[arg(long, default_value_t = 3)]
    of_one_entity: usize,
    /// Mean number of invocations between two kills; 0 for no kills
    #[arg(long, default_value_t = 20)]
    kill_one_in: u64,
    /// Maximum number of seconds until the histories are complete, after the last update
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Endpoint of DynamoDB [default: embedded]
    #[arg(long, value_name = "URL")]
    dynamodb_url: Option<String>,
    /// Parameter of the template; can be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(binary) = function::requested() {
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

/// Checks in each mode that the version item of the largest latest item fits.
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
