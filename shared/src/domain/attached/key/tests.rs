use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::{
    attributes::same_value,
    entity::is_reserved,
    test_values::{self, item, orders as table},
};

fn orders() -> AttachedTable {
    table(&[("customerId", KeyType::S), ("orderNo", KeyType::N)])
}

fn of_record(table: &AttachedTable, keys: Value) -> Result<EntityId, InvalidKey> {
    of_item(table, &item(keys))
}

#[test]
fn a_number_has_one_text() {
    let digits = "12345678901234567890123456789012345678";
    let tens = |zeros: usize| format!("1{}", "0".repeat(zeros));
    for (texts, expected) in [
        (vec!["1", "1.0", "01", "1e0", "10e-1", "+1"], "1".to_owned()),
        (vec!["0", "-0", "0.000", "0e50"], "0".to_owned()),
        (vec!["100", "1E2", "1e+2", "100.00"], "100".to_owned()),
        (vec!["-12.50", "-1.25e1"], "-12.5".to_owned()),
        (vec!["0.001", "1e-3"], "0.001".to_owned()),
        (vec![digits], digits.to_owned()),
        (vec!["1e37"], tens(37)),
        (vec!["1e38"], "1e38".to_owned()),
        (vec!["-1.5E100"], "-1.5e100".to_owned()),
        (vec!["1e-38"], format!("0.{}1", "0".repeat(37))),
        (vec!["1e-39"], "1e-39".to_owned()),
        (vec!["1.2e-38"], "1.2e-38".to_owned()),
        (vec!["9.9e125"], "9.9e125".to_owned()),
        (vec!["-1e-130"], "-1e-130".to_owned()),
    ] {
        for text in texts {
            assert_eq!(number_text(&Decimal::parse(text).unwrap()), expected, "{text}");
        }
    }
}

#[test]
fn both_sources_give_the_same_partition_key() {
    let expected = r#"{"customerId":"c \"1\" é","orderNo":7}"#;
    let keys = json!({"orderNo": {"N": "7"}, "customerId": {"S": "c \"1\" é"}});
    assert_eq!(of_record(&orders(), keys).unwrap().as_str(), expected);
    for written in [
        r#"{"customerId": "c \"1\" é", "orderNo": 7}"#,
        r#"{"orderNo": 7.0, "customerId": "c \"1\" \u00e9"}"#,
        r#"{"orderNo": "70e-1", "customerId": "c \"1\" é"}"#,
        r#"{"orderNo": {"N": "07"}, "customerId": {"S": "c \"1\" é"}}"#,
    ] {
        assert_eq!(parse(&orders(), written).unwrap().as_str(), expected, "{written}");
    }
    let texts = |texts: [&str; 2]| of_texts(&orders(), texts).and_then(|item| to_json(&orders(), &item));
    assert_eq!(texts(["c \"1\" é", "7.0"]).unwrap(), expected);
    assert_eq!(texts(["{", "-7"]).unwrap(), r#"{"customerId":"{","orderNo":-7}"#);
    assert_eq!(
        of_texts(&orders(), ["c"]),
        Err(InvalidKey::Missing("orderNo".to_owned()))
    );
    assert!(matches!(texts(["c", "secret"]), Err(InvalidKey::Number { .. })));
    // All 38 digits are exact.
    let number = "12345678901234567890123456789012345678";
    let written = format!(r#"{{"customerId": "c", "orderNo": {number}}}"#);
    let id = parse(&orders(), &written).unwrap();
    assert_eq!(id.as_str(), format!(r#"{{"customerId":"c","orderNo":{number}}}"#));
    let binary = table(&[("id", KeyType::B)]);
    let id = of_record(&binary, json!({"id": {"B": "AAH/"}})).unwrap();
    assert_eq!(id.as_str(), r#"{"id":"AAH/"}"#);
    for written in [r#"{"id": "AAH/"}"#, r#"{"id": {"B": "AAH/"}}"#] {
        assert_eq!(parse(&binary, written), Ok(id.clone()), "{written}");
    }
}

#[test]
fn a_long_key_is_hashed() {
    let table = table(&[("id", KeyType::S)]);
    // The JSON around the text has 9 bytes.
    let id = |length: usize| parse(&table, &json!({"id": "x".repeat(length)}).to_string()).unwrap();
    assert_eq!(id(2048 - 9).as_str().len(), 2048);
    let hashed = id(2048 - 8);
    assert!(hashed.as_str().starts_with("sha256:") && hashed.as_str().len() == 7 + 64);
    assert_ne!(hashed, id(2048 - 7));
    assert!(!is_reserved(hashed.as_str()));
}

#[test]
fn errors_name_the_attribute_and_not_the_value() {
    for line in r#"secret -> the key is not a JSON object
        [1] -> the key is not a JSON object
        {"c": "secret"} -> the key attribute n is missing
        {"c": "secret", "n": 1, "x": "y"} -> x is not a key attribute of the table
        {"c": 42, "n": 1} -> the key attribute c is not of type S
        {"c": {"N": "42"}, "n": 1} -> the key attribute c is not of type S
        {"c": "", "n": 1} -> the key attribute c is empty
        {"c": "c", "n": "secret"} -> the key attribute n is not a valid number
        {"c": "c", "n": 1e200} -> the key attribute n is not a valid number
        {"c": "c", "n": true} -> the key attribute n is not of type N
        {"b": "%"} -> the key attribute b is not base64"#
        .lines()
    {
        let (written, expected) = line.trim().split_once(" -> ").unwrap();
        let table = match written.contains('%') {
            true => table(&[("b", KeyType::B)]),
            false => table(&[("c", KeyType::S), ("n", KeyType::N)]),
        };
        let error = parse(&table, written).unwrap_err();
        assert_eq!(error.to_string(), expected, "{written}");
        assert!(!format!("{error:?}").contains("secret"));
    }
}

#[test]
fn keys_of_another_schema_have_an_id_for_quarantine() {
    let keys = item(json!({"b": {"N": "1"}, "a": {"S": "x"}}));
    assert!(of_item(&orders(), &keys).is_err());
    let id = of_other_keys(&keys).unwrap();
    assert_eq!(id.as_str(), r#"{"a":{"S":"x"},"b":{"N":"1"}}"#);
}

fn number_notation() -> impl Strategy<Value = String> {
    ("-?[0-9]{1,12}", "(\\.[0-9]{1,6})?", proptest::option::of(-20..20i32)).prop_map(|(whole, fraction, exponent)| {
        let exponent = exponent.map_or(String::new(), |exponent| format!("e{exponent}"));
        format!("{whole}{fraction}{exponent}")
    })
}

/// Returns values of the type of which some are equal.
fn value(kind: KeyType) -> BoxedStrategy<AttributeValue> {
    match kind {
        KeyType::S => prop_oneof!["[ab\"\\\\{}:,]{1,3}", "\\PC{1,4}"]
            .prop_map(AttributeValue::S)
            .boxed(),
        KeyType::B => proptest::collection::vec(0..3u8, 1..4)
            .prop_map(AttributeValue::B)
            .boxed(),
        KeyType::N => prop_oneof!["1|1\\.0|10e-1|0|-0\\.0|100|1e2", number_notation()]
            .prop_map(AttributeValue::N)
            .boxed(),
    }
}

fn kind() -> impl Strategy<Value = KeyType> {
    prop_oneof![Just(KeyType::S), Just(KeyType::N), Just(KeyType::B)]
}

fn keys() -> impl Strategy<Value = (AttachedTable, [Item; 2])> {
    (kind(), proptest::option::of(kind())).prop_flat_map(|(partition, sort)| {
        let item = move || {
            let sort = sort.map_or(Just(None).boxed(), |sort| value(sort).prop_map(Some).boxed());
            (value(partition), sort).prop_map(|(partition, sort)| {
                let members = [("p".to_owned(), Some(partition)), ("s".to_owned(), sort)];
                let members = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
                Item::from(members.collect::<std::collections::HashMap<_, _>>())
            })
        };
        let mut keys = vec![("p", partition)];
        keys.extend(sort.map(|sort| ("s", sort)));
        (Just(table(&keys)), [item(), item()])
    })
}

/// Returns the key as a user can write it: JSON numbers, in the reverse order.
fn written(item: &Item) -> String {
    let text = |value: &AttributeValue| match value {
        AttributeValue::S(text) => Value::from(text.as_str()).to_string(),
        AttributeValue::B(bytes) => Value::from(STANDARD.encode(bytes)).to_string(),
        // JSON numbers have no leading zeros.
        AttributeValue::N(number) => number_text(&Decimal::parse(number).unwrap()),
        _ => unreachable!(),
    };
    let names = test_values::names(item).into_iter().rev();
    let members: Vec<_> = names.map(|name| format!("\"{name}\": {}", text(&item[name]))).collect();
    format!("{{{}}}", members.join(", "))
}

proptest! {
    #[test]
    fn equal_keys_have_equal_ids_from_both_sources((table, [a, b]) in keys()) {
        let (id_a, id_b) = (of_item(&table, &a).unwrap(), of_item(&table, &b).unwrap());
        let is_same = a.iter().all(|(name, value)| same_value(value, &b[name]));
        prop_assert_eq!(id_a == id_b, is_same);
        prop_assert_eq!(parse(&table, &written(&a)).unwrap(), id_a.clone());
        prop_assert_eq!(parse(&table, &serde_json::to_string(&a).unwrap()).unwrap(), id_a.clone());
        // The id itself is a key that a user can write.
        prop_assert_eq!(parse(&table, id_a.as_str()).unwrap(), id_a.clone());
        prop_assert!(!is_reserved(id_a.as_str()));
    }
}
