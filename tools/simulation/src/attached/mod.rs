//! A schedule of a table that other programs write: stream-fn's code, the mapping and the table in virtual time, with faults.
//!
//! The clients' changes, the records of the stream, and the history before and after a redrive are compared by [`check`].

mod check;
mod reads;

use std::time::Duration;

use local::mapping::filter::Filters;
use serde_json::{Value, json};
use shared::{clock::Deadline, domain::attached, dynamodb::Store};
use stream_fn::HistoryWriter;
use tokio::time::{Instant, sleep_until};

use self::check::{Evidence, IGNORED, KEY};
use crate::{
    caller::{Author, Caller, lock},
    check::{Checked, Violations},
    clock::{Clock, in_virtual_time},
    connector::Connector,
    database::create_table,
    error::SimulationError,
    evidence::Seen,
    functions::{StreamFunction, process},
    mapping::{Bucket, mapping, records_of, settings},
    mutation::Mutation,
    requests::{Items, flat_attached, incompressible},
    schedule::{ChangeKind, HISTORY, Schedule, StepKind, TABLE},
    setup,
    stream::Written,
};

/// Bytes that fit into no version item, also compressed.
const LARGE_BYTES: usize = 409_500;

/// Runs and checks a schedule.
pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Checked, SimulationError> {
    in_virtual_time(schedule.seed, async {
        Box::pin(World::new(schedule, mutation)?.run()).await
    })?
}

struct World<'a> {
    schedule: &'a Schedule,
    connector: Connector,
    clock: Clock,
    bucket: Bucket,
    function: StreamFunction,
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
        let (stream, database) = (&connector.stream, &connector.database);
        let arn = create_table(database, TABLE, &[KEY], Some(view))?;
        stream.open(database, &arn, schedule.settings.shards)?;
        let arn = create_table(database, HISTORY, &["PK", "SK"], Some("NEW_IMAGE"))?;
        stream.open_history(database, &arn)?;
        lock(&connector.plan).reads_stale = schedule.settings.stale_reads;
        let definition = json!({
            "TableName": TABLE, "HistoryTable": HISTORY, "IgnoreAttributes": [IGNORED],
            "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
        });
        let table = attach::parse(&definition.to_string());
        let table = table.map_err(|_| SimulationError::InvalidSetting("attached"))?;
        let client = setup::dynamodb_client(&connector);
        let writer = HistoryWriter::attached(client.clone(), table.clone()).with_clock(clock.of_library());
        Ok(Self {
            schedule,
            function: StreamFunction {
                writer,
                misdeployed: None,
                connector: connector.clone(),
                digits: attached::digits(),
                is_ordered: true,
                seen: Seen::default(),
            },
            connector,
            clock,
            bucket: Bucket::default(),
            store: Store::attached(client, table).with_clock(clock.of_library()),
        })
    }

    async fn run(self) -> Result<Checked, SimulationError> {
        let mut settings = settings(&self.schedule.settings, self.connector.mutations);
        // The records of history are in the stream for the checks only.
        let pattern = json!({"dynamodb": {"Keys": {KEY: {"S": [{"exists": true}]}}}}).to_string();
        settings.filters = Filters::parse([pattern.as_str()]).unwrap_or_default();
        let mapping = mapping(settings, &self.connector, &self.function, &self.bucket, self.clock);
        tokio::select! {
            biased;
            checked = self.observe() => checked,
            () = mapping.run() => Err(SimulationError::MappingEnded),
        }
    }

    /// Carries out the changes, and checks what follows.
    async fn observe(&self) -> Result<Checked, SimulationError> {
        self.write().await;
        self.connector.stop_faults().await;
        let settled = self.connector.settle().await;
        let delivered = self.history()?;
        let documents = lock(&self.bucket.0).kept.clone();
        // Twice: an operator can repeat it.
        for document in documents.iter().chain(&documents) {
            self.redrive(&records_of(document)).await;
        }
        let evidence = Evidence {
            records: self.connector.stream.records(),
            discarded: documents.iter().flat_map(records_of).collect(),
            delivered,
            redriven: self.history()?,
            settled,
        };
        let new_images = self.schedule.settings.new_images;
        let mut violations = check::check(&evidence, new_images);
        // Without old images, a record of which an earlier one is missing can look unchanged.
        if !new_images || evidence.discarded.is_empty() {
            reads::check(&self.store, &evidence.records, &mut violations).await;
            self.deliver_behind_prune(&evidence.records, &mut violations).await?;
        }
        Ok(Checked {
            faults: self.connector.faults(),
            versions: evidence.delivered.len(),
            violations: violations.0,
        })
    }

    async fn write(&self) {
        let started = Instant::now();
        for step in &self.schedule.steps {
            sleep_until(started + Duration::from_millis(step.at)).await;
            let StepKind::Change { item, kind } = step.kind else {
                self.connector.split();
                continue;
            };
            let key = json!({KEY: {"S": format!("i{item}")}});
            let state = |state: u8| json!({"N": state.to_string()});
            let put = |name: &str, attribute, value| {
                let mut item = key.clone();
                (item["State"], item[name]) = (state(value), attribute);
                ("PutItem", json!({"TableName": TABLE, "Item": item}))
            };
            let update = |name: &str, value| {
                let update = json!({
                    "TableName": TABLE, "Key": key, "UpdateExpression": "SET #a = :a",
                    "ExpressionAttributeNames": {"#a": name}, "ExpressionAttributeValues": {":a": state(value)},
                });
                ("UpdateItem", update)
            };
            let (operation, request) = match kind {
                // The name of an attribute of version items.
                ChangeKind::Put(value) => put("RequestId", json!({"S": "of the client"}), value),
                ChangeKind::Large(value) => {
                    let seed = self.schedule.seed.wrapping_add(u64::from(value));
                    put(check::LARGE, json!({"B": incompressible(seed, LARGE_BYTES)}), value)
                }
                ChangeKind::Update(value) => update("State", value),
                ChangeKind::Touch(value) => update(IGNORED, value),
                ChangeKind::Delete => ("DeleteItem", json!({"TableName": TABLE, "Key": key})),
            };
            // A request of a client has no faults: it is known what happened.
            let _ = self.connector.send(operation, request);
        }
    }

    /// Redrives records.
    async fn redrive(&self, records: &[Value]) {
        let writer = HistoryWriter::from_store(self.store.clone());
        let records: Vec<_> = records.iter().map(ToString::to_string).collect();
        let records = records.iter().map(AsRef::as_ref).collect();
        let redriven = writer.process(records, Deadline::after(Duration::from_secs(60)));
        let _ = process(&Caller::new(Author::Redrive), Duration::from_secs(120), redriven).await;
    }

    /// Delivers all records again after histories were pruned: none of them makes a version.
    async fn deliver_behind_prune(
        &self,
        records: &[Written],
        violations: &mut Violations,
    ) -> Result<(), SimulationError> {
        let pruned = reads::prune(&self.store, &self.connector, records).await;
        let before = self.history()?;
        let of_table = |record: &Value| record.pointer(&format!("/dynamodb/Keys/{KEY}")).is_some();
        let records = records.iter().map(|written| written.record.clone());
        self.redrive(&records.filter(of_table).collect::<Vec<_>>()).await;
        if pruned.is_err() || self.history()? != before {
            violations.add::<6>("records of pruned versions are stored again".to_owned());
        }
        Ok(())
    }

    /// Returns the versions of history, with flat attributes.
    fn history(&self) -> Result<Items, SimulationError> {
        let items = self.connector.scan(HISTORY)?.into_iter();
        Ok(items.map(flat_attached).collect::<Result<_, _>>()?)
    }
}
