//! Version items.

use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::{s, same_item, text},
    attribution,
    entity::{EntityId, InvalidEntityId},
    erased::{hide, of_either},
    keys::{VersionDigits, partition_key_of},
    marks::unmarked,
    names,
    number::Decimal,
    recorded_at::RecordedAt,
    request_id::RequestId,
    time::EpochMillis,
    version::Version,
};

/// Value of [`RECORDED_BY`](names::RECORDED_BY).
pub const RECORDED_BY_STREAM: &str = "stream";

/// Item of one version: the attributes of an image of the latest item that belong to the version, under the version's sort
/// key.
#[derive(Clone)]
pub struct VersionItem {
    entity: EntityId,
    version: Version,
    item: Item,
    /// Time of an older version, if another program wrote this one.
    before: Option<RecordedAt>,
    /// Creation time of the stream record, if the version comes from one.
    created: Option<EpochMillis>,
}

impl VersionItem {
    /// Converts an image of the latest item to a version item. It has no `RecordedAt` if another program wrote the image.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the image has no valid partition key or `Latest`.
    pub fn from_image(image: Item, digits: VersionDigits) -> Result<Self, InvalidImage> {
        let entity = EntityId::new(partition_key_of(&image).ok_or(InvalidImage::NoEntity)?)?;
        let version = latest_of(&image)?;
        let (mut item, before) = attribution::of_version(image, version);
        item.insert(names::SK.to_owned(), s(digits.version_key(version)));
        Ok(Self {
            entity,
            version,
            item,
            before,
            created: None,
        })
    }

    /// Adds the creation time of the stream record, in microseconds since 1970, as `RecordedAt`, if the item has none. It is
    /// later than the time of the older version that the image still had.
    #[must_use]
    pub fn with_stream_time(mut self, created_micros: Option<i64>) -> Self {
        self.created = created_micros.map(EpochMillis::from_micros);
        let Some(created) = created_micros.filter(|_| !self.item.contains_key(names::RECORDED_AT)) else {
            return self;
        };
        let mut recorded = RecordedAt::of_stream_record(created, self.version);
        if let Some(before) = self.before.filter(|before| *before >= recorded) {
            recorded = before.after_ticks(1);
        }
        self.item.insert(names::RECORDED_AT.to_owned(), recorded.value());
        self.item.insert(names::RECORDED_BY.to_owned(), s(RECORDED_BY_STREAM));
        self
    }

    /// Returns the entity.
    pub fn entity(&self) -> &EntityId {
        &self.entity
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the creation time of the stream record, if the version comes from one.
    pub fn created(&self) -> Option<EpochMillis> {
        self.created
    }

    /// Returns the id of the request that created the version, if the item has one.
    pub fn request_id(&self) -> Option<RequestId> {
        RequestId::new(text(&self.item, names::REQUEST_ID)?).ok()
    }

    /// Returns `true` if the stored item is equal, except for its [marks](super::marks), its
    /// [incarnation](super::incarnation), which a restored latest item does not have, and for a `RecordedAt` that comes from the
    /// stream: two deliveries can have it with different precision. What was [erased](super::erased) from one of them equals any value.
    pub fn is_same_as(&self, stored: &Item) -> bool {
        is_same_version(stored, &self.item)
    }

    /// Returns the version with a changed item.
    #[must_use]
    pub(super) fn changed(mut self, change: impl FnOnce(&mut Item)) -> Self {
        change(&mut self.item);
        self
    }

    /// Returns the item to put.
    pub fn item(&self) -> &Item {
        &self.item
    }
}

/// Returns `true` if two items of one version are equal, except for what [`VersionItem::is_same_as`] ignores.
pub fn is_same_version(one: &Item, other: &Item) -> bool {
    let erased = of_either(one, other);
    let (mut one, mut other) = (unmarked(one), unmarked(other));
    for item in [&mut one, &mut other] {
        item.remove(names::INCARNATION);
        if !erased.is_empty() {
            hide(item, &erased);
            item.remove(names::REQUEST_PAYLOAD);
        }
    }
    let is_timed_by_writer =
        |item: &Item| item.contains_key(names::RECORDED_AT) && !item.contains_key(names::RECORDED_BY);
    if !is_timed_by_writer(&one) && !is_timed_by_writer(&other) {
        for item in [&mut one, &mut other] {
            item.remove(names::RECORDED_AT);
            item.remove(names::RECORDED_BY);
        }
    }
    same_item(&one, &other)
}

// An item holds attribute values, which logs must not contain.
crate::domain::redacted::redacted!(VersionItem, entity, version);

/// Returns the version of a latest item.
///
/// # Errors
///
/// Returns [`InvalidImage`] if `Latest` is missing or not a valid version.
pub fn latest_of(item: &Item) -> Result<Version, InvalidImage> {
    let number = match item.get(names::LATEST) {
        None => return Err(InvalidImage::NoLatest),
        Some(AttributeValue::N(text)) => Decimal::parse(text).map_err(|_| InvalidImage::LatestIsNoNumber)?,
        Some(_) => return Err(InvalidImage::LatestIsNoNumber),
    };
    match number.to_u64() {
        _ if !number.is_whole() => Err(InvalidImage::LatestIsNotWhole),
        _ if number.is_negative() => Err(InvalidImage::LatestBelowOne),
        Some(0) => Err(InvalidImage::LatestBelowOne),
        number => number.and_then(Version::new).ok_or(InvalidImage::LatestTooLarge),
    }
}

/// Reason why an image of a latest item cannot be converted to a version item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidImage {
    /// `PK` is missing or not a string.
    #[error("PK is missing or not a string")]
    NoEntity,
    /// `PK` is not a valid partition key.
    #[error(transparent)]
    Entity(#[from] InvalidEntityId),
    /// `Latest` is missing: another client wrote the item.
    #[error("Latest is missing")]
    NoLatest,
    /// `Latest` has another type or is not a number.
    #[error("Latest is not a number")]
    LatestIsNoNumber,
    /// `Latest` has a fraction.
    #[error("Latest is not a whole number")]
    LatestIsNotWhole,
    /// `Latest` is below 1.
    #[error("Latest is below 1")]
    LatestBelowOne,
    /// `Latest` is too large for a version.
    #[error("Latest is above {max}", max = Version::MAX)]
    LatestTooLarge,
    /// `Latest` is the greatest version, so there is no next one.
    #[error("Latest is {max}, the greatest version, so there is no next one", max = Version::MAX)]
    LatestIsGreatest,
    /// `Latest` is below the floor: the counter was set back.
    #[error("Latest is below the floor")]
    LatestBelowFloor,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn from(image: Value) -> Result<VersionItem, InvalidImage> {
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default())
    }

    #[test]
    fn all_attributes_except_latest_are_kept() {
        let image = json!({
            "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "10"}, "RequestId": {"S": "r"},
            "S": {"S": ""}, "N": {"N": "-0.12345678901234567890123456789012345678"}, "B": {"B": "Zm9v"},
            "RecentRequests": {"M": {"hash": {"N": "10"}}},
            "BOOL": {"BOOL": false}, "NULL": {"NULL": true}, "L": {"L": []}, "M": {"M": {"Latest": {"N": "1"}}},
            "SS": {"SS": ["a"]}, "NS": {"NS": ["1"]}, "BS": {"BS": ["Zg=="]},
        });
        let made = from(image.clone()).unwrap();
        let mut expected = image;
        expected["SK"] = json!({"S": "v10"});
        expected.as_object_mut().unwrap().remove("Latest");
        expected.as_object_mut().unwrap().remove("RecentRequests");
        assert_eq!(serde_json::to_value(made.item()).unwrap(), expected);
        assert_eq!(made.entity().as_str(), "Equipment#1");
        assert_eq!(made.version().get(), 10);
    }

    #[test]
    fn invalid_images() {
        use InvalidImage::{LatestBelowOne, LatestIsNoNumber, LatestIsNotWhole, LatestTooLarge, NoEntity, NoLatest};
        let empty = InvalidImage::Entity(InvalidEntityId::Empty);
        let latest = |value: Value| json!({"PK": {"S": "E"}, "Latest": value});
        let number = |text: &str| latest(json!({"N": text}));
        for (image, why) in [
            (json!({}), NoEntity),
            (json!({"PK": {"N": "1"}, "Latest": {"N": "1"}}), NoEntity),
            (json!({"PK": {"S": ""}, "Latest": {"N": "1"}}), empty),
            (json!({"PK": {"S": "E"}}), NoLatest),
            (latest(json!({"S": "1"})), LatestIsNoNumber),
            (latest(json!({"NULL": true})), LatestIsNoNumber),
            (number("one"), LatestIsNoNumber),
            (number(""), LatestIsNoNumber),
            (number("1.5"), LatestIsNotWhole),
            (number("0"), LatestBelowOne),
            (number("-0"), LatestBelowOne),
            (number("-3"), LatestBelowOne),
            (number("1e30"), LatestTooLarge),
            (number("9223372036854775808"), LatestTooLarge),
            (number("18446744073709551615"), LatestTooLarge),
        ] {
            assert_eq!(from(image.clone()).unwrap_err(), why, "{image}");
        }
        assert_eq!(from(latest(json!({"N": "7.0"}))).unwrap().version().get(), 7);
    }

    #[test]
    fn the_stream_gives_a_time_to_versions_of_other_programs_only() {
        const CREATED: i64 = 1_795_328_688_000_000;
        let image = |recorded: Option<(&str, u64)>| {
            let mut image = json!({"PK": {"S": "E"}, "Latest": {"N": "7"}});
            if let Some((time, version)) = recorded {
                image["RecordedAt"] = json!({"S": time});
                image["RecordedVersion"] = json!({"N": version.to_string()});
            }
            image
        };
        let of_stream = "2026-11-22T06:24:48.000007000Z";
        let (earlier, later) = ("2026-11-22T01:00:00.000000000Z", "2026-11-22T09:00:00.000000000Z");
        for (recorded, expected) in [
            (None, (of_stream, true)),
            (Some((earlier, 6)), (of_stream, true)),
            (Some((later, 6)), ("2026-11-22T09:00:00.000000001Z", true)),
            (Some((later, 7)), (later, false)),
        ] {
            let untimed = from(image(recorded)).unwrap();
            let made = untimed.clone().with_stream_time(Some(CREATED));
            let time = text(made.item(), "RecordedAt").unwrap();
            assert_eq!((time, made.item().contains_key("RecordedBy")), expected, "{recorded:?}");
            // A stream and Kinesis give times of different precision.
            let again = untimed.with_stream_time(Some(CREATED + 123_456));
            assert!(again.is_same_as(made.item()));
        }
        let own = from(image(Some(("2026-11-22T09:00:00.000000000Z", 7)))).unwrap();
        let later = from(image(Some(("2026-11-22T09:00:00.000001000Z", 7)))).unwrap();
        assert!(!own.is_same_as(later.item()));
    }
}
