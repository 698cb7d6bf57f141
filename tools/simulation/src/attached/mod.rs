//! A schedule of a table that other programs write: stream-fn's code, the mapping and the table in virtual time, with faults.
//!
//! The clients' changes, the records of the stream, and the history before and after a redrive are compared by [`check`].

mod check;
mod draw;
mod reads;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use local::mapping::filter::Filters;
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::attached::{self, AttachedTable},
    dynamodb::Store,
};
use stream_fn::HistoryWriter;
use tokio::time::{Instant, sleep_until};

use self::check::{Evidence, IGNORED, KEY};
pub(crate) use self::draw::{draw, late_records};
use crate::{
    caller::{Author, Caller, lock},
    check::Violation,
    clock::{Clock, in_virtual_time},
    connector::Connector,
    error::SimulationError,
    functions::{StreamFunction, process},
    mapping::{Bucket, mapping, records_of, settings},
    mutation::Mutation,
    requests::flat_attached,
    schedule::{ChangeKind, HISTORY, Schedule, TABLE},
    setup,
    stream::Written,
    upstream::incompressible,
};

/// Bytes that fit into no version item, also compressed.
const LARGE_BYTES: usize = 409_500;

/// Runs a schedule, and returns the faults that occurred and the violations of the guarantees.
pub(crate) fn run(
    schedule: &Schedule,
    mutation: Option<Mutation>,
) -> Result<(BTreeMap<String, u64>, Vec<Violation>), SimulationError> {
    in_virtual_time(schedule.seed, async {
        Box::pin(World::new(schedule, mutation)?.run()).await
    })?
}

struct World<'a> {
    schedule: &'a Schedule,
    connector: Connector,
    clock: Clock,
    bucket: Bucket,
    function: Arc<StreamFunction>,
    store: Store,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let clock = Clock(Instant::now());
        let connector = Connector::new(clock.database()?, schedule.seed, schedule.faults.clone(), mutation);
        // Before the history table, whose definition has other keys.
        let view = match schedule.settings.new_images {
            true => "NEW_IMAGE",
            false => "NEW_AND_OLD_IMAGES",
        };
        let stream = connector.create_table(TABLE, &[KEY], Some(view))?;
        connector.read_stale(schedule.settings.stale_reads);
        connector.open_stream(&stream, schedule.settings.shards)?;
        connector.open_history(&connector.create_table(HISTORY, &["PK", "SK"], Some("NEW_IMAGE"))?)?;
        let client = setup::dynamodb_client(&connector);
        let table = table()?;
        let writer = HistoryWriter::attached(client.clone(), table.clone()).with_clock(clock.shifted(0));
        Ok(Self {
            schedule,
            function: StreamFunction::new(writer, None, connector.clone(), attached::digits(), true),
            connector,
            clock,
            bucket: Bucket::default(),
            store: Store::attached(client, table).with_clock(clock.shifted(0)),
        })
    }

    async fn run(self) -> Result<(BTreeMap<String, u64>, Vec<Violation>), SimulationError> {
        let run = async {
            self.write().await;
            self.connector.stop_faults().await;
            let settled = self.connector.settle().await;
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
                ChangeKind::Put(value) | ChangeKind::Large(value) => {
                    let mut item = key.clone();
                    item["State"] = state(value);
                    if matches!(change.kind, ChangeKind::Put(_)) {
                        // The name of an attribute of version items.
                        item["RequestId"] = json!({"S": "of the client"});
                    } else {
                        let seed = self.schedule.seed.wrapping_add(u64::from(value));
                        item[check::LARGE] = json!({"B": incompressible(seed, LARGE_BYTES)});
                    }
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
        mapping(settings, &self.connector, &self.function, &self.bucket, self.clock)
            .run()
            .await;
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
        let of_table = |record: &Value| record.pointer(&format!("/dynamodb/Keys/{KEY}")).is_some();
        let records = records.iter().map(|written| written.record.clone());
        self.redrive(&records.filter(of_table).collect::<Vec<_>>()).await;
        let again = Violation {
            guarantee: 6,
            description: "records of pruned versions are stored again".to_owned(),
        };
        Ok(match pruned.is_ok() && self.history()? == before {
            true => Vec::new(),
            false => vec![again],
        })
    }

    /// Returns the versions of history, with flat attributes.
    fn history(&self) -> Result<Vec<Value>, SimulationError> {
        let items = self.connector.scan(HISTORY)?.into_iter();
        Ok(items.map(flat_attached).collect::<Result<_, _>>()?)
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
