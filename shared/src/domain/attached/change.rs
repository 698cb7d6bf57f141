//! Change of an item of an attached table: one stream record, and its place in the order of all changes of the item.

use crate::domain::{Item, attributes::text, entity::EntityId, names, sequence::SequenceNumber};

/// Label of the stream.
pub const STREAM: &str = "Stream";

/// Added to a sequence number for the old image of its record.
const OLD: &str = "#old";
/// Principal that deletes expired items, see
/// [TTL and streams](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html).
const TTL_PRINCIPAL: &str = "dynamodb.amazonaws.com";

/// Change of an item, as its stream record describes it.
#[derive(Clone, PartialEq)]
pub struct Change {
    /// Partition key of the item's history.
    pub entity: EntityId,
    /// Place of the new state.
    pub place: Place,
    /// Creation time of the stream record in microseconds since 1970.
    pub created_micros: Option<i64>,
    /// Key attributes of the item.
    pub key: Item,
    /// `true` if the stream delivers old images.
    pub has_old_images: bool,
    /// Item before the change.
    pub old: Option<Item>,
    /// Item after the change.
    pub new: NewState,
}

/// State of an item after a change.
#[derive(Clone, PartialEq)]
pub enum NewState {
    /// The item exists.
    Item(Item),
    /// The item was deleted, by this principal if the record names one.
    Deleted(Option<Principal>),
}

/// Principal that deleted an item: the `userIdentity` of a stream record. Only deletions by a service have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `principalId`, such as `dynamodb.amazonaws.com`.
    pub id: String,
    /// `true` if the item had expired: DynamoDB itself deleted it.
    pub is_ttl: bool,
}

impl Principal {
    /// Creates a principal from the `type` and the `principalId` of a `userIdentity`.
    pub fn new(kind: Option<&str>, id: String) -> Self {
        Self {
            is_ttl: kind == Some("Service") && id == TTL_PRINCIPAL,
            id,
        }
    }
}

// The images hold attribute values, which logs must not contain.
crate::domain::redacted::redacted!(Change, entity, place);

/// Place of a state in the order of an item's states: by stream, by sequence number, the old image of a record before the new
/// one. The labels of streams are times, so a later stream of the table has a greater one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Label of the stream.
    pub stream: String,
    /// Sequence number of the record.
    pub number: SequenceNumber,
    /// Image of the record.
    pub image: RecordImage,
}

/// Image of a stream record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordImage {
    /// The item before the change.
    Old,
    /// The item after the change.
    New,
}

impl Place {
    /// Reads a place from the attributes `Stream` and `RequestId` of a version item.
    pub fn parse(stream: &str, request_id: &str) -> Option<Self> {
        let (number, image) = match request_id.strip_suffix(OLD) {
            Some(number) => (number, RecordImage::Old),
            None => (request_id, RecordImage::New),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            stream: stream.to_owned(),
            number: SequenceNumber::new(number).filter(|_| is_number)?,
            image,
        })
    }

    /// Returns the place of a version item. `None` if it does not come from a stream record.
    pub fn of(item: &Item) -> Option<Self> {
        Self::parse(text(item, STREAM)?, text(item, names::REQUEST_ID)?)
    }

    /// Returns the `RequestId` of the state: the sequence number, with `#old` for an old image.
    pub fn request_id(&self) -> String {
        match self.image {
            RecordImage::Old => format!("{}{OLD}", self.number),
            RecordImage::New => self.number.to_string(),
        }
    }

    /// Returns the place of the record's old image.
    #[must_use]
    pub fn of_old(&self) -> Self {
        Self {
            image: RecordImage::Old,
            ..self.clone()
        }
    }
}

/// Returns the label of a stream, which is the last part of its ARN: `arn:aws:dynamodb:…:table/Orders/stream/2026-11-22T06:24:48.123`.
pub fn stream_label(arn: &str) -> Option<&str> {
    let (table, label) = arn.split_once("/stream/")?;
    (table.contains(":dynamodb:") && !label.is_empty()).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_ordered_by_stream_number_and_image() {
        let place = |stream: &str, request_id: &str| Place::parse(stream, request_id).unwrap();
        let numbers = ["9", "10#old", "10", &"9".repeat(39), &format!("1{}", "0".repeat(39))];
        let mut ascending: Vec<_> = numbers.map(|number| place("2026-01-01T00:00:00.000", number)).into();
        ascending.push(place("2026-01-02T00:00:00.000", "1#old"));
        assert!(ascending.is_sorted_by(|a, b| a < b));
        for place in ascending {
            assert_eq!(Place::parse(&place.stream, &place.request_id()), Some(place));
        }
        // An id of an update is no sequence number.
        for other in ["", "#old", "r-1", "1#new"] {
            assert_eq!(Place::parse("s", other), None, "{other}");
        }
    }

    #[test]
    fn the_label_of_a_stream_is_the_end_of_its_arn() {
        let label = "2026-11-22T06:24:48.123";
        let arn = format!("arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/{label}");
        assert_eq!(stream_label(&arn), Some(label));
        let kinesis = "arn:aws:kinesis:eu-west-1:1:stream/Orders";
        for other in ["", kinesis, "arn:aws:dynamodb:eu-west-1:1:table/T/stream/"] {
            assert_eq!(stream_label(other), None, "{other}");
        }
    }

    #[test]
    fn only_dynamodb_deletes_expired_items() {
        let is_ttl = |kind, id: &str| Principal::new(kind, id.to_owned()).is_ttl;
        assert!(is_ttl(Some("Service"), "dynamodb.amazonaws.com"));
        assert!(!is_ttl(Some("Service"), "other.amazonaws.com"));
        assert!(!is_ttl(None, "dynamodb.amazonaws.com"));
    }
}
