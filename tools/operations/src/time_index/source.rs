//! Source of the versions of all entities: a scan, or the index, if it has all versions of the period.

use std::time::Duration;

use aws_sdk_dynamodb::types::IndexStatus;
use shared::{
    domain::{
        attributes::text,
        entity::RESERVED,
        recorded_at::RecordedAt,
        time_index::{AHEAD, INDEX_NAME, LATE, SINCE, millis},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{stored_definition, table_config},
    },
};

/// Time after [`SINCE`] in which a function with the earlier setting can still run, and insert versions that the index lacks.
const SETTLED: Duration = Duration::from_secs(15 * 60);

/// Source of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// `Scan` of the tables.
    #[default]
    Scan,
    /// Queries of the index.
    Index(Window),
}

impl Source {
    /// Chooses between the index and a scan for the versions that were recorded in a period. Returns the reason why an index is not used.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn choose(
        store: &Store,
        since: Option<RecordedAt>,
        until: Option<RecordedAt>,
    ) -> Result<(Self, Option<String>), ServiceError> {
        let Some(index) = TimeIndex::find(store).await? else {
            return Ok((Self::Scan, None));
        };
        let (source, why) = index.source(since, until);
        let since = index
            .since
            .map_or_else(String::new, |since| format!(", which exists since {since},"));
        Ok((
            source,
            why.map(|why| format!("the index {INDEX_NAME}{since} is not used: {why}")),
        ))
    }
}

/// Versions that were recorded in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    since: RecordedAt,
    until: Option<RecordedAt>,
    /// Time of insertion from which they are read, if not all are, and the one before which they are.
    inserted: (Option<RecordedAt>, Option<RecordedAt>),
}

impl Window {
    /// Returns the window of all versions.
    pub fn all() -> Self {
        Self::new(RecordedAt::since_epoch(Duration::ZERO), None)
    }

    pub fn new(since: RecordedAt, until: Option<RecordedAt>) -> Self {
        let inserted = (None, None);
        Self { since, until, inserted }
    }

    /// Returns the window of those that were inserted at this time or later.
    #[must_use]
    pub fn inserted_since(self, time: RecordedAt) -> Self {
        let inserted = (Some(time), self.inserted.1);
        Self { inserted, ..self }
    }

    /// Returns the window of those that were inserted before this time.
    #[must_use]
    pub fn inserted_before(self, time: Option<RecordedAt>) -> Self {
        let inserted = (self.inserted.0, time);
        Self { inserted, ..self }
    }

    /// Returns the first and the last sort key of the window in the index, with `is_late` in its second set.
    pub fn sort_keys(&self, is_late: bool) -> (String, Option<String>) {
        let first = if is_late { self.since } else { self.since.before(AHEAD) };
        let last = self.until.filter(|_| !is_late);
        // Sort keys have milliseconds, and something after them.
        let last = last.map(|until| millis(until.after(LATE + Duration::from_millis(1))));
        // The times of insertion in a millisecond sort after it.
        let before = self.inserted.1.map(millis);
        let last = last.into_iter().chain(before).min();
        (millis(self.inserted.0.map_or(first, |time| time.max(first))), last)
    }

    /// Returns `true` if a version of this time belongs to the window. Without a time, it can.
    pub(super) fn has(&self, recorded: Option<RecordedAt>) -> bool {
        recorded.is_none_or(|time| self.since <= time && self.until.is_none_or(|until| time <= until))
    }
}

/// Index of the table that stores versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeIndex {
    pub is_active: bool,
    /// Time since which it has all versions that are inserted. `None` if that is not known.
    pub since: Option<RecordedAt>,
}

impl TimeIndex {
    /// Returns the index, `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn find(store: &Store) -> Result<Option<Self>, ServiceError> {
        let history = store.history_table();
        let table = store.beside(history).description().await?;
        let mut indexes = table.global_secondary_indexes().iter();
        let Some(index) = indexes.find(|index| index.index_name() == Some(INDEX_NAME)) else {
            return Ok(None);
        };
        let key = match store.attached_table() {
            Some(_) => stored_definition::SORT_KEY,
            None => table_config::SORT_KEY,
        };
        let stored = store.get_stored(RESERVED, key, true, history).await?;
        let since = stored.and_then(|item| RecordedAt::parse(text(&item, SINCE)?).ok());
        Ok(Some(Self {
            is_active: index.index_status() == Some(&IndexStatus::Active),
            since,
        }))
    }

    /// Returns the time from which on a window can begin.
    pub fn complete_from(&self) -> Option<RecordedAt> {
        Some(self.since?.after(SETTLED))
    }

    /// Returns the source of the versions that were recorded in a period, and the reason why it is not the index.
    pub fn source(&self, since: Option<RecordedAt>, until: Option<RecordedAt>) -> (Source, Option<String>) {
        let reason = match (self.is_active, self.complete_from(), since) {
            (false, ..) => "it is not active yet".to_owned(),
            (_, None, _) => "stream-fn has not stored yet since when it has all versions".to_owned(),
            (_, Some(from), None) => {
                format!("the period has no beginning, and it has all versions from {from} on only")
            }
            (_, Some(from), Some(since)) if since < from => format!("it has all versions from {from} on only"),
            (_, _, Some(since)) => return (Source::Index(Window::new(since, until)), None),
        };
        (Source::Scan, Some(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> RecordedAt {
        RecordedAt::parse(text).unwrap()
    }

    #[test]
    fn the_index_is_used_for_a_period_after_it_is_complete() {
        let index = |is_active, since: Option<&str>| TimeIndex {
            is_active,
            since: since.map(at),
        };
        let complete = index(true, Some("2026-11-26T12:00:00Z"));
        for (index, since, reason) in [
            (complete, Some("2026-11-26T12:15:00Z"), None),
            (
                complete,
                Some("2026-11-26T12:14:59.999999999Z"),
                Some("it has all versions from"),
            ),
            (complete, None, Some("the period has no beginning")),
            (
                index(false, Some("2026-11-26T12:00:00Z")),
                Some("2026-11-27"),
                Some("it is not active"),
            ),
            (index(true, None), Some("2026-11-27"), Some("stream-fn has not stored")),
        ] {
            let (source, why) = index.source(since.map(at), None);
            assert_eq!(source == Source::Scan, reason.is_some(), "{since:?}");
            assert!(
                why.unwrap_or_default().starts_with(reason.unwrap_or_default()),
                "{since:?}"
            );
        }
    }

    #[test]
    fn a_window_contains_all_marks_of_its_versions() {
        use shared::domain::{AttributeValue, time_index::marks};

        let recorded = [at("2026-11-26T12:00:00.000001Z"), at("2026-11-26T12:00:01.000999Z")];
        let window = Window::new(recorded[0], Some(recorded[1]));
        for time in recorded {
            let micros = if time == recorded[0] { 1 } else { 999 };
            let exact = time.to_duration() + Duration::from_micros(micros);
            let ahead = [AHEAD * 9, AHEAD].map(|ahead| exact.saturating_sub(ahead));
            for inserted in [ahead[0], ahead[1], exact, exact + LATE, exact + LATE * 9] {
                let [(_, AttributeValue::S(partition)), (_, AttributeValue::S(key))] =
                    marks("E", Some(&time.to_string()), inserted)
                else {
                    panic!("the marks are two texts");
                };
                let (first, last) = window.sort_keys(partition.starts_with("late"));
                assert!(first < key && last.is_none_or(|last| key < last), "{partition} {key}");
            }
        }
        let later = window.inserted_since(at("2026-11-26T12:30:00Z"));
        assert_eq!(later.sort_keys(true), ("2026-11-26T12:30:00.000Z".to_owned(), None));
        assert!(window.has(None) && window.has(Some(recorded[1])) && !window.has(Some(recorded[1].after_ticks(1))));
    }
}
