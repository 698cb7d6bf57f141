//! Comparison of two versions: the attributes that differ, with both values.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use shared::domain::{
    AttributeValue, Item,
    view::{Diff, VersionView},
};

/// Maximum number of characters of a value in a sentence.
const MAX_VALUE_CHARS: usize = 60;
/// Text for an attribute that a version does not have.
pub(crate) const NONE: &str = "(none)";

/// Attributes that differ between two versions, by name.
pub(crate) struct Comparison(BTreeMap<String, Change>);

/// Values of an attribute in both versions, in plain JSON. `None` if a version does not have it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) from: Option<Value>,
    pub(crate) to: Option<Value>,
}

impl Comparison {
    /// Compares two versions of one entity. `None` is the state before version 1, without attributes.
    pub(crate) fn new(from: Option<&VersionView>, to: &VersionView) -> Self {
        let empty = || {
            VersionView::new(
                to.entity.clone(),
                to.version,
                Item::from(HashMap::<String, AttributeValue>::new()),
            )
        };
        let diff = Diff::new(from.map_or_else(empty, VersionView::clone), to.clone());
        let mut changes: BTreeMap<String, Change> = BTreeMap::new();
        let mut json = diff.to_json();
        let mut members = |name: &str| match json[name].take() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        for (name, value) in members("Added") {
            changes.entry(name).or_default().to = Some(value);
        }
        for (name, value) in members("Removed") {
            changes.entry(name).or_default().from = Some(value);
        }
        for (name, mut value) in members("Changed") {
            let change = changes.entry(name).or_default();
            (change.from, change.to) = (Some(value["From"].take()), Some(value["To"].take()));
        }
        Self(changes)
    }

    pub(crate) fn contains(&self, attribute: &str) -> bool {
        self.0.contains_key(attribute)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Change)> {
        self.0.iter().map(|(name, change)| (name.as_str(), change))
    }

    /// Returns `{name: {"From": …, "To": …}}`. A member without a value is left out.
    pub(crate) fn to_json(&self) -> Value {
        let json = |change: &Change| {
            let members = [("From", &change.from), ("To", &change.to)];
            let members = members.into_iter();
            members
                .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
                .collect::<Map<_, _>>()
        };
        let members = self.0.iter().map(|(name, change)| (name.clone(), json(change).into()));
        Value::Object(members.collect())
    }

    /// Returns `Status: placed → paid, Qty: (none) → 5`. `text` converts a name or the text of a value.
    pub(crate) fn sentence(&self, text: impl Fn(&str) -> String) -> String {
        if self.is_empty() {
            return "(no changes)".to_owned();
        }
        let value = |value: &Option<Value>| {
            value
                .as_ref()
                .map_or(NONE.to_owned(), |value| text(&short(&plain(value))))
        };
        let changes = self.0.iter().map(|(name, change)| {
            let (from, to) = (value(&change.from), value(&change.to));
            format!("{}: {from} → {to}", text(name))
        });
        changes.collect::<Vec<_>>().join(", ")
    }
}

/// Returns a string without quotes, any other value as JSON.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MAX_VALUE_CHARS - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::{entity::EntityId, version::Version};

    use super::*;

    fn view(version: u64, item: Value) -> VersionView {
        let item = serde_json::from_value(item).unwrap();
        VersionView::new(EntityId::new("E").unwrap(), Version::new(version).unwrap(), item)
    }

    #[test]
    fn each_kind_of_change_is_named() {
        let from = view(
            1,
            json!({"Status": {"S": "placed"}, "Qty": {"N": "5"}, "Same": {"S": "x"}}),
        );
        let to = view(
            2,
            json!({"Status": {"S": "paid"}, "Same": {"S": "x"}, "L": {"L": [{"N": "1"}]}, "Deleted": {"BOOL": true}}),
        );
        let both = Comparison::new(Some(&from), &to);
        assert_eq!(
            both.sentence(str::to_owned),
            "Deleted: (none) → true, L: (none) → [1], Qty: 5 → (none), Status: placed → paid"
        );
        assert_eq!(
            both.to_json(),
            json!({
                "Deleted": {"To": true}, "L": {"To": [1]}, "Qty": {"From": 5},
                "Status": {"From": "placed", "To": "paid"},
            })
        );
        assert!(both.contains("Qty") && both.contains("Deleted") && !both.contains("Same"));
        assert_eq!(Comparison::new(Some(&to), &to).sentence(str::to_owned), "(no changes)");
        let first = Comparison::new(None, &from);
        assert_eq!(first.iter().count(), 3);
        assert!(first.sentence(str::to_owned).starts_with("Qty: (none) → 5, "));
    }

    #[test]
    fn long_values_are_shortened_and_escaped() {
        let long = Comparison::new(None, &view(1, json!({"A": {"S": "é".repeat(61)}})));
        let sentence = long.sentence(str::to_owned);
        assert_eq!(sentence, format!("A: (none) → {}…", "é".repeat(59)));
        let fits = Comparison::new(None, &view(1, json!({"A": {"S": "é".repeat(60)}})));
        assert!(fits.sentence(str::to_owned).ends_with(&"é".repeat(60)));
        let upper = long.sentence(str::to_uppercase);
        assert!(upper.ends_with("É…"), "{upper}");
    }
}
