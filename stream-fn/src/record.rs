//! Parses stream records separately, so that a malformed record fails alone and not with its batch.
//!
//! A batch is split into raw JSON texts first. A record of a Kinesis stream contains the stream record in base64; its sequence
//! number is that of the Kinesis record.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{self, InvalidAttributeValue},
        entity::{EntityId, is_reserved},
        keys::{LATEST_KEY, VersionDigits},
        names,
        number::Decimal,
        sequence::SequenceNumber,
        time::EpochMillis,
        version_item::VersionItem,
    },
    json::{self, InvalidJson, Kind, Members, Reader},
    panics,
};

use crate::error::{Error, Malformed, RecordFailure};

/// A parsed stream record.
pub struct Record {
    /// Number that identifies the record in the response.
    pub sequence_number: Option<SequenceNumber>,
    /// Time of the change.
    pub created: Option<EpochMillis>,
    /// Entity of the item that was written, if the record names a valid one.
    pub entity: Option<EntityId>,
    /// Version that the record contains, if any.
    pub content: Result<Content, RecordFailure>,
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
    let records = json::members(event).ok().and_then(|event| event.get("Records"));
    let records = records.and_then(|records| json::elements(records).ok());
    records.ok_or(Error::InvalidEvent)
}

/// Parses a record of a `DynamoDB` stream, or of a Kinesis stream that captures the changes of the table. Only the members in
/// use are read, so members of an unexpected type elsewhere are no error.
pub fn parse(raw: &str, digits: VersionDigits) -> Record {
    let not_a_record = |number| Record::new(number, None, Parsed::malformed(Malformed::NotARecord));
    let Ok(record) = RawRecord::parse(raw) else {
        return not_a_record(None);
    };
    if let Some(kinesis) = record.kinesis {
        let number = kinesis.string("sequenceNumber").and_then(SequenceNumber::new);
        let inner = unwrapped(&kinesis);
        let inner = inner.as_ref().and_then(|inner| RawRecord::parse(inner).ok());
        return match inner {
            Some(RawRecord {
                event_name,
                change: Some(change),
                kinesis: None,
            }) => {
                let parsed = parsed(event_name, &change, digits);
                Record::new(number, created_by_kinesis(&change), parsed)
            }
            _ => not_a_record(number),
        };
    }
    match record.change {
        None => not_a_record(None),
        Some(change) => {
            let parsed = parsed(record.event_name, &change, digits);
            Record::new(sequence_number(&change), created_by_stream(&change), parsed)
        }
    }
}

/// Parses a record with `parse`. After a panic, it has only its sequence number.
pub(crate) fn caught(raw: &str, parse: impl FnOnce(&str) -> Record) -> Record {
    panics::caught(|| parse(raw)).unwrap_or_else(|panicked| Record {
        sequence_number: number_of(raw),
        created: None,
        entity: None,
        content: Err(panicked.into()),
    })
}

/// Returns the number that identifies a record in the response.
pub(crate) fn number_of(raw: &str) -> Option<SequenceNumber> {
    let record = RawRecord::parse(raw).ok()?;
    match (record.kinesis, record.change) {
        (Some(kinesis), _) => kinesis.string("sequenceNumber").and_then(SequenceNumber::new),
        (None, change) => sequence_number(&change?),
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
    let inner = unwrapped(&kinesis).unwrap_or_default();
    let table = json::members(&inner).ok().and_then(|record| record.string("tableName"));
    // Without a table name the record belongs to no table: the empty name matches none.
    Some(table.unwrap_or_default())
}

impl Record {
    fn new(sequence_number: Option<SequenceNumber>, created_micros: Option<i64>, parsed: Parsed) -> Self {
        let content = parsed.content.map(|content| match content {
            Content::Version(version) => Content::Version(version.with_stream_time(created_micros)),
            Content::Skipped => Content::Skipped,
        });
        Self {
            sequence_number,
            created: created_micros.map(EpochMillis::from_micros),
            entity: parsed.entity,
            content: content.map_err(RecordFailure::from),
        }
    }
}

pub(crate) fn sequence_number(members: &Members) -> Option<SequenceNumber> {
    members.string("SequenceNumber").and_then(SequenceNumber::new)
}

/// The members of a record that are used.
struct RawRecord<'a> {
    event_name: Option<&'a str>,
    change: Option<Members<'a>>,
    /// The envelope that Kinesis adds. The stream record inside has no sequence number.
    kinesis: Option<Members<'a>>,
}

impl<'a> RawRecord<'a> {
    fn parse(text: &'a str) -> Result<Self, InvalidJson> {
        let mut reader = Reader::new(text);
        let (mut event_name, mut change, mut kinesis) = (None, None, None);
        reader.begin_object()?;
        while let Some(name) = reader.next_member()? {
            match &*name {
                "eventName" => event_name = Some(reader.skip()?),
                "dynamodb" => change = read_members(&mut reader)?,
                "kinesis" => kinesis = read_members(&mut reader)?,
                _ => {
                    reader.skip()?;
                }
            }
        }
        reader.end()?;
        Ok(Self {
            event_name,
            change,
            kinesis,
        })
    }
}

/// Reads an object, or `null`.
fn read_members<'a>(reader: &mut Reader<'a>) -> Result<Option<Members<'a>>, InvalidJson> {
    match reader.kind()? {
        Kind::Null => reader.null().map(|()| None),
        _ => Members::read(reader).map(Some),
    }
}

/// Decodes the stream record in a Kinesis record.
fn unwrapped(kinesis: &Members) -> Option<String> {
    unwrap_kinesis(&kinesis.string("data")?)
}

/// A `DynamoDB` stream gives seconds.
fn created_by_stream(change: &Members) -> Option<i64> {
    created_micros(change.get("ApproximateCreationDateTime")?, 6)
}

/// Kinesis gives milliseconds, or microseconds if the precision says so.
fn created_by_kinesis(change: &Members) -> Option<i64> {
    let scale = match change.string("ApproximateCreationDateTimePrecision").as_deref() {
        Some("MICROSECOND") => 0,
        _ => 3,
    };
    created_micros(change.get("ApproximateCreationDateTime")?, scale)
}

/// Reads a time. `scale` is the power of ten that converts the unit to microseconds.
pub(crate) fn created_micros(raw: &str, scale: u32) -> Option<i64> {
    // More digits are truncated.
    const MORE: u32 = 6;
    let scaled = Decimal::parse(json::number(raw)?).ok()?.scaled(scale + MORE)?;
    i64::try_from(scaled / 10u128.pow(MORE)).ok()
}

struct Parsed {
    entity: Option<EntityId>,
    content: Result<Content, Malformed>,
}

impl Parsed {
    fn malformed(why: Malformed) -> Self {
        Self {
            entity: None,
            content: Err(why),
        }
    }
}

fn parsed(event_name: Option<&str>, change: &Members, digits: VersionDigits) -> Parsed {
    let event_name = event_name.and_then(json::string);
    if event_name.as_deref() == Some("REMOVE") {
        return Parsed {
            entity: None,
            content: Ok(Content::Skipped),
        };
    }
    let Some(keys) = change.value("Keys").and_then(|keys| json::parse(keys).ok()) else {
        return Parsed::malformed(Malformed::NoKeys);
    };
    let key = |name: &str| Some(keys.get(name)?.get("S")?.as_str()?.to_owned());
    Parsed {
        entity: key(names::PK).and_then(|key| EntityId::new(key).ok()),
        content: match keys.get(names::SK) {
            None => Err(Malformed::NoKeys),
            // The library's own items are no entity, whatever another program writes beside them.
            Some(_) if key(names::PK).is_some_and(|key| is_reserved(&key)) => Ok(Content::Skipped),
            // The mapping's filter passes only latest items. Without this check, a mapping without the filter would create
            // versions of versions in an endless loop.
            Some(_) if key(names::SK).as_deref() != Some(LATEST_KEY) => Ok(Content::Skipped),
            Some(_) => version(event_name.as_deref(), change, digits).and_then(|version| {
                match key(names::PK).as_deref() == Some(version.entity().as_str()) {
                    true => Ok(Content::Version(version)),
                    false => Err(Malformed::OtherKeys),
                }
            }),
        },
    }
}

fn version(event_name: Option<&str>, change: &Members, digits: VersionDigits) -> Result<VersionItem, Malformed> {
    if !matches!(event_name, Some("INSERT" | "MODIFY")) {
        return Err(Malformed::EventName);
    }
    let image = image(change.value("NewImage").ok_or(Malformed::NoNewImage)?)?;
    Ok(VersionItem::from_image(image, digits)?)
}

fn image(raw: &str) -> Result<Item, Malformed> {
    match image_of(raw) {
        Ok(image) => Ok(image),
        Err(_) => by_attribute(raw, |name| name != names::RECENT_REQUESTS),
    }
}

/// Parses the attributes of an image that belong to the version.
fn image_of(raw: &str) -> Result<Item, InvalidAttributeValue> {
    // Allocated once: most images have fewer attributes.
    let mut image = HashMap::with_capacity(16);
    let mut reader = Reader::new(raw);
    reader.begin_object()?;
    while let Some(name) = reader.next_member()? {
        // Usually the largest attribute, and not part of a version.
        if name == names::RECENT_REQUESTS {
            reader.skip()?;
        } else {
            image.insert(name.into_owned(), attributes::read(&mut reader)?);
        }
    }
    reader.end()?;
    Ok(Item::from(image))
}

/// Parses an image with all its attributes.
pub(crate) fn whole_image(raw: &str) -> Result<Item, Malformed> {
    match attributes::item_from_dynamodb_json(raw) {
        Ok(image) => Ok(image),
        Err(_) => by_attribute(raw, |_| true),
    }
}

/// Parses an image attribute by attribute, so that the error names the invalid one.
fn by_attribute(raw: &str, is_read: impl Fn(&str) -> bool) -> Result<Item, Malformed> {
    let attributes = json::members(raw).map_err(|_| Malformed::NoNewImage)?;
    let attribute = |(name, raw): (&str, &str)| -> Result<(String, AttributeValue), Malformed> {
        let name = name.to_owned();
        match attributes::from_dynamodb_json(raw) {
            Ok(value) => Ok((name, value)),
            Err(source) => Err(Malformed::Attribute { name, source }),
        }
    };
    let image = attributes.iter().filter(|(name, _)| is_read(name)).map(attribute);
    let image: HashMap<_, _> = image.collect::<Result<_, _>>()?;
    Ok(Item::from(image))
}

#[cfg(test)]
mod tests;
