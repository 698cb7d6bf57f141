//! CPU time and memory of the local stack while its table grows to 100,000 updates.
//!
//! Each measurement sends updates to writer-fn in batches of a queue, and waits until all of their versions are in history. The CPU time is that
//! of the whole stack: the engine, the Lambda APIs and the mapping, which run in this program, and the function processes.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use local::{
    function,
    stack::{Options, Stack},
    template::Template,
};
use serde_json::json;

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Plot, Target, median},
    harness::{Bench, Measured},
    process,
    subject::{Role, root},
};

/// Few enough that all of them have their maximum number of recent requests from the first measurement on.
const ENTITIES: u64 = 50;
/// Maximum size of a batch in `template.yaml`.
const BATCH_SIZE: u64 = 10;
/// Number of batches at the same time: that of the processes of a function.
const CONCURRENCY: usize = 4;
/// Maximum ratio of the CPU time of an update in the largest table to that in the smallest.
const MAX_RATIO: f64 = 1.3;
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
const HISTORY_TIMEOUT: Duration = Duration::from_secs(120);

/// Measurements after each number of updates, of which the median counts.
const WINDOWS: usize = 3;

/// Measurement after a number of updates.
struct Point {
    updates: f64,
    /// CPU time of an update, in microseconds.
    cpu: f64,
    /// Resident memory of all processes, in MB.
    memory: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let stack = start().await?;
    let window: u64 = bench.size(2_000, 300);
    let sizes: &[u64] = bench.size(&[1_000, 10_000, 30_000, 100_000], &[1_000, 2_000, 4_000]);
    let (mut sent, mut points) = (0, Vec::new());
    for size in sizes {
        bench.progress.show(&format!("local growth: {size} updates"));
        send(&stack, sent..*size).await?;
        sent = *size;
        let mut times = Vec::new();
        for _ in 0..WINDOWS {
            let before = cpu(&stack)?;
            send(&stack, sent..sent + window).await?;
            sent += window;
            let used = cpu(&stack)?.saturating_sub(before);
            #[allow(clippy::cast_precision_loss, reason = "some thousands")]
            times.push(used.as_secs_f64() * 1e6 / window as f64);
        }
        #[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
        points.push(Point {
            updates: *size as f64,
            cpu: median(&times),
            memory: memory(&stack)?,
        });
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Ok(Vec::new().into());
    };
    let peer = format!("at {} updates", first.updates);
    let figure = |unit: &str, ours, theirs| {
        Figure::new(format!("{unit} at {} updates", last.updates), ours).compared_with(peer.clone(), theirs)
    };
    let figures = vec![
        figure("µs CPU an update", last.cpu, first.cpu).with_target(Target::RatioAtMost(MAX_RATIO)),
        figure("MB resident, the whole stack,", last.memory, first.memory),
    ];
    let plot = Plot::Lines {
        x: "updates",
        y: "µs CPU an update",
        series: vec![(
            "local stack".to_owned(),
            points.iter().map(|point| (point.updates, point.cpu)).collect(),
        )],
    };
    Ok(Measured { figures, plot })
}

async fn start() -> Result<Stack, BenchError> {
    let options = Options {
        template: Template::read(&root().join("template.yaml"), &[]).map_err(cannot("read template.yaml"))?,
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        failed: None,
        program: function::this_program(),
        bootstraps: BTreeMap::new(),
    };
    Stack::start(options).await.map_err(cannot("start the local stack"))
}

/// Sends the updates with these numbers, and waits until history contains all up to the last one.
async fn send(stack: &Stack, numbers: std::ops::Range<u64>) -> Result<(), BenchError> {
    let end = numbers.end;
    let batches = numbers.step_by(usize::try_from(BATCH_SIZE).unwrap_or(1));
    stream::iter(batches)
        .map(|first| send_batch(stack, first..end.min(first + BATCH_SIZE)))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    let complete = async {
        while stack.activity.figures().versions < end {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    let missing = || BenchError::UnexpectedResult(format!("the history of {end} updates is not complete"));
    tokio::time::timeout(HISTORY_TIMEOUT, complete)
        .await
        .map_err(|_| missing())
}

async fn send_batch(stack: &Stack, numbers: std::ops::Range<u64>) -> Result<(), BenchError> {
    let records: Vec<_> = numbers.map(message).collect();
    let event = json!({ "Records": records }).to_string();
    let invoked = stack.lambda.invoke(Role::Writer.name(), event.into_bytes()).await;
    let response = invoked.map(|output| String::from_utf8_lossy(&output.payload).into_owned());
    match response {
        Some(response) if response.contains(r#""batchItemFailures":[]"#) => Ok(()),
        response => Err(BenchError::UnexpectedResult(response.unwrap_or_default())),
    }
}

fn message(number: u64) -> serde_json::Value {
    let update = json!({"ID": format!("Equipment#{}", number % ENTITIES), "State": "WARNING1", "N": number});
    json!({
        "messageId": format!("00000000-0000-4000-8000-{number:012}"),
        "receiptHandle": "receipt",
        "body": update.to_string(),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1604260800000"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:Updates",
        "awsRegion": "us-east-1",
    })
}

/// Returns the processes of the stack.
fn processes(stack: &Stack) -> Vec<u32> {
    let functions = Role::BOTH
        .into_iter()
        .flat_map(|role| stack.lambda.processes(role.name()));
    functions
        .map(|process| process.pid)
        .chain([std::process::id()])
        .collect()
}

fn cpu(stack: &Stack) -> Result<Duration, BenchError> {
    let times = processes(stack).into_iter().map(process::cpu_time);
    times.sum::<Option<_>>().ok_or_else(ended)
}

/// Returns the resident memory, in MB. Not the peak: that of this program includes earlier comparisons.
fn memory(stack: &Stack) -> Result<f64, BenchError> {
    let sizes = processes(stack).into_iter().map(process::resident_memory);
    let bytes = sizes.sum::<Option<u64>>().ok_or_else(ended)?;
    #[allow(clippy::cast_precision_loss, reason = "a few gigabytes")]
    Ok(bytes as f64 / 1e6)
}

fn ended() -> BenchError {
    BenchError::ProcessEnded("a function of the local stack".to_owned())
}
