use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::domain::{
    attributes::same_item,
    layout::{self, IMAGE, IMAGE_DEFLATE},
    test_values::{any_value, item, names, random},
};

fn attributes(item: &Item) -> Attributes<'_> {
    item.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// Returns an order with lines that differ, of about 90 bytes each.
fn order(lines: usize) -> Value {
    let line = |number: usize| {
        json!({"M": {
            "Sku": {"S": format!("SKU-{:08}", number * 7_919)}, "Name": {"S": format!("Bearing {number} mm")},
            "Quantity": {"N": (number % 7).to_string()}, "UnitPrice": {"N": format!("{}.50", number * 31)}, "Warehouse": {"S": "north"},
        }})
    };
    json!({
        "PK": {"S": "Order#1"}, "SK": {"S": "v7"}, "TTL": {"N": "1"}, "RequestId": {"S": "r-7"}, "Actor": {"S": "alice"},
        "ChangeSet": {"S": "import-7"},
        "ChangeSetSize": {"N": "2"},
        "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "Lines": {"L": (0..lines).map(line).collect::<Vec<_>>()},
    })
}

/// Returns the only item of a version.
fn only(mut items: Vec<Item>) -> Item {
    assert_eq!(items.len(), 1);
    items.remove(0)
}

fn stored(version: &Item) -> Item {
    only(layout::stored(version, Compression::Deflate))
}

#[test]
fn a_compressed_version_keeps_what_filters_use() {
    let version = item(order(30));
    let stored = stored(&version);
    let kept = [
        "Actor",
        "ChangeSet",
        "ChangeSetSize",
        IMAGE_DEFLATE,
        "PK",
        "RecordedAt",
        "RequestId",
        "SK",
        "TTL",
    ];
    assert_eq!(names(&stored), kept);
    assert!(3 * size::of_item(&stored) < size::of_item(&version));
    assert_eq!(layout::version_item(stored), version);
    let none = only(layout::stored(&version, Compression::None));
    assert!(none.contains_key(IMAGE));
    // Equal versions have equal bytes.
    assert!((0..20).all(|_| self::stored(&item(order(30))) == self::stored(&version)));
}

#[test]
fn an_image_is_compressed_only_if_that_saves_write_units() {
    let text = |bytes: usize| AttributeValue::S("ab".repeat(bytes / 2));
    for (value, expected) in [
        (text(900), IMAGE),
        (text(1100), IMAGE_DEFLATE),
        (text(300_000), IMAGE_DEFLATE),
        (random(1100), IMAGE),
        (random(20_000), IMAGE),
    ] {
        let mut version = item(json!({"PK": {"S": "E"}, "SK": {"S": "v1"}}));
        version.insert("A".to_owned(), value);
        let stored = stored(&version);
        assert!(stored.contains_key(expected), "{}", size::of_item(&version));
        assert_eq!(layout::version_item(stored), version);
    }
}

#[test]
fn an_image_with_a_long_text_is_neither_compressed_nor_read() {
    // The JSON of a number has up to 130 digits, for a few bytes of an item.
    let number = format!("1{}", "0".repeat(125));
    let long = vec![AttributeValue::N(number); MAX_JSON / 120];
    let mut version = item(json!({"PK": {"S": "E"}, "SK": {"S": "v1"}}));
    version.insert("A".to_owned(), AttributeValue::L(long));
    // DynamoDB accepts no such item.
    assert!(size::of_item(&version) > size::MAX_ITEM_BYTES);
    assert_eq!(stored(&version), version);

    let zeros = |bytes: usize| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Level::default());
        let text = format!(r#"{{"A":{{"S":"{}"}}}}"#, "0".repeat(bytes - 14));
        encoder.write_all(text.as_bytes()).unwrap();
        (text.len(), encoder.finish().unwrap())
    };
    for (bytes, is_read) in [(MAX_JSON, true), (MAX_JSON + 1, false), (2 * MAX_JSON, false)] {
        let (length, text) = zeros(bytes);
        assert_eq!(length, bytes);
        assert!(text.len() < size::MAX_ITEM_BYTES);
        assert_eq!(inflate(&text).is_some(), is_read, "{bytes}");
    }
}

#[test]
fn bytes_that_are_no_image_are_not_read() {
    let image = item(order(30));
    let bytes = deflate(&attributes(&image)).unwrap();
    assert_eq!(inflate(&bytes), Some(image));
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bytes in [&[][..], b"no zlib", &bytes[..bytes.len() / 2], &flipped] {
        assert_eq!(inflate(bytes), None);
    }
    for other in [
        json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "ImageDeflate": {"B": "AAAA"}}),
        json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "ImageDeflate": {"S": "text"}}),
    ] {
        assert_eq!(layout::version_item(item(other.clone())), item(other));
    }
}

proptest! {
    /// Any attribute can be in a version item, also under a name of this project.
    #[test]
    fn any_version_is_read_as_it_was(
        values in prop::collection::hash_map("[A-Za-z$ ]{1,8}|Image|ImageDeflate|Parts|RequestId|Deleted|TTL", any_value(), 0..8),
        filler in 0_usize..4000,
    ) {
        let mut version = Item::from(values);
        for (name, value) in [("PK", "E"), ("SK", "v1"), ("Filler", &"a".repeat(filler))] {
            version.insert(name.to_owned(), AttributeValue::S(value.to_owned()));
        }
        let stored = stored(&version);
        prop_assert!(filler < 1024 || stored.contains_key(IMAGE_DEFLATE));
        prop_assert_eq!(&layout::version_item(stored), &version);

        let image = inflate(&deflate(&attributes(&version)).unwrap()).unwrap();
        prop_assert!(same_item(&image, &version));
        prop_assert_eq!(image, version);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = inflate(&bytes);
        // With the header of zlib.
        let _ = inflate(&[&[0x78, 0x9c][..], &bytes].concat());
    }
}
