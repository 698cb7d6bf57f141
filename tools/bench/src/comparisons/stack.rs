//! The local stack after many updates: the time of an update until its version is in history, and the pages of the console. And the updates of one
//! entity with its own history table.
//!
//! The functions run as released, in processes of their own. The embedded database, the mapping and the console run in this process.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use futures::stream::{self, TryStreamExt as _};
use local::{
    stack::{Options, Stack, listen},
    template::Template,
};
use shared::{clock, domain::recorded_at::RecordedAt};
use tokio::time::sleep;

use crate::{
    error::{BenchError, cannot},
    events,
    figure::{Figure, Target, median, millis},
    floor::Connection,
    harness::Bench,
    hosted::Hosted,
    subject::{Role, root},
};

const ENTITIES: usize = 10;
/// Updates of an invocation.
const BATCH: usize = 100;
/// Maximum time of an update beside that after the first block.
const MAX_GROWTH: f64 = 1.3;
/// Minimum updates a second of one entity, beside those of several.
const MIN_OF_ONE: f64 = 0.8;
/// Direct updates at a time.
const CONCURRENT: usize = 8;
/// Maximum time of a page in milliseconds.
const MAX_PAGE: f64 = 100.0;
/// Maximum time in which a block becomes history.
const MAX_WAIT: Duration = Duration::from_secs(120);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let (blocks, block, compared) = (bench.size(100, 6), bench.size(1_000, 100), bench.size(5, 2));
    let (stack, writer) = start(bench, &[]).await?;
    let (mut times, mut early, mut half) = (Vec::new(), Vec::new(), RecordedAt::since_epoch(Duration::ZERO));
    for number in 0..blocks {
        if number == compared + 1 {
            early = pages(bench, &stack, number * block / ENTITIES, half).await?;
        }
        if [compared / 2, blocks / 2].contains(&number) {
            half = RecordedAt::since_epoch(clock::since_epoch());
        }
        let numbers = number * block..(number + 1) * block;
        times.push(write(&stack, &writer, numbers, ENTITIES).await?);
    }
    let versions = blocks * block / ENTITIES;
    let late = pages(bench, &stack, versions, half).await?;
    // The first block starts the processes.
    let (first, last) = (&times[1..=compared], &times[blocks - compared..]);
    let unit = format!("ms an update until history, after {} updates", blocks * block);
    let update = Figure::of_several(unit, last).compared_with(format!("after {block}"), median(first.iter().copied()));
    let mut figures = vec![update.with_target(Target::RatioAtMost(MAX_GROWTH))];
    let few = format!("{} versions", (compared + 1) * block / ENTITIES);
    for ((name, late), (_, early)) in late.into_iter().zip(early) {
        let figure = Figure::of_several(format!("ms, console, {name}, {versions} versions"), &late);
        let figure = figure.compared_with(few.clone(), median(early));
        figures.push(figure.with_target(Target::AtMost(MAX_PAGE)));
    }
    drop((stack, writer));
    let (stack, writer) = start(bench, &[("HistoryTable".to_owned(), "own".to_owned())]).await?;
    let count = bench.size(2_000, 100);
    direct(&stack, &writer, 0..count, ENTITIES).await?;
    let several = direct(&stack, &writer, count..2 * count, ENTITIES).await?;
    let one = direct(&stack, &writer, 2 * count..3 * count, 1).await?;
    let unit = "updates a second until history, direct, one entity, own history table";
    let figure = Figure::new(unit, one).compared_with(format!("{ENTITIES} entities"), several);
    figures.push(figure.with_target(Target::RatioAtLeast(MIN_OF_ONE)));
    let queued = write(&stack, &writer, 3 * count..3 * count + BATCH, 1).await?;
    let unit = format!("updates a second until history, {BATCH} in a queue, one entity, own history table");
    figures.push(Figure::new(unit, 1_000.0 / queued));
    Ok(figures)
}

/// Sends single updates, several at a time, in turn to so many entities, and returns the updates a second until all are in history.
#[allow(clippy::cast_precision_loss, reason = "some thousands")]
async fn direct(
    stack: &Stack,
    writer: &Hosted,
    numbers: std::ops::Range<usize>,
    entities: usize,
) -> Result<f64, BenchError> {
    let (started, count, end) = (Instant::now(), numbers.len(), numbers.end);
    let sent = stream::iter(numbers.map(Ok)).try_for_each_concurrent(CONCURRENT, async |number| {
        writer.invoke(&events::single(number, entities)).await.map(drop)
    });
    sent.await?;
    in_history(stack, end).await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Starts a stack with these parameters, and returns it with its writer.
async fn start(bench: &Bench, parameters: &[(String, String)]) -> Result<(Stack, Hosted), BenchError> {
    let ours = &bench.subjects[0];
    let bootstraps = Role::BOTH.map(|role| (role.name().to_owned(), ours.program(role).to_owned()));
    let template = Template::read(&root().join("template.yaml"), parameters).map_err(cannot("read the template"))?;
    let options = Options {
        template,
        dynamodb: None,
        bind: LOOPBACK,
        dynamodb_port: 0,
        lambda_port: 0,
        data_dir: None,
        program: local::function::this_program(),
        seal: None,
        bootstraps: bootstraps.into(),
    };
    let stack = Box::pin(Stack::start(options))
        .await
        .map_err(cannot("start the stack"))?;
    let writer = Hosted::of(stack.lambda.clone(), Role::Writer, &stack.logs);
    Ok((stack, writer))
}

/// Sends the updates with these numbers in turn to so many entities, and returns the time in milliseconds for each until all are in history.
#[allow(clippy::cast_precision_loss, reason = "some thousands")]
async fn write(
    stack: &Stack,
    writer: &Hosted,
    numbers: std::ops::Range<usize>,
    entities: usize,
) -> Result<f64, BenchError> {
    let (started, count, end) = (Instant::now(), numbers.len(), numbers.end);
    for first in numbers.step_by(BATCH) {
        let event = events::updates(first..first + BATCH, entities);
        // As a queue, which delivers a message again that failed, such as by a timeout: the database deletes expired items now and then.
        if writer.invoke(&event).await.is_err() {
            writer.invoke(&event).await?;
        }
    }
    in_history(stack, end).await?;
    Ok(millis(started.elapsed()) / count as f64)
}

/// Waits until so many updates are in history.
async fn in_history(stack: &Stack, count: usize) -> Result<(), BenchError> {
    let started = Instant::now();
    loop {
        let counts = stack.mapping.counters.get();
        if counts.done >= count {
            return Ok(());
        }
        if counts.failed > 0 || started.elapsed() > MAX_WAIT {
            return Err(BenchError::Failed(format!(
                "not all updates are in history: {counts:?}"
            )));
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the times of pages of the console in milliseconds.
async fn pages(
    bench: &Bench,
    stack: &Stack,
    versions: usize,
    at: RecordedAt,
) -> Result<Vec<(&'static str, Vec<f64>)>, BenchError> {
    let listener = listen(LOOPBACK, 0).map_err(cannot("serve the console"))?;
    let console = local::run::console(stack, listener, LOOPBACK).map_err(cannot("serve the console"))?;
    let (address, token) = (
        console.address().to_string(),
        console.url().split_once("token=").unwrap_or_default().1,
    );
    let id = events::entity(0).replace('#', "%23");
    let mut measured = Vec::new();
    for (name, path) in [
        ("list", "/".to_owned()),
        ("entity", format!("/entity?id={id}")),
        ("state at a time", format!("/as-of?id={id}&at={at}")),
        ("comparison", format!("/compare?id={id}&from=1&to={versions}")),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let mut connection = Connection::open(&address).await?;
        let mut times = Vec::new();
        for _ in 0..bench.size(21, 2) {
            let started = Instant::now();
            let (head, _) = connection.exchange(request.as_bytes()).await?;
            times.push(millis(started.elapsed()));
            if !head.starts_with("HTTP/1.1 200") {
                let status = head.lines().next().unwrap_or_default();
                return Err(BenchError::Failed(format!("the page {path} has the response {status}")));
            }
        }
        measured.push((name, times));
    }
    Ok(measured)
}
