//! The update parser.

use serde_json::{Map, Value};
use shared::{
    domain::{
        AttributeValue,
        decision::apply,
        entity::MAX_ENTITY_ID_BYTES,
        keys::VersionDigits,
        names,
        request_id::MAX_REQUEST_ID_BYTES,
        size,
        update::{Change, EXPECTED_VERSION, ExpectedVersion, ID, Ordering, RESERVED, Update},
        version_item::VersionItem,
    },
    logging::chain,
};

/// The first byte says how updates are ordered, the rest is the update. What is read comes back from its own print, and
/// makes a version item that fits; what is refused is refused by name.
pub fn update(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let ordering = if first % 2 == 0 {
        Ordering::Arrival
    } else {
        Ordering::Time
    };
    let Ok(json) = serde_json::from_slice::<Value>(rest) else {
        return;
    };
    let names = crate::names(&json);
    match Update::parse(json, "carrier", ordering) {
        Ok(update) => check(&update, ordering),
        Err(error) => crate::check_error(&error, &format!("{error:?}"), &names),
    }
}

/// What holds of an update that was read.
pub(crate) fn check(update: &Update, ordering: Ordering) {
    assert!((1..=MAX_ENTITY_ID_BYTES).contains(&update.entity.as_str().len()));
    assert!((1..=MAX_REQUEST_ID_BYTES).contains(&update.request_id.as_str().len()));
    assert!(
        RESERVED.iter().all(|name| !update.changes.contains_key(*name)),
        "a reserved name"
    );
    assert_eq!(update.timestamp.is_some(), ordering == Ordering::Time);
    let again = Update::parse(print(update), "another", ordering);
    let again = again.unwrap_or_else(|error| panic!("its own print is refused: {}", chain(&error)));
    assert!(again == *update, "its own print is another update");
    let digits = VersionDigits::default();
    let image = apply(update, None, digits).unwrap_or_else(|error| panic!("{error}"));
    let version = VersionItem::from_image(image, digits).unwrap_or_else(|error| panic!("{error}"));
    // `Deleted` and `Timestamp` may be counted once more.
    assert!(
        size::of_item(version.item()) <= size::MAX_ITEM_BYTES + 64,
        "a version item that does not fit"
    );
}

fn print(update: &Update) -> Value {
    let mut members = Map::new();
    members.insert(ID.to_owned(), update.entity.as_str().into());
    members.insert(names::REQUEST_ID.to_owned(), update.request_id.as_str().into());
    members.insert(
        EXPECTED_VERSION.to_owned(),
        update.expected.map(ExpectedVersion::number).into(),
    );
    members.insert(names::DELETED.to_owned(), update.deleted.into());
    if let Some(timestamp) = update.timestamp {
        members.insert(names::TIMESTAMP.to_owned(), timestamp.get().into());
    }
    for (name, change) in &update.changes {
        let value = match change {
            Change::Set(value) => print_value(value),
            Change::Remove => Value::Null,
        };
        members.insert(name.clone(), value);
    }
    Value::Object(members)
}

/// The plain JSON that makes this value.
pub(crate) fn print_value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => text.as_str().into(),
        AttributeValue::N(number) => match serde_json::from_str(number) {
            Ok(number) => Value::Number(number),
            Err(error) => panic!("a number that JSON cannot write: {error}"),
        },
        AttributeValue::Bool(value) => (*value).into(),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(values) => values.iter().map(print_value).collect(),
        AttributeValue::M(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), print_value(value)));
            Value::Object(members.collect())
        }
        _ => panic!("a value that plain JSON does not make"),
    }
}
