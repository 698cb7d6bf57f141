//! Parsers and serializers of attribute values, in DynamoDB JSON and in plain JSON.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use serde_json::Number;
use shared::{
    domain::{AttributeValue, Item, attributes as domain, attributes::same_item, number::Decimal, plain, size},
    json,
};

use crate::errors;

/// Parses the input as DynamoDB JSON, as the plain JSON of an update, and as the plain JSON of an operator. The serialization of
/// a parsed value must parse to the same value.
pub fn attributes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(number) = Decimal::parse(text) {
        assert!(number.bytes() <= 21, "a number of more than 21 bytes");
    }
    match domain::from_dynamodb_json(text) {
        Ok(value) => check(&value),
        Err(error) => errors::check(&error, ""),
    }
    let Ok(json) = json::parse(text) else { return };
    match domain::from_json(json.clone()) {
        Ok(value) => check(&value),
        Err(error) => errors::check(&error, ""),
    }
    let names = errors::names(&json);
    match plain::from_json(json) {
        Ok(value) => check_plain_json(&value),
        Err(error) => errors::check(&error, &names),
    }
}

fn check(value: &AttributeValue) {
    check_plain_json(value);
    let text = serde_json::to_string(value).unwrap_or_else(|error| panic!("a value cannot be serialized: {error}"));
    // One level of an attribute value is two levels of JSON, of which the parser accepts 128.
    let Ok(again) = domain::from_dynamodb_json(&text) else {
        let is_too_deep = size::check_attribute("A", value).is_err();
        return assert!(is_too_deep, "the DynamoDB JSON is rejected");
    };
    assert!(again == *value, "the DynamoDB JSON parses to a different value");
    assert_eq!(size::of_value(&again), size::of_value(value));
    let [again, item] = [&again, value].map(|value| Item::from(HashMap::from([("A".to_owned(), value.clone())])));
    assert!(same_item(&again, &item), "an item does not equal itself");
}

/// Checks values that DynamoDB can store, which excludes invalid numbers, invalid sets and `NULL: false`.
fn check_plain_json(value: &AttributeValue) {
    let printed = plain::attribute(value).to_string();
    if !is_storable(value) || size::check_attribute("A", value).is_err() {
        return;
    }
    let again = json::parse(&printed).map(plain::from_json);
    let is_same = again.is_ok_and(|again| again.is_ok_and(|again| again == *value));
    assert!(is_same, "the plain JSON is invalid, or parses to a different value");
}

fn is_storable(value: &AttributeValue) -> bool {
    use AttributeValue::{Bs, L, M, N, Ns, Null, Ss};
    fn is_set<T: Eq + Hash>(values: impl ExactSizeIterator<Item = T>) -> bool {
        let count = values.len();
        count > 0 && values.collect::<HashSet<_>>().len() == count
    }
    let number = |text: &String| {
        Decimal::parse(text).is_ok() && text.parse::<Number>().is_ok_and(|number| number.to_string() == *text)
    };
    match value {
        N(text) => number(text),
        Ns(texts) => texts.iter().all(number) && is_set(texts.iter().map(|text| Decimal::parse(text).ok())),
        Ss(texts) => is_set(texts.iter()),
        Bs(values) => is_set(values.iter()),
        Null(value) => *value,
        L(values) => values.iter().all(is_storable),
        M(members) => members.values().all(is_storable),
        _ => true,
    }
}
