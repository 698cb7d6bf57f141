//! Comparison of two versions: the attributes that differ, with both values, or in one line.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use shared::{
    domain::{
        AttributeValue, Item,
        erased::{Erased, ErasedPath, ErasedValue, hide},
        names,
        version::Version,
        view::VersionView,
    },
    printable,
};

use crate::{
    change::{Change, Changes, Kind},
    line,
    path::{Path, Step, value_at},
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
    /// Lines about what was erased from one of both.
    erased: Vec<(String, String)>,
}

impl Comparison {
    /// Compares two versions of one entity. `None` is the state before version 1, without attributes.
    /// What was erased from the second one does not count as removed.
    pub fn new(from: Option<&VersionView>, to: &VersionView) -> Self {
        let mut old = from.map_or_else(|| Item::from(HashMap::<String, AttributeValue>::new()), with_tombstone);
        hide(&mut old, to.erased.paths());
        let none = Erased::default();
        let before = from.map_or(&none, |from| &from.erased);
        let in_one = |of: &Erased, other: &Erased| {
            let entries = of.0.iter().filter(|(path, _)| !other.0.contains_key(*path));
            Erased(entries.map(|(path, value)| (path.clone(), value.clone())).collect())
        };
        let sides = [in_one(&to.erased, before), in_one(before, &to.erased)];
        Self {
            old,
            new: with_tombstone(to),
            within: None,
            erased: sides.iter().flat_map(erased_lines).collect(),
        }
    }

    /// Returns lines about what was erased from one of both versions: the path, and `erased on 2026-11-26T13:20:52Z: asked`.
    pub fn erased(&self) -> &[(String, String)] {
        &self.erased
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
            erased: Vec::new(),
        };
        (!within.diff().changes.is_empty()).then_some(within)
    }

    /// Returns the [members](Changes::to_json) of the changes.
    pub fn to_json(&self) -> Map<String, Value> {
        self.diff().to_json()
    }

    /// Returns the first changes in one [line](mod@line), with shortened values, and the paths that were erased.
    pub fn line(&self) -> String {
        let changes = line::shortened(&self.diff(), MAX_CHANGES);
        let changes = Some(changes).filter(|line| !line.is_empty());
        let erased = self
            .erased
            .iter()
            .take(MAX_CHANGES)
            .map(|(path, _)| format!("{path} erased"));
        let more = self.erased.len().saturating_sub(MAX_CHANGES);
        let more = (more > 0).then(|| format!("+{more} more erased"));
        match changes.into_iter().chain(erased).chain(more).collect::<Vec<_>>() {
            lines if lines.is_empty() => "(no changes)".to_owned(),
            lines => lines.join(", "),
        }
    }
}

/// Returns the path of each erased value, and when and why it was erased, without hidden characters.
pub fn erased_lines(erased: &Erased) -> Vec<(String, String)> {
    let line = |(path, value): (&ErasedPath, &ErasedValue)| {
        let path = Path(path.names().iter().cloned().map(Step::Name).collect());
        let at = value.at.to_string();
        // "2026-11-26T13:20:52" of a time in nanoseconds.
        let at = at.get(..19).unwrap_or(&at);
        (
            line::path_text(&path),
            format!("erased on {at}Z: {}", printable::line(&value.reason)),
        )
    };
    erased.0.iter().map(line).collect()
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
    fn an_erased_value_is_not_removed() {
        let erased = |name: &str| {
            let entry = json!({"M": {"At": {"S": "2026-11-26T13:20:52.000000000Z"}, "Reason": {"S": "asked\u{7}"}}});
            json!({"M": {format!("[\"Attribute\",\"P\",\"{name}\"]"): entry}})
        };
        let place = |street: &str, hall: &str| json!({"M": {"s": {"S": street}, "h": {"S": hall}}});
        let whole = |version, street, hall| view(version, json!({"P": place(street, hall)}));
        let without =
            |version, hall: &str| view(version, json!({"P": {"M": {"h": {"S": hall}}}, "Erased": erased("s")}));
        let empty = view(2, json!({"Erased": erased("s")}));
        for (from, to, line) in [
            (Some(whole(1, "x", "1")), without(2, "1"), "P.s erased"),
            (
                Some(whole(1, "x", "1")),
                without(2, "2"),
                "P.h: \"1\" → \"2\", P.s erased",
            ),
            (Some(without(1, "1")), without(2, "2"), "P.h: \"1\" → \"2\""),
            (Some(without(1, "1")), whole(2, "y", "1"), "+P.s: y, P.s erased"),
            (
                Some(view(1, json!({"P": {"M": {"s": {"S": "x"}}}}))),
                empty.clone(),
                "P.s erased",
            ),
            (None, empty, "P.s erased"),
        ] {
            let both = Comparison::new(from.as_ref(), &to);
            assert_eq!(both.line(), line);
            let texts = both.erased().iter().map(|(_, text)| text.as_str());
            let is_named = line
                .contains("erased")
                .then_some("erased on 2026-11-26T13:20:52Z: asked\\u{7}");
            assert_eq!(
                texts.collect::<Vec<_>>(),
                is_named.into_iter().collect::<Vec<_>>(),
                "{line}"
            );
        }
        let json = json!([{"Attribute": ["P", "s"], "At": "2026-11-26T13:20:52.000000000Z", "Reason": "asked\u{7}"}]);
        assert_eq!(without(2, "1").record_json()["Erased"], json);
    }

    #[test]
    fn long_lines_are_shortened() {
        let attributes = (0..=MAX_CHANGES).map(|number| (format!("A{number}"), json!({"S": "é".repeat(100)})));
        let many = Comparison::new(None, &view(1, Value::Object(attributes.collect())));
        assert!(many.line().ends_with("…, +1 more"), "{}", many.line());
    }
}
