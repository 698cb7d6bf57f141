//! Parses the stream records of an attached table, in two steps.
//!
//! The [`Header`] has the keys, the place and the time, which group the records of a batch by item. The images are parsed when
//! the record is processed, to limit memory.

use serde::Deserialize;
use serde_json::value::RawValue;
use shared::domain::{
    Item,
    attached::{
        AttachedTable,
        change::{Change, NewState, Place, Principal, RecordImage, stream_label},
        key,
    },
    attributes::same_value,
    entity::EntityId,
    sequence::SequenceNumber,
};

use crate::{
    error::Malformed,
    record::{created_micros, read, sequence_number, whole_image},
};

/// Parts of a record that are known before its images are parsed.
pub(super) struct Header {
    pub(super) sequence_number: Option<SequenceNumber>,
    pub(super) created_micros: Option<i64>,
    /// Item of the record, also if the record is malformed, so that it can be put into the quarantine of the item.
    pub(super) entity: Option<EntityId>,
    /// Place and keys of the change.
    pub(super) content: Result<(Place, Item), Malformed>,
}

/// Parses a record except for its images.
pub(super) fn header(table: &AttachedTable, raw: &RawValue) -> Header {
    let Some((record, change)) = raw_record(raw) else {
        return Header {
            sequence_number: None,
            created_micros: None,
            entity: None,
            content: Err(Malformed::NotARecord),
        };
    };
    let number = sequence_number(change.sequence_number);
    let keys: Option<Item> = read(change.keys);
    let entity = keys.as_ref().map(|keys| key::of_item(table, keys));
    let content = match (&entity, &keys) {
        (None, _) | (_, None) => Err(Malformed::NoKeys),
        (Some(Err(error)), _) => Err(Malformed::Key(error.clone())),
        (Some(Ok(_)), Some(keys)) => place(&record, number.clone())
            .ok_or(Malformed::NoPlace)
            .map(|place| (place, keys_of(table, keys))),
    };
    Header {
        created_micros: change.created.and_then(|created| created_micros(created, 6)),
        entity: match entity {
            Some(Ok(entity)) => Some(entity),
            _ => keys.as_ref().and_then(key::of_other_keys),
        },
        sequence_number: number,
        content,
    }
}

/// Parses the images of a record with this header.
pub(super) fn change(
    raw: &RawValue,
    entity: EntityId,
    created_micros: Option<i64>,
    (place, key): (Place, Item),
) -> Result<Change, Malformed> {
    let (record, change) = raw_record(raw).ok_or(Malformed::NotARecord)?;
    let image = |raw: Option<&RawValue>| -> Result<Option<Item>, Malformed> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            return Ok(None);
        };
        let image = whole_image(raw)?;
        let is_same = |name: &String, value| image.get(name).is_some_and(|other| same_value(value, other));
        match key.iter().all(|(name, value)| is_same(name, value)) {
            true => Ok(Some(image)),
            false => Err(Malformed::ImageKeys),
        }
    };
    let event_name: Option<String> = read(record.event_name);
    let old = image(change.old_image)?;
    let new = match event_name.as_deref() {
        Some("INSERT" | "MODIFY") => NewState::Item(image(change.new_image)?.ok_or(Malformed::NoNewImage)?),
        Some("REMOVE") => NewState::Deleted(principal(record.user_identity)),
        _ => return Err(Malformed::EventName),
    };
    let view: Option<String> = read(change.view_type);
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

fn raw_record(raw: &RawValue) -> Option<(RawRecord<'_>, RawChange<'_>)> {
    // The parser accepts the members of a list by their position, too.
    let text = Some(raw.get()).filter(|raw| raw.trim_start().starts_with('{'))?;
    let mut record: RawRecord = serde_json::from_str(text).ok()?;
    let change = record.dynamodb.take()?;
    let change = Some(change.get()).filter(|change| change.trim_start().starts_with('{'))?;
    Some((record, serde_json::from_str(change).ok()?))
}

fn place(record: &RawRecord, number: Option<SequenceNumber>) -> Option<Place> {
    let arn: String = read(record.source)?;
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

fn principal(raw: Option<&RawValue>) -> Option<Principal> {
    let identity: UserIdentity = read(raw)?;
    Some(Principal::new(identity.kind.as_deref(), identity.principal_id?))
}

/// A record of a Kinesis stream has the identity under other names, and is not supported: it has no place.
#[derive(Deserialize)]
struct UserIdentity {
    #[serde(rename = "type", alias = "Type")]
    kind: Option<String>,
    #[serde(rename = "principalId", alias = "PrincipalId")]
    principal_id: Option<String>,
}

#[derive(Deserialize)]
struct RawRecord<'a> {
    #[serde(rename = "eventName", borrow)]
    event_name: Option<&'a RawValue>,
    #[serde(rename = "eventSourceARN", borrow)]
    source: Option<&'a RawValue>,
    #[serde(rename = "userIdentity", borrow)]
    user_identity: Option<&'a RawValue>,
    #[serde(borrow)]
    dynamodb: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawChange<'a> {
    #[serde(borrow)]
    keys: Option<&'a RawValue>,
    #[serde(borrow)]
    old_image: Option<&'a RawValue>,
    #[serde(borrow)]
    new_image: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
    #[serde(rename = "ApproximateCreationDateTime", borrow)]
    created: Option<&'a RawValue>,
    #[serde(rename = "StreamViewType", borrow)]
    view_type: Option<&'a RawValue>,
}
