//! The changes of an attached table, and what follows from them: the records of its stream, its history before and after a redrive,
//! and reads of it.

use std::{collections::BTreeSet, time::Duration};

use operations::{
    as_of::as_of,
    error::OperationError,
    prune::{EntityPrune, requests::raise_floor},
    rate_limit::RateLimiter,
    read::history::{History, HistoryQuery},
};
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::{Item, attached::key, entity::EntityId, recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
};
use stream_fn::{HistoryWriter, Purpose};

use crate::{
    attached::{Record, compared, of_items},
    caller::{Author, Caller, lock},
    connector::Connector,
    error::SimulationError,
    evidence::Violations,
    functions::process,
    mapping::records_of,
    operators::commands::keep_newest,
    requests::{Items, incompressible, text},
    schedule::{AUTHOR, ChangeKind, HISTORY, IGNORED, KEY, LARGE, TABLE, WORKED},
    stream::Written,
    world::World,
};

/// Bytes that fit into no version item, also compressed.
const LARGE_BYTES: usize = 409_500;
/// Maximum number of newest versions that the prune keeps.
const MAX_KEPT: u64 = 5;

impl World {
    /// A client changes an item. Its request has no faults: it is known what happened.
    pub(crate) fn change(&self, item: u8, kind: ChangeKind) {
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
                put(LARGE, json!({"B": incompressible(seed, LARGE_BYTES)}), value)
            }
            ChangeKind::Update(value) => update("State", value),
            ChangeKind::Touch(value) => update(IGNORED, value),
            ChangeKind::Set { attribute, value } => update(WORKED[attribute], value),
            ChangeKind::Work { set, attribute, value } => {
                let [by, job, rev] = AUTHOR;
                let mut work = json!({
                    "TableName": TABLE, "Key": key,
                    "UpdateExpression": format!("SET #a = :a, {by} = :by, #s = if_not_exists(#s, :zero)"),
                    "ExpressionAttributeNames": {"#a": WORKED[attribute], "#s": "State"},
                    "ExpressionAttributeValues": {
                        ":a": {"S": format!("text-{value}")}, ":by": {"S": "clerk"}, ":zero": state(0), ":one": state(1),
                    },
                });
                if set > 0 {
                    work["ExpressionAttributeValues"][":by"] = json!({"S": "job"});
                    work["ExpressionAttributeValues"][":job"] = json!({"S": format!("job-{set}")});
                }
                let job = if set > 0 {
                    format!(", {job} = :job")
                } else {
                    String::new()
                };
                let expression = text(&work, "/UpdateExpression");
                work["UpdateExpression"] = json!(format!("{expression}{job} ADD {rev} :one"));
                ("UpdateItem", work)
            }
            ChangeKind::Delete => ("DeleteItem", json!({"TableName": TABLE, "Key": key})),
        };
        let _ = self.connector.send(operation, request);
    }

    /// Waits until the mapping has read everything, redrives what was discarded, and notes what can be observed. Returns the records
    /// until then.
    pub(super) async fn observe_attached(&self) -> Result<Vec<Written>, SimulationError> {
        let settled = self.connector.settle().await;
        let items = self.attached_history()?;
        let documents = lock(&self.bucket.0).kept.clone();
        // Twice: an operator can repeat it.
        for document in documents.iter().chain(&documents) {
            self.redrive_attached(&records_of(document)).await;
        }
        let (records, recovered) = (self.connector.stream.records(), self.attached_history()?);
        let mut found = Violations::default();
        // Without old images, a record of which an earlier one is missing can look unchanged.
        if !self.schedule.settings.new_images || documents.is_empty() {
            check_reads(&self.store, &records, &mut found).await;
            // All records are delivered again after histories were pruned: none of them makes a version.
            let pruned = prune(&self.store, &self.connector, &records).await;
            let before = self.attached_history()?;
            let of_table = |record: &Value| record.pointer(&format!("/dynamodb/Keys/{KEY}")).is_some();
            let delivered = records.iter().map(|written| written.record.clone());
            self.redrive_attached(&delivered.filter(of_table).collect::<Vec<_>>())
                .await;
            if pruned.is_err() || self.attached_history()? != before {
                found.add::<6>("records of pruned versions are stored again".to_owned());
            }
        }
        let mut seen = lock(&self.seen);
        (seen.settled, seen.items, seen.recovered) = (settled, items, recovered);
        (seen.documents, seen.found) = (documents, found);
        Ok(records)
    }

    async fn redrive_attached(&self, records: &[Value]) {
        let writer = HistoryWriter::from_store(self.store.clone(), Purpose::Redrive);
        let records: Vec<_> = records.iter().map(ToString::to_string).collect();
        let records = records.iter().map(AsRef::as_ref).collect();
        let redriven = writer.process(records, Deadline::after(Duration::from_secs(60)));
        let _ = process(&Caller::new(Author::Redrive), Duration::from_secs(120), redriven).await;
    }

    /// Returns the versions of history, with flat attributes.
    fn attached_history(&self) -> Result<Items, SimulationError> {
        let flat = |item| serde_json::to_value(shared::domain::attached::item::flat(serde_json::from_value(item)?));
        let items = self.connector.scan(HISTORY)?.into_iter();
        Ok(items.map(flat).collect::<Result<_, _>>()?)
    }
}

/// Checks the reads of all items whose records are all in history.
async fn check_reads(store: &Store, records: &[Written], violations: &mut Violations) {
    for (item, records) in of_items(records) {
        let Some(entity) = entity(store, item) else { continue };
        if let Err(error) = of_item(store, &entity, &records, violations).await {
            violations.add::<1>(format!("{item}: {error}"));
        }
    }
}

async fn of_item(
    store: &Store,
    entity: &EntityId,
    records: &[Record<'_>],
    violations: &mut Violations,
) -> Result<(), ReadError> {
    let Some(history) = History::read(store, entity, HistoryQuery::default()).await? else {
        return Ok(());
    };
    let (history, name) = (history.collect().await?, entity.as_str());
    for view in &history {
        let single = store.version(entity, view.version, true).await?;
        if single.as_ref() != Some(view) {
            violations.add::<2>(format!("{name} {} has two states", view.version));
        }
    }
    let latest = store.latest(entity, true).await?.map(|latest| latest.to_json());
    let last = history.iter().find(|view| !view.is_late()).map(VersionView::to_json);
    if latest != last {
        violations.add::<2>(format!("{name}: the latest version has two states"));
    }
    let seconds = records.iter().flat_map(|record| [record.created - 1, record.created]);
    for second in seconds.collect::<BTreeSet<_>>() {
        let end = i64::try_from(second * 1_000_000 + 999_999).unwrap_or_default();
        let end = RecordedAt::of_stream_record(end, Version::FIRST);
        let found = as_of(store, entity, end, false).await?;
        let expected = records.iter().take_while(|record| record.created <= second).last();
        let is_same = match (&found, expected) {
            (None, None) => true,
            (Some(found), Some(record)) => is_state(found, record.new.as_ref()),
            _ => false,
        };
        if !is_same {
            let version = found.map(|found| found.version);
            violations.add::<7>(format!(
                "{name}: the state at second {second} is not that of {version:?}"
            ));
        }
    }
    Ok(())
}

/// Returns `true` if a version shows this state, `None` if the item was deleted.
fn is_state(view: &VersionView, state: Option<&Value>) -> bool {
    let shown = || serde_json::to_value(&view.attributes).unwrap_or_default();
    match state {
        None => view.deleted,
        Some(_) if view.is_omitted() => true,
        Some(state) => !view.deleted && compared(state) == compared(&shown()),
    }
}

/// Prunes each history, and deletes what expired.
async fn prune(store: &Store, connector: &Connector, records: &[Written]) -> Result<(), OperationError> {
    for item in of_items(records).into_keys() {
        let Some(entity) = entity(store, item) else { continue };
        let options = keep_newest(connector.draw(|rng| rng.u64(1..=MAX_KEPT)), Duration::ZERO);
        let plan = match EntityPrune::plan(store, entity.as_str(), options, &RateLimiter::unlimited()).await {
            Ok(prune) if prune.plan.floor > prune.plan.before => prune.plan,
            Ok(_) | Err(OperationError::NoEntity(_)) => continue,
            Err(error) => return Err(error),
        };
        raise_floor(store, &entity, plan.floor).await?;
        for key in store.digits().version_keys(1..plan.floor.get()) {
            let key = json!({"PK": {"S": entity.as_str()}, "SK": {"S": key}});
            // As DynamoDB deletes an item that has expired.
            let _ = connector.send("DeleteItem", json!({"TableName": HISTORY, "Key": key}));
        }
    }
    Ok(())
}

fn entity(store: &Store, item: &str) -> Option<EntityId> {
    let attributes: Item = serde_json::from_value(json!({KEY: {"S": item}})).ok()?;
    key::of_item(store.attached_table()?, &attributes).ok()
}
