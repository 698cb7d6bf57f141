//! Attribute values: DynamoDB's own JSON, plain JSON, and each printed and read again.

use serde_json::{Number, Value};
use shared::domain::{AttributeValue, Item, attributes as domain, attributes::same_item, number::Decimal, plain, size};

/// The text is read as DynamoDB's JSON, as the plain JSON of an update, and as the plain JSON of the operator; what is read
/// comes back from its own print.
pub fn attributes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(number) = Decimal::parse(text) {
        assert!(number.bytes() <= 21, "a number of more than 21 bytes");
    }
    match domain::from_dynamodb_json(text) {
        Ok(value) => {
            dynamodb_json(&value);
            operators_json(&value);
        }
        Err(error) => crate::check_error(&error, &format!("{error:?}"), ""),
    }
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return;
    };
    match domain::from_json(json.clone()) {
        Ok(value) => {
            dynamodb_json(&value);
            operators_json(&value);
            let again = domain::from_json(crate::update::print_value(&value));
            assert!(
                again.is_ok_and(|again| again == value),
                "its own plain JSON is another value"
            );
        }
        Err(error) => crate::check_error(&error, &format!("{error:?}"), ""),
    }
    let names = crate::names(&json);
    match plain::from_json(json) {
        Ok(value) => operators_json(&value),
        Err(error) => crate::check_error(&error, &format!("{error:?}"), &names),
    }
}

fn dynamodb_json(value: &AttributeValue) {
    let Ok(text) = serde_json::to_string(value) else {
        panic!("a value that JSON cannot write")
    };
    // One level of ours is two of the parser's, which stops at 128.
    if let Ok(again) = domain::from_dynamodb_json(&text) {
        assert!(again == *value, "its own DynamoDB JSON is another value");
        let item =
            |value: &AttributeValue| Item::from(std::collections::HashMap::from([("A".to_owned(), value.clone())]));
        assert!(same_item(&item(&again), &item(value)), "it is not the same as itself");
        assert_eq!(size::of_value(&again), size::of_value(value));
    } else {
        assert!(
            size::check_attribute("A", value).is_err(),
            "its own DynamoDB JSON is refused"
        );
    }
}

/// What DynamoDB holds comes back. A number that is none, and `NULL: false`, it does not hold.
fn operators_json(value: &AttributeValue) {
    let printed = plain::attribute(value).to_string();
    if !is_held(value) || size::check_attribute("A", value).is_err() {
        return;
    }
    let Ok(json) = serde_json::from_str(&printed) else {
        panic!("its own plain JSON is none")
    };
    assert!(
        plain::from_json(json).is_ok_and(|again| again == *value),
        "its own plain JSON is another value"
    );
}

fn is_held(value: &AttributeValue) -> bool {
    use AttributeValue::{L, M, N, Ns, Null};
    let number = |text: &String| {
        Decimal::parse(text).is_ok()
            && serde_json::from_str::<Number>(text).is_ok_and(|number| number.to_string() == *text)
    };
    match value {
        N(text) => number(text),
        Ns(texts) => texts.iter().all(number),
        Null(value) => *value,
        L(values) => values.iter().all(is_held),
        M(members) => members.values().all(is_held),
        _ => true,
    }
}
