//! Reads of the history of an attached table, compared with the records of its stream, and a redelivery behind a prune.

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
    domain::{Item, attached::key, entity::EntityId, recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
};

use super::check::{KEY, Record, compared, of_items};
use crate::{
    check::Violations, connector::Connector, operators::commands::keep_newest, schedule::HISTORY, stream::Written,
};

/// Maximum number of newest versions that the prune keeps.
const MAX_KEPT: u64 = 5;

/// Checks the reads of all items whose records are all in history.
pub(super) async fn check(store: &Store, records: &[Written], violations: &mut Violations) {
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
pub(super) async fn prune(store: &Store, connector: &Connector, records: &[Written]) -> Result<(), OperationError> {
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
