//! Differences between two items, and between two versions. Everything is pure.
//!
//! ```text
//! two items ─> Changes, to a depth ─┬─> JSON                                      a page of the console
//!                                   ├─> one line: Status: placed → paid, -Note    module `line`
//!                                   └─> attributes of two versions                module `versions`
//! ```
//!
//! Values are equal if DynamoDB treats them as equal: `1` and `1.0`, and sets in any order.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    hash::Hash,
};

use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, attributes::same_value, number::Decimal, plain};

pub mod line;
pub mod versions;

/// Depth to which two items are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Attributes as a whole.
    Attributes,
    /// Members of maps, and lists as a whole.
    Maps,
    /// Members of maps and lists.
    Members,
}

/// Difference between two items in one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    /// Path of the value: an attribute, then members of maps and lists.
    pub path: Vec<Step<'a>>,
    /// Value in the first item, `None` if it has none.
    pub from: Option<&'a AttributeValue>,
    /// Value in the second item, `None` if it has none.
    pub to: Option<&'a AttributeValue>,
    /// Elements that differ, if both values are sets of the same type.
    pub set: Option<SetChange>,
}

/// Difference between two sets of the same type. Each part is a set of this type; an empty one is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetChange {
    /// Elements that only the first set has.
    pub removed: Option<AttributeValue>,
    /// Elements that only the second set has.
    pub added: Option<AttributeValue>,
    /// Number of elements that are in both sets.
    pub same: usize,
}

/// Step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// An attribute, or a member of a map.
    Name(&'a str),
    /// A member of a list, from 0.
    Index(usize),
}

/// Differences in the order of names, and the names of equal attributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes<'a> {
    /// Differences.
    pub changed: Vec<Change<'a>>,
    /// Names of the equal attributes.
    pub same: Vec<&'a str>,
}

impl<'a> Changes<'a> {
    /// Compares two items.
    pub fn between(from: &'a Item, to: &'a Item, depth: Depth) -> Self {
        let mut changes = Self::default();
        let names: BTreeSet<&'a String> = from.keys().chain(to.keys()).collect();
        for name in names {
            let before = changes.changed.len();
            changes.add(&mut Vec::new(), Step::Name(name), from.get(name), to.get(name), depth);
            if changes.changed.len() == before {
                changes.same.push(name);
            }
        }
        changes
    }

    /// Adds the differences of a value, which is a step below a path.
    fn add(
        &mut self,
        path: &mut Vec<Step<'a>>,
        step: Step<'a>,
        from: Option<&'a AttributeValue>,
        to: Option<&'a AttributeValue>,
        depth: Depth,
    ) {
        use AttributeValue::{L, M};
        path.push(step);
        match (from, to) {
            (Some(M(a)), Some(M(b))) if depth >= Depth::Maps && !a.is_empty() && !b.is_empty() => {
                let names: BTreeSet<&'a String> = a.keys().chain(b.keys()).collect();
                for name in names {
                    self.add(path, Step::Name(name), a.get(name), b.get(name), depth);
                }
            }
            (Some(L(a)), Some(L(b))) if depth >= Depth::Members && !a.is_empty() && !b.is_empty() => {
                for index in 0..a.len().max(b.len()) {
                    self.add(path, Step::Index(index), a.get(index), b.get(index), depth);
                }
            }
            (Some(a), Some(b)) if same_value(a, b) => {}
            (from, to) => self.changed.push(Change {
                path: path.clone(),
                from,
                to,
                set: from.zip(to).and_then(|(from, to)| SetChange::between(from, to)),
            }),
        }
        path.pop();
    }
}

impl SetChange {
    fn between(from: &AttributeValue, to: &AttributeValue) -> Option<Self> {
        use AttributeValue::{Bs, Ns, Ss};
        match (from, to) {
            (Ss(from), Ss(to)) => Some(Self::of(from, to, Ss, |text| text)),
            (Bs(from), Bs(to)) => Some(Self::of(from, to, Bs, |binary| binary)),
            (Ns(from), Ns(to)) => Some(Self::of(from, to, Ns, |text| match Decimal::parse(text) {
                Ok(number) => Cow::Owned(number.canonical()),
                Err(_) => Cow::Borrowed(text.as_str()),
            })),
            _ => None,
        }
    }

    /// Compares the elements of two sets by a key that is the same for equal elements.
    fn of<'a, T: Clone, K: Eq + Hash>(
        from: &'a [T],
        to: &'a [T],
        set: fn(Vec<T>) -> AttributeValue,
        key: impl Fn(&'a T) -> K,
    ) -> Self {
        let only_in = |elements: &'a [T], others: &'a [T]| -> Vec<T> {
            let others: HashSet<K> = others.iter().map(&key).collect();
            let only = elements.iter().filter(|element| !others.contains(&key(element)));
            only.cloned().collect()
        };
        let (removed, added) = (only_in(from, to), only_in(to, from));
        let same = from.len().saturating_sub(removed.len());
        let part = |elements: Vec<T>| (!elements.is_empty()).then(|| set(elements));
        Self {
            removed: part(removed),
            added: part(added),
            same,
        }
    }
}

impl Change<'_> {
    /// Returns `{"Path": ["Address", "City"], "From": …, "To": …}`, without values that do not exist. Two sets also have
    /// `Removed` and `Added`, with the elements that differ.
    pub fn to_json(&self) -> Value {
        let path = self.path.iter().map(|step| match step {
            Step::Name(name) => json!(name),
            Step::Index(index) => json!(index),
        });
        let mut json = Map::from_iter([("Path".to_owned(), path.collect())]);
        let set = self.set.as_ref();
        for (name, value) in [
            ("From", self.from),
            ("To", self.to),
            ("Removed", set.and_then(|set| set.removed.as_ref())),
            ("Added", set.and_then(|set| set.added.as_ref())),
        ] {
            json.extend(value.map(|value| (name.to_owned(), plain::attribute(value))));
        }
        Value::Object(json)
    }
}

/// Returns `true` if the value of an attribute differs. `None` stands for an item without attributes.
pub fn is_changed(name: &str, from: Option<&Item>, to: &Item) -> bool {
    match (from.and_then(|from| from.get(name)), to.get(name)) {
        (Some(from), Some(to)) => !same_value(from, to),
        (from, to) => from.is_some() || to.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(json: &Value) -> Item {
        serde_json::from_value(json.clone()).unwrap()
    }

    /// Returns the changes in JSON, and the names of equal attributes.
    fn changes(from: &Value, to: &Value, depth: Depth) -> (Vec<Value>, Vec<String>) {
        let (from, to) = (item(from), item(to));
        let changes = Changes::between(&from, &to, depth);
        let same = changes.same.iter().map(|name| (*name).to_owned());
        (changes.changed.iter().map(Change::to_json).collect(), same.collect())
    }

    #[test]
    fn nested_values_are_compared_to_a_depth() {
        let from = json!({
            "Same": {"N": "1"}, "Gone": {"S": "x"}, "Set": {"SS": ["a", "b"]}, "None": {"L": []},
            "M": {"M": {"a": {"N": "1"}, "b": {"M": {"c": {"S": "old"}, "d": {"NULL": true}}}}},
            "L": {"L": [{"S": "x"}, {"S": "y"}, {"S": "z"}]}, "T": {"S": "1"}, "E": {"M": {}},
        });
        let to = json!({
            "Same": {"N": "1.0"}, "New": {"BOOL": true}, "Set": {"SS": ["b", "a"]}, "None": {"L": []},
            "M": {"M": {"a": {"N": "1"}, "b": {"M": {"c": {"S": "new"}, "d": {"NULL": true}}}}},
            "L": {"L": [{"S": "x"}, {"S": "w"}]}, "T": {"N": "1"}, "E": {"M": {"a": {"S": "x"}}},
        });
        let (changed, same) = changes(&from, &to, Depth::Members);
        assert_eq!(
            changed,
            [
                json!({"Path": ["E"], "From": {}, "To": {"a": "x"}}),
                json!({"Path": ["Gone"], "From": "x"}),
                json!({"Path": ["L", 1], "From": "y", "To": "w"}),
                json!({"Path": ["L", 2], "From": "z"}),
                json!({"Path": ["M", "b", "c"], "From": "old", "To": "new"}),
                json!({"Path": ["New"], "To": true}),
                json!({"Path": ["T"], "From": "1", "To": 1}),
            ]
        );
        assert_eq!(same, ["None", "Same", "Set"]);
        for (depth, paths) in [
            (
                Depth::Attributes,
                json!([["E"], ["Gone"], ["L"], ["M"], ["New"], ["T"]]),
            ),
            (
                Depth::Maps,
                json!([["E"], ["Gone"], ["L"], ["M", "b", "c"], ["New"], ["T"]]),
            ),
        ] {
            let (changed, _) = changes(&from, &to, depth);
            assert_eq!(
                changed.iter().map(|change| change["Path"].clone()).collect::<Value>(),
                paths
            );
        }
        assert_eq!(changes(&from, &from, Depth::Members).0, [] as [Value; 0]);
        let is_changed = |name| is_changed(name, Some(&item(&from)), &item(&to));
        assert_eq!(
            ["Same", "M", "Gone", "New", "X"].map(is_changed),
            [false, true, true, true, false]
        );
        assert!(super::is_changed("New", None, &item(&to)) && !super::is_changed("Gone", None, &item(&to)));
    }

    #[test]
    fn sets_are_compared_element_by_element() {
        let from = json!({
            "B": {"BS": ["AA==", "AQ=="]}, "N": {"NS": ["1", "2.50", "7"]}, "S": {"SS": ["night", "day"]},
            "M": {"M": {"s": {"SS": ["a"]}}}, "T": {"SS": ["1"]},
        });
        let to = json!({
            "B": {"BS": ["AQ=="]}, "N": {"NS": ["2.5", "1.0", "8"]}, "S": {"SS": ["day", "dusk"]},
            "M": {"M": {"s": {"SS": ["a", "b"]}}}, "T": {"NS": ["1"]},
        });
        let (changed, _) = changes(&from, &to, Depth::Members);
        let set = |change: &Value| json!([change["Path"], change.get("Removed"), change.get("Added")]);
        assert_eq!(
            changed.iter().map(set).collect::<Vec<_>>(),
            [
                json!([["B"], {"$binaries": ["AA=="]}, null]),
                json!([["M", "s"], null, {"$strings": ["b"]}]),
                json!([["N"], {"$numbers": [7]}, {"$numbers": [8]}]),
                json!([["S"], {"$strings": ["night"]}, {"$strings": ["dusk"]}]),
                json!([["T"], null, null]),
            ]
        );
    }
}
