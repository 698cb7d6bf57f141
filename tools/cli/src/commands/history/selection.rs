//! Selection of the versions that `vzero history` prints.
//!
//! Versions arrive in the order in which a history is read. A version is compared with the previous one, which arrives after
//! it if the newest version comes first. The previous version can be outside of the range, or not match the filter.
//!
//! `RecordedAt` strictly increases with the versions that writer-fn wrote. The selection therefore ends at the first one of
//! them that is outside of the period in the direction of the reading. Times from the stream do not end it.

use std::ops::RangeInclusive;

use item_diff::versions::Comparison;
use shared::domain::{plain, recorded_at::RecordedAt, version::Version, view::VersionView};

/// Conditions that a version fulfills to be printed.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// Earliest time at which it was recorded.
    pub(super) since: Option<RecordedAt>,
    /// Latest time at which it was recorded.
    pub(super) until: Option<RecordedAt>,
    /// Its `Actor`.
    pub(super) actor: Option<String>,
    /// An attribute that differs from the previous version.
    pub(super) changed: Option<String>,
}

/// Selected version.
pub(super) struct Selected {
    pub(super) view: VersionView,
    pub(super) compared: Compared,
}

/// Comparison of a version with the previous one.
pub(super) enum Compared {
    /// It was not requested.
    No,
    /// The previous version is missing or was pruned.
    Unknown,
    With(Comparison),
}

/// Place of a version relative to the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Older,
    Inside,
    Newer,
    /// The time of the version is not known.
    Undated,
}

impl Filter {
    /// `true` if versions can be excluded.
    pub(super) fn excludes(&self) -> bool {
        self.since.is_some() || self.until.is_some() || self.actor.is_some() || self.changed.is_some()
    }

    fn place(&self, view: &VersionView) -> Place {
        if self.since.is_none() && self.until.is_none() {
            return Place::Inside;
        }
        match view.recorded_at {
            None => Place::Undated,
            Some(recorded) if self.since.is_some_and(|since| recorded < since) => Place::Older,
            Some(recorded) if self.until.is_some_and(|until| recorded > until) => Place::Newer,
            Some(_) => Place::Inside,
        }
    }

    fn is_by_actor(&self, view: &VersionView) -> bool {
        let Some(actor) = &self.actor else { return true };
        // A text is compared without quotes, any other value as JSON.
        let own = view.actor.as_ref().map(plain::attribute);
        own.is_some_and(|own| own.as_str().map_or_else(|| own.to_string(), str::to_owned) == *actor)
    }

    /// An unknown change can be a change of the attribute.
    fn is_changed(&self, compared: &Compared) -> bool {
        match (&self.changed, compared) {
            (Some(attribute), Compared::With(comparison)) => comparison.contains(attribute),
            _ => true,
        }
    }
}

/// Selects versions from a history.
pub(super) struct Selection {
    filter: Filter,
    first: Version,
    oldest_first: bool,
    compares: bool,
    /// Number of versions that can still be selected.
    left: usize,
    /// Newest first: the version that waits for the previous one. Oldest first: the previous version.
    last: Option<VersionView>,
    /// `true` if every version that is read from now on is outside of the period.
    is_beyond: bool,
    /// Last version before the period, 0 if there is none, and first version after it.
    bounds: (u64, u64),
    undated: Vec<u64>,
}

impl Selection {
    /// Selects at most `limit` versions from `first` on. `compares` is `true` if each version is compared with the previous
    /// one; a filter for a changed attribute always does.
    pub(super) fn new(
        filter: Filter,
        first: Option<Version>,
        oldest_first: bool,
        compares: bool,
        limit: Option<usize>,
    ) -> Self {
        Self {
            compares: compares || filter.changed.is_some(),
            filter,
            first: first.unwrap_or(Version::FIRST),
            oldest_first,
            left: limit.unwrap_or(usize::MAX),
            last: None,
            is_beyond: false,
            bounds: (0, u64::MAX),
            undated: Vec::new(),
        }
    }

    /// Returns the first version to read: one more than is selected, if versions are compared.
    pub(super) fn first_to_read(&self) -> Option<Version> {
        let before = self.compares.then(|| Version::new(self.first.get() - 1)).flatten();
        Some(before.unwrap_or(self.first)).filter(|first| *first != Version::FIRST)
    }

    /// Returns the number of versions to read, `None` if it depends on their content.
    pub(super) fn count_to_read(&self) -> Option<usize> {
        let is_limited = self.left < usize::MAX && !self.filter.excludes();
        is_limited.then(|| self.left.saturating_add(self.compares.into()))
    }

    /// Adds the next version of the history, and returns a version that is selected.
    pub(super) fn push(&mut self, view: VersionView) -> Option<Selected> {
        if self.is_done() {
            return None;
        }
        let is_in_range = view.version >= self.first;
        let place = self.filter.place(&view);
        self.note_place(place, &view, is_in_range);
        let is_candidate = is_in_range && place == Place::Inside;
        if !self.compares {
            return is_candidate.then(|| self.select(view, Compared::No)).flatten();
        }
        if self.oldest_first {
            let selected = is_candidate
                .then(|| self.select_compared(view.clone(), self.last.as_ref()))
                .flatten();
            self.count(selected.is_some());
            self.last = Some(view);
            return selected;
        }
        let waiting = self.last.take();
        let selected = waiting.and_then(|waiting| self.select_compared(waiting, Some(&view)));
        self.count(selected.is_some());
        self.last = is_candidate.then_some(view);
        selected
    }

    fn note_place(&mut self, place: Place, view: &VersionView, is_in_range: bool) {
        let (number, is_own) = (view.version.get(), !view.recorded_by_stream);
        match place {
            Place::Undated if is_in_range => self.undated.push(number),
            Place::Older if is_own => {
                self.bounds.0 = self.bounds.0.max(number);
                self.is_beyond |= !self.oldest_first;
            }
            Place::Newer if is_own => {
                self.bounds.1 = self.bounds.1.min(number);
                self.is_beyond |= self.oldest_first;
            }
            _ => {}
        }
    }

    /// Returns the version that waits for the previous one, at the end of the history.
    pub(super) fn finish(&mut self) -> Option<Selected> {
        let waiting = self.last.take().filter(|_| !self.oldest_first && self.left > 0)?;
        self.select_compared(waiting, None)
    }

    /// `true` if no further version can be selected, except by [`Self::finish`].
    pub(super) fn is_done(&self) -> bool {
        self.is_beyond || self.left == 0
    }

    /// Returns the versions that can be in the period: a missing one outside of them is not looked for.
    pub(super) fn range(&self) -> RangeInclusive<u64> {
        self.bounds.0..=self.bounds.1
    }

    /// Returns the versions that were left out because their time is not known.
    pub(super) fn undated(&self) -> &[u64] {
        &self.undated
    }

    fn select(&mut self, view: VersionView, compared: Compared) -> Option<Selected> {
        let selected = self.filter.is_by_actor(&view).then_some(Selected { view, compared });
        self.count(selected.is_some());
        selected
    }

    fn select_compared(&self, view: VersionView, previous: Option<&VersionView>) -> Option<Selected> {
        if !self.filter.is_by_actor(&view) {
            return None;
        }
        let previous = previous.filter(|previous| previous.version.get() + 1 == view.version.get());
        // A late version never was the state of the item, so it is neither a change of the version before it, nor is the next
        // one a change of it. An omitted state is not known.
        let is_incomparable = |view: &VersionView| view.is_late() || view.is_omitted();
        let is_incomparable = is_incomparable(&view) || previous.is_some_and(is_incomparable);
        let compared = if !is_incomparable && (previous.is_some() || view.version == Version::FIRST) {
            Compared::With(Comparison::new(previous, &view))
        } else {
            Compared::Unknown
        };
        self.filter.is_changed(&compared).then_some(Selected { view, compared })
    }

    fn count(&mut self, is_selected: bool) {
        self.left -= usize::from(is_selected);
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
