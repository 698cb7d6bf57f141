//! Changes from one item to another. They apply in their order: each path refers to the item at its step, as in RFC 6902.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, plain};

use crate::{
    alignment::align,
    path::{Path, Step},
    tree::{Children, Members, Node, Numbers},
};

/// Maximum number of elements of a list that are added, removed or moved. A list with more is one change.
const MAX_CHANGED_ELEMENTS: usize = 2_000;

/// Changes from one item to another.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes<'a> {
    /// Changes in the order in which they apply.
    pub changes: Vec<Change<'a>>,
    /// Lists that are too long and too different for the lowest number of changes: more than necessary is shown as changed.
    pub coarse: Vec<Path>,
}

/// Change of one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    /// Path of the value. An element is added before the present element at its index.
    pub path: Path,
    /// Kind of the change, with its values.
    pub kind: Kind<'a>,
}

/// Kind of a change, with the values.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind<'a> {
    /// The value is new.
    Added(&'a AttributeValue),
    /// The value is gone.
    Removed(&'a AttributeValue),
    /// The first value is replaced by the second.
    Changed(&'a AttributeValue, &'a AttributeValue),
    /// An element is removed from this path, and then added at the path of the change.
    Moved(Path, &'a AttributeValue),
}

impl<'a> Changes<'a> {
    /// Compares two items. `None` is an item without attributes.
    ///
    /// Maps are compared by member, lists by [alignment](mod@crate::alignment). Values of which nothing is equal are one change.
    pub fn between(from: Option<&'a Item>, to: Option<&'a Item>) -> Self {
        let mut numbers = Numbers::default();
        let mut of = |item: Option<&'a Item>| item.map(|item| numbers.item(item)).unwrap_or_default();
        let (from, to) = (of(from), of(to));
        let mut changes = Self::default();
        changes.members(&Path::default(), &from, &to);
        changes
    }

    /// Returns `{"Changes": […]}`, with the [changes](Change::to_json) in the order in which they apply, and `Coarse` with the paths of
    /// lists for which there are more changes than necessary.
    pub fn to_json(&self) -> Map<String, Value> {
        let changes = self.changes.iter().map(Change::to_json).collect();
        let coarse: Vec<_> = self.coarse.iter().map(ToString::to_string).collect();
        let mut json = Map::from_iter([("Changes".to_owned(), changes)]);
        json.extend((!coarse.is_empty()).then(|| ("Coarse".to_owned(), coarse.into())));
        json
    }
}

/// An element of a list while its changes apply: one of the first list, or one of the second list.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Old(usize),
    New(usize),
}

impl<'a> Changes<'a> {
    fn add(&mut self, path: Path, kind: Kind<'a>) {
        self.changes.push(Change { path, kind });
    }

    /// Adds the changes of a value. Returns `true` if a part of the values is equal.
    fn value(&mut self, path: Path, a: &Node<'a>, b: &Node<'a>) -> bool {
        if a.number == b.number {
            return true;
        }
        let before = (self.changes.len(), self.coarse.len());
        let has_equal_part = match (&a.children, &b.children) {
            (Children::Map(a), Children::Map(b)) => self.members(&path, a, b),
            (Children::List(x), Children::List(y)) => self.elements(&path, x, y).unwrap_or_else(|| {
                self.coarse.push(path.clone());
                self.add(path.clone(), Kind::Changed(a.value, b.value));
                true
            }),
            _ => {
                self.add(path, Kind::Changed(a.value, b.value));
                return false;
            }
        };
        if !has_equal_part && self.changes.len() > before.0 + 1 {
            self.changes.truncate(before.0);
            self.coarse.truncate(before.1);
            self.add(path, Kind::Changed(a.value, b.value));
        }
        has_equal_part
    }

    fn members(&mut self, path: &Path, a: &Members<'a>, b: &Members<'a>) -> bool {
        let names: BTreeSet<_> = a.keys().chain(b.keys()).copied().collect();
        let mut has_equal_part = false;
        for name in names {
            let path = path.with(Step::Name(name.to_owned()));
            match (a.get(name), b.get(name)) {
                (Some(a), Some(b)) => has_equal_part |= self.value(path, a, b),
                (Some(a), None) => self.add(path, Kind::Removed(a.value)),
                (None, Some(b)) => self.add(path, Kind::Added(b.value)),
                (None, None) => {}
            }
        }
        has_equal_part
    }

    /// Adds the changes of a list: removals from the end, moves and additions from the start, then changes of elements. Returns `None` if
    /// the list is one change.
    fn elements(&mut self, path: &Path, a: &[Node<'a>], b: &[Node<'a>]) -> Option<bool> {
        let alignment = align(a, b);
        let start = self.changes.len();
        let at = |index: usize| path.with(Step::Index(index));
        let mut has_equal_part = false;
        for &(i, j) in alignment.kept.iter().chain(&alignment.moved) {
            has_equal_part |= self.value(at(j), &a[i], &b[j]);
        }
        let nested = self.changes.split_off(start);
        // For each element of the second list the one of the first list.
        let mut sources = vec![None; b.len()];
        for &(i, j) in alignment.kept.iter().chain(&alignment.moved) {
            sources[j] = Some(i);
        }
        let remaining: BTreeSet<_> = sources.iter().flatten().copied().collect();
        let moved: BTreeSet<_> = alignment.moved.iter().map(|(_, to)| *to).collect();
        let count = a.len() - remaining.len() + moved.len() + sources.iter().filter(|source| source.is_none()).count();
        if count > MAX_CHANGED_ELEMENTS {
            return None;
        }
        self.coarse.extend(alignment.is_coarse.then(|| path.clone()));
        for index in (0..a.len()).rev().filter(|index| !remaining.contains(index)) {
            self.add(at(index), Kind::Removed(a[index].value));
        }
        let mut present: Vec<Element> = remaining.into_iter().map(Element::Old).collect();
        let element = |index: usize| sources[index].map_or(Element::New(index), Element::Old);
        let position = |present: &[Element], element| present.iter().position(|other| *other == element);
        for (index, source) in sources.iter().enumerate() {
            if source.is_some() && !moved.contains(&index) {
                continue;
            }
            let from = position(&present, element(index));
            if let Some(from) = from {
                let _ = present.remove(from);
            }
            let before = index.checked_sub(1).map(element);
            let to = before.and_then(|before| position(&present, before));
            let to = to.map_or(0, |before| before + 1);
            present.insert(to, element(index));
            match from {
                Some(from) => self.add(
                    at(to),
                    Kind::Moved(at(from), source.map_or(b[index].value, |source| a[source].value)),
                ),
                None => self.add(at(to), Kind::Added(b[index].value)),
            }
        }
        self.changes.extend(nested);
        Some(has_equal_part)
    }
}

impl Change<'_> {
    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Added(_) => "added",
            Kind::Removed(_) => "removed",
            Kind::Changed(..) => "changed",
            Kind::Moved(..) => "moved",
        }
    }

    /// Returns `{"Path": "Lines[2].Price", "Kind": "changed", "From": …, "To": …}`, with `FromPath` in place of values for a move.
    pub fn to_json(&self) -> Value {
        let mut json = Map::from_iter([
            ("Path".to_owned(), json!(self.path.to_string())),
            ("Kind".to_owned(), json!(self.kind())),
        ]);
        let mut add = |name: &str, value| json.insert(name.to_owned(), value);
        match &self.kind {
            Kind::Added(value) => drop(add("To", plain::attribute(value))),
            Kind::Removed(value) => drop(add("From", plain::attribute(value))),
            Kind::Changed(from, to) => {
                add("From", plain::attribute(from));
                add("To", plain::attribute(to));
            }
            Kind::Moved(from, _) => drop(add("FromPath", json!(from.to_string()))),
        }
        Value::Object(json)
    }

    /// Applies the change to an item. Returns `None` if the item has no such value.
    #[must_use]
    pub fn apply(&self, item: &mut Item) -> Option<()> {
        match &self.kind {
            Kind::Added(value) => insert(item, &self.path, (*value).clone()),
            Kind::Removed(_) => remove(item, &self.path).map(drop),
            Kind::Changed(_, value) => {
                *at(item, &self.path.0)? = (*value).clone();
                Some(())
            }
            Kind::Moved(from, _) => {
                let value = remove(item, from)?;
                insert(item, &self.path, value)
            }
        }
    }
}

fn at<'v>(item: &'v mut Item, steps: &[Step]) -> Option<&'v mut AttributeValue> {
    let (Step::Name(first), rest) = steps.split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(item.get_mut(first)?, |value, step| match (value, step) {
            (AttributeValue::M(map), Step::Name(name)) => map.get_mut(name),
            (AttributeValue::L(list), Step::Index(index)) => list.get_mut(*index),
            _ => None,
        })
}

fn insert(item: &mut Item, path: &Path, value: AttributeValue) -> Option<()> {
    match path.0.split_last()? {
        (Step::Name(name), []) => drop(item.insert(name.clone(), value)),
        (step, parent) => match (at(item, parent)?, step) {
            (AttributeValue::M(map), Step::Name(name)) => drop(map.insert(name.clone(), value)),
            (AttributeValue::L(list), Step::Index(index)) if *index <= list.len() => list.insert(*index, value),
            _ => return None,
        },
    }
    Some(())
}

fn remove(item: &mut Item, path: &Path) -> Option<AttributeValue> {
    match path.0.split_last()? {
        (Step::Name(name), []) => item.remove(name),
        (step, parent) => match (at(item, parent)?, step) {
            (AttributeValue::M(map), Step::Name(name)) => map.remove(name),
            (AttributeValue::L(list), Step::Index(index)) if *index < list.len() => Some(list.remove(*index)),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests;
