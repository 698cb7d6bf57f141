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
pub const PLAIN: [&str; 5] = [
    names::REQUEST_ID,
    names::REQUEST_PAYLOAD,
    names::RECORDED_AT,
    names::ACTOR,
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
    let (outer, image) = split(item);
    if let Some(bytes) = compression.apply(&image, size_beside(outer.iter())) {
        return with_bytes(outer, bytes);
    }
    let (mut outer, mut image) = (HashMap::new(), item.clone());
    for name in [names::PK, names::SK].into_iter().chain(MARKS) {
        if let Some(value) = image.remove(name) {
            outer.insert(name.to_owned(), value);
        }
    }
    if !is_plain(&outer, &image) {
        return compact(item);
    }
    outer.insert(IMAGE.to_owned(), AttributeValue::M(image.into()));
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
    let (outer, image) = split(item);
    match compression::deflate(&image) {
        Some(bytes) => with_bytes(outer, bytes),
        // Not reached: the JSON of an item that DynamoDB accepts is shorter than the limit.
        None => vec![item.clone()],
    }
}

/// Splits a version item into the attributes beside its compressed image, and the image.
fn split(item: &Item) -> (HashMap<String, AttributeValue>, Attributes<'_>) {
    let is_outer = |(name, value): &(&String, &AttributeValue)| {
        let is_plain = PLAIN.contains(&name.as_str()) && size::of_value(value) <= MAX_PLAIN_BYTES;
        [names::PK, names::SK].contains(&name.as_str()) || MARKS.contains(&name.as_str()) || is_plain
    };
    let (outer, image): (Vec<_>, Vec<_>) = item.iter().partition(is_outer);
    let outer = outer.into_iter().map(|(name, value)| (name.clone(), value.clone()));
    let image = image.into_iter().map(|(name, value)| (name.as_str(), value));
    (outer.collect(), image.collect())
}

/// Returns the version item with a compressed image, and its further parts.
fn with_bytes(outer: HashMap<String, AttributeValue>, mut bytes: Vec<u8>) -> Vec<Item> {
    let mut first = Item::from(outer);
    let is_one = size::of_item(&first) + IMAGE_DEFLATE.len() + bytes.len() + size::MARKS_BYTES <= size::MAX_ITEM_BYTES;
    let rest = bytes.split_off(if is_one {
        bytes.len()
    } else {
        PART_BYTES.min(bytes.len())
    });
    let further = rest.chunks(PART_BYTES).zip(2..).map(|(bytes, part)| {
        let key = part_key(sort_key_of(&first).unwrap_or_default(), part);
        let mut item = Item::from(HashMap::from([
            (names::SK.to_owned(), AttributeValue::S(key)),
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
        let parts = AttributeValue::N((further.len() + 1).to_string());
        first.insert(names::PARTS.to_owned(), parts);
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
fn size_beside<'a>(outer: impl Iterator<Item = (&'a String, &'a AttributeValue)>) -> usize {
    let outer = outer.map(|(name, value)| name.len() + size::of_value(value));
    outer.sum::<usize>() + IMAGE_DEFLATE.len()
}

/// Adds an image to the other attributes of an item. It is compressed if that saves write units, or if the item would not fit.
/// `None` if it cannot be serialized.
pub(super) fn add_image(
    mut outer: HashMap<String, AttributeValue>,
    image: Item,
    compression: Compression,
) -> Option<Item> {
    let attributes: Attributes<'_> = image.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let bytes = match compression.apply(&attributes, size_beside(outer.iter())) {
        None if is_plain(&outer, &image) => {
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
fn is_plain(outer: &HashMap<String, AttributeValue>, image: &Item) -> bool {
    let levels = image.values().map(size::levels).max().unwrap_or_default();
    let members: usize = image
        .iter()
        .map(|(name, value)| 1 + name.len() + size::of_value(value))
        .sum();
    levels < MAX_LEVELS && is_within(size_beside(outer.iter()) + 3 + members)
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
            ("part#v7#2", true),
            ("part#v07#2", false),
            ("part#v7", false),
        ] {
            assert_eq!(is_history(key, digits), expected, "{key}");
        }
    }

    /// Returns bytes that do not compress.
    fn random(bytes: usize) -> AttributeValue {
        let mut random = fastrand::Rng::with_seed(7);
        AttributeValue::B(std::iter::repeat_with(|| random.u8(..)).take(bytes).collect())
    }

    /// Returns the stored items as one flat version item.
    fn read(mut stored: Vec<Item>, flat: impl Fn(Item) -> Item) -> Item {
        let further = stored.split_off(1);
        let keys: Vec<_> = further.iter().filter_map(sort_key_of).collect();
        assert_eq!(keys, part_keys(&stored[0]));
        if !further.is_empty() {
            join(&mut stored[0], further);
        }
        flat(stored.remove(0))
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
                json!({"A": {"SS": ["b", "a"]}, "B": {"B": "AAA="}, "ImageDeflate": {"B": "AAAA"}, "Parts": {"N": "2"}}),
                IMAGE,
            ),
            (json!({"A": nested(31)}), IMAGE),
            (json!({"A": nested(32), "N": {"N": "1.50"}}), IMAGE_DEFLATE),
            (json!({}), IMAGE),
        ] {
            let mut version = attributes.clone();
            (version["PK"], version["SK"]) = (json!({"S": "E"}), json!({"S": "v1"}));
            (version["TTL"], version["Pinned"]) = (json!({"N": "5"}), json!({"BOOL": true}));
            let stored = stored(&item(version.clone()), Compression::None);
            let mut names: Vec<_> = stored[0].keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, [expected, "PK", "Pinned", "SK", "TTL"]);
            assert_eq!(read(stored, super::version_item), item(version));
        }
    }

    /// Bytes of a latest item that are no part of its version do not decide what fits.
    #[test]
    fn a_version_of_every_latest_item_that_fits_has_items_that_fit() {
        let of = |attributes: Vec<(String, AttributeValue)>, bytes: usize| {
            let mut version = Item::from(HashMap::from_iter(attributes));
            for (name, value) in [("PK", "E".to_owned()), ("SK", format!("v{}", "9".repeat(20)))] {
                version.insert(name.to_owned(), AttributeValue::S(value));
            }
            let filler = bytes - size::of_item(&version) - "Z".len();
            version.insert("Z".to_owned(), random(filler));
            assert_eq!(size::of_item(&version), bytes);
            version
        };
        let many = (0..541).map(|number| (format!("A{number}"), AttributeValue::S("a".repeat(700))));
        let deep = |text: &str| {
            let innermost = AttributeValue::S(text.to_owned());
            (1..32).fold(innermost, |inner, _| {
                AttributeValue::M(HashMap::from([("k".to_owned(), inner)]))
            })
        };
        let named = |name: &str, value| vec![(name.to_owned(), value)];
        let longest = (0..40_000).map(|_| AttributeValue::N(format!("0.{}1", "0".repeat(129))));
        for (attributes, bytes, forms) in [
            (vec![], 10_000, [1, 1]),
            (vec![], size::MAX_ITEM_BYTES - 1100, [1, 1]),
            // The bytes of `v0` are larger in any form.
            (vec![], size::MAX_ITEM_BYTES + 100, [2, 2]),
            (many.collect(), 409_583, [1, 1]),
            (named("Deep", deep(&"d".repeat(187_000))), 200_000, [1, 1]),
            (named("Deep", deep("d")), size::MAX_ITEM_BYTES, [2, 2]),
            (
                named(IMAGE_DEFLATE, AttributeValue::S("of a client".to_owned())),
                300_000,
                [1, 1],
            ),
            (
                named("Actor", AttributeValue::S("a".repeat(300_000))),
                size::MAX_ITEM_BYTES,
                [1, 1],
            ),
            (
                named("L", AttributeValue::L(longest.collect())),
                size::MAX_ITEM_BYTES,
                [1, 1],
            ),
        ] {
            let version = of(attributes, bytes);
            let own = [Compression::None, Compression::Deflate].map(|compression| stored(&version, compression));
            assert_eq!(own.each_ref().map(Vec::len), [forms[1]; 2], "{bytes}");
            let beside = stored_beside_latest(&version);
            assert_eq!(beside.len(), forms[0], "{bytes}");
            for stored in own.iter().flatten().chain(&beside) {
                assert!(
                    size::of_item(stored) + size::MARKS_BYTES <= size::MAX_ITEM_BYTES,
                    "{bytes}"
                );
                assert!(stored.values().all(|value| size::levels(value) <= MAX_LEVELS));
            }
            for stored in own {
                assert_eq!(read(stored, super::version_item), version, "{bytes}");
            }
            assert_eq!(read(beside, version_item_beside_latest), version, "{bytes}");
        }
    }

    #[test]
    fn parts_expire_with_their_version() {
        let mut version =
            item(json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "TTL": {"N": "5"}, "Pinned": {"BOOL": true}}));
        version.insert("A".to_owned(), random(size::MAX_ITEM_BYTES));
        let stored = stored(&version, Compression::None);
        let names = stored
            .iter()
            .map(|item| [names::TTL, names::PINNED].map(|name| item.contains_key(name)));
        assert_eq!(names.collect::<Vec<_>>(), [[true, true], [true, false]]);
        // Without its parts, a version is no version of other attributes.
        assert_eq!(version_item(stored[0].clone()), stored[0]);
    }

    #[test]
    fn a_user_attribute_is_never_taken_for_an_image_beside_the_latest_item() {
        for (name, value) in [
            (IMAGE_DEFLATE, json!({"B": "AAAA"})),
            (IMAGE, json!({"M": {}})),
            ("Parts", json!({"N": "2"})),
        ] {
            let mut version = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}});
            version[name] = value;
            let version = item(version);
            let stored = stored_beside_latest(&version);
            assert_eq!(stored[0] == version, name != IMAGE_DEFLATE);
            assert_eq!(read(stored, version_item_beside_latest), version);
        }
    }

    #[test]
    fn other_items_stay_as_they_are() {
        for other in [
            json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": "3"}}),
            json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "Image": {"S": "no map"}}),
            json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "ImageDeflate": {"B": "AAAA"}, "Image": {"M": {}}}),
        ] {
            assert_eq!(version_item(item(other.clone())), item(other));
        }
    }
}
