//! Erasure of values beside the versions: from the current item, from the hashes by which requests are recognized, and from quarantine.

pub mod version;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use shared::{
    config::WriteOptions,
    domain::{
        AttributeValue, Item,
        attached::{AttachedTable, key},
        attributes::n,
        attribution::{OF_CLIENT, ended_names, is_state, resolve_tombstone},
        change::Change,
        entity::EntityId,
        erase::places,
        erased::{Erasures, hide},
        keys::{LATEST_KEY, REQUEST_PREFIX, sort_key_of},
        names,
        quarantine::{MAX_TOGETHER, QuarantinedRecord},
        request_id::RequestId,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key as item_key,
        read::query_items::Range,
        write::{Write, send_together},
    },
};
use stream_fn::redaction::without_erased;
use writer_fn::{
    counter::{
        self, WriteError, WriteOutcome,
        ended_state::removal,
        ledger::PAYLOAD,
        recent_requests::{requests_of, since_all},
    },
    update::Update,
};

use crate::{
    error::OperationError,
    item_change::{ItemOptions, Wanted, change_item, plan_item_change, recorded_version},
    quarantine::quarantined,
    read::attached_items::attached_item,
    waiting::Waiting,
};

/// Maximum number of attempts, if others change the item at the same time.
const ATTEMPTS: u32 = 5;

/// Returns `true` if the current item has a value that is to be erased.
///
/// # Errors
///
/// Returns [`OperationError`] if a request fails.
pub async fn is_current(store: &Store, entity: &EntityId, erasures: &Erasures) -> Result<bool, OperationError> {
    let places = places(erasures, store.attached_table());
    let item = match store.attached_table() {
        Some(table) => attached_item(store, &key_of(table, entity)?).await?,
        None => store.get(entity, LATEST_KEY, true).await?,
    };
    let mut item = item.unwrap_or_default();
    if store.attached_table().is_none()
        && let Ok(version) = latest_of(&item)
    {
        resolve_tombstone(&mut item, version);
    }
    Ok(places.iter().any(|place| is_own_choice(place, &item)))
}

/// Returns `true` if an item has a value at a place, which the next version does not have by itself.
fn is_own_choice(place: &[String], item: &Item) -> bool {
    let is_chosen = OF_CLIENT.contains(&place[0].as_str()) || is_state(&place[0]);
    is_chosen && has(item, place)
}

fn has(map: &HashMap<String, AttributeValue>, names: &[String]) -> bool {
    match (names, names.first().and_then(|name| map.get(name))) {
        ([_], Some(_)) => true,
        ([_, rest @ ..], Some(AttributeValue::M(inner))) => has(inner, rest),
        _ => false,
    }
}

/// Removes values from the current item by a new version, and waits until history has it. Returns `false` if the current item has none of
/// the values, or is a tombstone.
///
/// # Errors
///
/// Returns [`OperationError::NotInHistory`] if history does not have the version in time, or the error of a write.
pub async fn remove_current(
    store: &Store,
    entity: &EntityId,
    erasures: &Erasures,
    (request, options): (RequestId, WriteOptions),
    wait: Duration,
) -> Result<bool, OperationError> {
    let places = places(erasures, store.attached_table());
    let mut waiting = Waiting::at_most(wait);
    if let Some(table) = store.attached_table() {
        let key = key_of(table, entity)?;
        let removed = |item: Option<&Item>| Ok(item.map_or_else(BTreeMap::new, |item| removals(item, &places)));
        if attached_item(store, &key).await?.is_none() {
            return Ok(false);
        }
        let change = plan_item_change(store, key, Wanted::Changed(&removed), &ItemOptions::default()).await?;
        if change.is_unchanged() {
            return Ok(false);
        }
        change_item(store, &change).await?;
        let makes_version = change.makes_version(table);
        while makes_version && !wait.is_zero() && recorded_version(store, entity, &change).await?.is_none() {
            if !waiting.again().await {
                return Err(OperationError::Retryable(
                    "the item is changed, but its history does not have the change yet: run the command again"
                        .to_owned(),
                ));
            }
        }
        return Ok(true);
    }
    let latest = store.get(entity, LATEST_KEY, true).await?.unwrap_or_default();
    let is_deleted = latest.contains_key(names::DELETED);
    if is_deleted || !places.iter().any(|place| is_own_choice(place, &latest)) {
        return Ok(false);
    }
    let mut changes = removals(&latest, &places);
    // Those of the client describe one version: the next one does not have them.
    changes.retain(|name, _| is_state(name));
    let update = Update {
        entity: entity.clone(),
        request_id: request,
        expected: None,
        deleted: false,
        timestamp: None,
        changes,
        request_payload: None,
        sent_at: None,
        sender: None,
        restored_from: None,
        change_set_size: None,
    };
    let version = match counter::write(store, &update, options).await? {
        WriteOutcome::Written { version } => version,
        outcome => {
            let contended = || WriteError::Contended { attempts: 1 }.into();
            return Err(OperationError::of_outcome(outcome).unwrap_or_else(contended));
        }
    };
    while !wait.is_zero() && store.version_item(entity, version, true).await?.is_none() {
        if !waiting.again().await {
            return Err(OperationError::NotInHistory { version });
        }
    }
    Ok(true)
}

/// Returns the changes that remove the values at these places.
fn removals(item: &Item, places: &BTreeSet<Vec<String>>) -> BTreeMap<String, Change> {
    let mut changes = BTreeMap::new();
    // An outer place comes before the places in it.
    for place in places.iter().filter(|place| has(item, place)) {
        let (mut members, mut names) = (&mut changes, place.iter().peekable());
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                members.entry(name.clone()).or_insert(Change::Remove);
                break;
            }
            let inner = members
                .entry(name.clone())
                .or_insert_with(|| Change::Update(BTreeMap::new()));
            let Change::Update(inner) = inner else { break };
            members = inner;
        }
    }
    changes
}

fn key_of(table: &AttachedTable, entity: &EntityId) -> Result<Item, OperationError> {
    Ok(key::attributes(table, entity.as_str())?)
}

/// Removes from the latest item the hashes of requests, as if all requests had left its map, and with `also_state` values from the state of a
/// tombstone. Returns `true` if there were some.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails, or if the item is changed each time that it is read.
pub async fn clean_latest(
    store: &Store,
    entity: &EntityId,
    erasures: &Erasures,
    also_state: bool,
) -> Result<bool, ServiceError> {
    if store.attached_table().is_some() {
        return Ok(false);
    }
    let mut is_changed = false;
    for _ in 0..ATTEMPTS {
        let Some(latest) = store.get(entity, LATEST_KEY, true).await? else {
            return Ok(is_changed);
        };
        let Ok(version) = latest_of(&latest) else {
            return Ok(is_changed);
        };
        let ended = if also_state {
            ended_names(&latest, version)
        } else {
            Vec::new()
        };
        if !ended.is_empty() {
            is_changed |= removal(entity, version, &ended, store.latest_table())
                .send(store.client())
                .await?
                .is_ok();
            continue;
        }
        let stored = store.version_item(entity, version, true).await?;
        let is_erased = stored.is_some_and(|stored| stored.contains_key(names::ERASED));
        let state = match latest.get(names::TOMBSTONE_STATE) {
            Some(AttributeValue::M(old)) if also_state => {
                let mut new = old.clone();
                hide(&mut new, erasures.0.keys());
                (new != *old).then_some((AttributeValue::M(old.clone()), AttributeValue::M(new)))
            }
            _ => None,
        };
        let Some(change) = cleaned(store, &latest, is_erased, state) else {
            return Ok(is_changed);
        };
        let write = Write::update(store.latest_table(), item_key(entity.as_str(), LATEST_KEY), change).without_result();
        // After a lost response, the item is clean.
        is_changed |= write.send(store.client()).await?.is_ok();
    }
    Err(ServiceError::unusable(
        "UpdateItem",
        "did not clean the latest item: others change it",
    ))
}

/// Returns the change of a latest item, `None` if nothing is left to change. The hash of the last update stays if its version has no
/// erased value, because both have to agree.
fn cleaned(
    store: &Store,
    latest: &Item,
    is_erased: bool,
    state: Option<(AttributeValue, AttributeValue)>,
) -> Option<Expression> {
    let number = latest.get(names::LATEST)?;
    let mut change = Expression::default();
    change
        .condition("#latest = :latest")
        .name("#latest", names::LATEST)
        .value(":latest", number.clone().into());
    let mut is_changed = false;
    if requests_of(latest).is_some() {
        let since = since_all(Some(latest), store.now());
        change
            .remove("#recent")
            .set("#dropped = :latest")
            .set("#since = :since")
            .name("#recent", names::RECENT_REQUESTS)
            .name("#dropped", names::REQUESTS_DROPPED)
            .name("#since", names::REQUESTS_SINCE)
            .value(":since", n(since.get()).into());
        is_changed = true;
    }
    if is_erased && latest.contains_key(names::REQUEST_PAYLOAD) {
        change.remove("#payload").name("#payload", names::REQUEST_PAYLOAD);
        is_changed = true;
    }
    if let Some((old, new)) = state {
        change
            .condition("#state = :old")
            .set("#state = :new")
            .name("#state", names::TOMBSTONE_STATE)
            .value(":old", old.into())
            .value(":new", new.into());
        is_changed = true;
    }
    is_changed.then_some(change)
}

/// Removes the hashes of updates from the ledger. Returns their number. The markers still stand for their requests.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn clean_ledger(store: &Store, entity: &EntityId) -> Result<u64, ServiceError> {
    if store.attached_table().is_some() {
        return Ok(0);
    }
    let range = Range {
        from: REQUEST_PREFIX.to_owned(),
        to: "request$".to_owned(),
        ..Range::all_versions(None)
    };
    let mut keys = Vec::new();
    let add = |items: Vec<Item>| {
        let hashed = items.into_iter().filter(|item| item.contains_key(PAYLOAD));
        keys.extend(hashed.filter_map(|item| sort_key_of(&item).map(str::to_owned)));
        true
    };
    store.each_page(entity, range, add).await?;
    let mut cleaned = 0;
    for key in keys {
        let mut change = Expression::default();
        change
            .condition("attribute_exists(#payload)")
            .remove("#payload")
            .name("#payload", PAYLOAD);
        let write = Write::update(store.latest_table(), item_key(entity.as_str(), key), change).without_result();
        cleaned += u64::from(write.send(store.client()).await?.is_ok());
    }
    Ok(cleaned)
}

/// Removes values from the records that an entity has in quarantine. Returns the number of records that had some, with `is_dry` without
/// changing them.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn clean_quarantine(
    store: &Store,
    entity: &EntityId,
    erasures: &Erasures,
    is_dry: bool,
) -> Result<u64, ServiceError> {
    let mut cleaned = 0;
    for old in quarantined(store, entity).await? {
        let record = without_erased(&old.record, erasures, store.attached_table());
        if record == old.record {
            continue;
        }
        let new = QuarantinedRecord { record, ..old.clone() };
        cleaned += u64::from(is_dry || replace_record(store, &old, &new).await?);
    }
    Ok(cleaned)
}

/// Puts a record in the place of another one, unless it was removed from quarantine meanwhile.
async fn replace_record(store: &Store, old: &QuarantinedRecord, new: &QuarantinedRecord) -> Result<bool, ServiceError> {
    let (table, old_keys) = (store.history_table(), old.sort_keys());
    let is_first = |key: Option<&str>| key.is_some_and(|key| old_keys.first().is_some_and(|first| first == key));
    let new_keys = new.sort_keys();
    // The item by which readers find it comes last.
    let puts = new.groups().into_iter().flatten().map(|item| {
        let mut condition = Expression::default();
        if is_first(sort_key_of(&item)) {
            condition.condition("attribute_exists(#pk)").name("#pk", names::PK);
        }
        Write::put(table, item, condition)
    });
    let left = old_keys.iter().filter(|key| !new_keys.contains(key));
    let left = left.map(|key| Write::delete(table, item_key(new.entity.as_str(), key), Expression::default()));
    let mut writes: Vec<_> = puts.chain(left).collect();
    while !writes.is_empty() {
        let together: Vec<_> = writes.drain(..writes.len().min(MAX_TOGETHER)).collect();
        if !send_together(store.client(), together).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
