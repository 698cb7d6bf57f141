//! The version that set each value of an item last.
//!
//! ```text
//! Blame::new(newest item) ─> step(changes from version 6 to 7, 7) ─> step(changes from version 5 to 6, 6) ─> … ─> finish(1)
//! ```
//!
//! The history is read from the newest version to the oldest one. Each value has a path in the newest item, and another one in an older
//! item if elements were added, removed or moved in between. It ends at the first version whose changes set it.

use shared::domain::{AttributeValue, Item};

use crate::{
    change::{Change, Changes, Kind},
    path::{Path, Step},
};

/// Search for the versions that set the values of an item.
#[derive(Debug)]
pub struct Blame<V> {
    open: Vec<Search>,
    found: Vec<Line<V>>,
}

/// A value of the newest item, and the version that set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<V> {
    /// Path in the newest item.
    pub path: Path,
    /// Version that set the value.
    pub version: V,
    place: usize,
}

#[derive(Debug)]
struct Search {
    place: usize,
    path: Path,
    /// Path in the version that was compared last.
    at: Path,
}

impl<V: Clone> Blame<V> {
    /// Begins with all values of the newest item that contain no others.
    pub fn new(newest: &Item) -> Self {
        let mut open = Vec::new();
        let mut names: Vec<_> = newest.iter().collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in names {
            leaves(Path(vec![Step::Name(name.clone())]), value, &mut open);
        }
        let open = open.into_iter().enumerate();
        let open = open.map(|(place, path)| Search {
            place,
            at: path.clone(),
            path,
        });
        Self {
            open: open.collect(),
            found: Vec::new(),
        }
    }

    /// Returns `true` if the version of every value is known.
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Searches only for the values of these paths, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        self.open.retain(|search| keep(&search.path));
    }

    /// Returns the paths of the values whose version is not known, in the version that was compared last.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.open.iter().map(|search| &search.at)
    }

    /// Adds the changes of a version: those from the version before it.
    pub fn step(&mut self, changes: &Changes<'_>, version: &V) {
        for mut search in std::mem::take(&mut self.open) {
            let before = changes
                .changes
                .iter()
                .rev()
                .try_fold(search.at, |at, change| before(change, at));
            match before {
                Some(at) => {
                    search.at = at;
                    self.open.push(search);
                }
                None => self.found.push(Line {
                    path: search.path,
                    version: version.clone(),
                    place: search.place,
                }),
            }
        }
    }

    /// Ends the search: the oldest version has all other values. Returns the values in the order of their paths.
    pub fn finish(mut self, oldest: &V) -> Vec<Line<V>> {
        let rest = self.open.into_iter();
        self.found.extend(rest.map(|search| Line {
            path: search.path,
            version: oldest.clone(),
            place: search.place,
        }));
        self.found.sort_unstable_by_key(|line| line.place);
        self.found
    }
}

fn leaves(path: Path, value: &AttributeValue, found: &mut Vec<Path>) {
    match value {
        AttributeValue::M(members) if !members.is_empty() => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                leaves(path.with(Step::Name(name.clone())), value, found);
            }
        }
        AttributeValue::L(elements) if !elements.is_empty() => {
            for (index, value) in elements.iter().enumerate() {
                leaves(path.with(Step::Index(index)), value, found);
            }
        }
        _ => found.push(path),
    }
}

/// Returns the path of a value before a change, `None` if the change set the value.
pub(crate) fn before(change: &Change<'_>, at: Path) -> Option<Path> {
    let contains = |path: &Path| at.0.starts_with(&path.0);
    match &change.kind {
        Kind::Added(_) | Kind::Changed(..) if contains(&change.path) => None,
        // The value is empty, because its last part was removed.
        Kind::Removed(_) if change.path.0.starts_with(&at.0) && change.path != at => None,
        Kind::Changed(..) => Some(at),
        Kind::Added(_) => Some(without(at, &change.path)),
        Kind::Removed(_) => Some(with(at, &change.path)),
        Kind::Moved(from, _) => match at.0.strip_prefix(change.path.0.as_slice()) {
            Some(rest) => Some(Path([&from.0, rest].concat())),
            None => Some(with(without(at, &change.path), from)),
        },
    }
}

/// Returns the path before an element was added.
fn without(at: Path, added: &Path) -> Path {
    shifted(at, added, |index, added| if index > added { index - 1 } else { index })
}

/// Returns the path before an element was removed.
fn with(at: Path, removed: &Path) -> Path {
    shifted(
        at,
        removed,
        |index, removed| if index >= removed { index + 1 } else { index },
    )
}

fn shifted(mut at: Path, element: &Path, shift: impl Fn(usize, usize) -> usize) -> Path {
    if let Some((Step::Index(element), list)) = element.0.split_last()
        && at.0.starts_with(list)
        && let Some(Step::Index(index)) = at.0.get_mut(list.len())
    {
        *index = shift(*index, *element);
    }
    at
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blame(states: &[Value]) -> Vec<(String, usize)> {
        let items: Vec<Item> = states
            .iter()
            .map(|state| match shared::domain::plain::from_json(state.clone()).unwrap() {
                AttributeValue::M(members) => Item::from(members),
                _ => unreachable!(),
            })
            .collect();
        let mut blame = Blame::new(items.last().unwrap());
        for index in (0..items.len()).rev() {
            let old = index.checked_sub(1).map(|before| &items[before]);
            blame.step(&Changes::between(old, Some(&items[index])), &(index + 1));
        }
        assert!(blame.is_done());
        blame
            .finish(&0)
            .into_iter()
            .map(|line| (line.path.to_string(), line.version))
            .collect()
    }

    #[test]
    fn each_value_has_the_version_that_set_it() {
        let line = |id: u32, price: u32| json!({"id": id, "price": price});
        let states = [
            json!({"State": "a", "Lines": [line(1, 5), line(2, 6)], "Map": {"x": 1}, "Empty": [1], "Free": {"x": 1}}),
            json!({"State": "b", "Lines": [line(3, 7), line(1, 5), line(2, 6)], "Map": {"x": 1, "y": 2}, "Empty": [1], "Free": {"x": 2}}),
            json!({"State": "b", "Lines": [line(1, 5), line(2, 8), line(3, 7)], "Map": {"x": 1, "y": 2}, "Empty": [], "Free": {}}),
            json!({"State": "b", "Lines": [line(2, 8), line(3, 7)], "Map": {"x": 3, "y": 2}, "None": {}, "Empty": [], "Free": {}}),
        ];
        let expected = [
            ("Empty", 3),
            ("Free", 3),
            ("Lines[0].id", 1),
            ("Lines[0].price", 3),
            ("Lines[1].id", 2),
            ("Lines[1].price", 2),
            ("Map.x", 4),
            ("Map.y", 2),
            ("None", 4),
            ("State", 2),
        ];
        assert_eq!(
            blame(&states),
            expected.map(|(path, version)| (path.to_owned(), version))
        );
    }
}
