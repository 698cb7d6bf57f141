//! Parses the stream records of an attached table, in two steps.
//!
//! The [`Header`] has the keys, the place and the time, which group the records of a batch by item. The images are parsed when
//! the record is processed, to limit memory.

use shared::{
    domain::{
        Item,
        attached::{
            AttachedTable,
            change::{Change, NewState, Place, Principal, RecordImage, stream_label},
            key,
        },
        attributes::{self, same_value},
        entity::EntityId,
        erased::Erasures,
        sequence::SequenceNumber,
    },
    json::{self, Members},
};

use crate::{
    error::{Malformed, RecordFailure},
    record::{Record, created_micros, item, sequence_number},
};

/// Parts of a record that are known before its images are parsed: place and keys of the change. The entity is known also if the record is
/// malformed, so that it can be put into the quarantine of the item.
pub(super) type Header = Record<(Place, Item)>;

/// Parses a record except for its images.
pub(super) fn header(table: &AttachedTable, raw: &str) -> Header {
    let Some((record, change)) = raw_record(raw) else {
        return Header::failed(None, Malformed::NotARecord.into());
    };
    let number = sequence_number(&change);
    let keys = change.get("Keys");
    let keys = keys.and_then(|keys| attributes::item_from_dynamodb_json(keys).ok());
    let entity = keys.as_ref().map(|keys| key::of_item(table, keys));
    let content = match (&entity, &keys) {
        (None, _) | (_, None) => Err(Malformed::NoKeys),
        (Some(Err(error)), _) => Err(Malformed::Key(error.clone())),
        (Some(Ok(_)), Some(keys)) => place(&record, number.clone())
            .ok_or(Malformed::NoPlace)
            .map(|place| (place, keys_of(table, keys))),
    };
    Header {
        created_micros: created_micros(&change, false),
        entity: match entity {
            Some(Ok(entity)) => Some(entity),
            _ => keys.as_ref().and_then(key::of_other_keys),
        },
        sequence_number: number,
        table: None,
        content: content.map_err(RecordFailure::from),
        erasures: Erasures::default(),
    }
}

/// Parses the images of a record with this header.
pub(super) fn change(
    raw: &str,
    entity: EntityId,
    created_micros: Option<i64>,
    (place, key): (Place, Item),
) -> Result<Change, Malformed> {
    let (record, change) = raw_record(raw).ok_or(Malformed::NotARecord)?;
    let checked = |raw: Option<&str>| -> Result<Option<Item>, Malformed> {
        let Some(raw) = raw else {
            return Ok(None);
        };
        let image = json::members(raw).map_err(|_| Malformed::NoNewImage)?;
        let image = item(&image, |_| true)?;
        let is_same = |name: &String, value| image.get(name).is_some_and(|other| same_value(value, other));
        match key.iter().all(|(name, value)| is_same(name, value)) {
            true => Ok(Some(image)),
            false => Err(Malformed::ImageKeys),
        }
    };
    let event_name = record.string("eventName");
    let old = checked(change.value("OldImage"))?;
    let new = match event_name.as_deref() {
        Some("INSERT" | "MODIFY") => NewState::Item(checked(change.value("NewImage"))?.ok_or(Malformed::NoNewImage)?),
        Some("REMOVE") => NewState::Deleted(principal(&record)),
        _ => return Err(Malformed::EventName),
    };
    let view = change.string("StreamViewType");
    let has_old_images = match view.as_deref() {
        Some("NEW_AND_OLD_IMAGES") => true,
        Some(_) => false,
        None => old.is_some(),
    };
    Ok(Change {
        entity,
        place,
        created_micros,
        key,
        has_old_images,
        // A new item has no state before.
        old: old.filter(|_| event_name.as_deref() != Some("INSERT")),
        new,
    })
}

/// Returns the members of a record, and those of its change.
fn raw_record(raw: &str) -> Option<(Members<'_>, Members<'_>)> {
    let record = json::members(raw).ok()?;
    let change = json::members(record.get("dynamodb")?).ok()?;
    Some((record, change))
}

fn place(record: &Members, number: Option<SequenceNumber>) -> Option<Place> {
    let arn = record.string("eventSourceARN")?;
    let number = number.filter(|number| number.as_str().bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Place {
        stream: stream_label(&arn)?.to_owned(),
        number,
        image: RecordImage::New,
    })
}

/// Returns the key attributes only.
fn keys_of(table: &AttachedTable, keys: &Item) -> Item {
    let members = table
        .keys()
        .filter_map(|key| Some((key.name.clone(), keys.get(&key.name)?.clone())));
    Item::from(members.collect::<std::collections::HashMap<_, _>>())
}

/// A record of a Kinesis stream has the identity under other names, and is not supported: it has no place.
fn principal(record: &Members) -> Option<Principal> {
    let identity = json::members(record.get("userIdentity")?).ok()?;
    let text = |names: [&str; 2]| names.into_iter().find_map(|name| identity.string(name));
    let principal_id = text(["principalId", "PrincipalId"])?;
    Some(Principal::new(text(["type", "Type"]).as_deref(), principal_id))
}
