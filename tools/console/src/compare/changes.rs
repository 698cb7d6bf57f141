//! Differences between two versions, down to the members of lists and maps.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, attributes::same_value, plain};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change<'a> {
    /// Path of the value: an attribute, then members of maps and lists.
    pub(crate) path: Vec<Step<'a>>,
    pub(crate) from: Option<&'a AttributeValue>,
    pub(crate) to: Option<&'a AttributeValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

/// Differences in the order of names, and the names of equal attributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Changes<'a> {
    pub(crate) changed: Vec<Change<'a>>,
    pub(crate) same: Vec<&'a str>,
}

impl<'a> Changes<'a> {
    pub(crate) fn between(from: &'a Item, to: &'a Item) -> Self {
        let mut changes = Self::default();
        let names: BTreeSet<&'a String> = from.keys().chain(to.keys()).collect();
        for name in names {
            let before = changes.changed.len();
            changes.walk(&mut vec![Step::Name(name)], from.get(name), to.get(name));
            if changes.changed.len() == before {
                changes.same.push(name);
            }
        }
        changes
    }

    fn walk(&mut self, path: &mut Vec<Step<'a>>, from: Option<&'a AttributeValue>, to: Option<&'a AttributeValue>) {
        use AttributeValue::{L, M};
        match (from, to) {
            (Some(M(a)), Some(M(b))) if !a.is_empty() && !b.is_empty() => {
                let names: BTreeSet<&'a String> = a.keys().chain(b.keys()).collect();
                for name in names {
                    self.step(path, Step::Name(name), a.get(name), b.get(name));
                }
            }
            (Some(L(a)), Some(L(b))) if !a.is_empty() && !b.is_empty() => {
                for index in 0..a.len().max(b.len()) {
                    self.step(path, Step::Index(index), a.get(index), b.get(index));
                }
            }
            (Some(a), Some(b)) if same_value(a, b) => {}
            (None, None) => {}
            (from, to) => self.changed.push(Change {
                path: path.clone(),
                from,
                to,
            }),
        }
    }

    fn step(
        &mut self,
        path: &mut Vec<Step<'a>>,
        step: Step<'a>,
        from: Option<&'a AttributeValue>,
        to: Option<&'a AttributeValue>,
    ) {
        path.push(step);
        self.walk(path, from, to);
        path.pop();
    }
}

impl Change<'_> {
    /// Returns `{"Path": ["Address", "City"], "From": …, "To": …}`, without values that do not exist.
    pub(crate) fn to_json(&self) -> Value {
        let path = self.path.iter().map(|step| match step {
            Step::Name(name) => json!(name),
            Step::Index(index) => json!(index),
        });
        let mut json = Map::from_iter([("Path".to_owned(), path.collect())]);
        for (name, value) in [("From", self.from), ("To", self.to)] {
            json.extend(value.map(|value| (name.to_owned(), plain::attribute(value))));
        }
        Value::Object(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(from: Value, to: Value) -> (Vec<Value>, Vec<String>) {
        let item = |json| serde_json::from_value::<Item>(json).unwrap();
        let (from, to) = (item(from), item(to));
        let changes = Changes::between(&from, &to);
        (
            changes.changed.iter().map(Change::to_json).collect(),
            changes.same.iter().map(|name| (*name).to_owned()).collect(),
        )
    }

    #[test]
    fn nested_values_are_compared() {
        let from = json!({
            "Same": {"N": "1"}, "Gone": {"S": "x"}, "Set": {"SS": ["a", "b"]},
            "M": {"M": {"a": {"N": "1"}, "b": {"M": {"c": {"S": "old"}, "d": {"NULL": true}}}}},
            "L": {"L": [{"S": "x"}, {"S": "y"}, {"S": "z"}]}, "T": {"S": "1"}, "E": {"M": {}},
        });
        let to = json!({
            "Same": {"N": "1.0"}, "New": {"BOOL": true}, "Set": {"SS": ["b", "a"]},
            "M": {"M": {"a": {"N": "1"}, "b": {"M": {"c": {"S": "new"}, "d": {"NULL": true}}}}},
            "L": {"L": [{"S": "x"}, {"S": "w"}]}, "T": {"N": "1"}, "E": {"M": {"a": {"S": "x"}}},
        });
        let (changed, same) = changes(from, to);
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
        assert_eq!(same, ["Same", "Set"]);
    }

    #[test]
    fn equal_items_have_no_differences() {
        let item = json!({"A": {"L": []}, "B": {"M": {}}, "C": {"L": [{"M": {"x": {"L": []}}}]}});
        assert_eq!(
            changes(item.clone(), item),
            (vec![], vec!["A".into(), "B".into(), "C".into()])
        );
        assert_eq!(changes(json!({}), json!({})), (vec![], vec![]));
    }
}
