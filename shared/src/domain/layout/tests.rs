use serde_json::json;

use super::*;
use crate::domain::{
    test_values::{item, names as names_of, nested, random},
    time_index::INSERTED_AT,
};

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
    for (keys, expected) in [
        ("v1 v10 floor quarantine#42 purged part#v7#2", true),
        (
            "v0 v00 v01 request#r-1 Metadata 2026-01-01T00:00:00Z note part#v7",
            false,
        ),
    ] {
        for key in keys.split(' ') {
            assert_eq!(is_history(key, VersionDigits::default()), expected, "{key}");
        }
    }
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
    for (attributes, expected) in [
        (
            json!({"A": {"N": "12345678901234567890123456789012345678"}, "Image": {"S": "x"}}),
            IMAGE,
        ),
        (
            json!({"A": {"SS": ["b", "a"]}, "ImageDeflate": {"B": "AAAA"}, "Parts": {"N": "2"}}),
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
        assert_eq!(names_of(&stored[0]), [expected, "PK", "Pinned", "SK", "TTL"]);
        assert_eq!(read(stored, super::version_item), item(version));
    }
}

/// Bytes of a latest item that are no part of its version do not decide what fits.
#[test]
fn a_version_of_every_latest_item_that_fits_has_items_that_fit() {
    let of = |attributes: Vec<(String, AttributeValue)>, bytes: usize| {
        let mut version = Item::from(HashMap::from_iter(attributes));
        for (name, value) in [("PK", "E".to_owned()), ("SK", format!("v{}", "9".repeat(20)))] {
            version.insert(name.to_owned(), s(value));
        }
        let filler = bytes - size::of_item(&version) - "Z".len();
        version.insert("Z".to_owned(), random(filler));
        assert_eq!(size::of_item(&version), bytes);
        version
    };
    let many = (0..541).map(|number| (format!("A{number}"), s("a".repeat(700))));
    let deep = |text: &str| {
        (1..32).fold(s(text), |inner, _| {
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
        (named(IMAGE_DEFLATE, s("of a client")), 300_000, [1, 1]),
        (named("Actor", s("a".repeat(300_000))), size::MAX_ITEM_BYTES, [1, 1]),
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
            assert!(size::check_version_bytes(size::of_item(stored)).is_ok(), "{bytes}");
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
    let mut version = item(
        json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "TTL": {"N": "5"}, "Pinned": {"BOOL": true}, "InsertedAt": {"S": "1"}}),
    );
    version.insert("A".to_owned(), random(size::MAX_ITEM_BYTES));
    let stored = stored(&version, Compression::None);
    let names = stored
        .iter()
        .map(|item| [names::TTL, names::PINNED, INSERTED_AT].map(|name| item.contains_key(name)));
    assert_eq!(names.collect::<Vec<_>>(), [[true, true, true], [true, false, false]]);
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
