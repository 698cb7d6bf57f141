//! Comparison of two versions: the attributes that differ, with both values, or in one line.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, names, version::Version, view::VersionView};

use crate::{
    change::{Change, Changes, Kind},
    line,
    path::{Path, value_at},
};

/// Maximum number of changes in a shortened line.
const MAX_CHANGES: usize = 8;

/// Two versions of an entity, whose attributes are compared. A deletion or its reversal is a change of
/// [the attribute of a tombstone](with_tombstone).
pub struct Comparison {
    old: Item,
    new: Item,
    /// Path of the compared values, which are the attribute `""` of the items. `None` if whole items are compared.
    within: Option<Path>,
}

impl Comparison {
    /// Compares two versions of one entity. `None` is the state before version 1, without attributes.
    pub fn new(from: Option<&VersionView>, to: &VersionView) -> Self {
        Self {
            old: from.map_or_else(|| Item::from(HashMap::<String, AttributeValue>::new()), with_tombstone),
            new: with_tombstone(to),
            within: None,
        }
    }

    /// Returns the changes of attributes and their members, in the order in which they apply.
    pub fn diff(&self) -> Changes<'_> {
        let mut changes = Changes::between(Some(&self.old), Some(&self.new));
        if let Some(within) = &self.within {
            let rebase = |path: &mut Path| drop(path.0.splice(..1, within.0.iter().cloned()));
            for Change { path, kind } in &mut changes.changes {
                rebase(path);
                if let Kind::Moved(from, _) = kind {
                    rebase(from);
                }
            }
            changes.coarse.iter_mut().for_each(rebase);
        }
        changes
    }

    /// Compares only the values at a path of each version, `None` for no value. Returns `None` if they are equal.
    #[must_use]
    pub fn within(&self, [from, to]: [Option<&Path>; 2]) -> Option<Self> {
        let only = |item, path: Option<&Path>| {
            let value = path.and_then(|path| value_at(item, path));
            let value = value.map(|value| (String::new(), value.clone()));
            Item::from(value.into_iter().collect::<HashMap<String, AttributeValue>>())
        };
        let within = Self {
            old: only(&self.old, from),
            new: only(&self.new, to),
            within: to.or(from).cloned(),
        };
        (!within.diff().changes.is_empty()).then_some(within)
    }

    /// Returns the [members](Changes::to_json) of the changes.
    pub fn to_json(&self) -> Map<String, Value> {
        self.diff().to_json()
    }

    /// Returns the first changes in one [line](mod@line), with shortened values.
    pub fn line(&self) -> String {
        match line::shortened(&self.diff(), MAX_CHANGES) {
            line if line.is_empty() => "(no changes)".to_owned(),
            line => line,
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

/// Compares two versions of one entity, in any order. `None` is the state before version 1.
///
/// Returns `{"ID", "From", "To", "Recorded": {"From": …, "To": …}, "Changes": […]}`. `Recorded` has the [record](VersionView::record_json)
/// of both versions, `Changes` and `Coarse` are those of [`Changes::to_json`].
pub fn diff_json<'a>(from: impl Into<Option<&'a VersionView>>, to: &VersionView) -> Value {
    let from = from.into();
    let mut json = json!({
        "ID": to.entity.as_str(),
        "From": from.map_or(0, |from| from.version.get()),
        "To": to.version,
        "Recorded": {"To": to.record_json()},
    });
    if let Some(from) = from {
        json["Recorded"]["From"] = from.record_json().into();
    }
    if let Value::Object(members) = &mut json {
        members.extend(Comparison::new(from, to).to_json());
    }
    json
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
        assert_eq!(both.line(), "+Deleted: true, +L: [1], -Qty, Status: placed → paid");
        let changes = json!([
            {"Path": "Deleted", "Kind": "added", "To": true}, {"Path": "L", "Kind": "added", "To": [1]},
            {"Path": "Qty", "Kind": "removed", "From": 5},
            {"Path": "Status", "Kind": "changed", "From": "placed", "To": "paid"},
        ]);
        let expected = json!({
            "ID": "E", "From": 2, "To": 5, "Recorded": {"From": {"Version": 2, "RequestId": "a"}, "To": {"Version": 5}},
            "Changes": changes,
        });
        assert_eq!(diff_json(&from, &to), expected);
        let first = diff_json(None, &from);
        assert_eq!((&first["From"], &first["Recorded"]["From"]), (&json!(0), &Value::Null));
        assert_eq!(Comparison::new(Some(&to), &to).line(), "(no changes)");
    }

    #[test]
    fn long_lines_are_shortened() {
        let attributes = (0..=MAX_CHANGES).map(|number| (format!("A{number}"), json!({"S": "é".repeat(100)})));
        let many = Comparison::new(None, &view(1, Value::Object(attributes.collect())));
        assert!(many.line().ends_with("…, +1 more"), "{}", many.line());
    }
}
