//! Views of failure documents and their records, for HTML and JSON.

use operations::{
    failures::document::{Batch, Context},
    redrive::Entry,
};
use serde_json::{Value, json};
use shared::domain::{
    Item, attributes, keys::VersionDigits, names, plain, sequence::SequenceNumber, time::EpochMillis, version::Version,
};
use stream_fn::{
    error::RecordFailure,
    record::{self, Content},
    response::{Outcome as StreamOutcome, ProcessedRecord},
};

use crate::time;

pub(crate) struct DocumentView {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// The document, or the reason why the content is none.
    pub(crate) document: Result<Document, String>,
}

pub(crate) struct Document {
    pub(crate) context: Context,
    pub(crate) batch: Option<Batch>,
    /// Number of records that it contains or refers to.
    pub(crate) size: u64,
    pub(crate) has_records: bool,
    pub(crate) records: Vec<RecordView>,
}

pub(crate) struct RecordView {
    pub(crate) id: Option<String>,
    pub(crate) version: Option<Version>,
    pub(crate) event: Option<String>,
    pub(crate) number: Option<SequenceNumber>,
    pub(crate) created: Option<EpochMillis>,
    pub(crate) kind: Kind,
    pub(crate) image: Image,
    /// Outcome of a redrive, if it was determined.
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Recorded,
    AlreadyRecorded,
    Conflict,
    Skipped,
    Purged,
    Pruned,
    /// The latest item does not count the version, and the reason.
    AboveLatest(String),
    Failed(String),
}

impl Outcome {
    pub(crate) fn of(record: &ProcessedRecord) -> Self {
        match &record.outcome {
            StreamOutcome::Recorded => Self::Recorded,
            StreamOutcome::AlreadyRecorded => Self::AlreadyRecorded,
            StreamOutcome::Skipped => Self::Skipped,
            StreamOutcome::Purged => Self::Purged,
            StreamOutcome::Pruned => Self::Pruned,
            StreamOutcome::Failed { failure, .. } | StreamOutcome::Quarantined { failure, .. } => match failure {
                RecordFailure::Conflict => Self::Conflict,
                RecordFailure::AboveLatest(_) | RecordFailure::NoLatestItem => Self::AboveLatest(failure.chain()),
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
            Self::Purged => "Purged",
            Self::Pruned => "Pruned",
            Self::AboveLatest(_) => "AboveLatest",
            Self::Failed(_) => "Failed",
        }
    }
}

/// Classification of a record by stream-fn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Version,
    /// Not a new version.
    Skipped,
    /// Not a valid version, and the reason.
    Malformed(String),
}

pub(crate) enum Image {
    None,
    Item(Item),
    /// JSON that is not an item.
    Invalid(String),
}

impl DocumentView {
    /// Creates a view with up to `max` records.
    pub(crate) fn new(entry: Entry, digits: VersionDigits, max: usize) -> Self {
        let document = entry.document.map(|document| {
            let records = document.records.as_deref();
            let shown = records.unwrap_or_default().iter().take(max);
            Document {
                size: match (records, &document.batch) {
                    (Some(records), _) => records.len() as u64,
                    (None, batch) => batch.as_ref().map_or(0, |batch| batch.size),
                },
                has_records: records.is_some(),
                records: shown.map(|raw| RecordView::new(raw, digits)).collect(),
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
        let mut json = json!({"Document": self.name, "Bytes": self.bytes});
        match &self.document {
            Err(why) => json["Reason"] = json!(why),
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
                    json[name] = value;
                }
            }
        }
        json
    }
}

impl RecordView {
    pub(crate) fn new(raw: &str, digits: VersionDigits) -> Self {
        let parsed = record::parse(raw, digits);
        let fields = Fields::of(raw);
        let (kind, version) = match parsed.content {
            Ok(Content::Version(version)) => (Kind::Version, Some(version.version())),
            Ok(Content::Skipped) => (Kind::Skipped, None),
            Err(failure) => (Kind::Malformed(failure.chain()), None),
        };
        Self {
            id: fields.id,
            version,
            event: fields.event,
            number: parsed.sequence_number,
            created: parsed.created,
            kind,
            image: fields.image,
            outcome: None,
        }
    }

    fn to_json(&self, with_image: bool) -> Value {
        let mut json = json!({
            "ID": self.id, "Version": self.version, "Event": self.event, "SequenceNumber": self.number,
            "Created": self.created.map(time::iso), "Record": self.kind.name(),
        });
        if let Kind::Malformed(why) = &self.kind {
            json["Reason"] = json!(why);
        }
        if let Some(outcome) = &self.outcome {
            json["Outcome"] = json!(outcome.name());
        }
        if with_image {
            json["Image"] = match &self.image {
                Image::None => Value::Null,
                Image::Item(item) => Value::Object(plain::attributes(item)),
                Image::Invalid(text) => json!(text),
            };
        }
        json
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

/// Fields that are displayed even if the record is malformed.
struct Fields {
    id: Option<String>,
    event: Option<String>,
    image: Image,
}

impl Fields {
    fn of(raw: &str) -> Self {
        let json = record::to_json(raw);
        let (change, text) = (&json["dynamodb"], |value: &Value| value.as_str().map(str::to_owned));
        let image = match &change["NewImage"] {
            Value::Null => Image::None,
            image => match attributes::item_from_dynamodb_json(&image.to_string()) {
                Ok(item) => Image::Item(item),
                Err(_) => Image::Invalid(image.to_string()),
            },
        };
        Self {
            id: text(&change["Keys"][names::PK]["S"]),
            event: text(&json["eventName"]),
            image,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;

    fn records(records: &Value) -> Vec<RecordView> {
        let text = json!({"payload": {"Records": records}}).to_string();
        let entry = Entry {
            name: "d".to_owned(),
            bytes: text.len(),
            document: operations::failures::document::parse(&text).map_err(|error| error.to_string()),
        };
        DocumentView::new(entry, VersionDigits::default(), 100)
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
    fn records_are_classified() {
        let good = record(&json!({"PK": {"S": "E#1"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "x"}}));
        let no_number = record(&json!({"PK": {"S": "E#1"}, "SK": {"S": "v0"}, "A": {"S": "x"}}));
        let invalid_image = record(&json!({"A": {"Q": 7}}));
        let removed = json!({"eventName": "REMOVE", "dynamodb": {"Keys": {"PK": {"S": "E#1"}}, "SequenceNumber": "8"}});
        let kinesis = json!({"kinesis": {"data": STANDARD.encode(good.to_string()), "sequenceNumber": "9"}});
        let cases = [
            (good, "Version", Some(3), Some("E#1"), Some("MODIFY")),
            (no_number, "Malformed", None, Some("E#1"), Some("MODIFY")),
            (invalid_image, "Malformed", None, Some("E#1"), Some("MODIFY")),
            (removed, "Skipped", None, Some("E#1"), Some("REMOVE")),
            (kinesis, "Version", Some(3), Some("E#1"), Some("MODIFY")),
            (json!(7), "Malformed", None, None, None),
            (json!({}), "Malformed", None, None, None),
        ];
        let views = records(&cases.iter().map(|case| case.0.clone()).collect());
        for ((raw, kind, version, id, event), view) in cases.iter().zip(&views) {
            assert_eq!(view.kind.name(), *kind, "{raw}");
            assert_eq!(view.version.map(Version::get), *version, "{raw}");
            assert_eq!((view.id.as_deref(), view.event.as_deref()), (*id, *event), "{raw}");
        }
        assert!(matches!(&views[0].image, Image::Item(item) if item.contains_key("A")));
        assert!(matches!(&views[2].image, Image::Invalid(text) if text.contains('Q')));
        assert_eq!(views[0].to_json(false)["Created"], "1970-01-01T00:00:01Z");
        assert_eq!(views[0].to_json(true)["Image"]["A"], "x");
    }

    proptest! {
        #[test]
        fn no_record_causes_a_panic(text in "\\PC{0,32}", name in "(kinesis|dynamodb|Keys|NewImage)") {
            let _ = records(&json!([text, {&name: text}, {&name: {"data": text, &name: {&name: text}}}]));
        }
    }
}
