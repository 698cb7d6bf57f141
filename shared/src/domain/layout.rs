//! Layout of a table's items: history beside the latest items, or in a table of its own.
//!
//! | item | sort key | table with an own history |
//! |---|---|---|
//! | latest item | `v0` | latest items |
//! | marker of a request | `request#ID` | latest items |
//! | version item | `v1`, `v2`, … | history |
//! | first version of history | `floor` | history |
//! | record in quarantine | `quarantine#NUMBER` | history |
//! | purge marker | [`purge_marker::SORT_KEY`] | history |
//! | any other item | | latest items |
//!
//! In a history table, a version item has its keys, its [marks](super::marks), and all other attributes in one map, so that no
//! name of an attribute can be that of a key. An item that is nested too deeply for a further map is stored as text. With
//! [`Compression::Deflate`], the attributes are compressed if that saves write units, except for [`PLAIN`].

use std::collections::HashMap;

use super::{
    AttributeValue, Item,
    compression::{self, Attributes, Compression},
    keys::{ItemKind, VersionDigits},
    marks::MARKS,
    names, purge_marker,
    size::{self, MAX_LEVELS},
};

/// Attribute with the version, a map.
pub const IMAGE: &str = "Image";
/// Attribute with the version as `DynamoDB` JSON, a string, if it is nested too deeply for [`IMAGE`].
pub const IMAGE_JSON: &str = "ImageJson";
/// Attribute with the compressed version, binary.
pub const IMAGE_DEFLATE: &str = "ImageDeflate";
/// Attributes beside a compressed version, for filters of requests and of streams.
pub const PLAIN: [&str; 4] = [names::REQUEST_ID, names::RECORDED_AT, names::ACTOR, names::DELETED];
/// Text before the name in the ARN of a table. A name has no colon.
const ARN_SEPARATOR: &str = ":table/";

/// Returns `true` if the item with this sort key is part of history.
pub fn is_history(sort_key: &str, digits: VersionDigits) -> bool {
    sort_key == purge_marker::SORT_KEY
        || matches!(
            digits.kind_of(sort_key),
            ItemKind::Version | ItemKind::Floor | ItemKind::Quarantined
        )
}

/// Returns the name in the name or ARN of a table.
pub fn table_name(table: &str) -> &str {
    match table.split_once(ARN_SEPARATOR) {
        Some((_, name)) => name,
        None => table,
    }
}

/// Returns the ARN of the table with this name in the account and Region of another one, or the name if the other one is
/// given by its name. `DynamoDB` accepts both in its requests, but a table of another account has to be given by its ARN.
pub fn table_beside(other: &str, name: &str) -> String {
    match other.split_once(ARN_SEPARATOR) {
        Some((account, _)) => format!("{account}{ARN_SEPARATOR}{}", table_name(name)),
        None => name.to_owned(),
    }
}

/// Converts a version item to the item that a history table stores. `None` if it cannot be serialized.
pub fn stored(item: &Item, compression: Compression) -> Option<Item> {
    if let Some(compressed) = compressed(item, compression) {
        return Some(compressed);
    }
    let (mut outer, mut image) = (Item::default(), item.clone());
    for name in [names::PK, names::SK].into_iter().chain(MARKS) {
        if let Some(value) = image.remove(name) {
            outer.insert(name.to_owned(), value);
        }
    }
    let (name, value) = image_attribute(image)?;
    outer.insert(name.to_owned(), value);
    Some(outer)
}

/// Returns the stored form of a version item with a compressed image. `None` if the image stays a map.
fn compressed(item: &Item, compression: Compression) -> Option<Item> {
    let is_outer =
        |name: &str| [names::PK, names::SK].contains(&name) || MARKS.contains(&name) || PLAIN.contains(&name);
    let (outer, image): (Vec<_>, Vec<_>) = item.iter().partition(|(name, _)| is_outer(name));
    let image = image.into_iter().map(|(name, value)| (name.as_str(), value)).collect();
    let outer = outer.into_iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut outer: HashMap<_, _> = outer.collect();
    let bytes = compression.apply(&image, size_beside(outer.iter()))?;
    outer.insert(IMAGE_DEFLATE.to_owned(), AttributeValue::B(bytes));
    Some(Item::from(outer))
}

/// Returns the size of an item in bytes without its image. The name of a compressed image is the longest.
fn size_beside<'a>(outer: impl Iterator<Item = (&'a String, &'a AttributeValue)>) -> usize {
    let outer = outer.map(|(name, value)| name.len() + size::of_value(value));
    outer.sum::<usize>() + IMAGE_DEFLATE.len()
}

/// Adds an image to the other attributes of an item. `None` if it cannot be serialized.
pub(super) fn add_image(
    mut outer: HashMap<String, AttributeValue>,
    image: Item,
    compression: Compression,
) -> Option<Item> {
    let attributes: Attributes<'_> = image.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let (name, value) = match compression.apply(&attributes, size_beside(outer.iter())) {
        Some(bytes) => (IMAGE_DEFLATE, AttributeValue::B(bytes)),
        None => image_attribute(image)?,
    };
    outer.insert(name.to_owned(), value);
    Some(Item::from(outer))
}

/// Returns the name and the value of the attribute that stores an image as it is. `None` if it cannot be serialized.
fn image_attribute(image: Item) -> Option<(&'static str, AttributeValue)> {
    let levels = image.values().map(size::levels).max().unwrap_or_default();
    if levels < MAX_LEVELS {
        return Some((IMAGE, AttributeValue::M(image.into())));
    }
    let text = serde_json::to_string(&image).ok()?;
    Some((IMAGE_JSON, AttributeValue::S(text)))
}

/// Removes the image from a stored item, and returns it. If there is none that can be read, the item stays as it is.
pub(super) fn take_image(item: &mut Item) -> Option<Item> {
    match (item.get(IMAGE), item.get(IMAGE_JSON), item.get(IMAGE_DEFLATE)) {
        (Some(AttributeValue::M(_)), None, None) => match item.remove(IMAGE) {
            Some(AttributeValue::M(image)) => Some(Item::from(image)),
            _ => None,
        },
        (None, Some(AttributeValue::S(text)), None) => {
            let image = serde_json::from_str(text).ok()?;
            item.remove(IMAGE_JSON);
            Some(image)
        }
        (None, None, Some(AttributeValue::B(bytes))) => {
            let image = compression::inflate(bytes)?;
            item.remove(IMAGE_DEFLATE);
            Some(image)
        }
        _ => None,
    }
}

/// Converts the item that a history table stores to a version item. Other items stay as they are.
#[must_use]
pub fn version_item(mut item: Item) -> Item {
    for (name, value) in take_image(&mut item).map(HashMap::from).unwrap_or_default() {
        item.entry(name).or_insert(value);
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_table_of_an_account_is_beside_another() {
        let account = "arn:aws-cn:dynamodb:cn-north-1:123456789012:table/";
        for (other, name, expected) in [
            ("Latest", "Latest-history.v2", "Latest-history.v2".to_owned()),
            (&format!("{account}Latest"), "History", format!("{account}History")),
            (
                &format!("{account}Latest"),
                &format!("{account}History"),
                format!("{account}History"),
            ),
        ] {
            assert_eq!(table_beside(other, name), expected, "{other} {name}");
            assert_eq!(table_name(&expected), table_name(name), "{expected}");
        }
    }

    #[test]
    fn the_sort_key_determines_the_table() {
        let digits = VersionDigits::default();
        for (key, expected) in [
            ("v0", false),
            ("v00", false),
            ("v1", true),
            ("v10", true),
            ("v01", false),
            ("floor", true),
            ("quarantine#42", true),
            ("request#r-1", false),
            ("Metadata", false),
            ("2026-01-01T00:00:00Z", false),
            (purge_marker::SORT_KEY, true),
            ("note", false),
        ] {
            assert_eq!(is_history(key, digits), expected, "{key}");
        }
    }

    #[test]
    fn a_stored_version_is_read_as_it_was() {
        let nested = |levels: usize| (1..levels).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}));
        for (attributes, expected) in [
            (
                json!({"A": {"N": "12345678901234567890123456789012345678"}, "Image": {"S": "of a client"}}),
                IMAGE,
            ),
            (
                json!({"A": {"SS": ["b", "a"]}, "B": {"B": "AAA="}, "ImageJson": {"S": "{}"}}),
                IMAGE,
            ),
            (json!({"A": nested(31)}), IMAGE),
            (json!({"A": nested(32), "N": {"N": "1.50"}}), IMAGE_JSON),
            (json!({}), IMAGE),
        ] {
            let mut version = attributes.clone();
            (version["PK"], version["SK"]) = (json!({"S": "E"}), json!({"S": "v1"}));
            (version["TTL"], version["Pinned"]) = (json!({"N": "5"}), json!({"BOOL": true}));
            let stored = stored(&item(version.clone()), Compression::None).unwrap();
            let mut names: Vec<_> = stored.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, [expected, "PK", "Pinned", "SK", "TTL"]);
            assert_eq!(version_item(stored), item(version));
        }
    }

    #[test]
    fn other_items_stay_as_they_are() {
        for other in [
            json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": "3"}}),
            json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "Image": {"S": "no map"}}),
            json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "ImageJson": {"S": "no JSON"}}),
            json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "ImageJson": {"S": "{}"}, "Image": {"M": {}}}),
        ] {
            assert_eq!(version_item(item(other.clone())), item(other));
        }
    }
}
