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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record(event_name: &str, sort_key: &str, image: Value) -> Value {
        json!({
            "eventName": event_name,
            "dynamodb": {"Keys": {"PK": {"S": "E"}, "SK": {"S": sort_key}}, "NewImage": image, "SequenceNumber": "111"},
        })
    }

    fn image() -> Value {
        json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "a"}})
    }

    fn parsed(record: &str) -> Parsed {
        let raw = RawValue::from_string(record.to_owned()).unwrap();
        parse(&raw, VersionDigits::default())
    }

    #[test]
    fn inserts_and_modifications_of_the_latest_item_make_a_version() {
        for name in ["INSERT", "MODIFY"] {
            let parsed = parsed(&record(name, "v0", image()).to_string());
            assert_eq!(parsed.sequence_number, SequenceNumber::new("111"));
            let Ok(Record::Version(version)) = parsed.content else {
                panic!("{name}")
            };
            assert_eq!(version.version().get(), 3);
        }
    }

    fn carried(record: &Value) -> Value {
        json!({"kinesis": {"data": BASE64.encode(record.to_string()), "sequenceNumber": "49571"}, "eventName": "aws:kinesis:record"})
    }

    #[test]
    fn kinesis_carries_the_same_records() {
        let mut inner = record("MODIFY", "v0", image());
        inner["dynamodb"].as_object_mut().unwrap().remove("SequenceNumber");
        inner["dynamodb"]["ApproximateCreationDateTime"] = json!(1_604_261_040_123_456_u64);
        for (precision, millis) in [
            (json!("MICROSECOND"), 1_604_261_040_123),
            (json!("MILLISECOND"), 1_604_261_040_123_456),
            (json!(null), 1_604_261_040_123_456),
        ] {
            inner["dynamodb"]["ApproximateCreationDateTimePrecision"] = precision;
            let parsed = parsed(&carried(&inner).to_string());
            assert_eq!(parsed.sequence_number, SequenceNumber::new("49571"));
            assert_eq!(parsed.created.map(EpochMillis::get), Some(millis));
            assert!(matches!(parsed.content, Ok(Record::Version(version)) if version.version().get() == 3));
        }
        for skipped in [record("REMOVE", "v0", image()), record("MODIFY", "v1", image())] {
            assert!(matches!(
                parsed(&carried(&skipped).to_string()).content,
                Ok(Record::Skipped)
            ));
        }
        // What names a record is what Kinesis calls it, also where nothing inside can be read.
        let mut broken = carried(&inner);
        for data in [
            json!("!"),
            json!("/w=="),
            json!("e30="),
            json!("W10="),
            json!(7),
            json!(null),
        ] {
            broken["kinesis"]["data"] = data.clone();
            let parsed = parsed(&broken.to_string());
            assert_eq!(parsed.sequence_number, SequenceNumber::new("49571"), "{data}");
            assert!(parsed.content.is_err(), "{data}");
        }
        // A carrier inside a carrier is no record.
        assert!(parsed(&carried(&carried(&inner)).to_string()).content.is_err());
    }

    #[test]
    fn the_time_of_a_change_is_in_seconds() {
        for (time, millis) in [
            (json!(1_604_261_040), Some(1_604_261_040_000)),
            (json!(1_604_261_040.5), Some(1_604_261_040_500)),
            (json!(1.604_261_04E9), Some(1_604_261_040_000)),
            (json!("x"), None),
            (json!(null), None),
        ] {
            let mut record = record("INSERT", "v0", image());
            record["dynamodb"]["ApproximateCreationDateTime"] = time.clone();
            assert_eq!(
                parsed(&record.to_string()).created.map(EpochMillis::get),
                millis,
                "{time}"
            );
        }
    }

    #[test]
    fn what_the_latest_item_remembers_is_not_looked_at() {
        for remembered in [json!({"M": {"hash": {"N": "3"}}}), json!({"Q": []}), json!(7)] {
            let mut image = image();
            image["RecentRequests"] = remembered.clone();
            let Ok(Record::Version(version)) = parsed(&record("MODIFY", "v0", image).to_string()).content else {
                panic!("{remembered}")
            };
            assert!(!version.item().contains_key("RecentRequests"));
        }
    }

    #[test]
    fn both_ways_to_read_an_image_come_to_the_same() {
        for image in [
            image(),
            json!({}),
            json!({"A\u{1}\"": {"N": "0.10"}, "B": {"B": "Zm9v"}, "C": {"SS": ["a", "b"]}, "D": {"M": {"E": {"NULL": true}}}}),
        ] {
            let raw = RawValue::from_string(image.to_string()).unwrap();
            let fast: Image = serde_json::from_str(raw.get()).unwrap();
            assert_eq!(Item::from(fast.0), image_by_attribute(&raw).unwrap());
        }
    }

    #[test]
    fn all_else_is_skipped() {
        for record in [
            record("INSERT", "v3", image()),
            record("MODIFY", "Metadata", image()),
            record("MODIFY", "v00", image()),
            record("REMOVE", "v0", json!(null)),
            json!({"eventName": "REMOVE", "dynamodb": {"Keys": {"SK": {"S": "v0"}}}}),
            json!({"eventName": "REMOVE", "dynamodb": {}}),
            json!({"eventName": "INSERT", "dynamodb": {"Keys": {"SK": {"N": "0"}}}}),
        ] {
            let content = parsed(&record.to_string()).content;
            assert!(matches!(content, Ok(Record::Skipped)), "{record}");
        }
    }

    #[test]
    fn what_is_not_needed_may_be_absent_or_unknown() {
        let mut odd = record("INSERT", "v0", image());
        odd["dynamodb"]["StreamViewType"] = json!("SOMETHING_NEW");
        odd["dynamodb"]["SizeBytes"] = json!("many");
        odd["dynamodb"]["ApproximateCreationDateTime"] = json!({});
        odd["eventSource"] = json!(7);
        odd["userIdentity"] = json!([]);
        assert!(matches!(parsed(&odd.to_string()).content, Ok(Record::Version(_))));
    }

    #[test]
    fn malformed_records_are_named_one_by_one() {
        let with = |name: &str, value: Value| {
            let mut image = image();
            image[name] = value;
            record("INSERT", "v0", image).to_string()
        };
        let without = |member: &str| {
            let mut record = record("MODIFY", "v0", image());
            record["dynamodb"].as_object_mut().unwrap().remove(member);
            record.to_string()
        };
        let attribute = "the attribute A cannot be read: it is of an unknown type, its value is not of that type, or \
                         it is not valid base64";
        for (record, message) in [
            ("[]".to_owned(), "it is not a stream record"),
            ("7".to_owned(), "it is not a stream record"),
            ("{}".to_owned(), "it is not a stream record"),
            (json!({"dynamodb": 7}).to_string(), "it is not a stream record"),
            (without("Keys"), "its keys are missing"),
            (without("NewImage"), "it has no NewImage"),
            (record("INSERT", "v0", json!(null)).to_string(), "it has no NewImage"),
            (record("INSERT", "v0", json!([])).to_string(), "it has no NewImage"),
            (
                record("UPSERT", "v0", image()).to_string(),
                "its eventName is none of INSERT, MODIFY and REMOVE",
            ),
            (
                with("Latest", json!({"S": "3"})),
                "its NewImage makes no version: Latest is not a number",
            ),
            (
                with("Latest", json!({"N": "3.5"})),
                "its NewImage makes no version: Latest is not a whole number",
            ),
            (
                with("Latest", json!({"N": "0"})),
                "its NewImage makes no version: Latest is below 1",
            ),
            (
                record("INSERT", "v0", json!({"PK": {"S": "E"}})).to_string(),
                "its NewImage makes no version: Latest is missing",
            ),
            (with("A", json!({"Q": "secret"})), attribute),
            (with("A", json!({"B": "secret!"})), attribute),
            (with("A", json!({"L": [{"BS": ["secret!"]}]})), attribute),
            (with("A", json!("secret")), attribute),
        ] {
            let failure = parsed(&record).content.err().unwrap();
            assert_eq!(
                failure.chain(),
                format!("the record is malformed: {message}"),
                "{record}"
            );
            assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
        }
    }

    #[test]
    fn a_sequence_number_is_a_text_that_is_not_empty() {
        for (number, expected) in [
            (json!("7"), SequenceNumber::new("7")),
            (json!(""), None),
            (json!(7), None),
            (json!(null), None),
        ] {
            let mut record = record("INSERT", "v0", image());
            record["dynamodb"]["SequenceNumber"] = number.clone();
            assert_eq!(parsed(&record.to_string()).sequence_number, expected, "{number}");
        }
    }

    proptest! {
        #[test]
        fn no_record_is_too_odd(name in "INSERT|MODIFY|REMOVE|x", keys in any_json(), image in any_json()) {
            let record = json!({"eventName": name, "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": "1"}});
            let _ = parsed(&record.to_string());
            let image = json!({"PK": {"S": "E"}, "Latest": {"N": "1"}, "A": image});
            let _ = parsed(&json!({"eventName": name, "dynamodb": {"Keys": {"SK": {"S": "v0"}}, "NewImage": image}}).to_string());
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i64>().prop_map(|n| json!(n)),
            "\\PC{0,8}".prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let tag = "S|N|B|M|L|SS|NS|BS|BOOL|NULL|PK|SK|Latest|X";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((tag, inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
