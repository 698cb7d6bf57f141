//! Selection of the versions that are undone.

use std::{collections::BTreeSet, sync::Arc};

use shared::domain::{
    attached::item::{BACKFILL, StateOrigin},
    recorded_at::RecordedAt,
    version::Version,
    view::VersionView,
};

use super::set_file::UndoSet;
use crate::{
    all_versions::filter::{is_between, is_of},
    backfill::mapping::REQUEST_PREFIX,
};

/// Conditions that a version fulfills to be undone, all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Numbers, `None` for any.
    pub versions: Option<BTreeSet<Version>>,
    /// Older versions are known not to be selected, so that they are not read.
    pub first: Option<Version>,
    /// Earliest time at which it was recorded.
    pub since: Option<RecordedAt>,
    /// Latest time at which it was recorded.
    pub until: Option<RecordedAt>,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub change_set: Option<String>,
    /// Writes of an undo, of which the versions are those that are selected.
    pub written: Option<Arc<UndoSet>>,
    /// `true` to leave out versions of an attached table whose author can be that of the version before.
    pub actor_changed_only: bool,
    /// `true` to add the deletions by clients from an attached table, which name no author.
    pub with_unattributed_deletions: bool,
}

/// What a selection does with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Selected,
    /// Selected, although another client can have made the change.
    Uncertain,
    /// It fulfills the conditions, but is late, missed or a baseline, and so no change of the item.
    Marked,
    /// A deletion that fulfills all conditions but those of the author, the reason and the change set, which it does not have.
    Unattributed,
    Other,
}

impl Selection {
    pub(super) fn choose(&self, view: &VersionView) -> Choice {
        let is_in_period = match view.recorded_at {
            Some(time) => is_between([self.since, self.until], time),
            None => self.since.is_none() && self.until.is_none(),
        };
        let is_numbered = |versions: &BTreeSet<_>| versions.contains(&view.version);
        if !is_in_period || !self.versions.as_ref().is_none_or(is_numbered) {
            return Choice::Other;
        }
        let is_attributed = is_of([&self.actor, &self.reason, &self.change_set], view);
        if !is_attributed {
            let is_unattributed = view.change.is_some() && view.deleted && view.actor.is_none();
            return match (is_unattributed, self.with_unattributed_deletions) {
                (false, _) => Choice::Other,
                (true, _) if is_marked(view) => Choice::Marked,
                (true, false) => Choice::Unattributed,
                (true, true) => Choice::Selected,
            };
        }
        match self.actor.is_some() && view.actor_unchanged {
            _ if is_marked(view) => Choice::Marked,
            true if self.actor_changed_only => Choice::Other,
            true => Choice::Uncertain,
            false => Choice::Selected,
        }
    }

    /// Returns the first version that can be selected, if it is known.
    pub(super) fn first(&self) -> Option<Version> {
        let number = self.versions.as_ref().and_then(BTreeSet::first).copied();
        number.max(self.first)
    }

    /// Returns `true` if neither the version nor an older one can be selected, and it was the state of the item.
    pub(super) fn is_before(&self, view: &VersionView) -> bool {
        // Times of the writer increase with the versions. Those of a stream need not.
        let recorded = view.recorded_at.filter(|_| !view.recorded_by_stream);
        let is_older = recorded
            .zip(self.since)
            .is_some_and(|(recorded, since)| recorded < since);
        !view.is_late() && (is_older || self.first().is_some_and(|first| view.version < first))
    }
}

/// Returns `true` if a version is no change: it is late or missed, or history begins with it.
fn is_marked(view: &VersionView) -> bool {
    let request = view.request_id.as_deref();
    view.change.as_ref().map_or_else(
        || view.version == Version::FIRST && request.is_some_and(|id| id.starts_with(REQUEST_PREFIX)),
        |change| change.origin != StateOrigin::Record || change.stream == BACKFILL,
    )
}
