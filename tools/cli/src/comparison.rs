//! Comparison of two versions: the attributes that differ, with both values, or in one line.

use std::collections::{BTreeMap, HashMap};

use operations::changes;
use serde_json::{Map, Value};
use shared::domain::{
    AttributeValue, Item,
    view::{Diff, VersionView},
};

/// Maximum number of changes in a shortened line.
const MAX_CHANGES: usize = 8;
/// Text for an attribute that a version does not have.
pub(crate) const NONE: &str = "(none)";

/// Attributes that differ between two versions.
pub(crate) struct Comparison {
    by_name: BTreeMap<String, Change>,
    /// Attributes of both versions, with `Deleted`.
    old: Option<Item>,
    new: Item,
}

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
        let mut by_name: BTreeMap<String, Change> = BTreeMap::new();
        let mut json = diff.to_json();
        let mut members = |name: &str| match json[name].take() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        for (name, value) in members("Added") {
            by_name.entry(name).or_default().to = Some(value);
        }
        for (name, value) in members("Removed") {
            by_name.entry(name).or_default().from = Some(value);
        }
        for (name, mut value) in members("Changed") {
            let change = by_name.entry(name).or_default();
            (change.from, change.to) = (Some(value["From"].take()), Some(value["To"].take()));
        }
        Self {
            by_name,
            old: from.map(VersionView::with_tombstone),
            new: to.with_tombstone(),
        }
    }

    pub(crate) fn contains(&self, attribute: &str) -> bool {
        self.by_name.contains_key(attribute)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Change)> {
        self.by_name.iter().map(|(name, change)| (name.as_str(), change))
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
        let members = self
            .by_name
            .iter()
            .map(|(name, change)| (name.clone(), json(change).into()));
        Value::Object(members.collect())
    }

    /// Returns the [changes] in one line. Unless it is `full`, long values and all but the first changes are left out.
    pub(crate) fn line(&self, full: bool) -> String {
        let line = match full {
            true => changes::complete(self.old.as_ref(), &self.new),
            false => changes::summary(self.old.as_ref(), &self.new, MAX_CHANGES),
        };
        match line.is_empty() {
            true => "(no changes)".to_owned(),
            false => line,
        }
    }
}

/// Returns a string without quotes, any other value as JSON.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
        assert_eq!(both.line(false), "+Deleted: true, +L: [1], -Qty, Status: placed → paid");
        assert_eq!(
            both.to_json(),
            json!({
                "Deleted": {"To": true}, "L": {"To": [1]}, "Qty": {"From": 5},
                "Status": {"From": "placed", "To": "paid"},
            })
        );
        assert!(both.contains("Qty") && both.contains("Deleted") && !both.contains("Same"));
        assert_eq!(Comparison::new(Some(&to), &to).line(false), "(no changes)");
        let first = Comparison::new(None, &from);
        assert_eq!(first.iter().count(), 3);
        assert_eq!(first.line(true), "+Qty: 5, +Same: x, +Status: placed");
    }

    #[test]
    fn long_lines_are_shortened() {
        let attributes = (0..=MAX_CHANGES).map(|number| (format!("A{number}"), json!({"S": "é".repeat(100)})));
        let many = Comparison::new(None, &view(1, Value::Object(attributes.collect())));
        let line = many.line(false);
        assert!(
            line.ends_with("…, +1 more") && line.len() < many.line(true).len(),
            "{line}"
        );
        assert_eq!(many.line(true).matches(&"é".repeat(100)).count(), MAX_CHANGES + 1);
    }
}
