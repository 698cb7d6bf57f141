//! The test vectors of `docs/log-format.md`, in `vectors.json`. With `UPDATE_VECTORS=1`, the results are written.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use seal::format::{
    canonical::canonical,
    commitment::{MemberKey, commitment, content_root},
    leaf::{Kind, Leaf, entity_tag},
    member::{Namespace, Path},
};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, attributes::from_dynamodb_json};

fn hex(bytes: &[u8]) -> Value {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16).unwrap());
    bytes.iter().flat_map(digits).collect::<String>().into()
}

fn text<'a>(vectors: &'a Value, name: &str) -> &'a str {
    vectors[name].as_str().unwrap()
}

/// Returns the vectors with the results that this implementation computes.
fn computed(mut vectors: Value) -> Value {
    let version = vectors["Version"].as_u64().unwrap();
    let (table, entity) = (text(&vectors, "Table").to_owned(), text(&vectors, "Entity").to_owned());
    for vector in vectors["Values"].as_array_mut().unwrap() {
        let value = from_dynamodb_json(&vector["Value"].to_string()).unwrap();
        vector["Bytes"] = hex(&canonical(&value).unwrap());
    }
    let names = vectors["Path"].as_array().unwrap().iter();
    let path = Path {
        namespace: Namespace::Attribute,
        names: names.map(|name| name.as_str().unwrap().to_owned()).collect(),
    };
    let key = MemberKey([7; 32]);
    assert_eq!(hex(&key.0), vectors["Key"]);
    assert_eq!(format!("{key:?}"), "MemberKey");
    let salt = key.salt(&table, version);
    let committed = commitment(&salt, &path, &AttributeValue::S("H1".to_owned())).unwrap();
    // Of the value and two others.
    let content = content_root(vec![committed, [1; 32], [255; 32]]);
    let tag = entity_tag(&key.0, &table, &entity).unwrap();
    let leaf = Leaf {
        kind: Kind::Version,
        tag,
        version,
        content,
    };
    for (name, bytes) in [
        ("PathBytes", path.bytes().unwrap()),
        ("Salt", salt.to_vec()),
        (
            "SaltOfOperation",
            key.salt_of_operation(&table, version, [9; 16]).to_vec(),
        ),
        ("Commitment", committed.to_vec()),
        ("Content", content.to_vec()),
        ("Tag", tag.to_vec()),
        ("Leaf", leaf.bytes().to_vec()),
    ] {
        vectors[name] = hex(&bytes);
    }
    vectors
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the environment selects the update")]
fn vectors_are_computed_as_they_are_stored() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors.json");
    let stored = std::fs::read_to_string(file).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let vectors = computed(stored.clone());
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(file, serde_json::to_string_pretty(&vectors).unwrap() + "\n").unwrap();
        return;
    }
    assert_eq!(
        stored,
        vectors,
        "{}",
        json!("run the test with UPDATE_VECTORS=1 to write the results")
    );
}
