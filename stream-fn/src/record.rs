//! Parses stream records separately, so that a malformed record fails alone and not with its batch.
//!
//! A batch is split into raw JSON texts first. A record of a Kinesis stream contains the stream record in base64; its sequence
//! number is that of the Kinesis record.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;
use shared::{
    domain::{
        AttributeValue, Item, attributes,
        entity::{EntityId, is_reserved},
        erase::erased_version,
        erased::Erasures,
        keys::{LATEST_KEY, VersionDigits},
        names,
        number::Decimal,
        sequence::SequenceNumber,
        time::EpochMillis,
        version_item::VersionItem,
    },
    dynamodb::put::purged::Removed,
    json::{self, InvalidJson, Members, Shape},
    panics,
};

use crate::error::{Error, Malformed, RecordFailure};

/// A parsed stream record.
pub struct Record<C = Content> {
    /// Number that identifies the record in the response.
    pub sequence_number: Option<SequenceNumber>,
    /// Time of the change, in microseconds since 1970.
    pub created_micros: Option<i64>,
    /// Entity of the item that was written, if the record names a valid one.
    pub entity: Option<EntityId>,
    /// Table that a record of a Kinesis stream names.
    pub(crate) table: Option<String>,
    /// Content of the record, or the reason why it has none.
    pub content: Result<C, RecordFailure>,
    /// Erasures of the entity. Their values must not be stored again.
    pub(crate) erasures: Erasures,
}

/// The content of a stream record.
#[derive(Debug)]
pub enum Content {
    /// No version: the item is not a latest item, or it was deleted.
    Skipped,
    /// A version that belongs into history.
    Version(VersionItem),
}

/// Splits a batch into its records, without parsing them.
pub fn split(event: &str) -> Result<Vec<&str>, Error> {
    let records = json::elements_of(event, "Records").ok().flatten();
    records.ok_or(Error::InvalidEvent)
}

/// Parses a record of a `DynamoDB` stream, or of a Kinesis stream that captures the changes of the table. Only the members in
/// use are read, so members of an unexpected type elsewhere are no error.
pub fn parse(raw: &str, digits: VersionDigits) -> Record {
    let Ok(mut record) = RawRecord::parse(raw) else {
        return Record::failed(None, Malformed::NotARecord.into());
    };
    let kinesis = record.kinesis.take();
    let number = kinesis.as_ref().and_then(kinesis_number);
    let inner = kinesis.as_ref().map(|kinesis| unwrapped(kinesis).unwrap_or_default());
    let table = inner.as_ref().and_then(|inner| table_of(inner));
    let record = match &inner {
        Some(inner) => RawRecord::parse(inner).unwrap_or_default(),
        None => record,
    };
    match record {
        RawRecord {
            event_name,
            change: Some(change),
            kinesis: None,
        } => {
            let created_micros = created_micros(&change.members, inner.is_some());
            let number = match inner {
                Some(_) => number,
                None => sequence_number(&change.members),
            };
            let (entity, content) = content(event_name, &change, digits);
            let content = content.map(|version| match version {
                Some(version) => Content::Version(version.with_stream_time(created_micros)),
                None => Content::Skipped,
            });
            Record {
                sequence_number: number,
                created_micros,
                entity,
                table,
                content: content.map_err(RecordFailure::from),
                erasures: Erasures::default(),
            }
        }
        _ => Record::failed(number, Malformed::NotARecord.into()),
    }
}

/// Parses a record with `parse`. After a panic, it has only its sequence number.
pub(crate) fn caught<C>(raw: &str, parse: impl FnOnce(&str) -> Record<C>) -> Record<C> {
    panics::caught(|| parse(raw)).unwrap_or_else(|panicked| Record::failed(number_of(raw), panicked.into()))
}

/// Returns the number that identifies a record in the response.
pub(crate) fn number_of(raw: &str) -> Option<SequenceNumber> {
    let record = RawRecord::parse(raw).ok()?;
    match (record.kinesis, record.change) {
        (Some(kinesis), _) => kinesis_number(&kinesis),
        (None, change) => sequence_number(&change?.members),
    }
}

/// Decodes the `data` of a Kinesis record to the JSON text of the stream record in it.
pub fn unwrap_kinesis(data: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(data).ok()?).ok()
}

/// Returns a stream record as JSON, also if it is malformed. A record of a Kinesis stream is decoded.
pub fn to_json(raw: &str) -> Value {
    let json = json::parse(raw).unwrap_or_default();
    let inner = json["kinesis"]["data"].as_str().and_then(unwrap_kinesis);
    let inner = inner.and_then(|inner| json::parse(&inner).ok());
    inner.unwrap_or(json)
}

/// Returns the table that the stream record in a Kinesis record names. `None` if it is not a Kinesis record.
pub fn kinesis_table(raw: &str) -> Option<String> {
    let kinesis = RawRecord::parse(raw).ok()?.kinesis?;
    // Without a table name the record belongs to no table: the empty name matches none.
    Some(table_of(&unwrapped(&kinesis).unwrap_or_default()).unwrap_or_default())
}

fn table_of(inner: &str) -> Option<String> {
    json::members(inner).ok()?.string("tableName")
}

impl<C> Record<C> {
    /// Returns a record of which only its number is known.
    pub(crate) fn failed(sequence_number: Option<SequenceNumber>, failure: RecordFailure) -> Self {
        Self {
            sequence_number,
            created_micros: None,
            entity: None,
            table: None,
            content: Err(failure),
            erasures: Erasures::default(),
        }
    }

    /// Returns the time of the change.
    pub fn created(&self) -> Option<EpochMillis> {
        self.created_micros.map(EpochMillis::from_micros)
    }
}

impl Record {
    /// Returns the record, skipped if it names another table: a Kinesis stream can have the changes of several.
    pub(crate) fn of_table(mut self, table: Option<&str>) -> Self {
        if table.is_some_and(|table| self.table.as_deref().is_some_and(|named| named != table)) {
            (self.entity, self.content) = (None, Ok(Content::Skipped));
        }
        self
    }

    /// Returns the record without what was erased from its version.
    pub(crate) fn erased(mut self, removed: &Removed) -> Self {
        self.erasures = match (&self.content, &self.entity) {
            (Ok(Content::Version(version)), _) => removed.erasures_of(version),
            (_, Some(entity)) => removed.erasures_of_record(entity, self.created()),
            (_, None) => Erasures::default(),
        };
        self.content = self.content.map(|content| match content {
            Content::Version(version) => Content::Version(erased_version(version, &self.erasures)),
            Content::Skipped => Content::Skipped,
        });
        self
    }

    /// Returns the version that the record contains.
    pub(crate) fn version(&self) -> Option<&VersionItem> {
        match &self.content {
            Ok(Content::Version(version)) => Some(version),
            _ => None,
        }
    }
}

fn kinesis_number(kinesis: &Members) -> Option<SequenceNumber> {
    kinesis.string("sequenceNumber").and_then(SequenceNumber::new)
}

pub(crate) fn sequence_number(members: &Members) -> Option<SequenceNumber> {
    members.string("SequenceNumber").and_then(SequenceNumber::new)
}

/// The members of a record that are used.
#[derive(Default)]
struct RawRecord<'a> {
    event_name: Option<&'a str>,
    change: Option<RawChange<'a>>,
    /// The envelope that Kinesis adds. The stream record inside has no sequence number.
    kinesis: Option<Members<'a>>,
}

struct RawChange<'a> {
    members: Members<'a>,
    /// `None` if it is missing, or is no object.
    new_image: Option<Members<'a>>,
}

impl<'a> RawRecord<'a> {
    fn parse(text: &'a str) -> Result<Self, InvalidJson> {
        const CHANGE: Shape = Shape(&[("NewImage", Shape(&[]))]);
        const RECORD: Shape = Shape(&[("dynamodb", CHANGE), ("kinesis", Shape(&[]))]);

        let Ok(mut record) = json::nested(text, RECORD) else {
            return Self::parse_by_member(text);
        };
        let change = record.take("dynamodb").map(|mut change| RawChange {
            new_image: change.take("NewImage").map(|image| image.members),
            members: change.members,
        });
        let kinesis = record.take("kinesis").map(|kinesis| kinesis.members);
        let event_name = record.members.get("eventName");
        Ok(Self {
            event_name,
            change,
            kinesis,
        })
    }

    /// Parses a record of which a part is no object: the image, which is not needed for the number of the record, or a member that is
    /// replaced by a later one of the same name.
    fn parse_by_member(text: &'a str) -> Result<Self, InvalidJson> {
        let record = json::members(text)?;
        let inner = |name| record.value(name).map(json::members).transpose();
        let change = inner("dynamodb")?.map(|members| RawChange {
            new_image: members.value("NewImage").and_then(|image| json::members(image).ok()),
            members,
        });
        let (event_name, kinesis) = (record.get("eventName"), inner("kinesis")?);
        Ok(Self {
            event_name,
            change,
            kinesis,
        })
    }
}

/// Decodes the stream record in a Kinesis record.
fn unwrapped(kinesis: &Members) -> Option<String> {
    unwrap_kinesis(&kinesis.string("data")?)
}

/// Returns the time of a change in microseconds. A `DynamoDB` stream gives seconds; Kinesis gives milliseconds, or microseconds if the
/// precision says so.
pub(crate) fn created_micros(change: &Members, is_kinesis: bool) -> Option<i64> {
    // More digits are truncated.
    const MORE: u32 = 6;
    let scale = match change.string("ApproximateCreationDateTimePrecision").as_deref() {
        _ if !is_kinesis => 6,
        Some("MICROSECOND") => 0,
        _ => 3,
    };
    let number = Decimal::parse(json::number(change.get("ApproximateCreationDateTime")?)?);
    let scaled = number.ok()?.scaled(scale + MORE)?;
    i64::try_from(scaled / 10u128.pow(MORE)).ok()
}

/// Returns the entity of a change, if it names a valid one, and its version. `None` if it contains no version.
fn content(
    event_name: Option<&str>,
    change: &RawChange,
    digits: VersionDigits,
) -> (Option<EntityId>, Result<Option<VersionItem>, Malformed>) {
    let event_name = event_name.and_then(json::string);
    if event_name.as_deref() == Some("REMOVE") {
        return (None, Ok(None));
    }
    let Some(keys) = change.members.value("Keys").and_then(|keys| json::parse(keys).ok()) else {
        return (None, Err(Malformed::NoKeys));
    };
    let key = |name: &str| keys.get(name)?.get("S")?.as_str();
    let (partition_key, sort_key) = (key(names::PK), key(names::SK));
    let entity = partition_key.and_then(|key| EntityId::new(key).ok());
    if keys.get(names::SK).is_none() {
        return (entity, Err(Malformed::NoKeys));
    }
    // The library's own items are no entity, whatever another program writes beside them. The mapping's filter passes only latest items.
    // Without this check, a mapping without the filter would create versions of versions in an endless loop.
    if partition_key.is_some_and(is_reserved) || sort_key != Some(LATEST_KEY) {
        return (entity, Ok(None));
    }
    let version = version(event_name.as_deref(), change, digits).and_then(|version| {
        match partition_key == Some(version.entity().as_str()) {
            true => Ok(Some(version)),
            false => Err(Malformed::OtherKeys),
        }
    });
    (entity, version)
}

fn version(event_name: Option<&str>, change: &RawChange, digits: VersionDigits) -> Result<VersionItem, Malformed> {
    if !matches!(event_name, Some("INSERT" | "MODIFY")) {
        return Err(Malformed::EventName);
    }
    let image = change.new_image.as_ref().ok_or(Malformed::NoNewImage)?;
    // Usually the largest attribute, and not part of a version.
    let image = item(image, |name| name != names::RECENT_REQUESTS)?;
    Ok(VersionItem::from_image(image, digits)?)
}

/// Parses the attributes of an image that are read. The error names the invalid one.
pub(crate) fn item(image: &Members, is_read: impl Fn(&str) -> bool) -> Result<Item, Malformed> {
    let attribute = |(name, raw): (&str, &str)| -> Result<(String, AttributeValue), Malformed> {
        let name = name.to_owned();
        match attributes::from_dynamodb_json(raw) {
            Ok(value) => Ok((name, value)),
            Err(source) => Err(Malformed::Attribute { name, source }),
        }
    };
    let attributes = image.iter().filter(|(name, _)| is_read(name)).map(attribute);
    let attributes: HashMap<_, _> = attributes.collect::<Result<_, _>>()?;
    Ok(Item::from(attributes))
}

#[cfg(test)]
mod tests;
