//! The parser of updates.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::{
    config::Ordering,
    domain::{
        change::Change, entity::MAX_ENTITY_ID_BYTES, keys::VersionDigits, names, plain, recorded_at::RecordedAt,
        request_id::MAX_REQUEST_ID_BYTES, size, time::EpochMillis, version_item::VersionItem,
    },
    json,
    logging::chain,
};
use writer_fn::{
    counter::{decision::apply, stamp::Stamp},
    update::{
        EXPECTED_VERSION, ExpectedVersion, ID, REQUEST_SENT_AT, RESERVED, TYPED_VALUES, Update,
        nested::UPDATE,
        sent_at::{self, MAX_CLOCK_DIFFERENCE, SentAt},
    },
};

use crate::errors;

/// Parses the input as an update. The first byte selects the ordering. The serialization of the update must parse to the same
/// update, and its version item must not exceed the maximum item size.
pub fn update(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let ordering = if first % 2 == 0 {
        Ordering::Arrival
    } else {
        Ordering::Time
    };
    let Ok(json) = json::parse_bytes(rest) else {
        return;
    };
    let names = errors::names(&json);
    match Update::parse(json, "carrier", ordering) {
        Ok(update) => check(&update, ordering),
        Err(error) => errors::check(&error, &names),
    }
}

pub(crate) fn check(update: &Update, ordering: Ordering) {
    assert!((1..=MAX_ENTITY_ID_BYTES).contains(&update.entity.as_str().len()));
    assert!((1..=MAX_REQUEST_ID_BYTES).contains(&update.request_id.as_str().len()));
    assert!(
        RESERVED.iter().all(|name| !update.changes.contains_key(*name)),
        "a reserved name"
    );
    assert_eq!(update.timestamp.is_some(), ordering == Ordering::Time);
    let again = Update::parse(serialize(update), "another", ordering);
    let mut again = again.unwrap_or_else(|error| panic!("the serialized update is rejected: {}", chain(&error)));
    // It comes from the envelopes.
    again.sender.clone_from(&update.sender);
    let earliest = |update: &Update| update.sent_at.map(|sent| sent.earliest);
    assert_eq!(earliest(&again), earliest(update), "another time");
    again.sent_at = update.sent_at;
    // That of a change set is one of several.
    let is_alone = update.change_set_size.is_none();
    assert!(
        !is_alone || again == *update,
        "the serialized update parses to a different one"
    );
    let digits = VersionDigits::default();
    let stamp = Stamp::At(RecordedAt::since_epoch(std::time::Duration::ZERO));
    let image = apply(update, None, &stamp).unwrap_or_else(|error| panic!("{error}"));
    let version = VersionItem::from_image(image, digits).unwrap_or_else(|error| panic!("{error}"));
    // The parser may count `Deleted` and `Timestamp` twice.
    let bytes = size::of_item(version.item());
    assert!(bytes <= size::MAX_ITEM_BYTES + 64, "a version item of {bytes} bytes");
}

fn serialize(update: &Update) -> Value {
    // The reverse of `SentAt::since`.
    let sent_at = |sent: SentAt| sent_at::after(sent.earliest, 2 * MAX_CLOCK_DIFFERENCE);
    let mut members = serialize_changes(&update.changes);
    for (name, member) in [
        (ID, json!(update.entity.as_str())),
        (names::REQUEST_ID, json!(update.request_id.as_str())),
        (EXPECTED_VERSION, json!(update.expected.map(ExpectedVersion::number))),
        (names::DELETED, json!(update.deleted)),
        (names::TIMESTAMP, json!(update.timestamp.map(EpochMillis::get))),
        (
            REQUEST_SENT_AT,
            json!(update.sent_at.map(sent_at).map(EpochMillis::get)),
        ),
        // As of an operator, for the types that JSON does not have.
        (TYPED_VALUES, json!(true)),
    ] {
        if !member.is_null() {
            members.insert(name.to_owned(), member);
        }
    }
    Value::Object(members)
}

fn serialize_changes(changes: &BTreeMap<String, Change>) -> Map<String, Value> {
    let serialize = |change: &Change| match change {
        Change::Set(value) => plain::attribute(value),
        Change::Remove => Value::Null,
        Change::Update(members) => json!({UPDATE: serialize_changes(members)}),
    };
    changes
        .iter()
        .map(|(name, change)| (name.clone(), serialize(change)))
        .collect()
}
