//! Version items.

use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::{same_item, text},
    entity::{EntityId, InvalidEntityId},
    keys::{VersionDigits, partition_key_of},
    marks::unmarked,
    names,
    number::Decimal,
    request_id::RequestId,
    version::Version,
};

/// Item of one version: every attribute of an image of the latest item, without `Latest` and `RecentRequests`, under the
/// version's sort key.
#[derive(Clone)]
pub struct VersionItem {
    entity: EntityId,
    version: Version,
    item: Item,
}

impl VersionItem {
    /// Converts an image of the latest item to a version item.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the image has no valid partition key or `Latest`.
    pub fn from_image(mut image: Item, digits: VersionDigits) -> Result<Self, InvalidImage> {
        let entity = EntityId::new(partition_key_of(&image).ok_or(InvalidImage::NoEntity)?)?;
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

    /// Returns the entity.
    pub fn entity(&self) -> &EntityId {
        &self.entity
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the id of the request that created the version, if the item has one.
    pub fn request_id(&self) -> Option<RequestId> {
        RequestId::new(text(&self.item, names::REQUEST_ID)?).ok()
    }

    /// Returns `true` if the stored item is equal, except for its [marks](super::marks).
    pub fn is_same_as(&self, stored: &Item) -> bool {
        same_item(&unmarked(stored), &unmarked(&self.item))
    }

    /// Returns the item to put.
    pub fn item(&self) -> &Item {
        &self.item
    }
}

// An item holds attribute values, which logs must not contain.
impl std::fmt::Debug for VersionItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionItem")
            .field("entity", &self.entity)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns the version of a latest item.
///
/// # Errors
///
/// Returns [`InvalidImage`] if `Latest` is missing or not a valid version.
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
