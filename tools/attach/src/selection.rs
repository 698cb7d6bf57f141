//! Items and changes of an attached table that are part of history, by its [filter](super::filter).
//!
//! Lambda applies the filter to the records that it delivers. The tools apply it to the items of the table, and to the records
//! that they read from the stream.

use serde_json::{Map, Value, json};
use shared::domain::{Item, attached::AttachedTable};

use super::event_pattern::Pattern;

/// Filter of an attached table, parsed. Without a filter, everything is selected.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pattern: Option<Pattern>,
    keys: Vec<String>,
}

impl Selection {
    /// Parses the filter of a table, whose pattern was checked with its definition.
    pub fn new(table: &AttachedTable) -> Self {
        Self {
            pattern: table.filter().and_then(|pattern| Pattern::parse(pattern).ok()),
            keys: table.keys().map(|key| key.name.clone()).collect(),
        }
    }

    /// Returns `true` if the record of a change is delivered.
    pub fn has_record(&self, record: &Value) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(record))
    }

    /// Returns `true` if the record of a change from one state to another is delivered. `None` is the state without an item.
    pub fn has_change(&self, old: Option<&Item>, new: Option<&Item>) -> bool {
        if self.pattern.is_none() {
            return true;
        }
        let (event_name, of_keys) = match (old, new) {
            (_, None) => ("REMOVE", old),
            (None, _) => ("INSERT", new),
            (Some(_), _) => ("MODIFY", new),
        };
        let value = |item: Option<&Item>| serde_json::to_value(item?).ok();
        let key = |name: &String| Some((name.clone(), serde_json::to_value(of_keys?.get(name)?).ok()?));
        let keys = self.keys.iter().filter_map(key).collect();
        let members = [
            ("Keys", Some(Value::Object(keys))),
            ("OldImage", value(old)),
            ("NewImage", value(new)),
        ];
        let members = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let change: Map<_, _> = members.collect();
        self.has_record(&json!({"eventName": event_name, "eventSource": "aws:dynamodb", "dynamodb": change}))
    }

    /// Returns `true` if an item of the table has a history from its next change on: the record of its creation, or of a change
    /// that leaves it as it is, is delivered.
    pub fn has_item(&self, item: &Item) -> bool {
        self.has_change(None, Some(item)) || self.has_change(Some(item), Some(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(status: &str) -> Item {
        serde_json::from_value(json!({"id": {"S": "a"}, "status": {"S": status}})).unwrap()
    }

    fn selection(filter: &Value) -> Selection {
        let definition = json!({
            "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "Filter": filter,
        });
        Selection::new(&crate::parse(&definition.to_string()).unwrap())
    }

    #[test]
    fn items_are_selected_as_their_records_are() {
        let (open, shut) = (item("open"), item("shut"));
        for (filter, items) in [
            (Value::Null, [true, true]),
            (json!({"status": ["open"]}), [true, false]),
            (json!({"id": [{"prefix": "a"}]}), [true, true]),
            (json!({"id": ["b"]}), [false, false]),
            // A stream record selects changes, such as those of an item that exists.
            (
                json!({"eventName": ["MODIFY"], "dynamodb": {"NewImage": {"status": {"S": ["open"]}}}}),
                [true, false],
            ),
            (json!({"eventName": ["REMOVE"]}), [false, false]),
        ] {
            let selection = selection(&filter);
            assert_eq!([&open, &shut].map(|item| selection.has_item(item)), items, "{filter}");
        }
        let open_only = selection(&json!({"status": ["open"]}));
        for (old, new, expected) in [
            (Some(&open), Some(&shut), true),
            (Some(&shut), Some(&open), true),
            (Some(&open), None, true),
            (None, Some(&open), true),
            (Some(&shut), Some(&shut), false),
            (Some(&shut), None, false),
            (None, Some(&shut), false),
        ] {
            assert_eq!(open_only.has_change(old, new), expected);
        }
    }
}
