//! Parses stream records separately, so that a malformed record fails alone and not with its batch.
//!
//! A batch is split into raw JSON texts first. A record of a Kinesis stream contains the stream record in base64; its sequence
//! number is that of the Kinesis record.

use std::{collections::HashMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Number, Value, value::RawValue};
use shared::domain::{
    AttributeValue, Item, attributes,
    entity::{EntityId, is_reserved},
    keys::{LATEST_KEY, VersionDigits},
    names,
    number::Decimal,
    sequence::SequenceNumber,
    time::EpochMillis,
    version_item::VersionItem,
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
pub fn split(event: &RawValue) -> Result<Vec<&RawValue>, Error> {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(rename = "Records", borrow)]
        records: Vec<&'a RawValue>,
    }
    // The parser also reads members from a list, in their order.
    if !event.get().trim_start().starts_with('{') {
        return Err(Error::InvalidEvent);
    }
    // The message of the parser can contain a part of the event, so it is not a source of the error.
    let batch: Batch = serde_json::from_str(event.get()).map_err(|_| Error::InvalidEvent)?;
    Ok(batch.records)
}

/// Parses a record of a `DynamoDB` stream, or of a Kinesis stream that captures the changes of the table. Only the members in
/// use are read, so members of an unexpected type elsewhere are no error.
pub fn parse(raw: &RawValue, digits: VersionDigits) -> Record {
    let not_a_record = |number| Record::new(number, None, Parsed::malformed(Malformed::NotARecord));
    // The parser accepts the members of a list by their position, too.
    let record = Some(raw.get()).filter(|raw| raw.trim_start().starts_with('{'));
    let Some(record) = record.and_then(|raw| serde_json::from_str::<RawRecord>(raw).ok()) else {
        return not_a_record(None);
    };
    if let Some(kinesis) = record.kinesis {
        let number = sequence_number(kinesis.sequence_number);
        let inner = kinesis.unwrap();
        let inner = inner
            .as_ref()
            .and_then(|inner| serde_json::from_str::<RawRecord>(inner).ok());
        return match inner {
            Some(RawRecord {
                event_name,
                dynamodb: Some(change),
                kinesis: None,
            }) => {
                let parsed = parsed(event_name, &change, digits);
                Record::new(number, change.created_by_kinesis(), parsed)
            }
            _ => not_a_record(number),
        };
    }
    match record.dynamodb {
        None => not_a_record(None),
        Some(change) => {
            let number = sequence_number(change.sequence_number);
            let parsed = parsed(record.event_name, &change, digits);
            Record::new(number, change.created_by_stream(), parsed)
        }
    }
}

/// Decodes the `data` of a Kinesis record to the JSON text of the stream record in it.
pub fn unwrap_kinesis(data: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(data).ok()?).ok()
}

/// Returns a stream record as JSON, also if it is malformed. A record of a Kinesis stream is decoded.
pub fn to_json(raw: &str) -> Value {
    let json: Value = serde_json::from_str(raw).unwrap_or_default();
    let inner = json["kinesis"]["data"].as_str().and_then(unwrap_kinesis);
    let inner = inner.and_then(|inner| serde_json::from_str(&inner).ok());
    inner.unwrap_or(json)
}

/// Returns the table that the stream record in a Kinesis record names. `None` if it is not a Kinesis record.
pub fn kinesis_table(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Origin<'a> {
        #[serde(borrow)]
        table_name: Option<&'a RawValue>,
    }
    let record: RawRecord = serde_json::from_str(raw.get()).ok()?;
    let inner = record.kinesis?.unwrap().unwrap_or_default();
    let origin: Option<Origin> = serde_json::from_str(&inner).ok();
    // Without a table name the record belongs to no table: the empty name matches none.
    Some(origin.and_then(|origin| read(origin.table_name)).unwrap_or_default())
}

impl Record {
    fn new(sequence_number: Option<SequenceNumber>, created_micros: Option<i64>, parsed: Parsed) -> Self {
        let content = parsed.content.map(|content| match content {
            Content::Version(version) => Content::Version(version.with_stream_time(created_micros)),
            Content::Skipped => Content::Skipped,
        });
        Self {
            sequence_number,
            created: created_micros.map(created_millis),
            entity: parsed.entity,
            content: content.map_err(RecordFailure::from),
        }
    }
}

/// Converts microseconds to milliseconds.
pub(crate) fn created_millis(micros: i64) -> EpochMillis {
    EpochMillis::new(micros.div_euclid(1000))
}

pub(crate) fn sequence_number(raw: Option<&RawValue>) -> Option<SequenceNumber> {
    read::<String>(raw).and_then(SequenceNumber::new)
}

#[derive(Deserialize)]
struct RawRecord<'a> {
    #[serde(rename = "eventName", borrow)]
    event_name: Option<&'a RawValue>,
    #[serde(borrow)]
    dynamodb: Option<RawChange<'a>>,
    #[serde(borrow)]
    kinesis: Option<RawKinesis<'a>>,
}

/// The envelope that Kinesis adds. The stream record inside has no sequence number.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawKinesis<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
}

impl RawKinesis<'_> {
    fn unwrap(&self) -> Option<String> {
        unwrap_kinesis(&read::<String>(self.data)?)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawChange<'a> {
    #[serde(borrow)]
    keys: Option<&'a RawValue>,
    #[serde(borrow)]
    new_image: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
    #[serde(borrow)]
    approximate_creation_date_time: Option<&'a RawValue>,
    #[serde(borrow)]
    approximate_creation_date_time_precision: Option<&'a RawValue>,
}

impl RawChange<'_> {
    /// A `DynamoDB` stream gives seconds.
    fn created_by_stream(&self) -> Option<i64> {
        created_micros(self.approximate_creation_date_time?, 6)
    }

    /// Kinesis gives milliseconds, or microseconds if the precision says so.
    fn created_by_kinesis(&self) -> Option<i64> {
        let precision: Option<String> = read(self.approximate_creation_date_time_precision);
        let scale = match precision.as_deref() {
            Some("MICROSECOND") => 0,
            _ => 3,
        };
        created_micros(self.approximate_creation_date_time?, scale)
    }
}

/// Reads a time. `scale` is the power of ten that converts the unit to microseconds.
pub(crate) fn created_micros(raw: &RawValue, scale: u32) -> Option<i64> {
    // More digits are truncated.
    const MORE: u32 = 6;
    let created: Number = read(Some(raw))?;
    let scaled = Decimal::parse(&created.to_string()).ok()?.scaled(scale + MORE)?;
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

fn parsed(event_name: Option<&RawValue>, change: &RawChange, digits: VersionDigits) -> Parsed {
    let event_name: Option<String> = read(event_name);
    if event_name.as_deref() == Some("REMOVE") {
        return Parsed {
            entity: None,
            content: Ok(Content::Skipped),
        };
    }
    let Some(keys) = read::<Value>(change.keys) else {
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

fn version(event_name: Option<&str>, change: &RawChange, digits: VersionDigits) -> Result<VersionItem, Malformed> {
    if !matches!(event_name, Some("INSERT" | "MODIFY")) {
        return Err(Malformed::EventName);
    }
    let image = image(change.new_image.ok_or(Malformed::NoNewImage)?)?;
    Ok(VersionItem::from_image(image, digits)?)
}

fn image(raw: &RawValue) -> Result<Item, Malformed> {
    match serde_json::from_str(raw.get()) {
        Ok(Image(image)) => Ok(Item::from(image)),
        Err(_) => image_by_attribute(raw),
    }
}

/// Parses an image with all its attributes.
pub(crate) fn whole_image(raw: &RawValue) -> Result<Item, Malformed> {
    match serde_json::from_str(raw.get()) {
        Ok(image) => Ok(image),
        Err(_) => by_attribute(attributes_of(raw)?),
    }
}

fn attributes_of(raw: &RawValue) -> Result<HashMap<String, &RawValue>, Malformed> {
    serde_json::from_str(raw.get()).map_err(|_| Malformed::NoNewImage)
}

/// The attributes of an image that belong to the version.
struct Image(HashMap<String, AttributeValue>);

impl<'de> Deserialize<'de> for Image {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ImageVisitor)
    }
}

struct ImageVisitor;

impl<'de> Visitor<'de> for ImageVisitor {
    type Value = Image;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an image")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Image, A::Error> {
        // Allocated once: most images have fewer attributes.
        let mut image = HashMap::with_capacity(16);
        while let Some(name) = members.next_key::<String>()? {
            // Usually the largest attribute, and not part of a version.
            if name == names::RECENT_REQUESTS {
                members.next_value::<IgnoredAny>()?;
            } else {
                image.insert(name, members.next_value()?);
            }
        }
        Ok(Image(image))
    }
}

fn image_by_attribute(raw: &RawValue) -> Result<Item, Malformed> {
    let mut attributes = attributes_of(raw)?;
    attributes.remove(names::RECENT_REQUESTS);
    by_attribute(attributes)
}

/// Parses an image attribute by attribute, so that the error names the invalid one.
fn by_attribute(attributes: HashMap<String, &RawValue>) -> Result<Item, Malformed> {
    let attribute = |(name, raw): (String, &RawValue)| -> Result<(String, AttributeValue), Malformed> {
        match attributes::from_dynamodb_json(raw.get()) {
            Ok(value) => Ok((name, value)),
            Err(source) => Err(Malformed::Attribute { name, source }),
        }
    };
    let image: HashMap<_, _> = attributes.into_iter().map(attribute).collect::<Result<_, _>>()?;
    Ok(Item::from(image))
}

pub(crate) fn read<T: for<'de> Deserialize<'de>>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

#[cfg(test)]
mod tests;
