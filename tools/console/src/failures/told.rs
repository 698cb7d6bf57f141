//! What a failure document says, for the eye and for programs.

use operations::{
    failures::document::{Batch, Context},
    redrive::Entry,
};
use serde_json::{Value, json, value::RawValue};
use shared::domain::{
    Item, keys::VersionDigits, names, plain, sequence::SequenceNumber, time::EpochMillis, version::Version,
};
use stream_fn::{
    error::RecordFailure,
    record::{self, Content, unwrap_kinesis},
    response::{Outcome as StreamOutcome, ProcessedRecord},
};

use crate::time;

/// A document, or what should be one.
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) document: Result<Document, String>,
}

/// What a document says.
pub(crate) struct Document {
    pub(crate) context: Context,
    pub(crate) batch: Option<Batch>,
    /// How many records it has, or how many it points to.
    pub(crate) size: u64,
    /// Whether it has them itself.
    pub(crate) has_records: bool,
    /// Some of them.
    pub(crate) records: Vec<TheRecord>,
}

/// A record of it.
pub(crate) struct TheRecord {
    pub(crate) id: Option<String>,
    pub(crate) version: Option<Version>,
    pub(crate) event: Option<String>,
    pub(crate) number: Option<SequenceNumber>,
    pub(crate) created: Option<EpochMillis>,
    pub(crate) kind: Kind,
    pub(crate) image: Image,
    /// What a redrive would come to, where that was asked for.
    pub(crate) outcome: Option<Outcome>,
}

/// What a redrive of a record would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It would be written down.
    Recorded,
    AlreadyRecorded,
    Conflict,
    Skipped,
    Failed(String),
}

impl Outcome {
    pub(crate) fn of(record: &ProcessedRecord) -> Self {
        match &record.outcome {
            StreamOutcome::Recorded => Self::Recorded,
            StreamOutcome::AlreadyRecorded => Self::AlreadyRecorded,
            StreamOutcome::Skipped => Self::Skipped,
            StreamOutcome::Failed { failure, .. } => match failure {
                RecordFailure::Conflict => Self::Conflict,
                failure => Self::Failed(failure.chain()),
            },
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Recorded => "Recorded",
            Self::AlreadyRecorded => "AlreadyRecorded",
            Self::Conflict => "Conflict",
            Self::Skipped => "Skipped",
            Self::Failed(_) => "Failed",
        }
    }
}

/// What stream-fn makes of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Version,
    /// It makes no version, and should not.
    Skipped,
    /// It can make none, and why.
    Malformed(String),
}

/// What an item was after the change.
pub(crate) enum Image {
    None,
    Item(Item),
    /// Nothing that an item can be.
    Odd(String),
}

impl Told {
    /// With so many of its records.
    pub(crate) fn of(entry: Entry, digits: VersionDigits, from: usize, most: usize) -> Self {
        let document = entry.document.map(|document| {
            let records = document.records.as_deref();
            Document {
                size: match (records, &document.batch) {
                    (Some(records), _) => records.len() as u64,
                    (None, batch) => batch.as_ref().map_or(0, |batch| batch.size),
                },
                has_records: records.is_some(),
                records: of_records(part(records.unwrap_or_default(), from, most), digits),
                context: document.context,
                batch: document.batch,
            }
        });
        Self {
            name: entry.name,
            bytes: entry.bytes,
            document,
        }
    }

    pub(crate) fn to_json(&self, with_images: bool) -> Value {
        let mut told = json!({"Document": self.name, "Bytes": self.bytes});
        match &self.document {
            Err(why) => told["Reason"] = json!(why),
            Ok(document) => {
                let (context, batch) = (&document.context, document.batch.as_ref());
                for (name, value) in [
                    ("Condition", json!(context.condition)),
                    ("InvokeCount", json!(context.invoke_count)),
                    ("Function", json!(context.function_arn)),
                    ("FunctionError", json!(context.function_error)),
                    ("RequestId", json!(context.request_id)),
                    ("Time", json!(context.time)),
                    ("Stream", json!(batch.map(|batch| &batch.stream_arn))),
                    ("Shard", json!(batch.map(|batch| &batch.shard))),
                    ("First", json!(batch.map(|batch| &batch.first))),
                    ("Last", json!(batch.map(|batch| &batch.last))),
                    ("Records", json!(document.size)),
                    ("HasRecords", json!(document.has_records)),
                    (
                        "Shown",
                        document
                            .records
                            .iter()
                            .map(|record| record.to_json(with_images))
                            .collect(),
                    ),
                ] {
                    told[name] = value;
                }
            }
        }
        told
    }
}

/// So many records, from one on.
pub(crate) fn part(records: &[Box<RawValue>], from: usize, most: usize) -> &[Box<RawValue>] {
    let records = records.get(from..).unwrap_or_default();
    records.get(..most).unwrap_or(records)
}

/// What these records say.
pub(crate) fn of_records(records: &[Box<RawValue>], digits: VersionDigits) -> Vec<TheRecord> {
    records.iter().map(|raw| TheRecord::of(raw, digits)).collect()
}

impl TheRecord {
    fn of(raw: &RawValue, digits: VersionDigits) -> Self {
        let parsed = record::parse(raw, digits);
        let seen = Seen::of(raw);
        let (kind, version) = match parsed.content {
            Ok(Content::Version(version)) => (Kind::Version, Some(version.version())),
            Ok(Content::Skipped) => (Kind::Skipped, None),
            Err(failure) => (Kind::Malformed(failure.chain()), None),
        };
        Self {
            id: seen.id,
            version,
            event: seen.event,
            number: parsed.sequence_number,
            created: parsed.created,
            kind,
            image: seen.image,
            outcome: None,
        }
    }

    fn to_json(&self, with_image: bool) -> Value {
        let mut told = json!({
            "ID": self.id, "Version": self.version, "Event": self.event, "SequenceNumber": self.number,
            "Created": self.created.map(time::iso), "Record": self.kind.name(),
        });
        if let Kind::Malformed(why) = &self.kind {
            told["Reason"] = json!(why);
        }
        if let Some(outcome) = &self.outcome {
            told["Outcome"] = json!(outcome.name());
        }
        if with_image {
            told["Image"] = match &self.image {
                Image::None => Value::Null,
                Image::Item(item) => Value::Object(plain::attributes(item)),
                Image::Odd(text) => json!(text),
            };
        }
        told
    }
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Version => "Version",
            Self::Skipped => "Skipped",
            Self::Malformed(_) => "Malformed",
        }
    }
}

/// What can be seen of a record, whatever stream-fn makes of it.
struct Seen {
    id: Option<String>,
    event: Option<String>,
    image: Image,
}

impl Seen {
    fn of(raw: &RawValue) -> Self {
        let json: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let json = carried(&json).unwrap_or(json);
        let (change, text) = (&json["dynamodb"], |value: &Value| value.as_str().map(str::to_owned));
        let image = match &change["NewImage"] {
            Value::Null => Image::None,
            image => match serde_json::from_value::<Item>(image.clone()) {
                Ok(item) => Image::Item(item),
                Err(_) => Image::Odd(image.to_string()),
            },
        };
        Self {
            id: text(&change["Keys"][names::PK]["S"]),
            event: text(&json["eventName"]),
            image,
        }
    }
}

/// The record that Kinesis carries.
fn carried(json: &Value) -> Option<Value> {
    serde_json::from_str(&unwrap_kinesis(json["kinesis"]["data"].as_str()?)?).ok()
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;

    fn records(records: &Value) -> Vec<TheRecord> {
        let text = json!({"payload": {"Records": records}}).to_string();
        let entry = Entry {
            name: "d".to_owned(),
            bytes: text.len(),
            document: operations::failures::document::parse(&text).map_err(|error| error.to_string()),
        };
        Told::of(entry, VersionDigits::default(), 0, 100)
            .document
            .unwrap()
            .records
    }

    fn record(image: &Value) -> Value {
        json!({"eventName": "MODIFY", "dynamodb": {
            "Keys": {"PK": {"S": "E#1"}, "SK": {"S": "v0"}}, "NewImage": image, "SequenceNumber": "7",
            "ApproximateCreationDateTime": 1.0,
        }})
    }

    #[test]
    fn what_a_record_is() {
        let good = record(&json!({"PK": {"S": "E#1"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "x"}}));
        let no_number = record(&json!({"PK": {"S": "E#1"}, "SK": {"S": "v0"}, "A": {"S": "x"}}));
        let odd_image = record(&json!({"A": {"Q": 7}}));
        let removed = json!({"eventName": "REMOVE", "dynamodb": {"Keys": {"PK": {"S": "E#1"}}, "SequenceNumber": "8"}});
        let carried = json!({"kinesis": {"data": STANDARD.encode(good.to_string()), "sequenceNumber": "9"}});
        let cases = [
            (good, "Version", Some(3), Some("E#1"), Some("MODIFY")),
            (no_number, "Malformed", None, Some("E#1"), Some("MODIFY")),
            (odd_image, "Malformed", None, Some("E#1"), Some("MODIFY")),
            (removed, "Skipped", None, Some("E#1"), Some("REMOVE")),
            (carried, "Version", Some(3), Some("E#1"), Some("MODIFY")),
            (json!(7), "Malformed", None, None, None),
            (json!({}), "Malformed", None, None, None),
        ];
        let told = records(&cases.iter().map(|case| case.0.clone()).collect());
        for ((raw, kind, version, id, event), told) in cases.iter().zip(&told) {
            assert_eq!(told.kind.name(), *kind, "{raw}");
            assert_eq!(told.version.map(Version::get), *version, "{raw}");
            assert_eq!((told.id.as_deref(), told.event.as_deref()), (*id, *event), "{raw}");
        }
        assert!(matches!(&told[0].image, Image::Item(item) if item.contains_key("A")));
        assert!(matches!(&told[2].image, Image::Odd(text) if text.contains('Q')));
        assert_eq!(told[0].to_json(false)["Created"], "1970-01-01T00:00:01Z");
        assert_eq!(told[0].to_json(true)["Image"]["A"], "x");
    }

    proptest! {
        #[test]
        fn no_record_is_too_odd(text in "\\PC{0,32}", name in "(kinesis|dynamodb|Keys|NewImage)") {
            let _ = records(&json!([text, {&name: text}, {&name: {"data": text, &name: {&name: text}}}]));
        }
    }
}
