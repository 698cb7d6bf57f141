//! Thousands of shards: the mapping reads them with the settings of the template, and delivers their records to a function that takes
//! a few milliseconds.
//!
//! A lineage has five shards. The first one splits into two, and each of these is continued by another one, which stays open.
//! Its four items change once in the shard of each generation:
//!
//! ```text
//! 0 ─┬─▶ 1 ──▶ 3     items 0 and 1
//!    └─▶ 2 ──▶ 4     items 2 and 3
//! ```
//!
//! In some lineages, shard 1 has one record, which can never be stored, until it is too old. Shards and records are computed from
//! their [`Place`]: nothing is kept in memory for a record that is not read yet.

mod place;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::Mutex,
    time::Duration,
};

use local::mapping::{
    Clock as _, Counters, Destination, Environment, InvocationOutcome, Invoker, Mapping,
    failure::Document,
    position::{InMemory, Position},
    settings::Settings,
    source::{Page, Shard, Source, SourceError},
};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use self::place::{NODES, Place, STREAM_ARN};
use super::{Outcome, Stack};
use crate::{
    caller::lock,
    clock::{Clock, in_virtual_time},
    error::SimulationError,
    functions,
    mapping::{identity, records_of},
    requests::sequence_number,
};

/// Duration of an invocation.
const INVOCATION: Duration = Duration::from_millis(10);
/// One of this number of lists fails.
const FAILING_LISTS: u64 = 5;
/// Maximum virtual time.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum delay of a record that waits for no failing shard.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The stream, the function and the on-failure destination.
struct World {
    shards: u64,
    start: Instant,
    clock: Clock,
    max_age: Duration,
    seen: Mutex<Seen>,
    finished: Notify,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    lists: u64,
    invocations: u64,
    /// Version of each item that is stored or in a failure document, by lineage.
    versions: HashMap<(u64, u64), u64>,
    delays: Vec<Duration>,
    /// Longest delay of a record behind a failing shard.
    behind: Duration,
    documents: BTreeMap<Place, u64>,
    left: usize,
    violations: Vec<String>,
}

impl Seen {
    fn version(&self, place: Place, item: u64) -> u64 {
        self.versions.get(&(place.lineage(), item)).copied().unwrap_or(0)
    }

    /// Checks a delivery: the parent is done.
    fn deliver(&mut self, record: &Value) {
        let (place, version) = Place::of_record(record);
        let id = place.id();
        let is_left = |parent: Place| {
            let mut versions = parent.versions().iter();
            versions.any(|(item, version)| self.version(place, *item) < *version)
        };
        let violation = match version {
            None => format!("{id}: a record that the filter excludes was delivered"),
            Some(_) if place.parent().is_some_and(is_left) => {
                format!("{id} was delivered before the end of its parent")
            }
            Some(_) => return,
        };
        self.violations.push(violation);
    }

    /// Checks the version of a record that is stored or in a failure document: it follows the one before.
    fn complete(&mut self, record: &Value, delay: Duration) {
        let (place, Some((item, version))) = Place::of_record(record) else {
            return;
        };
        let before = self.versions.insert((place.lineage(), item), version);
        if before.unwrap_or(0) + 1 != version {
            let id = place.id();
            let violation = format!("{id}: version {version} of item {item} follows {before:?}");
            self.violations.push(violation);
        }
        match place.is_behind_failing() {
            true => self.behind = self.behind.max(delay),
            false => self.delays.push(delay),
        }
        self.left = self.left.saturating_sub(1);
    }

    /// 5: Checks what a run left.
    fn check(&mut self, shards: &[Place]) {
        self.delays.sort_unstable();
        let (left, longest) = (self.left, self.delays.last().copied());
        let left = (left > 0).then(|| format!("{left} records are neither stored nor in a failure document"));
        let late = longest.is_none_or(|longest| longest > MAX_DELAY);
        let late = late.then(|| format!("a record waited {longest:?}"));
        let documents = shards.iter().filter_map(|place| {
            let count = self.documents.get(place).copied().unwrap_or(0);
            let is_wrong = count != u64::from(place.is_failing());
            is_wrong.then(|| format!("{} has {count} failure documents", place.id()))
        });
        let found = left.into_iter().chain(late).chain(documents);
        let found: Vec<_> = found.map(|violation| format!("guarantee 5: {violation}")).collect();
        self.violations.extend(found);
    }
}

impl World {
    fn complete<'r>(&self, records: impl Iterator<Item = &'r Value>) {
        let mut seen = lock(&self.seen);
        records.for_each(|record| seen.complete(record, self.start.elapsed()));
        if seen.left == 0 {
            self.finished.notify_one();
        }
    }
}

impl Source for &'static World {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        lock(&self.seen).lists += 1;
        if lock(&self.seen).lists.is_multiple_of(FAILING_LISTS) {
            return Err(SourceError::Unavailable("a list fails".to_owned()));
        }
        let shard = |place: Place| Shard {
            id: place.id(),
            parent: place.parent().map(Place::id),
        };
        Ok((0..self.shards).map(Place).map(shard).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let state = match position {
            Position::TrimHorizon => "new",
            Position::Latest | Position::After(_) => "read",
        };
        Ok(format!("{shard} {state}"))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let (shard, state) = iterator.split_once(' ').ok_or(SourceError::ExpiredIterator)?;
        let place = Place::parse(shard).ok_or(SourceError::ExpiredIterator)?;
        let started = self.clock.now().saturating_sub(self.start.elapsed());
        let records = match state {
            "new" => place.records(started, self.max_age),
            _ => Vec::new(),
        };
        // The last generation stays open.
        let next = (place.node() > 2).then(|| format!("{shard} read"));
        Ok(Page { records, next })
    }
}

impl Invoker for &'static World {
    fn request_id(&self) -> String {
        format!("invocation-{}", lock(&self.seen).invocations)
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        lock(&self.seen).invocations += 1;
        let event: Value = serde_json::from_str(&payload).unwrap_or_default();
        let records = functions::records(&event);
        // Within a batch, the function decides the order.
        if let Some(first) = records.first() {
            lock(&self.seen).deliver(first);
        }
        sleep(INVOCATION).await;
        let is_stored = |record: &&Value| !Place::of_record(record).0.is_failing();
        self.complete(records.iter().filter(is_stored));
        let failed = records.iter().filter(|record| !is_stored(record));
        let failed = failed.map(|record| json!({"itemIdentifier": sequence_number(record)}));
        let response = json!({"batchItemFailures": failed.collect::<Vec<_>>()});
        InvocationOutcome::Response(response.to_string().into_bytes())
    }
}

impl Destination for &'static World {
    async fn put(&self, document: Document) -> io::Result<()> {
        let records = records_of(&document.body);
        for record in &records {
            let (place, _) = Place::of_record(record);
            *lock(&self.seen).documents.entry(place).or_default() += 1;
        }
        self.complete(records.iter());
        Ok(())
    }
}

struct ManyShards;

impl Environment for ManyShards {
    type Source = &'static World;
    type Invoker = &'static World;
    type Destination = &'static World;
    type Positions = InMemory;
    type Clock = Clock;
}

/// Runs the mapping until the records of all shards are stored or in failure documents.
pub(crate) fn run(shards: u64) -> Result<Outcome, SimulationError> {
    let settings = Stack::read()?.mapping;
    // Real time, which the result reports.
    let started = shared::clock::since_epoch();
    let mut outcome = in_virtual_time(1, read(settings, shards.div_ceil(NODES) * NODES))?;
    let elapsed = shared::clock::since_epoch().saturating_sub(started);
    outcome.figures["real_seconds"] = json!(elapsed.as_secs_f64());
    outcome.figures["peak_memory_megabytes"] = json!(peak_memory());
    Ok(outcome)
}

async fn read(settings: Settings, shards: u64) -> Outcome {
    let start = Instant::now();
    let clock = Clock(start);
    let places: Vec<_> = (0..shards).map(Place).collect();
    let records = places.iter().map(|place| place.versions().len()).sum();
    let seen = Seen {
        left: records,
        ..Seen::default()
    };
    let world: &'static World = Box::leak(Box::new(World {
        shards,
        start,
        clock,
        max_age: settings.maximum_record_age.unwrap_or_default(),
        seen: Mutex::new(seen),
        finished: Notify::new(),
    }));
    let mapping = Mapping::<ManyShards> {
        settings,
        identity: identity(STREAM_ARN.to_owned()),
        source: world,
        invoker: world,
        destination: world,
        positions: InMemory::default(),
        clock,
        counters: Counters::default(),
    };
    tokio::select! {
        biased;
        () = world.finished.notified() => {}
        () = sleep(TIMEOUT) => {}
        () = mapping.run() => {}
    }
    let mut seen = std::mem::take(&mut *lock(&world.seen));
    seen.check(&places);
    let seconds = |delay: Option<&Duration>| delay.map_or(0.0, Duration::as_secs_f64);
    Outcome {
        figures: json!({
            "shards": shards,
            "records": records,
            "failing_shards": places.iter().filter(|place| place.is_failing()).count(),
            "lists": seen.lists,
            "invocations": seen.invocations,
            "documents": seen.documents.len(),
            "delay_p50_seconds": seconds(seen.delays.get(seen.delays.len() / 2)),
            "delay_max_seconds": seconds(seen.delays.last()),
            "delay_behind_failing_seconds": seen.behind.as_secs_f64(),
            "virtual_seconds": start.elapsed().as_secs(),
            "violations": seen.violations.len(),
        }),
        violations: seen.violations,
    }
}

/// Returns the peak memory of this process in megabytes. `None` if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn many_shards_are_listed_rarely_and_read_in_order() {
        let outcome = run(500).unwrap();
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        let figures = &outcome.figures;
        assert_eq!(figures["shards"], 500);
        assert_eq!(figures["documents"], 5);
        // About one list every 10 s, and not one for each shard that ends.
        assert!(figures["lists"].as_u64().unwrap() < 100, "{figures}");
    }
}
