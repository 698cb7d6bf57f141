//! Detection of an earlier delivery of an update that the recent requests of the latest item no longer show.
//!
//! History has the request of every version, so that it is the complete list of an entity's requests. Reading it is needed
//! only if the update can have been sent before, and if the [recent requests](crate::domain::recent_requests) do not reach
//! back to that time. The [`Guard`] in the condition of the update makes sure of that:
//!
//! ```text
//! versions   1 ─────────── E ──────────── p │ p+1 ─────────── n
//!                          └── history ───┘ └ recent requests ┘
//!            E: earliest time of an earlier delivery        p: newest version that the recent requests do not have
//! ```
//!
//! If `p` was recorded after `E`, the versions between them are read from history, newest first. The stream can be behind,
//! so this waits until history has them. Meanwhile other updates follow, and the recent requests move on: the latest item is
//! read between the pages, so that its list always connects to what has been checked. Then the update is sent on condition
//! that the list has not dropped anything since.

use std::{collections::HashMap, time::Duration};

use crate::{
    domain::{
        Item,
        attributes::text,
        decision::{Decision, decide, is_payload_of},
        keys::LATEST_KEY,
        names, recent_requests,
        recorded_at::RecordedAt,
        stamp::TICK_VALIDITY,
        time::EpochMillis,
        update::Update,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store, n,
        read::batch_get_items::MAX_KEYS,
        write::{expression::Expression, outcome::WriteError},
    },
};

/// Assumed maximum difference between the clocks of a writer and of the service that reports the time of a first delivery.
pub const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// Maximum time that the search waits for a version that is not in history.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// Wait before a missing version is read again; it doubles up to [`MAX_INTERVAL`].
const INITIAL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum wait between two reads. The latest item is read after each, before its list can drop what was added in between.
const MAX_INTERVAL: Duration = Duration::from_millis(80);
/// Number of versions in the first page: a request that was retried at once is among the newest.
const FIRST_PAGE: u64 = 16;

/// Part of an update's condition that prevents a second application of the update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The update has not been sent before.
    None,
    /// The update can have been applied at this time or later: the recent requests must be complete since then.
    Since(EpochMillis),
    /// No version up to `checked` has the request: the recent requests must still be complete since the time that was read.
    Unchanged {
        /// Time since which the recent requests are complete.
        since: Option<EpochMillis>,
        /// Newest version that was checked.
        checked: Version,
    },
}

impl Guard {
    /// Returns the guard for the first request of an update. A tick makes its version earlier than the writer's clock.
    pub fn of(update: &Update) -> Self {
        let difference = MAX_CLOCK_DIFFERENCE + TICK_VALIDITY;
        let difference = i64::try_from(difference.as_millis()).unwrap_or_default();
        update.sent_at.map_or(Self::None, |sent| {
            Self::Since(EpochMillis::new(sent.get().saturating_sub(difference)))
        })
    }

    /// Returns the guard after a request without a response, whose version has this time or a later one.
    #[must_use]
    pub fn after_unanswered(self, sent: RecordedAt) -> Self {
        let sent = sent.floor_millis();
        match self {
            Self::None => Self::Since(sent),
            Self::Since(earlier) => Self::Since(earlier.min(sent)),
            // The list has every later version, or the condition fails.
            Self::Unchanged { .. } => self,
        }
    }

    /// Returns `true` if the condition holds for the stored latest item.
    pub fn holds_for(&self, stored: Option<&Item>) -> bool {
        let stored_since = stored.and_then(recent_requests::since);
        match self {
            Self::None => true,
            Self::Since(time) => stored_since.is_none_or(|since| since <= *time),
            Self::Unchanged { since, .. } => stored_since == *since,
        }
    }

    /// Adds the condition to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        let (part, value) = match self {
            Self::None => return,
            Self::Since(time) => ("(attribute_not_exists(#since) OR #since <= :sent)", Some(time)),
            Self::Unchanged { since: Some(since), .. } => ("#since = :sent", Some(since)),
            Self::Unchanged { since: None, .. } => ("attribute_not_exists(#since)", None),
        };
        expression.condition(part).name("#since", names::REQUESTS_SINCE);
        if let Some(time) = value {
            expression.value(":sent", n(time.get()));
        }
    }
}

/// Result of the search for an earlier delivery.
#[derive(Debug)]
pub(crate) enum Earlier {
    /// An earlier delivery created this version.
    Applied(Version),
    /// There was none.
    NotApplied {
        /// Latest item that was read last.
        stored: Option<Item>,
        /// Guard that holds for it.
        guard: Guard,
    },
}

/// Versions to read from history, from `high` down to `low`.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    /// Time from which on the versions are needed.
    since: Option<EpochMillis>,
}

enum Page {
    Found(Version),
    /// The versions from this one down are still to be read, 0 for none.
    Next(u64),
    Missing(Version),
}

impl Store {
    /// Searches history for the request of an update, after its guard failed for the stored latest item.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::RequestIdReused`] if another update has the request id, [`WriteError::Undetermined`] if a version
    /// that is needed is not in history, [`WriteError::Pruned`] if it was pruned, and [`WriteError::Service`] or [`WriteError::Latest`] if a read fails.
    pub(crate) async fn find_earlier_delivery(
        &self,
        update: &Update,
        stored: Option<Item>,
        guard: Guard,
    ) -> Result<Earlier, WriteError> {
        let absent = Earlier::NotApplied {
            stored: None,
            // Also if the latest item was deleted meanwhile, and is restored from history.
            guard: match guard {
                Guard::Since(_) => guard,
                Guard::None | Guard::Unchanged { .. } => Guard::None,
            },
        };
        let Some(mut stored) = stored.filter(|stored| stored.contains_key(names::LATEST)) else {
            return Ok(absent);
        };
        let mut checked = match guard {
            Guard::Unchanged { checked, .. } => checked.get(),
            Guard::None | Guard::Since(_) => 0,
        };
        let mut since = match guard {
            Guard::Since(since) => Some(since),
            Guard::None | Guard::Unchanged { .. } => None,
        };
        let (mut ranges, mut waited, mut interval) = (Vec::new(), Duration::ZERO, INITIAL_INTERVAL);
        let mut page_size = FIRST_PAGE;
        loop {
            // The list of the latest item must begin at the version after the last one that was checked, or before it.
            let latest = latest_of(&stored)?;
            let first = recent_requests::complete_from(&stored, latest);
            if first > checked + 1 {
                ranges.push(Range {
                    low: checked + 1,
                    high: first - 1,
                    since: since.take(),
                });
            }
            checked = latest.get();
            let Some(range) = ranges.last_mut() else {
                let guard = Guard::Unchanged {
                    since: recent_requests::since(&stored),
                    checked: latest,
                };
                return Ok(Earlier::NotApplied {
                    stored: Some(stored),
                    guard,
                });
            };
            match self.search_page(update, *range, page_size).await? {
                Page::Found(version) => return Ok(Earlier::Applied(version)),
                Page::Next(next) if next < range.low => {
                    ranges.pop();
                }
                Page::Next(next) => {
                    range.high = next;
                    (page_size, waited, interval) = (MAX_KEYS as u64, Duration::ZERO, INITIAL_INTERVAL);
                }
                Page::Missing(version) => {
                    range.high = version.get();
                    let is_pruned = waited.is_zero() && version < self.floor(&update.entity, true).await?;
                    if is_pruned {
                        return Err(WriteError::Pruned { version });
                    }
                    if waited >= MAX_WAIT {
                        return Err(WriteError::Undetermined { version });
                    }
                    tokio::time::sleep(interval).await;
                    waited += interval;
                    interval = (interval * 2).min(MAX_INTERVAL);
                }
            }
            let Some(newest) = self.get(&update.entity, LATEST_KEY, true).await? else {
                return Ok(absent);
            };
            match decide(update, Some(&newest), self.now())? {
                Decision::Duplicate { version } => return Ok(Earlier::Applied(version)),
                Decision::Reused { version } => return Err(WriteError::RequestIdReused { version }),
                Decision::Apply
                | Decision::Conflict { .. }
                | Decision::Stale { .. }
                | Decision::NoMap
                | Decision::Unordered { .. } => {
                    stored = newest;
                }
            }
        }
    }

    async fn search_page(&self, update: &Update, range: Range, size: u64) -> Result<Page, WriteError> {
        let from = range.low.max((range.high + 1).saturating_sub(size));
        let (Some(from), Some(to)) = (Version::new(from), Version::new(range.high)) else {
            return Ok(Page::Next(0));
        };
        let keys = self.digits.version_keys(from.get()..=to.get());
        let items = self.batch_get(&update.entity, &keys, true).await?;
        let items: HashMap<_, _> = items
            .into_iter()
            .filter_map(|item| Some((self.digits.version_of_item(&item)?, item)))
            .collect();
        let since = range.since.map(RecordedAt::from_millis);
        for version in (from.get()..=to.get()).rev().filter_map(Version::new) {
            let Some(item) = items.get(&version) else {
                return Ok(Page::Missing(version));
            };
            if text(item, names::REQUEST_ID) == Some(update.request_id.as_str()) {
                if !is_payload_of(item, update) {
                    return Err(WriteError::RequestIdReused { version });
                }
                return Ok(Page::Found(version));
            }
            // A time from the stream does not bound those of other versions.
            let recorded = RecordedAt::of(item).filter(|_| !item.contains_key(names::RECORDED_BY));
            if let (Some(recorded), Some(since)) = (recorded, since)
                && recorded < since
            {
                return Ok(Page::Next(0));
            }
        }
        Ok(Page::Next(from.get() - 1))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_guard_requires_a_list_that_is_complete_since_the_first_delivery() {
        let stored = |since: Option<i64>| {
            let mut item = json!({"Latest": {"N": "1"}});
            if let Some(since) = since {
                item["RequestsSince"] = json!({"N": since.to_string()});
            }
            serde_json::from_value::<Item>(item).unwrap()
        };
        let since = |millis| Guard::Since(EpochMillis::new(millis));
        let unchanged = |millis: Option<i64>| Guard::Unchanged {
            since: millis.map(EpochMillis::new),
            checked: Version::FIRST,
        };
        for (guard, stored_since, expected) in [
            (Guard::None, Some(9), true),
            (since(5), None, true),
            (since(5), Some(5), true),
            (since(5), Some(6), false),
            (unchanged(None), None, true),
            (unchanged(None), Some(6), false),
            (unchanged(Some(6)), Some(6), true),
            (unchanged(Some(5)), Some(6), false),
        ] {
            assert_eq!(
                guard.holds_for(Some(&stored(stored_since))),
                expected,
                "{guard:?} {stored_since:?}"
            );
        }
        let sent = RecordedAt::from_millis(EpochMillis::new(7));
        assert_eq!(Guard::None.after_unanswered(sent), since(7));
        assert_eq!(since(5).after_unanswered(sent), since(5));
        assert_eq!(since(9).after_unanswered(sent), since(7));
        assert_eq!(unchanged(None).after_unanswered(sent), unchanged(None));
    }
}
