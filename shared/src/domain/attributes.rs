//! Attribute values: comparison by value, and conversion from DynamoDB JSON and from JSON without `$` forms.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    AttributeValue, Item,
    number::{Decimal, InvalidNumber},
    version::Version,
};
use crate::json;

/// Converts JSON to an attribute value: string to S, number to N, boolean to BOOL, list to L, object to M, `null` to
/// NULL. All digits of a number are kept, except that every zero becomes `0`.
///
/// # Errors
///
/// Returns [`InvalidNumber`] if DynamoDB cannot store a number exactly.
pub fn from_json(value: Value) -> Result<AttributeValue, InvalidNumber> {
    converted(value, &|_| None)
}

/// Converts JSON to an attribute value. `special` converts objects that are not maps.
pub(super) fn converted<E: From<InvalidNumber>>(
    value: Value,
    special: &impl Fn(&Map<String, Value>) -> Option<Result<AttributeValue, E>>,
) -> Result<AttributeValue, E> {
    Ok(match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(value) => AttributeValue::Bool(value),
        Value::String(text) => AttributeValue::S(text),
        Value::Number(number) => AttributeValue::N(stored_number(number.to_string())?),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| converted(value, special));
            AttributeValue::L(values.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => match special(&members) {
            Some(value) => value?,
            None => map(members, special)?,
        },
    })
}

pub(super) fn map<E: From<InvalidNumber>>(
    members: Map<String, Value>,
    special: &impl Fn(&Map<String, Value>) -> Option<Result<AttributeValue, E>>,
) -> Result<AttributeValue, E> {
    let members = members.into_iter();
    let members = members.map(|(name, value)| Ok((name, converted(value, special)?)));
    Ok(AttributeValue::M(members.collect::<Result<_, E>>()?))
}

/// Returns the text with which a number is stored: every zero is `0`, because DynamoDB rejects a zero whose exponent is out of
/// range.
pub(super) fn stored_number(text: String) -> Result<String, InvalidNumber> {
    let is_zero = Decimal::parse(&text)?.to_u64() == Some(0);
    Ok(if is_zero { "0".to_owned() } else { text })
}

/// Returns the value of a string attribute, or `None` if it is missing or of another type.
pub fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    match item.get(name)? {
        AttributeValue::S(text) => Some(text),
        _ => None,
    }
}

/// Returns the value of a number attribute, or `None` if it is missing, of another type, or not a valid number.
pub fn number(item: &HashMap<String, AttributeValue>, name: &str) -> Option<Decimal> {
    match item.get(name)? {
        AttributeValue::N(number) => Decimal::parse(number).ok(),
        _ => None,
    }
}

/// Returns the value of a number attribute, or `None` if it is missing or not a whole number from 0 to [`u64::MAX`].
pub fn whole(item: &HashMap<String, AttributeValue>, name: &str) -> Option<u64> {
    number(item, name)?.to_u64()
}

/// Returns the version in an attribute, or `None` if it is missing or not a version.
pub fn version(item: &HashMap<String, AttributeValue>, name: &str) -> Option<Version> {
    Version::new(whole(item, name)?)
}

/// Returns a string value.
pub fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Returns a number value.
pub fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Returns `true` if DynamoDB treats two items as equal: numbers are compared by value, sets in any order.
pub fn same_item(a: &HashMap<String, AttributeValue>, b: &HashMap<String, AttributeValue>) -> bool {
    a.len() == b.len() && (a.iter()).all(|(name, value)| b.get(name).is_some_and(|other| same_value(value, other)))
}

/// Returns `true` if DynamoDB treats two values as equal, see [`same_item`].
pub fn same_value(a: &AttributeValue, b: &AttributeValue) -> bool {
    use AttributeValue::{Bs, L, M, N, Ns, Ss};
    match (a, b) {
        (N(a), N(b)) => same_number(a, b),
        (M(a), M(b)) => same_item(a, b),
        (L(a), L(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Ss(a), Ss(b)) => same_set(a, b, |text| text),
        (Bs(a), Bs(b)) => same_set(a, b, |bytes| bytes),
        (Ns(a), Ns(b)) => same_set(a, b, |number| Decimal::parse(number).map_err(|_| number)),
        (a, b) => a == b,
    }
}

fn same_number(a: &str, b: &str) -> bool {
    match (Decimal::parse(a), Decimal::parse(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Compares two sets by the values of their members, in a time in proportion to their length.
fn same_set<'a, T: PartialEq, V: Eq + Hash>(a: &'a [T], b: &'a [T], value: impl Fn(&'a T) -> V) -> bool {
    let values = |set: &'a [T]| set.iter().map(&value).collect::<HashSet<V>>();
    a == b || (a.len() == b.len() && values(a) == values(b))
}

/// Reads an attribute value in DynamoDB JSON, such as `{"N":"1"}`.
///
/// # Errors
///
/// Returns [`InvalidAttributeValue`] if the text is not an attribute value.
pub fn from_dynamodb_json(text: &str) -> Result<AttributeValue, InvalidAttributeValue> {
    json::typed(text).ok_or(InvalidAttributeValue)
}

/// Reads an item in DynamoDB JSON, such as `{"PK": {"S": "E"}, "SK": {"S": "v1"}}`.
///
/// # Errors
///
/// Returns [`InvalidAttributeValue`] if the text is not an item.
pub fn item_from_dynamodb_json(text: &str) -> Result<Item, InvalidAttributeValue> {
    json::typed(text).ok_or(InvalidAttributeValue)
}

/// The text is not an attribute value: unknown type, value of another type, or invalid base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is of an unknown type, its value is not of that type, or it is not valid base64")]
pub struct InvalidAttributeValue;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_compared_by_value() {
        const PAIRS: &str = r#"
            [{"N": "1.0"}, {"N": "1"}]                                                -> same
            [{"N": "1"}, {"S": "1"}]                                                  -> other
            [{"NS": ["1", "2"]}, {"NS": ["2.0", "1"]}]                                -> same
            [{"NS": ["1", "2"]}, {"NS": ["1", "3"]}]                                  -> other
            [{"SS": ["a", "b"]}, {"SS": ["b", "a"]}]                                  -> same
            [{"BS": ["YQ==", "Yg=="]}, {"BS": ["Yg==", "YQ=="]}]                      -> same
            [{"L": [{"N": "1"}]}, {"L": [{"N": "1.0"}]}]                              -> same
            [{"L": [{"S": "a"}, {"S": "b"}]}, {"L": [{"S": "b"}, {"S": "a"}]}]        -> other
            [{"M": {"x": {"N": "1"}}}, {"M": {"x": {"N": "2"}}}]                      -> other
            [{"M": {"x": {"N": "1"}}}, {"M": {"x": {"N": "1"}, "y": {"N": "1"}}}]     -> other
            [{"M": {"x": {"N": "1"}}}, {"M": {"y": {"N": "1"}}}]                      -> other
            [{"M": {}}, {"M": {}}]                                                    -> same
            [{"NULL": true}, {"NULL": true}]                                          -> same
        "#;
        for (pair, expected) in testkit::cases::cases(PAIRS) {
            let [a, b] = [0, 1].map(|index| from_dynamodb_json(&pair[index].to_string()).unwrap());
            assert_eq!(same_value(&a, &b), expected == "same", "{pair}");
            assert_eq!(same_value(&b, &a), expected == "same", "{pair}");
        }
    }

    #[test]
    fn the_time_for_two_sets_is_in_proportion_to_their_length() {
        let set = |numbers: Vec<u32>| AttributeValue::Ns(numbers.iter().map(ToString::to_string).collect());
        let (up, down) = (set((0..60_000).collect()), set((0..60_000).rev().collect()));
        // With a comparison of each pair, these take minutes.
        assert!(same_value(&up, &down));
        assert!(!same_value(&up, &set((1..=60_000).rev().collect())));
    }

    #[test]
    fn errors_do_not_hold_invalid_values() {
        for text in [
            r#" {} null [] "secret" {"X":"secret"} {"N":5} {"S":null} {"Q":"secret"} {"B":"secret!"}"#,
            r#"{"S":"secret","N":"1"} {"BS":["Zg==","!"]} {"L":[{"Q":1}]} {"M":{"a":{"Q":1}}}"#,
        ]
        .into_iter()
        .flat_map(|texts| texts.split(' '))
        {
            let error = from_dynamodb_json(text).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"), "{text}");
        }
        // Nesting deeper than the parser allows is an error, not a stack overflow.
        let deep = format!("{}{}", r#"{"L":["#.repeat(10_000), "]}".repeat(10_000));
        assert!(from_dynamodb_json(&deep).is_err());
    }

    #[test]
    fn reserved_names_of_libraries_are_names() {
        for name in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let image = json!({name: {"S": "[1"}, "M": {"M": {name: {"M": {name: {"N": "1"}}}}}, "L": {"L": [{"M": {name: {"S": name}}}]}});
            let item = item_from_dynamodb_json(&image.to_string()).unwrap();
            assert_eq!(serde_json::to_value(item).unwrap(), image);
            let plain = json!({name: "{\"x\": 1}"});
            let expected = HashMap::from([(name.to_owned(), s("{\"x\": 1}"))]);
            assert_eq!(from_json(plain).unwrap(), AttributeValue::M(expected));
        }
    }

    proptest! {
        #[test]
        fn every_digit_of_a_json_number_is_kept(number in "-?[1-9][0-9]{0,20}(\\.[0-9]{1,17})?") {
            let value = crate::json::parse(&number).unwrap();
            prop_assert_eq!(from_json(value).unwrap(), AttributeValue::N(number));
        }
    }
}
