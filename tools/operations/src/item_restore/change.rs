//! Change that puts an old state of an item back into its table.
//!
//! Other programs write the table, so the change touches as little as possible, and is made only if the item is still as it was
//! read:
//!
//! | attribute | existing item | deleted item |
//! |---|---|---|
//! | key | stays | from the old state |
//! | version attribute, a number | counts up by 1 | 1 above that of the last state |
//! | version attribute of another type | stays | from the old state |
//! | ignored | stays | from the old state |
//! | any other | from the old state | from the old state |
//!
//! The version attribute is never set back, so that a client with optimistic locking notices the change.

use std::collections::BTreeMap;

use shared::domain::{AttributeValue, Item, attached::AttachedTable, attributes::same_value, change::Change};

/// Change of an item.
#[derive(Clone, PartialEq)]
pub enum Restore {
    /// The item is in the old state.
    Unchanged,
    /// The old state is a tombstone: the item is deleted.
    Delete,
    /// The item is changed, or created again.
    Update(ItemChange),
}

/// Attributes that a restore changes.
#[derive(Clone, PartialEq, Default)]
pub struct ItemChange {
    /// Attributes that get a new value, or are removed.
    pub changes: BTreeMap<String, Change>,
    /// Version attribute, and the number that it gets 1 added to.
    pub counted: Option<(String, AttributeValue)>,
}

impl ItemChange {
    /// Returns `true` if an item has the new values.
    pub fn is_applied(&self, item: &Item) -> bool {
        self.changes
            .iter()
            .all(|(name, change)| match (change, item.get(name)) {
                (Change::Set(value), Some(other)) => same_value(value, other),
                (Change::Remove, None) => true,
                _ => false,
            })
    }
}

/// Plans the restore of an old state. `item` is the item in the table, and `last` the last state in history in which it existed.
pub fn plan(table: &AttachedTable, old: Option<&Item>, item: Option<&Item>, last: Option<&Item>) -> Restore {
    let Some(old) = old else {
        return match item {
            Some(_) => Restore::Delete,
            None => Restore::Unchanged,
        };
    };
    let version = table.version_attribute();
    let is_key = |name: &str| table.keys().any(|key| key.name == name);
    let stays = |name: &str| item.is_some() && (table.ignored().contains(name) || version == Some(name));
    let mut change = ItemChange::default();
    for (name, value) in old.iter().filter(|(name, _)| !is_key(name) && !stays(name)) {
        let is_same = item
            .and_then(|item| item.get(name))
            .is_some_and(|other| same_value(value, other));
        if !is_same {
            change.changes.insert(name.clone(), Change::Set(value.clone()));
        }
    }
    let names = item.into_iter().flat_map(|item| item.keys());
    let removed = names.filter(|name| !is_key(name) && !stays(name) && !old.contains_key(*name));
    change
        .changes
        .extend(removed.map(|name| (name.clone(), Change::Remove)));
    if item.is_some() && change == ItemChange::default() {
        return Restore::Unchanged;
    }
    let number = |item: &Item| {
        let value = item.get(version?)?;
        matches!(value, AttributeValue::N(_)).then(|| value.clone())
    };
    let counted = match item {
        Some(item) => number(item),
        None => last.and_then(number).or_else(|| number(old)),
    };
    if let (Some(name), Some(number)) = (version, counted) {
        change.changes.remove(name);
        change.counted = Some((name.to_owned(), number));
    }
    Restore::Update(change)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn table() -> AttachedTable {
        let definition = json!({
            "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "VersionAttribute": "rev", "IgnoreAttributes": ["seen"],
        });
        attach::parse(&definition.to_string()).unwrap()
    }

    fn item(members: Value) -> Item {
        let mut item = members;
        item["id"] = json!({"S": "a"});
        serde_json::from_value(item).unwrap()
    }

    /// Returns the set attributes in JSON, the removed ones, and the counted one.
    fn planned(old: Option<Value>, now: Option<Value>, last: Option<Value>) -> Value {
        let [old, now, last] = [old, now, last].map(|state| state.map(item));
        match plan(&table(), old.as_ref(), now.as_ref(), last.as_ref()) {
            Restore::Unchanged => json!("Unchanged"),
            Restore::Delete => json!("Delete"),
            Restore::Update(ItemChange { changes, counted }) => {
                let (mut set, mut removed) = (json!({}), Vec::new());
                for (name, change) in changes {
                    match change {
                        Change::Set(value) => set[name] = json!(value),
                        _ => removed.push(name),
                    }
                }
                json!([set, removed, counted])
            }
        }
    }

    #[test]
    fn only_other_attributes_are_changed() {
        let old = json!({"a": {"N": "1"}, "b": {"S": "x"}, "rev": {"N": "3"}, "seen": {"N": "1"}});
        let now = json!({"a": {"N": "1.0"}, "b": {"S": "y"}, "c": {"S": "z"}, "rev": {"N": "9"}, "seen": {"N": "5"}});
        assert_eq!(
            planned(Some(old.clone()), Some(now), None),
            json!([{"b": {"S": "x"}}, ["c"], ["rev", {"N": "9"}]])
        );
        // Only the version attribute and ignored ones differ.
        let touched = json!({"a": {"N": "1"}, "b": {"S": "x"}, "rev": {"N": "9"}, "seen": {"N": "5"}});
        assert_eq!(planned(Some(old.clone()), Some(touched), None), json!("Unchanged"));
        // A version attribute that is missing or no number stays so.
        for rev in [json!({"b": {"S": "y"}}), json!({"b": {"S": "y"}, "rev": {"S": "e"}})] {
            let set = json!({"a": {"N": "1"}, "b": {"S": "x"}});
            assert_eq!(planned(Some(old.clone()), Some(rev), None), json!([set, [], null]));
        }
    }

    #[test]
    fn a_deleted_item_is_created_with_a_greater_version_attribute() {
        let old = json!({"b": {"S": "x"}, "rev": {"N": "3"}, "seen": {"N": "1"}});
        let set = json!({"b": {"S": "x"}, "seen": {"N": "1"}});
        assert_eq!(
            planned(Some(old.clone()), None, Some(json!({"rev": {"N": "8"}}))),
            json!([set, [], ["rev", {"N": "8"}]])
        );
        assert_eq!(
            planned(Some(old), None, Some(json!({}))),
            json!([set, [], ["rev", {"N": "3"}]])
        );
        let text = json!({"rev": {"S": "e"}});
        assert_eq!(planned(Some(text.clone()), None, None), json!([text, [], null]));
        // An item of key attributes only.
        assert_eq!(planned(Some(json!({})), None, None), json!([{}, [], null]));
    }

    #[test]
    fn a_tombstone_deletes_the_item() {
        assert_eq!(planned(None, Some(json!({})), None), json!("Delete"));
        assert_eq!(planned(None, None, None), json!("Unchanged"));
    }

    #[test]
    fn an_applied_change_is_recognized() {
        let change = ItemChange {
            changes: BTreeMap::from([
                ("a".to_owned(), Change::Set(AttributeValue::N("1".to_owned()))),
                ("b".to_owned(), Change::Remove),
            ]),
            counted: None,
        };
        assert!(change.is_applied(&item(json!({"a": {"N": "1.0"}, "c": {"S": "x"}}))));
        assert!(!change.is_applied(&item(json!({"a": {"N": "2"}}))));
        assert!(!change.is_applied(&item(json!({"a": {"N": "1"}, "b": {"S": "x"}}))));
    }
}
