//! Reads of the history of an attached table, compared with the records of its stream, and a redelivery behind a prune.

use std::collections::BTreeSet;

use operations::{
    as_of::as_of,
    prune::{
        plan::Keep,
        requests::{plan_prune, raise_floor},
    },
    rate_limit::RateLimiter,
};
use serde_json::{Value, json};
use shared::{
    domain::{Item, attached::key, entity::EntityId, recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
    },
};

use super::check::{KEY, Record, compared, of_items};
use crate::{check::Violation, connector::Connector, schedule::HISTORY, stream::Written};

/// Maximum number of newest versions that the prune keeps.
const MAX_KEPT: u64 = 5;

/// Checks the reads of all items whose records are all in history.
pub(super) async fn check(store: &Store, records: &[Written]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (item, records) in of_items(records) {
        let checked = match entity(store, item) {
            Some(entity) => of_item(store, &entity, &records, &mut violations).await,
            None => Ok(()),
        };
        if let Err(error) = checked {
            violations.push(Violation {
                guarantee: 1,
                description: format!("{item}: {error}"),
            });
        }
    }
    violations
}

async fn of_item(
    store: &Store,
    entity: &EntityId,
    records: &[Record<'_>],
    violations: &mut Vec<Violation>,
) -> Result<(), ReadError> {
    let mut add = |guarantee, description| violations.push(Violation { guarantee, description });
    let Some(history) = store.history(entity, HistoryQuery::default()).await? else {
        return Ok(());
    };
    let history = history.collect().await?;
    for view in &history {
        let single = store.version(entity, view.version, true).await?;
        if single.as_ref() != Some(view) {
            add(2, format!("{} {} has two states", entity.as_str(), view.version));
        }
    }
    let latest = store.latest(entity, true).await?.map(|latest| latest.to_json());
    let last = history.iter().find(|view| !view.is_late()).map(VersionView::to_json);
    if latest != last {
        add(2, format!("{}: the latest version has two states", entity.as_str()));
    }
    let seconds: BTreeSet<_> = records
        .iter()
        .flat_map(|record| [record.created - 1, record.created])
        .collect();
    for second in seconds {
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
            add(
                7,
                format!(
                    "{}: the state at second {second} is not that of {version:?}",
                    entity.as_str()
                ),
            );
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

/// Prunes each history, deletes what expired, and returns the items of the history table afterwards.
pub(super) async fn prune(store: &Store, connector: &Connector, records: &[Written]) -> Result<(), ReadError> {
    for item in of_items(records).into_keys() {
        let Some(entity) = entity(store, item) else { continue };
        let keep = Keep::Newest(connector.draw(|rng| rng.u64(1..=MAX_KEPT)));
        let plan = plan_prune(store, &entity, keep, false, &RateLimiter::unlimited()).await?;
        let Some(plan) = plan.filter(|plan| plan.floor > plan.before) else {
            continue;
        };
        raise_floor(store, &entity, plan.floor).await?;
        for version in (1..plan.floor.get()).filter_map(Version::new) {
            let key = json!({
                "PK": {"S": entity.as_str()}, "SK": {"S": store.digits().version_key(version)},
            });
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
