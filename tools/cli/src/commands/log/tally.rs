//! Counts of versions, for `vzero log --all --stat`.

use std::collections::{BTreeMap, BTreeSet};

use item_diff::{line::text_of, path::Path, versions::Comparison};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, view::VersionView};

use crate::{
    error::CliError,
    output::{self, Output},
};

/// Maximum number of names that are counted. Further ones are counted together.
const MAX_NAMES: usize = 10_000;
const OTHERS: &str = "(others)";

/// Number of versions by actor, reason, entity prefix and path. `None` counts those without one.
#[derive(Default)]
pub(super) struct Tally {
    versions: u64,
    groups: [BTreeMap<Option<String>, u64>; 4],
}

const GROUPS: [&str; 4] = ["Actor", "Reason", "EntityPrefix", "Path"];

impl Tally {
    /// Counts a version of the entity with this key. Its changes can be unknown.
    pub(super) fn add(&mut self, view: &VersionView, key: &str, comparison: Option<&Comparison>) {
        self.versions += 1;
        let text = |value: &Option<AttributeValue>| BTreeSet::from([value.as_ref().map(text_of)]);
        let diff = comparison.map(Comparison::diff);
        let changes = diff.iter().flat_map(|diff| &diff.changes);
        let paths = changes.map(|change| Some(Path(change.path.0.iter().take(1).cloned().collect()).to_string()));
        let paths: BTreeSet<_> = match comparison {
            Some(_) => paths.collect(),
            None => BTreeSet::from([None]),
        };
        let prefix = BTreeSet::from([Some(prefix(key).to_owned())]);
        let names = [text(&view.actor), text(&view.reason), prefix, paths];
        for (group, names) in self.groups.iter_mut().zip(names) {
            for name in names {
                let is_full = group.len() >= MAX_NAMES && !group.contains_key(&name);
                *group
                    .entry(if is_full { Some(OTHERS.to_owned()) } else { name })
                    .or_default() += 1;
            }
        }
    }

    pub(super) fn print(self, output: &Output) -> Result<(), CliError> {
        let groups = GROUPS.into_iter().zip(self.groups).map(|(group, names)| {
            let mut names: Vec<_> = names.into_iter().collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            (group, names)
        });
        if output.is_json_chosen() {
            let object = |(name, count): (Option<String>, u64)| json!({"Name": name, "Versions": count});
            let list = |names: Vec<_>| names.into_iter().map(object).collect::<Value>();
            let mut json: serde_json::Map<_, _> =
                groups.map(|(group, names)| (group.to_owned(), list(names))).collect();
            json.insert("Versions".to_owned(), self.versions.into());
            return output::print_json(&json.into());
        }
        output::print(&format!("{} versions", self.versions))?;
        for (group, names) in groups {
            output::print(group)?;
            for (name, count) in names {
                let name = name.unwrap_or_else(|| if group == "Path" { "(not known)" } else { "(none)" }.to_owned());
                output::print(&format!("{count:>9}  {}", shared::printable::line(&name)))?;
            }
        }
        Ok(())
    }
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
