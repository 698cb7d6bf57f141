//! Filter of the versions of a table.

use item_diff::path::Path;
use operations::{
    all_versions::filter::{VersionFilter, key_words},
    undo::selection::Selection,
};
use shared::{domain::recorded_at::RecordedAt, dynamodb::Store};

use super::line::Line;
use crate::{address, error::PageError, query::Query};

/// Conditions that a version fulfills.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Filter {
    pub(super) scanned: VersionFilter,
    /// Path that it changed. A scan does not know that.
    pub(super) path: Option<Path>,
}

impl Filter {
    pub(super) fn of(query: &Query) -> Result<Self, PageError> {
        let text = |name| query.text(name).map(str::to_owned);
        let scanned = VersionFilter {
            since: query.parsed("since", RecordedAt::parse)?,
            until: query.parsed("until", RecordedAt::parse)?,
            actor: text("actor"),
            reason: text("reason"),
            change_set: text("change_set"),
            entity_prefix: text("prefix"),
        };
        let path = query.parsed("path", str::parse)?;
        Ok(Self { scanned, path })
    }

    /// Returns the parameters for an address.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let (of, time) = (self.scanned.clone(), |time: Option<RecordedAt>| {
            time.map(|time| time.to_string())
        });
        let pairs = [
            ("since", time(of.since)),
            ("until", time(of.until)),
            ("actor", of.actor),
            ("reason", of.reason),
            ("change_set", of.change_set),
            ("prefix", of.entity_prefix),
            ("path", self.path.as_ref().map(Path::to_string)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Returns the address of a page with the filter, and these parameters in place of its own.
    pub(super) fn address(&self, page: &str, more: &[(&'static str, String)]) -> String {
        let own = self
            .pairs()
            .filter(|(name, _)| more.iter().all(|(other, _)| name != other));
        let all = own.chain(more.iter().cloned());
        address::link(page, all.map(|(name, value)| (name, Some(value))))
    }

    /// Returns the conditions in words: `actor import-7, since 2026-11-22T06:24:48Z`.
    pub(super) fn text(&self) -> String {
        let pairs = self
            .pairs()
            .map(|(name, value)| format!("{} {value}", name.replace('_', " ")));
        let pairs = pairs.collect::<Vec<_>>().join(", ");
        if pairs.is_empty() {
            "all versions".to_owned()
        } else {
            pairs
        }
    }

    /// Returns `true` if the versions that another filter selected have all that this one selects, and the lists of their changed attributes
    /// suffice to find them.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let (own, wider) = (&self.scanned, &other.scanned);
        let is_same = |own: &Option<String>, wider: &Option<String>| wider.is_none() || own == wider;
        let has_prefix = |prefix: &String| own.entity_prefix.as_ref().is_some_and(|own| own.starts_with(prefix));
        is_same(&own.actor, &wider.actor)
            && is_same(&own.reason, &wider.reason)
            && is_same(&own.change_set, &wider.change_set)
            && wider
                .since
                .is_none_or(|since| own.since.is_some_and(|own| own >= since))
            && wider
                .until
                .is_none_or(|until| own.until.is_some_and(|own| own <= until))
            && wider.entity_prefix.as_ref().is_none_or(has_prefix)
            && (self.path == other.path || other.path.is_none() && self.attribute().is_some())
    }

    /// Returns the path if it names an attribute.
    fn attribute(&self) -> Option<&Path> {
        self.path.as_ref().filter(|path| path.0.len() == 1)
    }

    /// Decides on a version of a result that [is wider](Self::is_within).
    pub(super) fn selects(&self, line: &Line, store: &Store) -> bool {
        let (of, entity) = (&self.scanned, line.entity.as_str());
        let time = line.time();
        let is_same = |wanted: &Option<String>, own: &Option<String>| wanted.is_none() || wanted == own;
        let has_prefix =
            |prefix: &String| entity.starts_with(prefix) || key_words(store, entity).join(" ").starts_with(prefix);
        is_same(&of.actor, &line.actor)
            && is_same(&of.reason, &line.reason)
            && is_same(&of.change_set, &line.change_set)
            && of.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && of.until.is_none_or(|until| time.is_some_and(|time| time <= until))
            && of.entity_prefix.as_ref().is_none_or(has_prefix)
            // An unknown change can be one of the path.
            && self.attribute().zip(line.paths.as_ref()).is_none_or(|(path, paths)| paths.contains(&path.to_string()))
    }

    /// Returns the selection of an undo, and an error if it would take back whole histories, or parts of versions.
    pub(super) fn selection(&self) -> Result<Selection, PageError> {
        let (of, texts) = (
            &self.scanned,
            [&self.scanned.actor, &self.scanned.reason, &self.scanned.change_set],
        );
        if self.path.is_some() {
            return Err(PageError::Unexpected("path", "none: an undo takes back whole versions"));
        }
        if texts.iter().all(|text| text.is_none()) && of.since.is_none() && of.until.is_none() {
            let wanted = "a time, an actor, a reason or a change set: without one, an undo takes back whole histories";
            return Err(PageError::Unexpected("filter", wanted));
        }
        Ok(Selection {
            since: of.since,
            until: of.until,
            actor: of.actor.clone(),
            reason: of.reason.clone(),
            change_set: of.change_set.clone(),
            ..Selection::default()
        })
    }
}
