//! Stream records, read one by one: a record that cannot be read does not touch the others.

use std::{collections::HashMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use shared::domain::{
    AttributeValue, Item, attributes, keys::VersionDigits, names, sequence::SequenceNumber, time::EpochMillis,
    version_item::VersionItem,
};

use crate::error::{Error, Malformed, RecordFailure};

/// A record that was told apart from the rest of its batch.
pub struct Parsed {
    /// What names it in the answer.
    pub sequence_number: Option<SequenceNumber>,
    /// When the change was made.
    pub created: Option<EpochMillis>,
    /// What it asks for.
    pub content: Result<Record, RecordFailure>,
}

/// What a record asks for.
#[derive(Debug)]
pub enum Record {
    /// Nothing: the item is not a latest item, or it was removed.
    Skipped,
    /// This version is to be written down.
    Version(VersionItem),
}

/// Splits a batch into its records, unread.
pub fn split(event: &RawValue) -> Result<Vec<&RawValue>, Error> {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(rename = "Records", borrow)]
        records: Vec<&'a RawValue>,
    }
    // The parser's own words can hold a part of the event.
    let batch: Batch = serde_json::from_str(event.get()).map_err(|_| Error::InvalidEvent)?;
    Ok(batch.records)
}

/// Reads one record, of a `DynamoDB` stream or of a Kinesis stream that the table's changes go to. Only what is needed is looked
/// at, so that a member of an unknown kind is no obstacle.
pub fn parse(raw: &RawValue, digits: VersionDigits) -> Parsed {
    let Ok(record) = serde_json::from_str::<RawRecord>(raw.get()) else {
        return Parsed::not_a_record(None);
    };
    if let Some(carried) = record.kinesis {
        let number = sequence_number(carried.sequence_number);
        return match carried.open() {
            Some(inner) => {
                let record = serde_json::from_str::<RawRecord>(&inner).ok();
                let record = record.filter(|record| record.kinesis.is_none());
                let Some(change) = record.as_ref().and_then(|record| record.dynamodb.as_ref()) else {
                    return Parsed::not_a_record(number);
                };
                let event_name = record.as_ref().and_then(|record| record.event_name);
                Parsed::of(number, event_name, change, change.created_by_kinesis(), digits)
            }
            None => Parsed::not_a_record(number),
        };
    }
    match record.dynamodb {
        None => Parsed::not_a_record(None),
        Some(change) => {
            let number = sequence_number(change.sequence_number);
            Parsed::of(number, record.event_name, &change, change.created_by_stream(), digits)
        }
    }
}

/// The table that a record which Kinesis carries says it comes from. `None` for a record of a table's own stream.
pub fn carried_table(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Origin<'a> {
        #[serde(borrow)]
        table_name: Option<&'a RawValue>,
    }
    let record: RawRecord = serde_json::from_str(raw.get()).ok()?;
    let inner = record.kinesis?.open().unwrap_or_default();
    let origin: Option<Origin> = serde_json::from_str(&inner).ok();
    // What names no table names none that could be somebody's.
    Some(origin.and_then(|origin| read(origin.table_name)).unwrap_or_default())
}

impl Parsed {
    fn not_a_record(sequence_number: Option<SequenceNumber>) -> Self {
        Self {
            sequence_number,
            created: None,
            content: Err(Malformed::NotARecord.into()),
        }
    }

    fn of(
        sequence_number: Option<SequenceNumber>,
        event_name: Option<&RawValue>,
        change: &RawChange,
        created: Option<EpochMillis>,
        digits: VersionDigits,
    ) -> Self {
        Self {
            sequence_number,
            created,
            content: content(event_name, change, digits).map_err(RecordFailure::from),
        }
    }
}

fn sequence_number(raw: Option<&RawValue>) -> Option<SequenceNumber> {
    read::<String>(raw).and_then(SequenceNumber::new)
}

#[derive(Deserialize)]
struct RawRecord<'a> {
    #[serde(rename = "eventName", borrow)]
    event_name: Option<&'a RawValue>,
    #[serde(borrow)]
    dynamodb: Option<RawChange<'a>>,
    #[serde(borrow)]
    kinesis: Option<RawCarrier<'a>>,
}

/// What Kinesis puts around a record. Its sequence number is the one that names the record, which has none inside.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCarrier<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
}

impl RawCarrier<'_> {
    fn open(&self) -> Option<String> {
        let data = BASE64.decode(read::<String>(self.data)?).ok()?;
        String::from_utf8(data).ok()
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
    /// In seconds.
    fn created_by_stream(&self) -> Option<EpochMillis> {
        self.created(1000.0)
    }

    /// In milliseconds, unless it says that it is in microseconds.
    fn created_by_kinesis(&self) -> Option<EpochMillis> {
        let precision: Option<String> = read(self.approximate_creation_date_time_precision);
        self.created(match precision.as_deref() {
            Some("MICROSECOND") => 0.001,
            _ => 1.0,
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "a time, for the lag alone")]
    fn created(&self, millis: f64) -> Option<EpochMillis> {
        let created: f64 = read(self.approximate_creation_date_time)?;
        Some(EpochMillis::new((created * millis) as i64))
    }
}

fn content(event_name: Option<&RawValue>, change: &RawChange, digits: VersionDigits) -> Result<Record, Malformed> {
    let event_name: Option<String> = read(event_name);
    if event_name.as_deref() == Some("REMOVE") {
        return Ok(Record::Skipped);
    }
    let keys: Value = read(change.keys).ok_or(Malformed::NoKeys)?;
    let sort_key = keys.get(names::SK).ok_or(Malformed::NoKeys)?;
    // The mapping's filter lets nothing else through. Without this check, a mapping that lost its filter would make
    // versions of versions for ever.
    if sort_key.get("S").and_then(Value::as_str) != Some(digits.latest_key().as_str()) {
        return Ok(Record::Skipped);
    }
    if !matches!(event_name.as_deref(), Some("INSERT" | "MODIFY")) {
        return Err(Malformed::EventName);
    }
    let image = image(change.new_image.ok_or(Malformed::NoNewImage)?)?;
    Ok(Record::Version(VersionItem::from_image(image, digits)?))
}

/// Reads an image.
fn image(raw: &RawValue) -> Result<Item, Malformed> {
    match serde_json::from_str(raw.get()) {
        Ok(Image(image)) => Ok(Item::from(image)),
        Err(_) => image_by_attribute(raw),
    }
}

/// All of an image that becomes a part of a version.
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
        // Grown once: most images have fewer attributes.
        let mut image = HashMap::with_capacity(16);
        while let Some(name) = members.next_key::<String>()? {
            // The largest of all attributes, as a rule, and a part of no version.
            if name == names::RECENT_REQUESTS {
                members.next_value::<IgnoredAny>()?;
            } else {
                image.insert(name, members.next_value()?);
            }
        }
        Ok(Image(image))
    }
}

/// The same attribute by attribute, so that the one at fault can be named.
fn image_by_attribute(raw: &RawValue) -> Result<Item, Malformed> {
    let mut attributes: HashMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| Malformed::NoNewImage)?;
    attributes.remove(names::RECENT_REQUESTS);
    let attribute = |(name, raw): (String, &RawValue)| -> Result<(String, AttributeValue), Malformed> {
        match attributes::from_dynamodb_json(raw.get()) {
            Ok(value) => Ok((name, value)),
            Err(source) => Err(Malformed::Attribute { name, source }),
        }
    };
    let image: HashMap<_, _> = attributes.into_iter().map(attribute).collect::<Result<_, _>>()?;
    Ok(Item::from(image))
}

fn read<T: for<'de> Deserialize<'de>>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

#[cfg(test)]
mod tests;
