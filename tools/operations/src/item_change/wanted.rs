//! Item that a change of an attached table wants.
//!
//! | attribute | restore of an existing item | of a deleted item | changes of an existing item | of a new item |
//! |---|---|---|---|---|
//! | key | stays | from the old state | stays | the key |
//! | version attribute, a number | counts up by 1 | 1 above the greater one of the old and the last state | counts up by 1 | as named |
//! | version attribute of another type | stays | from the old state | stays | as named |
//! | ignored | stays | from the old state | as named, or stays | as named |
//! | author, reason, change set | stays | none | as named, or stays | as named |
//! | any other | from the old state | from the old state | as named, or stays | as named |
//!
//! The version attribute is never set back, so that the next write of a client with optimistic locking fails if it is based on the item
//! before the change. An item without it gets the one of the old state, counted up. The author of the old state is not that of the restore.

use std::collections::BTreeMap;

use shared::domain::{
    AttributeValue, Item,
    attached::{AttachedTable, decision::is_same},
    attributes::same_value,
    change::Change,
    number::Decimal,
};
use writer_fn::update::nested;

use crate::error::OperationError;

/// Returns the item in an old state. `item` is the item in the table, and `last` the last state of a deleted one.
pub(super) fn restored(
    table: &AttachedTable,
    key: &Item,
    old: &Item,
    item: Option<&Item>,
    last: Option<&Item>,
) -> Result<Item, OperationError> {
    let mut wanted = old.clone();
    for (name, value) in key.iter() {
        wanted.insert(name.clone(), value.clone());
    }
    let version = table.version_attribute();
    let of_change = table.attribution();
    let Some(item) = item else {
        of_change.for_each(|name| drop(wanted.remove(name)));
        return count_up(table, wanted, &[Some(old), last]);
    };
    let stays = version.filter(|name| item.contains_key(*name));
    for name in table.ignored().iter().map(String::as_str).chain(stays).chain(of_change) {
        match item.get(name) {
            Some(value) => wanted.insert(name.to_owned(), value.clone()),
            None => wanted.remove(name),
        };
    }
    match is_same(item, &wanted, &[].into()) {
        true => Ok(wanted),
        false => count_up(table, wanted.clone(), &[Some(&wanted)]),
    }
}

/// Returns the item with changes of its attributes. An item that does not exist has only its key before.
pub(super) fn changed(
    table: &AttachedTable,
    key: &Item,
    item: Option<&Item>,
    changes: &BTreeMap<String, Change>,
) -> Result<Item, OperationError> {
    for (name, change) in changes {
        let is_same = |value: &AttributeValue| matches!(change, Change::Set(other) if same_value(value, other));
        if key.get(name).is_some_and(|value| !is_same(value)) {
            return Err(OperationError::Invalid(format!(
                "{name} is a key attribute, which no change can replace"
            )));
        }
        if let Some(item) = item
            && table.version_attribute() == Some(name)
            && !item.get(name).is_some_and(is_same)
        {
            return Err(OperationError::Invalid(format!(
                "{name} is the version attribute, which the command itself increases"
            )));
        }
    }
    if let Some(path) = nested::missing_map(changes, item) {
        return Err(OperationError::Invalid(format!(
            "the item has no map {path}, whose members change: set the whole map first"
        )));
    }
    let before = item.unwrap_or(key);
    let mut wanted = before.clone();
    nested::change(wanted.inner_mut(), changes);
    match item {
        Some(item) if !is_same(item, &wanted, &[].into()) => count_up(table, wanted, &[Some(item)]),
        _ => Ok(wanted),
    }
}

/// Sets the version attribute to 1 above the greatest of these states, if it is a number in one.
fn count_up(table: &AttachedTable, mut wanted: Item, states: &[Option<&Item>]) -> Result<Item, OperationError> {
    let Some(name) = table.version_attribute() else {
        return Ok(wanted);
    };
    let mut greatest = None;
    for state in states.iter().flatten() {
        if let Some(AttributeValue::N(number)) = state.get(name) {
            let next = next(number)
                .ok_or_else(|| OperationError::Invalid(format!("the version attribute {name} has no next number")))?;
            greatest = greatest.max(Some(next));
        }
    }
    if let Some((whole, fraction)) = greatest {
        wanted.insert(name.to_owned(), AttributeValue::N(format!("{whole}{fraction}")));
    }
    Ok(wanted)
}

/// Returns the number above a number, as its whole part and its fraction. `None` if DynamoDB has no such number.
fn next(number: &str) -> Option<(i128, String)> {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let next = whole.parse::<i128>().ok()?.checked_add(1)?;
    let is_stored = Decimal::parse(&format!("{next}{fraction}")).is_ok();
    (is_stored && (fraction.is_empty() || !whole.starts_with('-'))).then(|| (next, fraction.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::domain::{attributes::from_json, plain};
    use testkit::cases::cases;

    use super::*;

    fn table() -> AttachedTable {
        let definition = json!({
            "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "VersionAttribute": "rev", "IgnoreAttributes": ["seen"], "ActorAttribute": "by", "ChangeSetAttribute": "job",
        });
        attach::parse(&definition.to_string()).unwrap()
    }

    /// Returns the item with these attributes in plain JSON and its key, `None` for null.
    fn item(members: &Value) -> Option<Item> {
        let AttributeValue::M(mut item) = from_json(members.clone()).unwrap() else {
            return None;
        };
        item.insert("id".to_owned(), AttributeValue::S("a".to_owned()));
        Some(item.into())
    }

    /// Compares an item without its key, or an error, with a text.
    fn check(wanted: Result<Item, OperationError>, expected: &str, case: &Value) {
        match wanted {
            Ok(mut wanted) => {
                assert!(wanted.remove("id").is_some());
                let expected: Value = serde_json::from_str(expected).unwrap();
                assert_eq!(Value::Object(plain::attributes(&wanted)), expected, "{case}");
            }
            Err(error) => assert!(error.to_string().contains(expected), "{case}: {error}"),
        }
    }

    #[test]
    fn an_old_state_keeps_what_is_not_its_own() {
        // Old state, item, last state of a deleted item.
        const CASES: &str = r#"
            [{"a": 1, "b": "x", "rev": 3, "seen": 1}, {"b": "y", "c": "z", "rev": 9, "seen": 5}] -> {"a": 1, "b": "x", "rev": 10, "seen": 5}
            // Only the version attribute and ignored ones differ.
            [{"a": 1, "rev": 3, "seen": 1}, {"a": 1.0, "rev": 9, "seen": 5}] -> {"a": 1, "rev": 9, "seen": 5}
            [{"a": 1, "rev": 3}, {"rev": "e"}] -> {"a": 1, "rev": "e"}
            // A batch of a mapper wrote the item without its number.
            [{"rev": 3, "seen": 1}, {}]        -> {"rev": 4}
            [{"a": 1}, {}]                     -> {"a": 1}
            [{"rev": 3, "seen": 1}, null, {"rev": 8}] -> {"rev": 9, "seen": 1}
            // A mapper that creates an item again begins with 1.
            [{"rev": 10}, null, {"rev": 9}]    -> {"rev": 11}
            [{"rev": "e"}, null, {}]           -> {"rev": "e"}
            [{}, null, {}]                     -> {}
            // The author of the old state did not restore it, and its change set did not either.
            [{"a": 1, "by": "x", "job": "i"}, {"a": 2, "by": "y", "job": "j"}] -> {"a": 1, "by": "y", "job": "j"}
            [{"a": 1, "by": "x", "job": "i"}, null, {}] -> {"a": 1}
            [{"a": 1}, {"rev": -1.5}]          -> the version attribute rev has no next number
        "#;
        for (case, expected) in cases(CASES) {
            let (old, now, last) = (item(&case[0]).unwrap(), item(&case[1]), item(&case[2]));
            let wanted = restored(&table(), &item(&json!({})).unwrap(), &old, now.as_ref(), last.as_ref());
            check(wanted, expected, &case);
        }
    }

    #[test]
    fn each_number_has_a_greater_one_or_none() {
        let nines = "9".repeat(38);
        for (number, expected) in [
            ("0", Some("1")),
            ("-1", Some("0")),
            ("1.5", Some("2.5")),
            (&nines, Some(&*format!("1{}", "0".repeat(38)))),
            (&format!("1{}", "0".repeat(38)), None),
            ("-0.5", None),
            ("1e5", None),
        ] {
            let next = next(number).map(|(whole, fraction)| format!("{whole}{fraction}"));
            assert_eq!(next.as_deref(), expected, "{number}");
        }
    }
}
