//! A schedule of a table that other programs write: stream-fn's code, the mapping and the table in virtual time, with faults.
//!
//! The clients' changes, the records of the stream, and the history before and after a redrive are compared by [`check`].

mod check;
mod draw;
mod reads;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dynoxide::Database;
use local::mapping::{Counters, Environment, Identity, Mapping, filter::Filters};
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::attached::{self, AttachedTable},
    dynamodb::Store,
};
use stream_fn::HistoryWriter;
use tokio::time::{Instant, sleep, sleep_until};

use self::check::{Evidence, IGNORED, KEY};
pub(crate) use self::draw::{draw, late_records};
use crate::{
    caller::{Author, Caller, lock},
    check::Violation,
    clock::Clock,
    connector::Connector,
    deployment::Misdeployed,
    error::SimulationError,
    functions::{StreamFunction, StreamInvoker, process},
    mapping::{Bucket, FaultySource, KeptPositions, records_of, settings},
    mutation::Mutation,
    requests::flat_attached,
    schedule::{ChangeKind, HISTORY, Schedule, TABLE},
    setup,
    stream::Written,
    upstream::incompressible,
};

/// Bytes that fit into no version item, also compressed.
const LARGE_BYTES: usize = 409_500;
const SETTLE_TIMEOUT: Duration = Duration::from_secs(26 * 3600);

struct Simulated;

impl Environment for Simulated {
    type Source = FaultySource;
    type Invoker = StreamInvoker;
    type Destination = Bucket;
    type Positions = KeptPositions;
    type Clock = Clock;
}

/// Runs a schedule, and returns the faults that occurred and the violations of the guarantees.
pub(crate) fn run(
    schedule: &Schedule,
    mutation: Option<Mutation>,
) -> Result<(BTreeMap<String, u64>, Vec<Violation>), SimulationError> {
    fastrand::seed(schedule.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(SimulationError::Runtime)?;
    runtime.block_on(async { Box::pin(World::new(schedule, mutation)?.run()).await })
}

struct World<'a> {
    schedule: &'a Schedule,
    connector: Connector,
    clock: Clock,
    stream_arn: String,
    bucket: Bucket,
    function: Arc<StreamFunction>,
    store: Store,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let clock = Clock(Instant::now());
        let database = Database::memory_with_clock(Arc::new(clock)).map_err(SimulationError::OpenDatabase)?;
        let connector = Connector::new(database, schedule.seed, schedule.faults.clone(), mutation);
        // Before the history table, whose definition has other keys.
        let view = match schedule.settings.new_images {
            true => "NEW_IMAGE",
            false => "NEW_AND_OLD_IMAGES",
        };
        let stream_arn = create(&connector, TABLE, &[KEY], view)?;
        connector.read_stale(schedule.settings.stale_reads);
        connector.open_stream(&stream_arn, schedule.settings.shards)?;
        let history = create(&connector, HISTORY, &["PK", "SK"], "NEW_IMAGE")?;
        connector.open_history(&history)?;
        let client = setup::dynamodb_client(&connector);
        let table = table()?;
        let writer = HistoryWriter::attached(client.clone(), table.clone()).with_clock(clock.shifted(0));
        Ok(Self {
            schedule,
            function: StreamFunction::attached(
                writer.clone(),
                // It has no layout.
                Misdeployed {
                    width: writer.clone(),
                    history: writer,
                },
                connector.clone(),
                attached::digits(),
            ),
            connector,
            clock,
            stream_arn,
            bucket: Bucket::default(),
            store: Store::attached(client, table).with_clock(clock.shifted(0)),
        })
    }

    async fn run(self) -> Result<(BTreeMap<String, u64>, Vec<Violation>), SimulationError> {
        let run = async {
            self.write().await;
            self.connector.stop_faults();
            self.connector.finish_late().await;
            let settled = self.settle().await;
            let delivered = self.history()?;
            let documents = lock(&self.bucket.0).kept.clone();
            let discarded: Vec<_> = documents.iter().flat_map(records_of).collect();
            // Twice: an operator can repeat it.
            for document in documents.iter().chain(&documents) {
                self.redrive(&records_of(document)).await;
            }
            let evidence = Evidence {
                records: self.connector.stream().records(),
                discarded,
                delivered,
                redriven: self.history()?,
                settled,
            };
            let new_images = self.schedule.settings.new_images;
            let mut violations = check::check(&evidence, new_images);
            // Without old images, a record of which an earlier one is missing can look unchanged.
            if !new_images || evidence.discarded.is_empty() {
                violations.extend(reads::check(&self.store, &evidence.records).await);
                violations.extend(self.deliver_behind_prune(&evidence.records).await?);
            }
            Ok((self.connector.faults(), violations))
        };
        tokio::select! {
            biased;
            evidence = run => evidence,
            () = self.run_mapping() => Err(SimulationError::MappingEnded),
        }
    }

    async fn write(&self) {
        let started = Instant::now();
        for change in &self.schedule.attached {
            sleep_until(started + Duration::from_millis(change.at)).await;
            let key = json!({KEY: {"S": format!("i{}", change.item)}});
            let state = |state: u8| json!({"N": state.to_string()});
            let update = |name: &str, value| {
                json!({
                    "TableName": TABLE, "Key": key, "UpdateExpression": "SET #a = :a",
                    "ExpressionAttributeNames": {"#a": name}, "ExpressionAttributeValues": {":a": value},
                })
            };
            let (operation, request) = match change.kind {
                ChangeKind::Put(value) => {
                    let mut item = key.clone();
                    item["State"] = state(value);
                    // The name of an attribute of version items.
                    item["RequestId"] = json!({"S": "of the client"});
                    ("PutItem", json!({"TableName": TABLE, "Item": item}))
                }
                ChangeKind::Large(value) => {
                    let mut item = key.clone();
                    item["State"] = state(value);
                    item[check::LARGE] =
                        json!({"B": incompressible(self.schedule.seed.wrapping_add(u64::from(value)), LARGE_BYTES)});
                    ("PutItem", json!({"TableName": TABLE, "Item": item}))
                }
                ChangeKind::Update(value) => ("UpdateItem", update("State", state(value))),
                ChangeKind::Touch(value) => ("UpdateItem", update(IGNORED, state(value))),
                ChangeKind::Delete => ("DeleteItem", json!({"TableName": TABLE, "Key": key})),
                ChangeKind::Split => {
                    self.connector.split();
                    continue;
                }
            };
            // A request of a client has no faults: it is known what happened.
            let _ = self.connector.send(operation, request);
        }
    }

    async fn run_mapping(&self) {
        let mut settings = settings(&self.schedule.settings, self.connector.mutation());
        // The records of history are in the stream for the checks only.
        let pattern = json!({"dynamodb": {"Keys": {KEY: {"S": [{"exists": true}]}}}}).to_string();
        settings.filters = Filters::parse([pattern.as_str()]).unwrap_or_default();
        let mapping = Mapping::<Simulated> {
            settings,
            identity: Identity {
                uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
                function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                stream_arn: self.stream_arn.clone(),
            },
            source: FaultySource {
                connector: self.connector.clone(),
                clock: self.clock,
            },
            invoker: StreamInvoker(Arc::clone(&self.function)),
            destination: self.bucket.clone(),
            positions: KeptPositions(self.connector.stream().clone()),
            clock: self.clock,
            counters: Counters::default(),
        };
        mapping.run().await;
    }

    /// Waits until the mapping reached the end of the stream. `false` if it did not in time.
    async fn settle(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < SETTLE_TIMEOUT {
            if self.connector.stream().is_done() {
                return true;
            }
            sleep(Duration::from_millis(250)).await;
        }
        false
    }

    /// Redrives records.
    async fn redrive(&self, records: &[Value]) {
        let writer = HistoryWriter::from_store(self.store.clone());
        let records: Vec<_> = records.iter().map(ToString::to_string).collect();
        let records = records.iter().map(AsRef::as_ref).collect();
        let deadline = Deadline::after(Duration::from_secs(60));
        let redriven = writer.process(records, deadline);
        process(&Caller::new(Author::Redrive), Duration::from_secs(120), redriven).await;
    }

    /// Delivers all records again after histories were pruned: none of them makes a version.
    async fn deliver_behind_prune(&self, records: &[Written]) -> Result<Vec<Violation>, SimulationError> {
        let pruned = reads::prune(&self.store, &self.connector, records).await;
        let before = self.history()?;
        let of_table = |record: &&Value| record.pointer(&format!("/dynamodb/Keys/{KEY}")).is_some();
        let records: Vec<_> = records
            .iter()
            .map(|written| &written.record)
            .filter(of_table)
            .cloned()
            .collect();
        self.redrive(&records).await;
        let is_same = pruned.is_ok() && self.history()? == before;
        Ok(if is_same {
            Vec::new()
        } else {
            vec![Violation {
                guarantee: 6,
                description: "records of pruned versions are stored again".to_owned(),
            }]
        })
    }

    /// Returns the versions of history, with flat attributes.
    fn history(&self) -> Result<Vec<Value>, SimulationError> {
        let (mut items, mut request) = (Vec::new(), json!({"TableName": HISTORY}));
        loop {
            let scanned = self.connector.send("Scan", request.clone())?;
            let page = scanned["Items"].as_array().into_iter().flatten();
            for item in page {
                items.push(flat_attached(item.clone())?);
            }
            match scanned.get("LastEvaluatedKey").filter(|key| !key.is_null()) {
                Some(key) => request["ExclusiveStartKey"] = key.clone(),
                None => return Ok(items),
            }
        }
    }
}

fn table() -> Result<AttachedTable, SimulationError> {
    let definition = json!({
        "TableName": TABLE, "HistoryTable": HISTORY, "IgnoreAttributes": [IGNORED],
        "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
    });
    AttachedTable::parse(&definition.to_string()).map_err(|_| SimulationError::InvalidSetting("attached"))
}

/// Creates a table with a stream, and returns the ARN of the stream.
fn create(connector: &Connector, name: &str, keys: &[&str], view: &str) -> Result<String, SimulationError> {
    let roles = keys.iter().zip(["HASH", "RANGE"]);
    let definitions = keys
        .iter()
        .map(|key| json!({"AttributeName": key, "AttributeType": "S"}));
    let created = connector.send(
        "CreateTable",
        json!({
            "TableName": name, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": definitions.collect::<Vec<_>>(),
            "KeySchema": roles.map(|(key, role)| json!({"AttributeName": key, "KeyType": role})).collect::<Vec<_>>(),
            "StreamSpecification": {"StreamEnabled": true, "StreamViewType": view},
        }),
    )?;
    let arn = created["TableDescription"]["LatestStreamArn"].as_str();
    Ok(arn.ok_or(SimulationError::NoStream)?.to_owned())
}
