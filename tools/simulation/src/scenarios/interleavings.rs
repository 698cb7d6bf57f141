//! Interleavings of writers on one entity: is a request ever applied twice?
//!
//! The model of the guard of the recent requests ([`writer_fn::counter`]), with the product's own conditions: few writers with
//! different clocks, windows and write modes deliver few requests several times, while others fill the map of recent requests. Each
//! request to the database is executed or lost, its response arrives or not, and it can be executed after its sender has stopped
//! waiting. Meanwhile the map is removed, another program increments `Latest`, markers of the ledger add no entry, and an operator
//! raises `Latest`. History is written at once, or late. A seed determines a run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_smithy_runtime_api::client::{
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use dynoxide::Database;
use fastrand::Rng;
use futures::future::join_all;
use operations::latest::raise_latest::raise_latest;
use serde_json::{Value, json};
use shared::{
    config::{Idempotency, Ordering, Retention, Window, WriteMode, WriteOptions},
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        recorded_at::RecordedAt,
        version::Version,
        version_item::VersionItem,
    },
    dynamodb::Store,
};
use tokio::time::{Instant, sleep};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

use super::Outcome;
use crate::{
    caller::lock,
    clock::{Clock, ProcessClock, in_virtual_time},
    database::{self, create_table},
    error::SimulationError,
    http::{self, Response, Service},
    in_threads,
    schedule::TABLE,
    setup::dynamodb_client,
};

const ENTITY: &str = "e0";
/// Maximum difference of a clock from the true time, in milliseconds.
const MAX_OFFSET: i64 = 5000;
/// Maximum time between the request of a sender that has stopped waiting and its execution, in milliseconds.
const MAX_LATE: u64 = 20_000;
/// Number of versions before a run: a map with a window of 1 is almost full.
const BEFORE: u64 = 8;

/// Runs interleavings with these seeds.
pub(crate) fn run(seed: u64, count: u64, threads: usize) -> Result<Outcome, SimulationError> {
    let tally = Mutex::new((0, Vec::new(), None));
    in_threads(threads, count, |index| {
        let ran = interleaving(seed.wrapping_add(index));
        let (versions, violations, error) = &mut *lock(&tally);
        match ran {
            Ok((created, found)) => {
                *versions += created;
                violations.extend(found);
            }
            Err(failed) => *error = Some(failed),
        }
        true
    });
    let (versions, violations, error) = tally.into_inner().unwrap_or_default();
    match error {
        Some(error) => Err(error),
        None => Ok(Outcome {
            figures: json!({"interleavings": count, "versions": versions, "violations": violations.len(), "seed": seed}),
            violations,
        }),
    }
}

/// Runs one interleaving, and returns the number of versions and the violations.
fn interleaving(seed: u64) -> Result<(usize, Vec<String>), SimulationError> {
    in_virtual_time(1, async move {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let clock = Clock(Instant::now());
        let table = Table::new(clock, rng.fork())?;
        let run = Run::draw(&mut rng, &table, clock);
        run.prepare().await;
        table.start_losses([0, 10, 25, 50][rng.usize(..4)]);
        run.run(&mut rng).await;
        sleep(Duration::from_millis(2 * MAX_LATE)).await;
        let violations = run.violations();
        let described = violations
            .into_iter()
            .map(|violation| format!("seed {seed}: {violation}"));
        Ok((lock(&table.0.versions).len(), described.collect()))
    })?
}

/// A version, as the latest item was after a write.
#[derive(Debug, Clone)]
struct Created {
    version: u64,
    /// Request that created it, `None` if another program or an operator did.
    request: Option<String>,
    /// Time by which it was recorded ahead of all clocks.
    ahead: Duration,
}

/// The table, and the network on which requests and responses are lost.
#[derive(Clone)]
struct Table(Arc<Inner>);

struct Inner {
    database: Database,
    clock: Clock,
    rng: Mutex<Rng>,
    /// Probability with which a request is lost, and with which a response is lost.
    percent: Mutex<u8>,
    clocks: Mutex<Vec<ProcessClock>>,
    versions: Mutex<Vec<Created>>,
}

impl Table {
    fn new(clock: Clock, rng: Rng) -> Result<Self, SimulationError> {
        let database = clock.database()?;
        create_table(&database, TABLE, &["PK", "SK"], None)?;
        Ok(Self(Arc::new(Inner {
            database,
            clock,
            rng: Mutex::new(rng),
            percent: Mutex::new(0),
            clocks: Mutex::default(),
            versions: Mutex::default(),
        })))
    }

    fn start_losses(&self, percent: u8) {
        *lock(&self.0.percent) = percent;
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut lock(&self.0.rng))
    }

    /// Sends a request of another program.
    fn send(&self, operation: &'static str, body: &Value) -> Result<Value, SimulationError> {
        let output = database::send(&self.0.database, operation, body);
        self.note(false);
        output
    }

    fn execute(&self, operation: &str, body: &[u8], is_writer: bool) -> Response {
        let response = database::respond(&self.0.database, operation, body);
        if ["UpdateItem", "TransactWriteItems"].contains(&operation) {
            self.note(is_writer);
        }
        response
    }

    /// Notes a new version, and puts its version item, at once or later.
    fn note(&self, is_writer: bool) {
        let get = json!({"TableName": TABLE, "Key": key(), "ConsistentRead": true});
        let found = database::send(&self.0.database, "GetItem", &get).ok();
        let Some(image) = found.and_then(|mut output| output.get_mut("Item").map(Value::take)) else {
            return;
        };
        let number = |name: &str| image[name]["N"].as_str().and_then(|number| number.parse::<u64>().ok());
        let mut versions = lock(&self.0.versions);
        let last = versions.last().map_or(0, |created| created.version);
        let Some(version) = number("Latest").filter(|version| *version > last) else {
            return;
        };
        let is_own = is_writer && number("RecordedVersion") == Some(version);
        let elapsed = self.0.clock.0.elapsed();
        let clocks = lock(&self.0.clocks);
        let fastest = clocks.iter().map(|clock| clock.latest(elapsed)).max();
        let recorded = image["RecordedAt"]["S"].as_str().unwrap_or_default();
        let recorded = RecordedAt::parse(recorded).map_or(Duration::ZERO, RecordedAt::to_duration);
        versions.push(Created {
            version,
            request: image["RequestId"]["S"].as_str().filter(|_| is_own).map(str::to_owned),
            ahead: recorded.saturating_sub(fastest.unwrap_or(recorded)),
        });
        let wait = self.draw(|rng| rng.u64(0..2) * rng.u64(0..1000));
        let table = self.clone();
        if wait == 0 {
            table.put_version(image);
        } else {
            tokio::spawn(async move {
                sleep(Duration::from_millis(wait)).await;
                table.put_version(image);
            });
        }
    }

    /// Puts a version item, as stream-fn does.
    fn put_version(&self, image: Value) {
        let Ok(image) = serde_json::from_value(image) else {
            return;
        };
        let Ok(version) = VersionItem::from_image(image, VersionDigits::default()) else {
            return;
        };
        let micros = i64::try_from(self.0.clock.millis() * 1000).ok();
        let version = version.with_stream_time(micros);
        let put =
            json!({"TableName": TABLE, "Item": version.item(), "ConditionExpression": "attribute_not_exists(PK)"});
        // In a transaction, the writer has put it.
        let _ = database::send(&self.0.database, "PutItem", &put);
    }
}

fn key() -> Value {
    json!({"PK": {"S": ENTITY}, "SK": {"S": LATEST_KEY}})
}

/// What happens to a request.
enum Fate {
    Answered,
    RequestLost,
    ResponseLost,
    /// It is executed after this time, without a response.
    Late(Duration),
}

/// HTTP client of a writer, or of an operator.
#[derive(Clone)]
struct Network {
    table: Table,
    is_writer: bool,
}

impl Network {
    fn fate(&self) -> Fate {
        let percent = *lock(&self.table.0.percent);
        self.table.draw(|rng| match rng.u8(..100) {
            number if number < percent / 2 => Fate::RequestLost,
            number if number < percent => Fate::Late(Duration::from_millis(rng.u64(1..MAX_LATE))),
            _ if rng.u8(..100) < percent => Fate::ResponseLost,
            _ => Fate::Answered,
        })
    }

    async fn delay(&self) {
        let millis = self.table.draw(|rng| rng.u64(0..12));
        sleep(Duration::from_millis(millis)).await;
    }
}

impl Service for Network {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let operation = http::operation(&request).to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let is_write = ["UpdateItem", "TransactWriteItems"].contains(&operation.as_str());
        let fate = match is_write && self.is_writer {
            true => self.fate(),
            false => Fate::Answered,
        };
        self.delay().await;
        let response = match fate {
            Fate::Answered => self.table.execute(&operation, body, self.is_writer),
            Fate::RequestLost => std::future::pending().await,
            Fate::ResponseLost => {
                self.table.execute(&operation, body, self.is_writer);
                std::future::pending().await
            }
            Fate::Late(wait) => {
                let (network, body) = (self.clone(), body.to_vec());
                tokio::spawn(async move {
                    sleep(wait).await;
                    network.table.execute(&operation, &body, network.is_writer);
                });
                std::future::pending().await
            }
        };
        self.delay().await;
        response.into_http()
    }
}

/// Writers and an operator on the table.
struct Run {
    table: Table,
    clock: Clock,
    writers: Vec<(Store, WriteOptions)>,
    operator: Store,
    /// Versions that responses named, by the request.
    answers: Mutex<Vec<(String, u64)>>,
}

impl Run {
    fn draw(rng: &mut Rng, table: &Table, clock: Clock) -> Self {
        let store = |is_writer| {
            let network = Network {
                table: table.clone(),
                is_writer,
            };
            Store::new(dynamodb_client(&network), TABLE, VersionDigits::default())
        };
        let mut clocks = vec![ProcessClock::new(vec![(0, 0)])];
        let writers = (0..rng.usize(2..=4)).map(|_| {
            let mut offsets = vec![(0, rng.i64(-MAX_OFFSET..=MAX_OFFSET))];
            if rng.bool() {
                offsets.push((rng.u64(10_000..30_000), rng.i64(-MAX_OFFSET..=MAX_OFFSET)));
            }
            let process = ProcessClock::new(offsets);
            clocks.push(process.clone());
            let mode = [WriteMode::Stream, WriteMode::Stream, WriteMode::Transaction][rng.usize(..3)];
            let window = Window::new([1, 1, 2, rng.u8(1..=20)][rng.usize(..4)]).unwrap_or_default();
            let options = WriteOptions {
                mode,
                idempotency: Idempotency::Recent(window),
                ..WriteOptions::default()
            };
            (store(true).with_clock(clock.of_process(process)), options)
        });
        let writers = writers.collect();
        *lock(&table.0.clocks) = clocks;
        Self {
            table: table.clone(),
            clock,
            writers,
            operator: store(false).with_clock(clock.shifted(0)),
            answers: Mutex::default(),
        }
    }

    /// Creates the versions before the run.
    async fn prepare(&self) {
        for number in 0..BEFORE {
            let options = self.writers[0].1;
            self.write(0, options, &format!("before-{number}"), None).await;
        }
    }

    /// Delivers an update.
    async fn write(&self, writer: usize, options: WriteOptions, id: &str, sent: Option<u64>) {
        let mut update = json!({"ID": ENTITY, "A": id});
        if let Some(sent) = sent {
            update["RequestSentAt"] = json!(sent);
        }
        let Ok(update) = Update::parse(update, id, Ordering::Arrival) else {
            return;
        };
        let written = Box::pin(counter::write(&self.writers[writer].0, &update, options)).await;
        if let Ok(WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }) = written {
            lock(&self.answers).push((id.to_owned(), version.get()));
        }
    }

    /// Carries out the deliveries and what others do, at random times.
    async fn run(&self, rng: &mut Rng) {
        let span = [300, 3000, 15_000][rng.usize(..3)];
        let start = self.clock.millis() + 10_000;
        let mut deliveries = Vec::new();
        for number in 0..rng.u8(1..=3) {
            let first = rng.u64(..span);
            for at in [first, first + rng.u64(..span), first + rng.u64(..=2 * span)] {
                if at == first || rng.bool() {
                    deliveries.push((
                        at,
                        self.choose(rng, false),
                        format!("repeated-{number}"),
                        Some(start + first),
                    ));
                }
            }
        }
        for number in 0..rng.u8(8..=20) {
            let at = rng.u64(..=2 * span);
            // A marker of the ledger is not known to the other writers: its request is delivered once.
            deliveries.push((at, self.choose(rng, true), format!("once-{number}"), None));
        }
        let others: Vec<_> = (0..rng.u8(0..=3)).map(|_| (rng.u64(..2 * span), rng.u8(..4))).collect();
        let deliveries = deliveries.iter().map(async |(at, (writer, options), id, sent)| {
            self.until(start + at).await;
            self.write(*writer, *options, id, *sent).await;
        });
        let others = others.iter().map(async |(at, kind)| {
            self.until(start + at).await;
            self.interfere(*kind).await;
        });
        tokio::join!(join_all(deliveries), join_all(others));
    }

    async fn until(&self, millis: u64) {
        sleep(Duration::from_millis(millis.saturating_sub(self.clock.millis()))).await;
    }

    /// Chooses a writer and its options.
    fn choose(&self, rng: &mut Rng, with_ledger: bool) -> (usize, WriteOptions) {
        let writer = rng.usize(..self.writers.len());
        let options = self.writers[writer].1;
        let idempotency = match with_ledger && rng.u8(..8) == 0 {
            true => Idempotency::Ledger(Retention::default()),
            false => options.idempotency,
        };
        (writer, WriteOptions { idempotency, ..options })
    }

    /// Changes the latest item in another way than by an update.
    async fn interfere(&self, kind: u8) {
        let update = |expression: &str| json!({"TableName": TABLE, "Key": key(), "UpdateExpression": expression});
        match kind {
            0 => {
                let _ = self.table.send("UpdateItem", &update("REMOVE RecentRequests"));
            }
            1 => {
                let mut update = update("SET Latest = Latest + :one");
                update["ExpressionAttributeValues"] = json!({":one": {"N": "1"}});
                let _ = self.table.send("UpdateItem", &update);
            }
            2 => {
                let latest = lock(&self.table.0.versions).last().map(|created| created.version);
                let latest = latest.and_then(Version::new);
                let next = latest.and_then(|latest| Version::new(latest.get() + 1));
                if let (Ok(entity), Some(next)) = (EntityId::new(ENTITY), next) {
                    let _ = raise_latest(&self.operator, &entity, latest, next).await;
                }
            }
            _ => {}
        }
    }

    fn violations(&self) -> Vec<String> {
        let versions = lock(&self.table.0.versions);
        let mut of_request: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut violations = Vec::new();
        for created in versions.iter() {
            if let Some(request) = &created.request {
                of_request.entry(request).or_default().push(created.version);
                if created.ahead > Duration::from_secs(1) {
                    let (version, ahead) = (created.version, created.ahead.as_millis());
                    violations.push(format!("version {version} was recorded {ahead} ms ahead of all clocks"));
                }
            }
        }
        for (request, versions) in &of_request {
            if versions.len() > 1 {
                violations.push(format!("request {request} created versions {versions:?}"));
            }
        }
        for (request, version) in lock(&self.answers).iter() {
            if !of_request.contains_key(request.as_str()) {
                violations.push(format!(
                    "request {request} was answered with version {version}, and created none"
                ));
            }
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn no_request_is_applied_twice() {
        let outcome = run(1, 100, 2).unwrap();
        assert_eq!(outcome.violations, Vec::<String>::new());
        assert!(outcome.figures["versions"].as_u64() > Some(1500), "{}", outcome.figures);
    }

    #[test]
    fn a_seed_determines_an_interleaving() {
        for seed in 1..5 {
            assert_eq!(interleaving(seed).unwrap().0, interleaving(seed).unwrap().0);
        }
    }
}
