//! Detection of an earlier delivery, or of an earlier attempt, of an update that the recent requests of the latest item no longer
//! show.
//!
//! The [recent requests](crate::counter::recent_requests) have each request above the version `D`, `RequestsDropped`. History has
//! the request of every version, so it is the complete list of an entity's requests. It is read only if the update can have been
//! applied in a version up to `D`. The [`EarlierDeliveries`] in the condition of the update makes sure of that:
//!
//! | attempt | condition |
//! |---|---|
//! | no item was read | no request was dropped that was sent at the update's earliest time or later. The time of the version also protects, see [`Stamp`](crate::counter::stamp::Stamp) |
//! | an item of version `N` was returned | `Latest >= N AND D <= N`: a version after `N` that the update creates is in the map, or the condition fails |
//! | the process has [checked](crate::counter::checked) the requests up to version `N` | the same, and the incarnation of `N` |
//!
//! The next attempt has a higher `N`. If an attempt got no response, or if the update can have been sent before, that requires that no
//! version up to the new `N` that the update created can have left the map: `D <= N` still holds, or the dropped requests were sent
//! earlier, or history shows the request in no version from `N + 1` to `D`. Without a response, the identical request is sent again.
//! Among attempts, times of different clocks decide nothing.
//!
//! The stream can be behind, so the search waits until history has the versions. Meanwhile other updates follow, and the map drops
//! requests: the latest item is read between the pages, so that the map always connects to what has been checked.

use std::{collections::HashMap, time::Duration};

use shared::{
    domain::{
        Item,
        attributes::text,
        incarnation::Incarnation,
        keys::LATEST_KEY,
        names,
        recorded_at::RecordedAt,
        time::EpochMillis,
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::{Store, expression::Expression, n, read::batch_get_items::MAX_KEYS, s},
};

use crate::{
    counter::{
        checked::{Checked, Searched},
        decision::{decide, is_payload_of},
        outcome::{MAX_SEARCHED, WriteError, WriteOutcome},
        recent_requests::{self, SentCode},
        rules,
        stamp::MAX_RACE,
        uncounted::counted_latest,
    },
    update::{
        Update,
        sent_at::{self, MAX_CLOCK_DIFFERENCE, MAX_DELAY, SentAt},
    },
};

/// Maximum time that the search waits for a version that is not in history.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// Wait before a missing version is read again; it doubles up to [`MAX_INTERVAL`].
const INITIAL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum wait between two reads. The latest item is read after each, before its map can drop what was added in between.
const MAX_INTERVAL: Duration = Duration::from_millis(80);
/// Number of versions in the first page: a request that was retried at once is among the newest.
const FIRST_PAGE: u64 = 16;
/// Attributes of a version that a search reads.
const SEARCHED_ATTRIBUTES: [&str; 6] = [
    names::PK,
    names::SK,
    names::REQUEST_ID,
    names::REQUEST_PAYLOAD,
    names::RECORDED_AT,
    names::RECORDED_BY,
];

/// Earlier deliveries and attempts of an update, as far as they are known, and the part of its condition that prevents a second
/// application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EarlierDeliveries {
    /// Earliest time at which the update was sent. `None` if it was not sent before.
    pub sent: Option<EpochMillis>,
    /// `true` if a sender claims this time, by a clock that can be wrong.
    pub is_claimed: bool,
    /// Version of the latest item up to which no version can have the request. `None` if no item was read.
    pub base: Option<Version>,
    /// Incarnation of the base, if the process [knows](crate::counter::checked) it from before the update.
    pub incarnation: Option<Incarnation>,
    /// Time of the first attempt, if one of the attempts had no response, or can still be applied although it counts as lost.
    pub unanswered: Option<RecordedAt>,
}

impl EarlierDeliveries {
    /// Returns what is known before the first attempt of an update, at this time of the writer's clock.
    pub fn of(update: &Update, now: RecordedAt) -> Self {
        let sent = update.sent_at.map(|sent| SentCode::floor(bounded(sent, now).earliest));
        Self {
            sent,
            is_claimed: update.sent_at.is_some_and(|sent| sent.is_claimed),
            ..Self::default()
        }
    }

    /// Returns what is known after the request of the update was found neither in the latest item nor in history.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version.
    pub(crate) fn after_check(&self, stored: Option<&Item>) -> Result<Self, InvalidImage> {
        let counted = stored.filter(|stored| stored.contains_key(names::LATEST));
        let base = counted.map(latest_of).transpose()?;
        Ok(Self {
            base,
            incarnation: None,
            ..*self
        })
    }

    /// Returns `true` if no version that the update created can be missing from the stored latest item's map. Otherwise history
    /// decides.
    ///
    /// An update that was neither sent before nor applied without a response is not in history. The entry of any other one has
    /// the time of its first attempt or a later one, or the time at which it was sent: while all dropped entries have earlier
    /// times, it was not dropped.
    pub(crate) fn is_complete_in(&self, stored: Option<&Item>) -> bool {
        let Some(stored) = stored.filter(|stored| stored.contains_key(names::LATEST)) else {
            return true;
        };
        let attempted = self.unanswered.map(|first| SentCode::floor(first.floor_millis()));
        let Some(sent) = self.sent.into_iter().chain(attempted).min() else {
            return true;
        };
        // The decision reports an invalid number.
        let dropped = latest_of(stored).map_or(0, |latest| recent_requests::dropped(stored, latest));
        let is_later = || recent_requests::since(stored).is_some_and(|since| since < sent);
        dropped <= self.base.map_or(0, Version::get) || (recent_requests::requests_of(stored).is_some() && is_later())
    }

    /// Adds the condition to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        match (self.base, self.sent) {
            (Some(base), _) => {
                expression.value(":base", n(base));
                rules::BASE.add_to(expression);
                rules::RETRY_GUARD.add_to(expression);
                if let Some(incarnation) = &self.incarnation {
                    expression.value(":known", s(incarnation.as_str()));
                    rules::SAME_INCARNATION.add_to(expression);
                }
            }
            (None, Some(sent)) => {
                expression.value(":sent", n(sent.get()));
                rules::SENT.add_to(expression);
            }
            (None, None) => {}
        }
    }

    /// Returns the earliest time of a version that the update can have created before a latest item was read. `ahead`: latest time that a
    /// sender had claimed when it was in the future.
    pub(crate) fn earliest_version(&self, ahead: Option<EpochMillis>) -> Option<RecordedAt> {
        let was_ahead = ahead.is_some_and(|ahead| self.sent.is_none_or(|sent| sent <= ahead));
        let earlier = match self.is_claimed && was_ahead {
            true => MAX_DELAY,
            // The clock of its writer can be behind, and a tick makes a version earlier than that clock.
            false => MAX_CLOCK_DIFFERENCE + MAX_RACE,
        };
        let sent = (self.sent).map(|sent| RecordedAt::from_millis(sent_at::before(sent, earlier)));
        sent.into_iter().chain(self.unanswered).min()
    }
}

/// Returns the bounds of the time at which an update was sent that is applied at this time of the writer's clock.
pub(crate) fn bounded(sent: SentAt, now: RecordedAt) -> SentAt {
    sent.carried_at(sent_at::after(now.next_milli(), MAX_CLOCK_DIFFERENCE))
}

/// Result of the search for an earlier delivery.
#[derive(Debug)]
pub(crate) enum Search {
    /// An earlier delivery created this version.
    Applied(Version),
    /// There was none up to this latest item, which was read last.
    NotApplied(Option<Item>),
}

/// Versions to read from history, from `high` down to `low`.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    /// Time from which on the versions are needed.
    since: Option<RecordedAt>,
}

enum Page {
    Found(Version),
    /// The versions from this one down are still to be read, 0 for none.
    Next(u64),
    Missing(Version),
}

/// Searches history for the request of an update, of which the map of the stored latest item is
/// [not complete](EarlierDeliveries::is_complete_in).
///
/// # Errors
///
/// Returns [`WriteError::RequestIdReused`] if another update has the request id, [`WriteError::HistoryBehind`] if a version
/// that is needed is not in history, [`WriteError::Pruned`] if it was pruned, [`WriteError::TooManyToSearch`] if more than
/// [`MAX_SEARCHED`] versions are needed, [`WriteError::CounterMissing`] if the latest item was deleted, but not its versions, and
/// [`WriteError::Service`] or [`WriteError::Latest`] if a read fails.
pub(crate) async fn find_earlier_delivery(
    store: &Store,
    update: &Update,
    stored: Option<Item>,
    earlier: &EarlierDeliveries,
    known: &mut Checked,
) -> Result<Search, WriteError> {
    let Some(mut stored) = stored.filter(|stored| stored.contains_key(names::LATEST)) else {
        return Ok(Search::NotApplied(None));
    };
    let mut checked = earlier.base.map_or(0, Version::get);
    let mut searched = Searched::new(earlier, &stored);
    let mut since = searched.since;
    let (mut ranges, mut waited, mut interval) = (Vec::new(), Duration::ZERO, INITIAL_INTERVAL);
    let (mut page_size, mut left) = (FIRST_PAGE, MAX_SEARCHED);
    loop {
        // The map of the latest item must begin at the version after the last one that was checked, or before it.
        let latest = latest_of(&stored)?;
        let dropped = recent_requests::dropped(&stored, latest);
        searched.add(&stored);
        if dropped > checked {
            ranges.push(Range {
                low: checked + 1,
                high: dropped,
                since: since.take(),
            });
        }
        checked = latest.get();
        let Some(range) = ranges.last_mut() else {
            known.searched(searched, &stored);
            return Ok(Search::NotApplied(Some(stored)));
        };
        match search_page(store, update, *range, page_size.min(left), &mut searched).await? {
            Page::Found(version) => return Ok(Search::Applied(version)),
            Page::Next(next) if next < range.low => {
                ranges.pop();
            }
            Page::Next(next) => {
                left -= range.high - next;
                if left == 0 {
                    return Err(WriteError::TooManyToSearch);
                }
                range.high = next;
                (page_size, waited, interval) = (max_page(store), Duration::ZERO, INITIAL_INTERVAL);
            }
            Page::Missing(version) => {
                range.high = version.get();
                let is_pruned = waited.is_zero() && version < store.floor(&update.entity, true).await?;
                if is_pruned {
                    return Err(WriteError::Pruned { version });
                }
                if waited >= MAX_WAIT {
                    return Err(WriteError::HistoryBehind { version });
                }
                tokio::time::sleep(interval).await;
                waited += interval;
                interval = (interval * 2).min(MAX_INTERVAL);
            }
        }
        let newest = match store.get(&update.entity, LATEST_KEY, true).await? {
            // It was deleted since: without versions, or else the update would count from 1 beside them.
            None => counted_latest(store, &update.entity).await?,
            newest => newest,
        };
        let Some(newest) = newest else {
            return Ok(Search::NotApplied(None));
        };
        match decide(update, Some(&newest)) {
            Ok(Some(WriteOutcome::Duplicate { version })) => return Ok(Search::Applied(version)),
            Err(error @ (WriteError::RequestIdReused { .. } | WriteError::Latest(_))) => return Err(error),
            _ => stored = newest,
        }
    }
}

/// Returns the number of versions in a page. In a history table, whole versions are read, of up to 400 KB each.
fn max_page(store: &Store) -> u64 {
    match store.has_own_history() {
        true => MAX_KEYS as u64 / 4,
        false => MAX_KEYS as u64,
    }
}

/// Reads a page of versions, and adds their requests.
async fn search_page(
    store: &Store,
    update: &Update,
    range: Range,
    size: u64,
    searched: &mut Searched,
) -> Result<Page, WriteError> {
    let from = range.low.max((range.high + 1).saturating_sub(size));
    let (Some(from), Some(to)) = (Version::new(from), Version::new(range.high)) else {
        return Ok(Page::Next(0));
    };
    let keys = store.digits().version_keys(from.get()..=to.get());
    let keys = keys.iter().map(|key| (&update.entity, key));
    let items = match store.has_own_history() {
        true => store.batch_get_only(&[], keys, true).await?,
        false => store.batch_get_only(&SEARCHED_ATTRIBUTES, keys, true).await?,
    };
    let items: HashMap<_, _> = items
        .into_iter()
        .filter_map(|item| Some((store.digits().version_of_item(&item)?, item)))
        .collect();
    for version in (from.get()..=to.get()).rev().filter_map(Version::new) {
        let Some(item) = items.get(&version) else {
            return Ok(Page::Missing(version));
        };
        searched.add(item);
        if text(item, names::REQUEST_ID) == Some(update.request_id.as_str()) {
            if !is_payload_of(item, update) {
                return Err(WriteError::RequestIdReused { version });
            }
            return Ok(Page::Found(version));
        }
        // A time from the stream does not bound those of other versions.
        let recorded = RecordedAt::of(item).filter(|_| !item.contains_key(names::RECORDED_BY));
        if let (Some(recorded), Some(since)) = (recorded, range.since)
            && recorded < since
        {
            return Ok(Page::Next(0));
        }
    }
    Ok(Page::Next(from.get() - 1))
}

#[cfg(test)]
mod tests;
