//! Selection of the versions that `vzero log` prints.
//!
//! Versions arrive in the order in which a history is read. A version is compared with the previous one, which arrives after
//! it if the newest version comes first. The previous version can be outside of the range, or not match the filter.
//!
//! `RecordedAt` strictly increases with the versions that writer-fn wrote. The selection therefore ends at the first one of
//! them that is outside of the period in the direction of the reading. Times from the stream do not end it.

use std::{cmp::Ordering, ops::RangeInclusive};

use item_diff::{
    path::Path,
    trace::Trace,
    versions::{Comparison, is_comparable},
};
use operations::all_versions::filter::VersionFilter;
use shared::domain::{version::Version, view::VersionView};

/// Conditions that a version fulfills to be printed.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) versions: VersionFilter,
    /// A path of the newest version that has it, whose value differs from the previous version.
    pub(super) path: Option<Path>,
    /// Last version. Later ones can be read, because the path refers to the newest one.
    pub(super) to: Option<Version>,
}

/// Selected version.
pub(super) struct Selected {
    pub(super) view: VersionView,
    /// Comparison with the previous version, `None` if it was not requested, or if that one is missing or was pruned.
    pub(super) comparison: Option<Comparison>,
}

impl Filter {
    /// `true` if versions can be excluded.
    pub(super) fn excludes(&self) -> bool {
        self.versions.excludes() || self.path.is_some()
    }

    /// Compares the time of a version with the period, `None` if it is not known.
    fn place(&self, view: &VersionView) -> Option<Ordering> {
        let VersionFilter { since, until, .. } = self.versions;
        if since.is_none() && until.is_none() {
            return Some(Ordering::Equal);
        }
        view.recorded_at.map(|recorded| {
            let is_older = since.is_some_and(|since| recorded < since);
            let is_newer = until.is_some_and(|until| recorded > until);
            match (is_older, is_newer) {
                (true, _) => Ordering::Less,
                (_, true) => Ordering::Greater,
                _ => Ordering::Equal,
            }
        })
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
    /// Path of the value in each version, if it can differ from the filter's.
    trace: Option<Trace>,
    /// Newest first: the version that waits for the previous one. Oldest first: the previous version.
    last: Option<VersionView>,
    /// `true` if every version that is read from now on is outside of the period.
    is_beyond: bool,
    /// Versions that can be in the period: a missing one outside of them is not looked for.
    pub(super) range: RangeInclusive<u64>,
    /// Versions that were left out because their time is not known.
    pub(super) undated: Vec<u64>,
}

impl Selection {
    /// Selects at most `limit` versions from `first` on. `compares` is `true` if each version is compared with the previous
    /// one; a filter for a path always does.
    pub(super) fn new(
        filter: Filter,
        first: Option<Version>,
        oldest_first: bool,
        compares: bool,
        limit: Option<usize>,
    ) -> Self {
        Self {
            trace: filter.path.as_ref().and_then(Trace::new),
            compares: compares || filter.path.is_some(),
            filter,
            first: first.unwrap_or(Version::FIRST),
            oldest_first,
            left: limit.unwrap_or(usize::MAX),
            last: None,
            is_beyond: false,
            range: 0..=u64::MAX,
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
        let candidate = self.is_candidate(&view).then(|| view.clone());
        let paths = match self.trace.as_mut().filter(|_| !view.is_late() && !view.is_omitted()) {
            Some(trace) => trace.step(&view.attributes),
            None => [self.filter.path.clone(), self.filter.path.clone()],
        };
        let selected = match (self.compares, self.oldest_first) {
            (false, _) => candidate.and_then(|candidate| self.select(candidate, None, paths)),
            (true, true) => {
                let previous = self.last.replace(view);
                candidate.and_then(|candidate| self.select(candidate, previous.as_ref(), paths))
            }
            (true, false) => {
                let [previous, path] = paths;
                let waiting = std::mem::replace(&mut self.last, candidate);
                waiting.and_then(|waiting| self.select(waiting, Some(&view), [path, previous]))
            }
        };
        self.left -= usize::from(selected.is_some());
        selected
    }

    /// Returns the version that waits for the previous one, at the end of the history.
    pub(super) fn finish(&mut self) -> Option<Selected> {
        let waiting = self.last.take().filter(|_| !self.oldest_first && self.left > 0)?;
        let path = match &self.trace {
            Some(trace) => trace.path.clone(),
            None => self.filter.path.clone(),
        };
        self.select(waiting, None, [path, None])
    }

    /// `true` if no further version can be selected, except by [`Self::finish`].
    pub(super) fn is_done(&self) -> bool {
        self.is_beyond || self.left == 0
    }

    /// Returns `true` if a version is in the range and in the period. One outside of the period limits what is looked for.
    fn is_candidate(&mut self, view: &VersionView) -> bool {
        let (number, is_own) = (view.version.get(), !view.recorded_by_stream);
        let is_in_range = view.version >= self.first && self.filter.to.is_none_or(|to| view.version <= to);
        let (first, last) = (*self.range.start(), *self.range.end());
        match self.filter.place(view) {
            Some(Ordering::Equal) => return is_in_range,
            None if is_in_range => self.undated.push(number),
            Some(Ordering::Less) if is_own => {
                self.range = first.max(number)..=last;
                self.is_beyond |= !self.oldest_first;
            }
            Some(Ordering::Greater) if is_own => {
                self.range = first..=last.min(number);
                self.is_beyond |= self.oldest_first;
            }
            _ => {}
        }
        false
    }

    /// Compares a version with the one that was read before or after it, unless the filter excludes it. The filter has these paths in both.
    fn select(
        &self,
        view: VersionView,
        previous: Option<&VersionView>,
        [to, from]: [Option<Path>; 2],
    ) -> Option<Selected> {
        let previous = previous.filter(|previous| previous.version.get() + 1 == view.version.get());
        let is_compared = self.compares && is_comparable(previous, &view);
        let comparison = is_compared.then(|| Comparison::new(previous, &view));
        // An unknown change can be a change of the path.
        let comparison = match self.filter.path.as_ref().zip(comparison.as_ref()) {
            Some((_, comparison)) => Some(comparison.within([from.as_ref(), to.as_ref()])?),
            None => comparison,
        };
        let is_attributed = self.filter.versions.is_attributed(&view);
        is_attributed.then_some(Selected { view, comparison })
    }
}

#[cfg(test)]
mod tests;
