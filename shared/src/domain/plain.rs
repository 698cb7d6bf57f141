//! Lossless conversion between attribute values and plain JSON.
//!
//! | DynamoDB | JSON |
//! |---|---|
//! | S, BOOL, L, M | string, boolean, list, object |
//! | N | number, with all its digits; read from `{"$number": "text"}` too, for clients that round numbers |
//! | NULL | `{"$null": true}` among an item's attributes, `null` inside a list or a map |
//! | B | `{"$binary": "base64"}` |
//! | SS, NS, BS | `{"$strings": […]}`, `{"$numbers": […]}`, `{"$binaries": […]}` |
//! | M whose only member has a name that begins with `$` | `{"$map": {…}}` |

use std::{collections::HashSet, hash::Hash};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value, json};
use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::{self, stored_number},
    number::{Decimal, InvalidNumber},
};
use crate::{json, printable::shortened};

/// Returns an item's attributes as plain JSON, sorted by name.
pub fn attributes(item: &Item) -> Map<String, Value> {
    let mut members: Vec<_> = item
        .iter()
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect();
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    members.into_iter().collect()
}

/// Returns one attribute as plain JSON. NULL is `{"$null": true}`, because `null` removes an attribute in an update.
pub fn attribute(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Null(_) => json!({"$null": true}),
        value => to_json(value),
    }
}

fn to_json(value: &AttributeValue) -> Value {
    let base64 = |bytes: &Vec<u8>| STANDARD.encode(bytes);
    match value {
        AttributeValue::S(text) => json!(text),
        AttributeValue::N(text) => number(text),
        AttributeValue::Bool(value) => json!(value),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::B(bytes) => json!({"$binary": base64(bytes)}),
        AttributeValue::Ss(texts) => json!({"$strings": texts}),
        AttributeValue::Ns(numbers) => json!({"$numbers": numbers.iter().map(|text| number(text)).collect::<Vec<_>>()}),
        AttributeValue::Bs(values) => json!({"$binaries": values.iter().map(base64).collect::<Vec<_>>()}),
        AttributeValue::L(values) => values.iter().map(to_json).collect(),
        AttributeValue::M(members) => {
            let mut sorted: Vec<_> = members
                .iter()
                .map(|(name, value)| (name.clone(), to_json(value)))
                .collect();
            sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
            let escape = matches!(sorted.as_slice(), [(name, _)] if name.starts_with('$'));
            let map = Value::Object(sorted.into_iter().collect());
            if escape { json!({"$map": map}) } else { map }
        }
    }
}

/// Converts a number: DynamoDB and JSON use the same notation. An invalid number becomes a string.
fn number(text: &str) -> Value {
    text.parse::<Number>().map_or_else(|_| json!(text), Value::Number)
}

/// Reads an attribute value from its plain JSON.
///
/// # Errors
///
/// Returns [`InvalidPlain`] if a `$` form is unknown or malformed, or if DynamoDB cannot store a number exactly.
pub fn from_json(value: Value) -> Result<AttributeValue, InvalidPlain> {
    attributes::converted(value, &special)
}

/// Reads an object whose only member has a name that begins with `$`. `None` for any other object.
fn special(members: &Map<String, Value>) -> Option<Result<AttributeValue, InvalidPlain>> {
    match members.iter().next() {
        Some((form, operand)) if members.len() == 1 && form.starts_with('$') => Some(of_form(form, operand)),
        _ => None,
    }
}

fn of_form(form: &str, operand: &Value) -> Result<AttributeValue, InvalidPlain> {
    let bad = || InvalidPlain::Operand(form.to_owned());
    let texts = || {
        operand
            .as_array()?
            .iter()
            .map(|text| text.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
    };
    let bytes = |text: String| STANDARD.decode(text).ok();
    match form {
        "$null" if *operand == Value::Bool(true) => Ok(AttributeValue::Null(true)),
        "$null" => Err(bad()),
        "$binary" => operand
            .as_str()
            .and_then(|text| bytes(text.to_owned()))
            .map(AttributeValue::B)
            .ok_or_else(bad),
        "$number" => {
            let text = operand.as_str().ok_or_else(bad)?;
            Ok(AttributeValue::N(number_of_text(text)?))
        }
        "$strings" => set(form, texts().ok_or_else(bad)?, Clone::clone).map(AttributeValue::Ss),
        "$binaries" => {
            let values = texts().and_then(|texts| texts.into_iter().map(bytes).collect());
            set(form, values.ok_or_else(bad)?, Clone::clone).map(AttributeValue::Bs)
        }
        "$numbers" => {
            let numbers = operand.as_array().ok_or_else(bad)?.iter().map(|number| match number {
                Value::Number(number) => Ok(stored_number(number.to_string())?),
                Value::String(text) => Ok(number_of_text(text)?),
                _ => Err(bad()),
            });
            let numbers: Vec<String> = numbers.collect::<Result<_, InvalidPlain>>()?;
            set(form, numbers, |number| Decimal::parse(number).ok()).map(AttributeValue::Ns)
        }
        "$map" => attributes::map(operand.as_object().ok_or_else(bad)?.clone(), &special),
        _ => Err(InvalidPlain::Form(form.to_owned())),
    }
}

/// Checks that the elements are a set that DynamoDB stores: at least one, and none twice by its value.
fn set<T, V: Eq + Hash>(form: &str, elements: Vec<T>, value: impl Fn(&T) -> V) -> Result<Vec<T>, InvalidPlain> {
    let values: HashSet<V> = elements.iter().map(value).collect();
    match elements.is_empty() || values.len() < elements.len() {
        true => Err(InvalidPlain::Set(form.to_owned())),
        false => Ok(elements),
    }
}

/// Returns the number in a text, which has the notation of JSON.
fn number_of_text(text: &str) -> Result<String, InvalidNumber> {
    // It rejects blanks and long texts.
    Decimal::parse(text)?;
    json::number(text).ok_or(InvalidNumber::NotANumber)?;
    stored_number(text.to_owned())
}

/// Reason why a JSON value is not an attribute value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPlain {
    /// DynamoDB cannot store a number exactly.
    #[error("a number cannot be stored")]
    Number(#[from] InvalidNumber),
    /// The name of an object's only member begins with `$`, but is no known form.
    #[error("{form} is no known form: put a map with such a name as {{\"$map\": {{…}}}}", form = shortened(.0))]
    Form(String),
    /// A known form has an invalid operand.
    #[error("{0} has an operand that it does not take")]
    Operand(String),
    /// A set is empty, or contains an element twice.
    #[error("{0} has no element, or one of them twice")]
    Set(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::test_values::any_value;

    proptest! {
        #[test]
        fn values_round_trip(value in any_value()) {
            let text = attribute(&value).to_string();
            prop_assert_eq!(from_json(json::parse(&text).unwrap()).unwrap(), value);
        }
    }

    #[test]
    fn invalid_forms_are_rejected() {
        for json in [
            json!({"$strange": 1}),
            json!({"$binary": "%"}),
            json!({"$binary": 1}),
            json!({"$strings": [1]}),
            json!({"$number": 1}),
            json!({"$numbers": [true]}),
            json!({"$numbers": ["one"]}),
            json!({"$binaries": ["%"]}),
            json!({"$map": []}),
            json!({"$null": false}),
            json!({"$strings": []}),
            json!({"$strings": ["a", "b", "a"]}),
            json!({"$numbers": []}),
            json!({"$numbers": ["1", "1.0"]}),
            json!({"$numbers": [0, "-0"]}),
            json!({"$binaries": ["AA==", "AA=="]}),
            json!([{"a": {"$strange": 1}}]),
        ] {
            assert!(from_json(json.clone()).is_err(), "{json}");
        }
        assert!(from_json(json!({"$a": 1, "$b": 2})).is_ok());
        let long = from_json(json!({"$".repeat(10_000): 1})).unwrap_err().to_string();
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn a_number_can_be_text() {
        let n = |text: &str| AttributeValue::N(text.to_owned());
        for (text, stored) in [
            ("12345678901234567890123456789012345678", None),
            ("-0.12345678901234567890123456789012345678", None),
            ("1.50", None),
            ("1e+21", None),
            ("9.9E125", None),
            ("-0", Some("0")),
            ("0e999", Some("0")),
        ] {
            let stored = stored.unwrap_or(text);
            assert_eq!(from_json(json!({"$number": text})).unwrap(), n(stored), "{text}");
            let set = from_json(json!({"$numbers": [text, 7]})).unwrap();
            assert_eq!(
                set,
                AttributeValue::Ns(vec![stored.to_owned(), "7".to_owned()]),
                "{text}"
            );
        }
        let invalid = [
            "", " 1", "1 ", "+1", "01", "1.", ".5", "0x10", "1_000", "NaN", "Infinity", "1e126", "1n", "1,5",
        ];
        for text in invalid.into_iter().chain(["123456789012345678901234567890123456789"]) {
            let error = from_json(json!({"$number": text})).unwrap_err();
            assert!(matches!(error, InvalidPlain::Number(_)), "{text}: {error}");
            assert!(from_json(json!({"$numbers": [text]})).is_err(), "{text}");
        }
        let nested = json!({"Price": {"Amount": {"$number": "1e2"}, "Currency": "EUR"}, "Text": "5"});
        let expected = json!({"Price": {"M": {"Amount": {"N": "1e2"}, "Currency": {"S": "EUR"}}}, "Text": {"S": "5"}});
        let expected = AttributeValue::M(serde_json::from_value(expected).unwrap());
        assert_eq!(from_json(nested).unwrap(), expected);
    }
}
