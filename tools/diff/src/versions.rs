//! Comparison of two versions: the attributes that differ, with both values, or in one line.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, names, plain, version::Version, view::VersionView};

use crate::{Change, Changes, Depth, Step, is_changed, line};

/// Maximum number of changes in a shortened line.
const MAX_CHANGES: usize = 8;

/// Two versions of an entity, whose attributes are compared. A deletion or its reversal is a change of
/// [the attribute of a tombstone](with_tombstone).
pub struct Comparison {
    old: Item,
    new: Item,
}

impl Comparison {
    /// Compares two versions of one entity. `None` is the state before version 1, without attributes.
    pub fn new(from: Option<&VersionView>, to: &VersionView) -> Self {
        let empty = || Item::from(HashMap::<String, AttributeValue>::new());
        Self {
            old: from.map_or_else(empty, with_tombstone),
            new: with_tombstone(to),
        }
    }

    /// Returns `true` if the value of an attribute differs.
    pub fn contains(&self, attribute: &str) -> bool {
        is_changed(attribute, Some(&self.old), &self.new)
    }

    /// Returns the attributes that differ, in the order of their names.
    pub fn changes(&self) -> Vec<(&str, Change<'_>)> {
        let changes = Changes::between(&self.old, &self.new, Depth::Attributes)
            .changed
            .into_iter();
        let named = changes.filter_map(|change| match change.path.first() {
            Some(Step::Name(name)) => Some((*name, change)),
            _ => None,
        });
        named.collect()
    }

    /// Returns `{name: {"From": …, "To": …}}` in plain JSON. A member without a value is left out.
    pub fn to_json(&self) -> Value {
        let values = |change: &Change<'_>| {
            let members = [("From", change.from), ("To", change.to)].into_iter();
            let members = members.filter_map(|(name, value)| Some((name.to_owned(), plain::attribute(value?))));
            members.collect::<Map<_, _>>()
        };
        let members = self.changes().into_iter();
        let members = members.map(|(name, change)| (name.to_owned(), values(&change).into()));
        Value::Object(members.collect())
    }

    /// Returns the changes in one [line](mod@line). Unless it is `full`, long values and all but the first changes are left out.
    pub fn line(&self, full: bool) -> String {
        let line = match full {
            true => line::complete(Some(&self.old), &self.new),
            false => line::summary(Some(&self.old), &self.new, MAX_CHANGES),
        };
        match line.is_empty() {
            true => "(no changes)".to_owned(),
            false => line,
        }
    }
}

/// Returns `true` if the differences between a version and the previous one are known. A late version never was the state of the item,
/// so it is neither a change of the version before it, nor is the next one a change of it. An omitted state is not known.
pub fn is_comparable(previous: Option<&VersionView>, view: &VersionView) -> bool {
    let is_state = |view: &VersionView| !view.is_late() && !view.is_omitted();
    is_state(view) && previous.map_or(view.version == Version::FIRST, is_state)
}

/// Returns the attributes of a version, with one that is `true` if the version is a tombstone: `Deleted`, or `(deleted)` if other programs
/// write the items, which can have an attribute `Deleted` of their own.
pub fn with_tombstone(version: &VersionView) -> Item {
    let mut item = version.attributes.clone();
    if version.deleted {
        let name = if version.change.is_some() {
            "(deleted)"
        } else {
            names::DELETED
        };
        item.insert(name.to_owned(), AttributeValue::Bool(true));
    }
    item
}

/// Compares two versions of one entity, in any order.
///
/// Returns `{"ID", "From", "To", "Recorded": {"From": …, "To": …}, "Added": {…}, "Removed": {…}, "Changed": {name:
/// {"From": …, "To": …}}}`. `Recorded` has the [record](VersionView::record_json) of both versions.
pub fn to_json(from: &VersionView, to: &VersionView) -> Value {
    let (mut added, mut removed, mut changed) = (Map::new(), Map::new(), Map::new());
    for (name, change) in Comparison::new(Some(from), to).changes() {
        let name = name.to_owned();
        match (change.from.map(plain::attribute), change.to.map(plain::attribute)) {
            (Some(before), Some(after)) => changed.insert(name, json!({"From": before, "To": after})),
            (None, Some(after)) => added.insert(name, after),
            (before, None) => removed.insert(name, before.into()),
        };
    }
    json!({
        "ID": from.entity.as_str(),
        "From": from.version,
        "To": to.version,
        "Recorded": {"From": from.record_json(), "To": to.record_json()},
        "Added": added,
        "Removed": removed,
        "Changed": changed,
    })
}

#[cfg(test)]
mod tests {
    use shared::domain::entity::EntityId;

    use super::*;

    fn view(version: u64, item: Value) -> VersionView {
        let item = serde_json::from_value(item).unwrap();
        VersionView::new(EntityId::new("E").unwrap(), Version::new(version).unwrap(), item)
    }

    #[test]
    fn each_kind_of_change_is_named() {
        let old = json!({"Status": {"S": "placed"}, "Qty": {"N": "5"}, "Same": {"N": "1"}, "RequestId": {"S": "a"}});
        let new =
            json!({"Status": {"S": "paid"}, "Same": {"N": "1.0"}, "L": {"L": [{"N": "1"}]}, "Deleted": {"BOOL": true}});
        let (from, to) = (view(2, old), view(5, new));
        let both = Comparison::new(Some(&from), &to);
        assert_eq!(both.line(false), "+Deleted: true, +L: [1], -Qty, Status: placed → paid");
        let status = json!({"From": "placed", "To": "paid"});
        let changes = json!({"Deleted": {"To": true}, "L": {"To": [1]}, "Qty": {"From": 5}, "Status": status});
        assert_eq!(both.to_json(), changes);
        assert!(both.contains("Qty") && both.contains("Deleted") && !both.contains("Same"));
        let expected = json!({
            "ID": "E", "From": 2, "To": 5, "Recorded": {"From": {"Version": 2, "RequestId": "a"}, "To": {"Version": 5}},
            "Added": {"L": [1], "Deleted": true}, "Removed": {"Qty": 5}, "Changed": {"Status": status},
        });
        assert_eq!(to_json(&from, &to), expected);
        let back = to_json(&to, &from);
        assert_eq!(back["Removed"], expected["Added"]);
        assert_eq!(back["Changed"]["Status"], json!({"From": "paid", "To": "placed"}));
        assert_eq!(Comparison::new(Some(&to), &to).line(false), "(no changes)");
        assert_eq!(
            Comparison::new(None, &from).line(true),
            "+Qty: 5, +Same: 1, +Status: placed"
        );
        assert_eq!(Comparison::new(None, &from).changes().len(), 3);
    }

    #[test]
    fn long_lines_are_shortened() {
        let attributes = (0..=MAX_CHANGES).map(|number| (format!("A{number}"), json!({"S": "é".repeat(100)})));
        let many = Comparison::new(None, &view(1, Value::Object(attributes.collect())));
        let (line, full) = (many.line(false), many.line(true));
        assert!(line.ends_with("…, +1 more") && line.len() < full.len(), "{line}");
        assert_eq!(full.matches(&"é".repeat(100)).count(), MAX_CHANGES + 1);
    }
}
