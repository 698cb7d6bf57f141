//! The canonical form of generated values, compared with the one of `verify.py`, which was written from `docs/log-format.md`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    io::{Seek as _, Write as _},
    process::Command,
};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use seal::{format::canonical::canonical, hex, proof::value::ShownValue};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, attributes::from_dynamodb_json};

const VALUES: usize = 3_000;
/// Prints the bytes of each value, or that it has none. A line is a value, and its text in a proof.
const PROGRAM: &str = "
import json, sys, verify
for line in sys.stdin:
    value, shown = json.loads(line)
    try:
        content = verify.canonical_value(value).hex()
        print(content if verify.canonical_value(shown, strict=True).hex() == content else 'another text')
    except verify.VerificationError:
        print('none')
";

/// Also values that have no form: too many digits, empty sets, equal elements, too many levels.
fn values() -> impl Strategy<Value = Value> {
    let number = || "-?0{0,2}[0-9]{1,4}|-?[1-9][0-9]{30,38}|-?[0-9]{0,3}[0-9](\\.[0-9]{1,6}0{0,2})|1?0\\.0{120,132}[1-9]|[1-9]0{120,127}";
    let text = || "[a-c\u{e9}\u{301}\u{fffd}\u{10000}\"\\\\\n ]{0,3}";
    let binary = || prop::sample::select(vec!["", "AA==", "AP8=", "//79", "YQ=="]);
    let leaf = prop_oneof![
        text().prop_map(|text| json!({"S": text})),
        number().prop_map(|number| json!({"N": number})),
        binary().prop_map(|binary| json!({"B": binary})),
        any::<bool>().prop_map(|value| json!({"BOOL": value})),
        Just(json!({"NULL": true})),
        prop::collection::vec(text(), 0..4).prop_map(|texts| json!({"SS": texts})),
        prop::collection::vec(number(), 0..4).prop_map(|numbers| json!({"NS": numbers})),
        prop::collection::vec(binary(), 0..4).prop_map(|binaries| json!({"BS": binaries})),
    ];
    let nested = leaf.prop_recursive(4, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|values| json!({"L": values})),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|members| json!({"M": members})),
        ]
    });
    let levels = prop_oneof![9 => Just(0), 1 => 28..34_usize];
    (nested, levels).prop_map(|(value, levels)| (0..levels).fold(value, |value, _| json!({"L": [value]})))
}

#[test]
fn values_have_the_bytes_of_the_second_verifier() {
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (mut lines, mut expected) = (String::new(), Vec::new());
    for _ in 0..VALUES {
        let value = values().new_tree(&mut runner).unwrap().current();
        let read: AttributeValue = from_dynamodb_json(&value.to_string()).unwrap();
        let bytes = canonical(&read);
        let shown = bytes
            .as_ref()
            .map_or_else(|_| value.clone(), |_| json!(ShownValue(read.clone())));
        expected.push(bytes.map_or_else(|_| "none".to_owned(), |bytes| hex(&bytes)));
        lines += &(json!([value, shown]).to_string() + "\n");
    }
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    input.rewind().unwrap();
    let Ok(output) = Command::new("python3")
        .args(["-c", PROGRAM])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(input)
        .output()
    else {
        return;
    };
    let output = String::from_utf8(output.stdout).unwrap();
    let found: Vec<_> = output.lines().collect();
    assert_eq!(found.len(), VALUES);
    for ((line, found), expected) in lines.lines().zip(found).zip(&expected) {
        assert_eq!(found, expected, "{line}");
    }
    let without_form = expected.iter().filter(|bytes| *bytes == "none").count();
    assert!(
        (VALUES / 20..VALUES / 2).contains(&without_form),
        "{without_form} values have no form"
    );
}
