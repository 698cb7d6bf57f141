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
//! | further part of a version item | `part#v7#2`, `part#v7#3`, … | history |
//! | any other item | | latest items |
//!
//! A version item has one of three forms:
//!
//! | form | attributes besides the keys and the [marks](super::marks) | when |
//! |---|---|---|
//! | plain | beside the latest item: those of the version. In a history table: one map `Image`, so that no name of an attribute can be that of a key | it fits |
//! | compressed | [`PLAIN`] ones, and all others in `ImageDeflate` | it saves write units and [`Compression::Deflate`] is set, or the plain form does not fit |
//! | in parts | as compressed, with the number of items in `Parts` | the compressed image is larger than an item |
//!
//! So each latest item that `DynamoDB` accepts can become a version: the plain form can be too large, because the keys, marks and
//! names of a version take more bytes than those of its latest item, or too deep, because a map is one more level. The items of a
//! version in parts are written, marked, and moved together. Beside the latest item, a version whose attributes include
//! `ImageDeflate` is always compressed: the name tells the forms apart.

use std::collections::HashMap;

use super::{
    AttributeValue, Item,
    attributes::{n, s},
    compression::{self, Attributes, Compression},
    keys::{ItemKind, PART_PREFIX, VersionDigits, sort_key_of},
    marks::MARKS,
    names, purge_marker,
    size::{self, MAX_LEVELS},
};

/// Attribute with the version, a map.
pub const IMAGE: &str = "Image";
/// Attribute with the compressed version, or with one part of it, binary.
pub const IMAGE_DEFLATE: &str = "ImageDeflate";
/// Attributes beside a compressed version, for filters of requests and of streams.
pub const PLAIN: [&str; 7] = [
    names::REQUEST_ID,
    names::REQUEST_PAYLOAD,
    names::RECORDED_AT,
    names::ACTOR,
    names::CHANGE_SET,
    names::CHANGE_SET_SIZE,
    names::DELETED,
];
/// Maximum size in bytes of a [`PLAIN`] value. A larger one is compressed with the others.
const MAX_PLAIN_BYTES: usize = 1024;
/// Bytes that a plain form leaves free, in case that `DynamoDB` counts a value differently.
const RESERVE_BYTES: usize = 1024;
/// Bytes of a compressed image in each item of a version in parts. The rest of the limit is for the other attributes.
const PART_BYTES: usize = 390_000;
/// Maximum number of items of a version in parts. Compressed JSON is hardly longer than the item.
const MAX_PARTS: usize = 9;
/// Text before the name in the ARN of a table. A name has no colon.
const ARN_SEPARATOR: &str = ":table/";

/// Returns `true` if the item with this sort key is part of history.
pub fn is_history(sort_key: &str, digits: VersionDigits) -> bool {
    sort_key == purge_marker::SORT_KEY
        || matches!(
            digits.kind_of(sort_key),
            ItemKind::Version | ItemKind::Part | ItemKind::Floor | ItemKind::Quarantined
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

/// Converts a version item to the items that a history table stores: the version item, and its further parts.
pub fn stored(item: &Item, compression: Compression) -> Vec<Item> {
    let (outer, image) = split(item, &PLAIN);
    if let Some(bytes) = compression.apply(&image, size_beside(&outer)) {
        return with_bytes(outer, bytes);
    }
    let (mut outer, image) = split(item, &[]);
    if !is_plain(&outer, &image) {
        return compact(item);
    }
    let image = image.into_iter().map(|(name, value)| (name.to_owned(), value.clone()));
    outer.insert(IMAGE.to_owned(), AttributeValue::M(image.collect()));
    vec![Item::from(outer)]
}

/// Converts a version item to the items that the table of latest items stores: the version item, and its further parts.
pub fn stored_beside_latest(item: &Item) -> Vec<Item> {
    match !item.contains_key(IMAGE_DEFLATE) && is_within(size::of_item(item)) {
        true => vec![item.clone()],
        false => compact(item),
    }
}

/// Converts a version item to its compressed form, in parts if it is too large for an item.
pub fn compact(item: &Item) -> Vec<Item> {
    let (outer, image) = split(item, &PLAIN);
    match compression::deflate(&image) {
        Some(bytes) => with_bytes(outer, bytes),
        // Not reached: the JSON of an item that DynamoDB accepts is shorter than the limit.
        None => vec![item.clone()],
    }
}

/// Splits a version item into the attributes beside its image, its keys, marks and plain attributes, and the image.
fn split<'a>(item: &'a Item, plain: &[&str]) -> (HashMap<String, AttributeValue>, Attributes<'a>) {
    let is_outer = |(name, value): &(&String, &AttributeValue)| {
        let name = name.as_str();
        let is_plain = plain.contains(&name) && size::of_value(value) <= MAX_PLAIN_BYTES;
        [names::PK, names::SK].contains(&name) || MARKS.contains(&name) || is_plain
    };
    let (outer, image): (Vec<_>, Vec<_>) = item.iter().partition(is_outer);
    let outer = outer.into_iter().map(|(name, value)| (name.clone(), value.clone()));
    let image = image.into_iter().map(|(name, value)| (name.as_str(), value));
    (outer.collect(), image.collect())
}

/// Returns the version item with a compressed image, and its further parts.
fn with_bytes(outer: HashMap<String, AttributeValue>, mut bytes: Vec<u8>) -> Vec<Item> {
    let mut first = Item::from(outer);
    let is_one = size::check_version_bytes(size_beside(&first) + bytes.len()).is_ok();
    let rest = bytes.split_off(if is_one {
        bytes.len()
    } else {
        PART_BYTES.min(bytes.len())
    });
    let further = rest.chunks(PART_BYTES).zip(2..).map(|(bytes, part)| {
        let key = part_key(sort_key_of(&first).unwrap_or_default(), part);
        let mut item = Item::from(HashMap::from([
            (names::SK.to_owned(), s(key)),
            (IMAGE_DEFLATE.to_owned(), AttributeValue::B(bytes.to_vec())),
        ]));
        for name in [names::PK, names::TTL] {
            if let Some(value) = first.get(name) {
                item.insert(name.to_owned(), value.clone());
            }
        }
        item
    });
    let further: Vec<_> = further.collect();
    first.insert(IMAGE_DEFLATE.to_owned(), AttributeValue::B(bytes));
    if !further.is_empty() {
        first.insert(names::PARTS.to_owned(), n(further.len() + 1));
    }
    std::iter::once(first).chain(further).collect()
}

/// Returns `true` if a plain form of this size can be stored, including the marks that it can get later.
fn is_within(bytes: usize) -> bool {
    bytes + size::MARKS_BYTES + RESERVE_BYTES <= size::MAX_ITEM_BYTES
}

/// Returns the sort key of a further part of the version with this sort key.
pub fn part_key(version_key: &str, part: usize) -> String {
    format!("{PART_PREFIX}{version_key}#{part}")
}

/// Returns the sort keys of the further parts of a stored version item. Empty if it is not in parts.
pub fn part_keys(stored: &Item) -> Vec<String> {
    let parts = match (stored.get(names::PARTS), stored.get(IMAGE_DEFLATE)) {
        (Some(AttributeValue::N(parts)), Some(AttributeValue::B(_))) => parts.parse().unwrap_or_default(),
        _ => 0,
    };
    let key = sort_key_of(stored).unwrap_or_default();
    (2..=parts.min(MAX_PARTS)).map(|part| part_key(key, part)).collect()
}

/// Adds the further parts, in their order, to a stored version item. It then has the compressed form.
pub fn join(stored: &mut Item, further: Vec<Item>) {
    let Some(AttributeValue::B(mut bytes)) = stored.remove(IMAGE_DEFLATE) else {
        return;
    };
    for mut part in further {
        if let Some(AttributeValue::B(more)) = part.remove(IMAGE_DEFLATE) {
            bytes.extend(more);
        }
    }
    stored.remove(names::PARTS);
    stored.insert(IMAGE_DEFLATE.to_owned(), AttributeValue::B(bytes));
}

/// Returns the size of an item in bytes without its image. The name of a compressed image is the longest.
fn size_beside(outer: &HashMap<String, AttributeValue>) -> usize {
    size::of_attributes(outer) + IMAGE_DEFLATE.len()
}

/// Adds an image to the other attributes of an item. It is compressed if that saves write units, or if the item would not fit.
/// `None` if it cannot be serialized.
pub(super) fn add_image(
    mut outer: HashMap<String, AttributeValue>,
    image: Item,
    compression: Compression,
) -> Option<Item> {
    let attributes: Attributes<'_> = image.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let bytes = match compression.apply(&attributes, size_beside(&outer)) {
        None if is_plain(&outer, &attributes) => {
            outer.insert(IMAGE.to_owned(), AttributeValue::M(image.into()));
            return Some(Item::from(outer));
        }
        None => compression::deflate(&attributes)?,
        Some(bytes) => bytes,
    };
    outer.insert(IMAGE_DEFLATE.to_owned(), AttributeValue::B(bytes));
    Some(Item::from(outer))
}

/// Returns `true` if an item with its image in a map can be stored.
fn is_plain(outer: &HashMap<String, AttributeValue>, image: &Attributes<'_>) -> bool {
    let members = size::of_members(image.iter().map(|(name, value)| (*name, *value)));
    image.values().all(|value| size::levels(value) < MAX_LEVELS) && is_within(size_beside(outer) + members)
}

/// Removes the image from a stored item, and returns it. If there is none that can be read, the item stays as it is.
pub(super) fn take_image(item: &mut Item) -> Option<Item> {
    match (item.get(IMAGE), item.get(IMAGE_DEFLATE)) {
        (Some(AttributeValue::M(_)), None) => match item.remove(IMAGE) {
            Some(AttributeValue::M(image)) => Some(Item::from(image)),
            _ => None,
        },
        (None, Some(AttributeValue::B(bytes))) if !item.contains_key(names::PARTS) => {
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

/// Converts the item that the table of latest items stores to a version item, if it is compressed. Others stay as they are.
#[must_use]
pub fn version_item_beside_latest(item: Item) -> Item {
    match item.contains_key(IMAGE_DEFLATE) {
        true => version_item(item),
        false => item,
    }
}

#[cfg(test)]
mod tests;
