//! Counts of versions by author, reason, change set, entity prefix and path.

use std::collections::{BTreeMap, BTreeSet};

use item_diff::{line::text_of, path::Path, versions::Comparison};
use shared::domain::view::VersionView;

/// Maximum number of names that are counted. Further ones are counted together.
const MAX_NAMES: usize = 10_000;
pub const OTHERS: &str = "(others)";

pub const GROUPS: [&str; 5] = ["Actor", "Reason", "ChangeSet", "EntityPrefix", "Path"];

/// Number of versions in each of [`GROUPS`]. `None` counts those without a name.
#[derive(Default)]
pub struct Tally {
    pub versions: u64,
    groups: [BTreeMap<Option<String>, u64>; 5],
}

impl Tally {
    /// Counts a version of the entity with this key, with its author, reason and change set. `paths` is `None` if its changes are unknown.
    pub fn add(&mut self, names: [Option<String>; 3], key: &str, paths: Option<&BTreeSet<String>>) {
        self.versions += 1;
        let paths = paths.map_or_else(|| vec![None], |paths| paths.iter().cloned().map(Some).collect());
        let prefix = vec![Some(prefix(key).to_owned())];
        let [actor, reason, set] = names.map(|name| vec![name]);
        for (group, names) in self.groups.iter_mut().zip([actor, reason, set, prefix, paths]) {
            for name in names {
                let is_full = group.len() >= MAX_NAMES && !group.contains_key(&name);
                *group
                    .entry(if is_full { Some(OTHERS.to_owned()) } else { name })
                    .or_default() += 1;
            }
        }
    }

    /// Returns each group with its names, the most frequent first.
    pub fn groups(&self) -> impl Iterator<Item = (&'static str, Vec<(Option<&str>, u64)>)> {
        GROUPS.into_iter().zip(&self.groups).map(|(group, names)| {
            let mut names: Vec<_> = names.iter().map(|(name, count)| (name.as_deref(), *count)).collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            (group, names)
        })
    }
}

/// Returns the author, the reason and the change set of a version.
pub fn names_of(view: &VersionView) -> [Option<String>; 3] {
    [&view.actor, &view.reason, &view.change_set].map(|value| value.as_ref().map(text_of))
}

/// Returns the attributes that changed.
pub fn paths_of(comparison: &Comparison) -> BTreeSet<String> {
    let changes = comparison.diff().changes.into_iter();
    changes
        .map(|change| Path(change.path.0.into_iter().take(1).collect()).to_string())
        .collect()
}

/// Returns the key up to the first `#`, `/`, `:` or digit.
fn prefix(key: &str) -> &str {
    let end = key.find(|character: char| "#/:".contains(character) || character.is_ascii_digit());
    key[..end.unwrap_or(key.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn a_prefix_ends_before_a_separator_or_a_number() {
        for (key, expected) in [
            ("Equipment#1", "Equipment"),
            ("order/2", "order"),
            ("tenant:a", "tenant"),
            ("user17", "user"),
            ("c 7", "c"),
            ("7", ""),
            ("Zoë", "Zoë"),
        ] {
            assert_eq!(prefix(key), expected);
        }
    }
}
