//! Outages of writes: those of stream-fn, or those of writer-fn, fail for seconds to hours, with the settings of the template.
//!
//! One update a minute arrives, in turn by a queue, asynchronously and directly. Afterwards every version must be in history or
//! in a failure document, and every update must be applied once, be in the dead-letter queue, or have been answered with an
//! error.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use local::mapping::{
    Clock as _, Counters, Environment, InvocationOutcome, Invoker, Mapping, destination::Destination,
    failure::Document, position::InMemory,
};
use serde_json::{Value, json};
use shared::{clock::Deadline, domain::keys::LATEST_KEY};
use stream_fn::HistoryWriter;
use tokio::time::{Instant, sleep, timeout};
use writer_fn::Writer;

use super::{
    Outcome,
    endpoint::Endpoint,
    failures_of, identity, in_virtual_time, number_of, records_of,
    senders::{Fate, Senders},
    settings::Stack,
    table::{Access, Stream, Table},
};
use crate::{caller::lock, clock::Clock, error::SimulationError, schedule::TABLE, setup::client_with};

/// Durations of the outages in seconds. The last one is longer than the maximum age of a record.
pub(crate) const SECONDS: [u64; 4] = [5, 300, 18_000, 46_800];
const MINUTE: Duration = Duration::from_secs(60);
/// Time from the start until the outage. Updates arrive at full minutes.
const BEFORE: Duration = Duration::from_secs(119);
/// Time after an outage in which updates arrive.
const AFTER: Duration = Duration::from_secs(600);
/// Maximum time until all records are done, after the last update.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1800);
const ENTITIES: usize = 7;

/// The function whose writes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    Stream,
    Writer,
}

/// Runs all outages, each in a thread of its own.
pub(crate) fn run(seconds: &[u64]) -> Result<Outcome, SimulationError> {
    let stack = Stack::read()?;
    let runs = seconds
        .iter()
        .flat_map(|seconds| [(*seconds, Fails::Stream), (*seconds, Fails::Writer)]);
    let results: Vec<_> = std::thread::scope(|scope| {
        let stack = &stack;
        let threads: Vec<_> = runs
            .map(|(seconds, fails)| {
                scope.spawn(move || in_virtual_time(outage(stack, Duration::from_secs(seconds), fails))?)
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| SimulationError::Panicked)?)
            .collect()
    });
    let (mut figures, mut violations) = (Vec::new(), Vec::new());
    for result in results {
        let outcome: Outcome = result?;
        figures.push(outcome.figures);
        violations.extend(outcome.violations);
    }
    Ok(Outcome {
        figures: json!({"outages": figures, "violations": violations.len()}),
        violations,
    })
}

struct Outages;

impl Environment for Outages {
    type Source = Stream;
    type Invoker = StreamFunction;
    type Destination = Bucket;
    type Positions = InMemory;
    type Clock = Clock;
}

/// stream-fn, and the delay of each record that it stored.
#[derive(Clone)]
struct StreamFunction {
    writer: HistoryWriter,
    clock: Clock,
    limit: Duration,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    invocations: u64,
    failed: u64,
    delays: BTreeMap<u64, Duration>,
}

impl Invoker for StreamFunction {
    fn request_id(&self) -> String {
        format!("invocation-{}", lock(&self.log).invocations)
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        let response = async {
            let event = payload.clone();
            let handle = self.writer.handle(&event, "lambda", Deadline::after(self.limit));
            let response = timeout(self.limit, handle).await.ok()?.ok()?;
            serde_json::to_value(response).ok()
        };
        let response = response.await;
        let mut log = lock(&self.log);
        log.invocations += 1;
        let failures = response.as_ref().map(failures_of);
        log.failed += u64::from(failures.as_ref().is_none_or(|failures| !failures.is_empty()));
        if let Some(failures) = failures {
            let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
            for record in payload["Records"].as_array().into_iter().flatten() {
                let number = number_of(record);
                if !failures.contains(&number) {
                    let created = record["dynamodb"]["ApproximateCreationDateTime"]
                        .as_u64()
                        .unwrap_or_default();
                    let delay = self.clock.now().saturating_sub(Duration::from_secs(created));
                    log.delays.entry(number).or_insert(delay);
                }
            }
        }
        match response {
            Some(response) => InvocationOutcome::Response(response.to_string().into_bytes()),
            None => InvocationOutcome::FunctionError,
        }
    }
}

#[derive(Clone, Default)]
struct Bucket(Arc<Mutex<Vec<Value>>>);

impl Destination for Bucket {
    async fn put(&self, document: Document) -> io::Result<()> {
        lock(&self.0).push(document.body);
        Ok(())
    }
}

async fn outage(stack: &Stack, lasts: Duration, fails: Fails) -> Result<Outcome, SimulationError> {
    let start = Instant::now();
    let clock = Clock(start);
    let table = Table::new(clock)?;
    let outage = start + BEFORE..start + BEFORE + lasts;
    let client = |function: Fails| {
        let access = Access {
            table: Arc::clone(&table),
            outage: (fails == function).then(|| outage.clone()),
        };
        client_with(&Endpoint(Arc::new(access)), stack.client())
    };
    let writer = Writer::new(client(Fails::Writer), &stack.config)
        .with_checked_layout()
        .with_clock(clock.shifted(0));
    let log = Arc::<Mutex<Log>>::default();
    let bucket = Bucket::default();
    let mapping = Mapping::<Outages> {
        settings: stack.mapping.clone(),
        identity: identity(),
        source: Stream(Arc::clone(&table)),
        invoker: StreamFunction {
            writer: HistoryWriter::new(client(Fails::Stream), &stack.config)
                .with_checked_layout()
                .with_clock(clock.shifted(0)),
            clock,
            limit: stack.stream_timeout,
            log: Arc::clone(&log),
        },
        destination: bucket.clone(),
        positions: InMemory::default(),
        clock,
        counters: Counters::default(),
    };
    let senders = Senders {
        writer: &writer,
        stack,
        clock,
    };
    let minutes = (BEFORE + lasts + AFTER).as_secs() / 60;
    let updates = usize::try_from(minutes).unwrap_or_default() + 1;
    let upstream = async {
        let sent = (0..updates).map(|update| {
            let at = start + MINUTE * u32::try_from(update).unwrap_or_default();
            let body = json!({"ID": format!("e{}", update % ENTITIES), "Value": update});
            let senders = &senders;
            async move { senders.send(at, &update.to_string(), body).await }
        });
        let sent: Vec<(Fate, u64)> = join_all(sent).await;
        let until = Instant::now() + SETTLE_TIMEOUT;
        while Instant::now() < until && done(&log, &bucket) < table.records().len() {
            sleep(Duration::from_secs(1)).await;
        }
        sent
    };
    let sent = tokio::select! {
        biased;
        sent = upstream => sent,
        () = mapping.run() => Vec::new(),
    };
    let mut violations = Vec::new();
    check_versions(&table, &bucket, &mut violations)?;
    check_updates(&table, &sent, &mut violations);
    let log = lock(&log);
    let documents = lock(&bucket.0);
    let count = |fate: Fate| sent.iter().filter(|(sent, _)| *sent == fate).count();
    let figures = json!({
        "writes_fail_of": match fails { Fails::Stream => "stream-fn", Fails::Writer => "writer-fn" },
        "for_seconds": lasts.as_secs(),
        "updates": updates,
        "failed_invocations": match fails {
            Fails::Stream => log.failed,
            Fails::Writer => sent.iter().map(|(_, failed)| failed).sum(),
        },
        "history_late_by_seconds": log.delays.values().max().map_or(0, |delay| delay.as_secs() + u64::from(delay.subsec_nanos() > 0)),
        "documents": documents.len(),
        "versions_in_documents": documents.iter().map(|document| records_of(document).len()).sum::<usize>(),
        "dead_letters": count(Fate::DeadLetter),
        "errors_to_callers": count(Fate::Error),
        "virtual_seconds": start.elapsed().as_secs(),
    });
    let violations = violations.into_iter();
    let name = format!("{fails:?}, {} s", lasts.as_secs());
    Ok(Outcome {
        figures,
        violations: violations.map(|violation| format!("{name}: {violation}")).collect(),
    })
}

/// Returns the number of records that are stored or in a failure document.
fn done(log: &Mutex<Log>, bucket: &Bucket) -> usize {
    let mut done: BTreeSet<u64> = lock(log).delays.keys().copied().collect();
    let documents = lock(&bucket.0);
    done.extend(documents.iter().flat_map(records_of).map(|record| number_of(&record)));
    done.len()
}

/// Guarantees 1 and 2: every version is in history, equal to the latest item at that version, or in a failure document.
fn check_versions(table: &Table, bucket: &Bucket, violations: &mut Vec<String>) -> Result<(), SimulationError> {
    let mut items: HashMap<(String, String), Value> = HashMap::new();
    let mut start = None::<Value>;
    loop {
        let mut scan = json!({"TableName": TABLE});
        if let Some(start) = start {
            scan["ExclusiveStartKey"] = start;
        }
        let page = table.send("Scan", scan)?;
        for item in page["Items"].as_array().into_iter().flatten() {
            let text = |name: &str| item[name]["S"].as_str().unwrap_or_default().to_owned();
            items.insert((text("PK"), text("SK")), item.clone());
        }
        match page.get("LastEvaluatedKey").filter(|key| key.is_object()) {
            Some(key) => start = Some(key.clone()),
            None => break,
        }
    }
    let kept: BTreeSet<u64> = {
        let documents = lock(&bucket.0);
        documents
            .iter()
            .flat_map(records_of)
            .map(|record| number_of(&record))
            .collect()
    };
    let mut latest: BTreeMap<String, u64> = BTreeMap::new();
    for record in table.records() {
        let image = &record.json()["dynamodb"]["NewImage"];
        let entity = image["PK"]["S"].as_str().unwrap_or_default().to_owned();
        let version = latest.entry(entity.clone()).or_default();
        *version += 1;
        if image["Latest"]["N"].as_str() != Some(version.to_string().as_str()) {
            violations.push(format!(
                "guarantee 2: {entity} has a gap before version {}",
                image["Latest"]["N"]
            ));
        }
        let number = number_of(record.json());
        match items.get(&(entity.clone(), format!("v{version}"))) {
            Some(item) if item["Value"] == image["Value"] && item["RequestId"] == image["RequestId"] => {}
            Some(_) => violations.push(format!("guarantee 2: {entity} v{version} is a different item")),
            None if kept.contains(&number) => {}
            None => violations.push(format!("guarantee 1: {entity} v{version} is lost")),
        }
    }
    let versions = items.keys().filter(|(_, key)| key != LATEST_KEY).count();
    if versions + kept.len() < table.records().len() {
        violations.push("guarantee 1: versions are missing".to_owned());
    }
    Ok(())
}

/// Guarantees 3 and 4: an acknowledged update was applied once, any other one at most once.
fn check_updates(table: &Table, sent: &[(Fate, u64)], violations: &mut Vec<String>) {
    let mut applied: HashMap<usize, u64> = HashMap::new();
    for record in table.records() {
        let value = &record.json()["dynamodb"]["NewImage"]["Value"]["N"];
        let update = value.as_str().and_then(|value| value.parse().ok());
        *applied.entry(update.unwrap_or(usize::MAX)).or_default() += 1;
    }
    for (update, (fate, _)) in sent.iter().enumerate() {
        let times = applied.get(&update).copied().unwrap_or(0);
        let is_correct = match fate {
            Fate::Acknowledged => times == 1,
            Fate::DeadLetter | Fate::Error => times <= 1,
        };
        if !is_correct {
            violations.push(format!(
                "guarantee 4: update {update} was applied {times} times, {fate:?}"
            ));
        }
    }
}
