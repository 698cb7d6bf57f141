//! The item that a version is kept in.

use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::same_item,
    entity::{EntityId, InvalidEntityId},
    keys::VersionDigits,
    marks::unmarked,
    names,
    number::Decimal,
    request_id::RequestId,
    version::Version,
};

/// A version as it is written down: every attribute of an image of the latest item, without `Latest` and
/// `RecentRequests`, under the version's own sort key.
#[derive(Clone)]
pub struct VersionItem {
    entity: EntityId,
    version: Version,
    item: Item,
}

impl VersionItem {
    /// Makes the version item of an image of the latest item.
    pub fn from_image(mut image: Item, digits: VersionDigits) -> Result<Self, InvalidImage> {
        let entity = match image.get(names::PK) {
            Some(AttributeValue::S(id)) => EntityId::new(id.clone())?,
            _ => return Err(InvalidImage::NoEntity),
        };
        let version = latest_of(&image)?;
        image.remove(names::LATEST);
        image.remove(names::RECENT_REQUESTS);
        image.insert(names::SK.to_owned(), AttributeValue::S(digits.version_key(version)));
        Ok(Self {
            entity,
            version,
            item: image,
        })
    }

    /// Whose version it is.
    pub fn entity(&self) -> &EntityId {
        &self.entity
    }

    /// Which version it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The request that made it, where it says.
    pub fn request_id(&self) -> Option<RequestId> {
        match self.item.get(names::REQUEST_ID) {
            Some(AttributeValue::S(id)) => RequestId::new(id.clone()).ok(),
            _ => None,
        }
    }

    /// Whether this is what is stored, but for its [marks](super::marks).
    pub fn is_same_as(&self, stored: &Item) -> bool {
        same_item(&unmarked(stored), &unmarked(&self.item))
    }

    /// The item to put.
    pub fn item(&self) -> &Item {
        &self.item
    }
}

// An item holds attribute values.
impl std::fmt::Debug for VersionItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionItem")
            .field("entity", &self.entity)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The version that a latest item says it is.
pub fn latest_of(item: &Item) -> Result<Version, InvalidImage> {
    let text = match item.get(names::LATEST) {
        None => return Err(InvalidImage::NoLatest),
        Some(AttributeValue::N(text)) => text,
        Some(_) => return Err(InvalidImage::LatestIsNoNumber),
    };
    let number = Decimal::parse(text).map_err(|_| InvalidImage::LatestIsNoNumber)?;
    if !number.is_whole() {
        return Err(InvalidImage::LatestIsNotWhole);
    }
    if number.is_negative() {
        return Err(InvalidImage::LatestBelowOne);
    }
    let number = number.to_u64().ok_or(InvalidImage::LatestTooLarge)?;
    Version::new(number).ok_or(InvalidImage::LatestBelowOne)
}

/// Why an image of a latest item makes no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidImage {
    /// `PK` is missing or not a string.
    #[error("PK is missing or not a string")]
    NoEntity,
    /// `PK` is a string that is no partition key.
    #[error(transparent)]
    Entity(#[from] InvalidEntityId),
    /// The item was not written by a writer that counts.
    #[error("Latest is missing")]
    NoLatest,
    /// Of another type, or a text that is no number.
    #[error("Latest is not a number")]
    LatestIsNoNumber,
    /// A fraction.
    #[error("Latest is not a whole number")]
    LatestIsNotWhole,
    /// Versions count from 1.
    #[error("Latest is below 1")]
    LatestBelowOne,
    /// Beyond what a version can be.
    #[error("Latest is above {max}", max = u64::MAX)]
    LatestTooLarge,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn from(image: Value) -> Result<VersionItem, InvalidImage> {
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default())
    }

    #[test]
    fn everything_but_latest_is_kept_under_the_key_of_the_version() {
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
    fn images_that_make_no_version() {
        use InvalidImage::{
            Entity, LatestBelowOne, LatestIsNoNumber, LatestIsNotWhole, LatestTooLarge, NoEntity, NoLatest,
        };
        let latest = |value: Value| json!({"PK": {"S": "E"}, "Latest": value});
        for (image, why) in [
            (json!({}), NoEntity),
            (json!({"PK": {"N": "1"}, "Latest": {"N": "1"}}), NoEntity),
            (
                json!({"PK": {"S": ""}, "Latest": {"N": "1"}}),
                Entity(InvalidEntityId::Empty),
            ),
            (json!({"PK": {"S": "E"}}), NoLatest),
            (latest(json!({"S": "1"})), LatestIsNoNumber),
            (latest(json!({"N": "one"})), LatestIsNoNumber),
            (latest(json!({"N": ""})), LatestIsNoNumber),
            (latest(json!({"NULL": true})), LatestIsNoNumber),
            (latest(json!({"N": "1.5"})), LatestIsNotWhole),
            (latest(json!({"N": "0"})), LatestBelowOne),
            (latest(json!({"N": "-0"})), LatestBelowOne),
            (latest(json!({"N": "-3"})), LatestBelowOne),
            (latest(json!({"N": "1e30"})), LatestTooLarge),
        ] {
            assert_eq!(from(image.clone()).unwrap_err(), why, "{image}");
        }
        assert_eq!(from(latest(json!({"N": "7.0"}))).unwrap().version().get(), 7);
    }
}
