//! Attribute values: comparison by value, and conversion from DynamoDB JSON and from JSON without `$` forms.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use thiserror::Error;

use super::{
    AttributeValue, Item,
    number::{Decimal, InvalidNumber},
};
use crate::json::{InvalidJson, Reader};

/// Converts JSON to an attribute value: string to S, number to N, boolean to BOOL, list to L, object to M, `null` to
/// NULL. All digits of a number are kept, except that every zero becomes `0`.
///
/// # Errors
///
/// Returns [`InvalidNumber`] if DynamoDB cannot store a number exactly.
///
/// ```
/// use shared::domain::{AttributeValue, attributes};
///
/// let value = shared::json::parse("3.10").unwrap();
/// assert_eq!(attributes::from_json(value).unwrap(), AttributeValue::N("3.10".into()));
/// ```
pub fn from_json(value: Value) -> Result<AttributeValue, InvalidNumber> {
    Ok(match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(value) => AttributeValue::Bool(value),
        Value::String(text) => AttributeValue::S(text),
        Value::Number(number) => AttributeValue::N(stored_number(number.to_string())?),
        Value::Array(values) => AttributeValue::L(values.into_iter().map(from_json).collect::<Result<_, _>>()?),
        Value::Object(members) => AttributeValue::M(
            members
                .into_iter()
                .map(|(name, value)| Ok((name, from_json(value)?)))
                .collect::<Result<_, _>>()?,
        ),
    })
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

/// Returns `true` if DynamoDB treats two items as equal: numbers are compared by value, sets in any order.
pub fn same_item(a: &Item, b: &Item) -> bool {
    same_map(a, b)
}

fn same_map(a: &HashMap<String, AttributeValue>, b: &HashMap<String, AttributeValue>) -> bool {
    a.len() == b.len() && (a.iter()).all(|(name, value)| b.get(name).is_some_and(|other| same_value(value, other)))
}

/// Returns `true` if DynamoDB treats two values as equal, see [`same_item`].
pub fn same_value(a: &AttributeValue, b: &AttributeValue) -> bool {
    use AttributeValue::{Bs, L, M, N, Ns, Ss};
    match (a, b) {
        (N(a), N(b)) => same_number(a, b),
        (M(a), M(b)) => same_map(a, b),
        (L(a), L(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Ss(a), Ss(b)) => same_set(a, b, |a, b| a == b),
        (Bs(a), Bs(b)) => same_set(a, b, |a, b| a == b),
        (Ns(a), Ns(b)) => same_set(a, b, |a, b| same_number(a, b)),
        (a, b) => a == b,
    }
}

fn same_number(a: &str, b: &str) -> bool {
    match (Decimal::parse(a), Decimal::parse(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Compares two sets. Sets have no duplicates, so two of equal length are equal if `b` contains all of `a`.
fn same_set<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().all(|a| b.iter().any(|b| same(a, b)))
}

/// Reads an attribute value in DynamoDB JSON, such as `{"N":"1"}`.
///
/// # Errors
///
/// Returns [`InvalidAttributeValue`] if the text is not an attribute value.
///
/// ```
/// use shared::domain::attributes;
///
/// assert!(attributes::from_dynamodb_json(r#"{"B":"Zm9v"}"#).is_ok());
/// assert!(attributes::from_dynamodb_json(r#"{"B":"%"}"#).is_err());
/// assert!(attributes::from_dynamodb_json(r#"{"X":"1"}"#).is_err());
/// ```
pub fn from_dynamodb_json(text: &str) -> Result<AttributeValue, InvalidAttributeValue> {
    let mut reader = Reader::new(text);
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads an item in DynamoDB JSON, such as `{"PK": {"S": "E"}, "SK": {"S": "v1"}}`.
///
/// # Errors
///
/// Returns [`InvalidAttributeValue`] if the text is not an item.
pub fn item_from_dynamodb_json(text: &str) -> Result<Item, InvalidAttributeValue> {
    let mut reader = Reader::new(text);
    let item = read_map(&mut reader)?;
    reader.end()?;
    Ok(item.into())
}

/// Reads the next value of a document, an attribute value in DynamoDB JSON.
///
/// # Errors
///
/// Returns [`InvalidAttributeValue`] if it is not one.
pub fn read(reader: &mut Reader) -> Result<AttributeValue, InvalidAttributeValue> {
    reader.begin_object()?;
    let kind = reader.next_member()?.ok_or(InvalidAttributeValue)?;
    let value = match &*kind {
        "S" => AttributeValue::S(reader.string()?.into_owned()),
        "N" => AttributeValue::N(reader.string()?.into_owned()),
        "B" => AttributeValue::B(bytes(reader)?),
        "BOOL" => AttributeValue::Bool(reader.boolean()?),
        "NULL" => AttributeValue::Null(reader.boolean()?),
        "M" => AttributeValue::M(read_map(reader)?),
        "L" => AttributeValue::L(read_list(reader, read)?),
        "SS" => AttributeValue::Ss(read_list(reader, |reader| Ok(reader.string()?.into_owned()))?),
        "NS" => AttributeValue::Ns(read_list(reader, |reader| Ok(reader.string()?.into_owned()))?),
        "BS" => AttributeValue::Bs(read_list(reader, bytes)?),
        _ => return Err(InvalidAttributeValue),
    };
    match reader.next_member()? {
        None => Ok(value),
        Some(_) => Err(InvalidAttributeValue),
    }
}

fn read_map(reader: &mut Reader) -> Result<HashMap<String, AttributeValue>, InvalidAttributeValue> {
    let mut members = HashMap::new();
    reader.begin_object()?;
    while let Some(name) = reader.next_member()? {
        members.insert(name.into_owned(), read(reader)?);
    }
    Ok(members)
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, InvalidAttributeValue>,
) -> Result<Vec<T>, InvalidAttributeValue> {
    let mut values = Vec::new();
    reader.begin_list()?;
    while reader.next_element()? {
        values.push(read(reader)?);
    }
    Ok(values)
}

fn bytes(reader: &mut Reader) -> Result<Vec<u8>, InvalidAttributeValue> {
    STANDARD.decode(&*reader.string()?).map_err(|_| InvalidAttributeValue)
}

/// The text is not an attribute value: unknown type, value of another type, or invalid base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is of an unknown type, its value is not of that type, or it is not valid base64")]
pub struct InvalidAttributeValue;

impl From<InvalidJson> for InvalidAttributeValue {
    fn from(_: InvalidJson) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn items_are_compared_by_value() {
        let check = |a: Value, b: Value, same: bool| {
            assert_eq!(same_item(&item(a.clone()), &item(b.clone())), same, "{a} and {b}");
            assert_eq!(same_item(&item(b.clone()), &item(a.clone())), same, "{b} and {a}");
        };
        check(json!({}), json!({}), true);
        check(json!({"A": {"N": "1.0"}}), json!({"A": {"N": "1"}}), true);
        check(json!({"A": {"N": "1"}}), json!({"A": {"S": "1"}}), false);
        check(
            json!({"A": {"NS": ["1", "2"]}}),
            json!({"A": {"NS": ["2.0", "1"]}}),
            true,
        );
        check(
            json!({"A": {"NS": ["1", "2"]}}),
            json!({"A": {"NS": ["1", "3"]}}),
            false,
        );
        check(json!({"A": {"SS": ["a", "b"]}}), json!({"A": {"SS": ["b", "a"]}}), true);
        check(
            json!({"A": {"BS": ["YQ==", "Yg=="]}}),
            json!({"A": {"BS": ["Yg==", "YQ=="]}}),
            true,
        );
        check(
            json!({"A": {"L": [{"N": "1"}]}}),
            json!({"A": {"L": [{"N": "1.0"}]}}),
            true,
        );
        check(
            json!({"A": {"L": [{"S": "a"}, {"S": "b"}]}}),
            json!({"A": {"L": [{"S": "b"}, {"S": "a"}]}}),
            false,
        );
        check(
            json!({"A": {"M": {"x": {"N": "1"}}}}),
            json!({"A": {"M": {"x": {"N": "2"}}}}),
            false,
        );
        check(
            json!({"A": {"S": "a"}}),
            json!({"A": {"S": "a"}, "B": {"S": "b"}}),
            false,
        );
        check(json!({"A": {"S": "a"}}), json!({"B": {"S": "a"}}), false);
        check(json!({"A": {"NULL": true}}), json!({"A": {"NULL": true}}), true);
    }

    #[test]
    fn errors_do_not_hold_invalid_values() {
        for text in [
            "",
            "{}",
            "null",
            "[]",
            r#""secret""#,
            r#"{"N":5}"#,
            r#"{"S":null}"#,
            r#"{"S":"secret","N":"1"}"#,
            r#"{"Q":"secret"}"#,
            r#"{"B":"secret!"}"#,
            r#"{"BS":["Zg==","!"]}"#,
            r#"{"L":[{"Q":1}]}"#,
            r#"{"M":{"a":{"Q":1}}}"#,
        ] {
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
            let expected = AttributeValue::M(HashMap::from([(
                name.to_owned(),
                AttributeValue::S("{\"x\": 1}".to_owned()),
            )]));
            assert_eq!(from_json(plain).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn values_are_read_as_the_library_of_the_sdk_reads_them(value in crate::domain::plain::tests::any_value()) {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(from_dynamodb_json(&text).unwrap(), value);
        }

        #[test]
        fn every_digit_of_a_json_number_is_kept(number in "-?[1-9][0-9]{0,20}(\\.[0-9]{1,17})?") {
            let value = crate::json::parse(&number).unwrap();
            prop_assert_eq!(from_json(value).unwrap(), AttributeValue::N(number));
        }
    }
}
