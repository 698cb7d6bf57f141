//! Recent requests of a latest item: the map by which a repeated update is detected as a duplicate without a read.
//!
//! ```text
//! RecentRequests      {"ungWv48": 7.0471186881, "LPJNul-": 8.5000086903, …}
//!                       ^^^^^^^^^ hash of a request id
//!                                   ^ version that the request created
//!                                     ^^^^^ check digits of the update's payload
//!                                          ^^^^^ time at which the request was sent
//! RequestsDropped     6                 newest version whose request has left the map
//! RequestsSince       1795328688100     latest time at which one of these requests was sent
//! ```
//!
//! The map holds the last requests of the entity, at least as many as the [`Window`] says. Each version above
//! `RequestsDropped` that a writer of this project created has its request in the map. Neither `RequestsDropped` nor
//! `RequestsSince` ever decreases. Without them, the map is complete. None of these attributes is part of a version item.

pub mod change;

use std::{collections::HashMap, time::Duration};

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attributes::{number, text, whole},
        names,
        number::Decimal,
        recorded_at::RecordedAt,
        request_id::{RequestHash, RequestId},
        time::EpochMillis,
        version::Version,
    },
};

use crate::update::{
    payload::Payload,
    sent_at::{self, MAX_CLOCK_DIFFERENCE},
};

/// Maximum difference between the clocks of two writers and that of a sender.
const CLOCK_DIFFERENCES: Duration = MAX_CLOCK_DIFFERENCE.saturating_mul(3);

/// Returns the recent requests of a latest item, `None` if it has no map.
pub fn requests_of(latest: &Item) -> Option<&HashMap<String, AttributeValue>> {
    match latest.get(names::RECENT_REQUESTS) {
        Some(AttributeValue::M(requests)) => Some(requests),
        _ => None,
    }
}

/// Value of a recent request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Version that the request created.
    pub version: Version,
    /// [Check digits](Payload::check) of the update, 0 if unknown.
    pub check: u32,
    /// Time at which the request was sent.
    pub sent: SentCode,
}

/// Time at which a request was sent, in few digits: tenths of a second since 1970, modulo 10^5, about 2.7 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentCode(u32);

impl SentCode {
    /// Code of an unknown time.
    pub const UNKNOWN: Self = Self(0);
    /// Number of digits of a code.
    const DIGITS: u32 = 5;
    const CODES: i64 = 100_000;
    const UNIT_MILLIS: i64 = 100;

    /// Returns the code of a time.
    pub fn of(time: EpochMillis) -> Self {
        let code = time.get().div_euclid(Self::UNIT_MILLIS).rem_euclid(Self::CODES);
        Self(u32::try_from(code).unwrap_or_default())
    }

    /// Returns the latest time up to `limit` that has this code, in epoch milliseconds. It is not before the time whose code it is,
    /// [rounded down](Self::floor), if that is not after the limit.
    pub fn latest(self, limit: EpochMillis) -> EpochMillis {
        let limit = limit.get().div_euclid(Self::UNIT_MILLIS);
        let back = (limit - i64::from(self.0)).rem_euclid(Self::CODES);
        EpochMillis::new((limit - back).saturating_mul(Self::UNIT_MILLIS))
    }

    /// Returns a time, rounded down to the unit of the codes.
    pub fn floor(time: EpochMillis) -> EpochMillis {
        EpochMillis::new(
            time.get()
                .div_euclid(Self::UNIT_MILLIS)
                .saturating_mul(Self::UNIT_MILLIS),
        )
    }
}

impl Entry {
    /// Number of check digits.
    const CHECK_DIGITS: u32 = 5;
    /// Reads a value of the map.
    pub fn from_value(value: &AttributeValue) -> Option<Self> {
        let AttributeValue::N(text) = value else { return None };
        let scaled = Decimal::parse(text)
            .ok()?
            .scaled(Self::CHECK_DIGITS + SentCode::DIGITS)?;
        let (check_unit, time_unit) = (10u128.pow(Self::CHECK_DIGITS), 10u128.pow(SentCode::DIGITS));
        Some(Self {
            version: Version::new(u64::try_from(scaled / (check_unit * time_unit)).ok()?)?,
            check: u32::try_from(scaled / time_unit % check_unit).ok()?,
            sent: SentCode(u32::try_from(scaled % time_unit).ok()?),
        })
    }

    /// Returns the value in the map.
    pub fn value(self) -> AttributeValue {
        AttributeValue::N(Self::number(self.version.get(), self.check, self.sent))
    }

    /// Returns the number that is added to the latest version: 1, with the check digits and the time as the fraction.
    pub fn increment(payload: &Payload, sent: SentCode) -> String {
        Self::number(1, payload.check(), sent)
    }

    /// Returns `false` if the entry belongs to a different update.
    pub fn is_of(self, payload: &Payload) -> bool {
        self.check == 0 || self.check == payload.check()
    }

    fn number(whole: u64, check: u32, SentCode(sent): SentCode) -> String {
        let (check_width, time_width) = (Self::CHECK_DIGITS as usize, SentCode::DIGITS as usize);
        format!("{whole}.{check:0check_width$}{sent:0time_width$}")
    }
}

/// Returns the entry of a request, if it is among the recent requests.
pub fn entry_of(latest: &Item, request: &RequestHash) -> Option<Entry> {
    requests_of(latest)?.get(request.key()).and_then(Entry::from_value)
}

/// Returns the newest version whose request may not be in the map, 0 if there is none: that of the latest item without a map.
pub fn dropped(latest_item: &Item, latest: Version) -> u64 {
    match requests_of(latest_item) {
        None => latest.get(),
        Some(_) if !latest_item.contains_key(names::REQUESTS_DROPPED) => 0,
        // A value that is not a version proves nothing.
        Some(_) => whole(latest_item, names::REQUESTS_DROPPED).unwrap_or(latest.get()),
    }
}

/// Returns the latest time at which a request was sent that is not in the map. `None` if the map has all requests, or is missing.
pub fn since(latest: &Item) -> Option<EpochMillis> {
    time(latest, names::REQUESTS_SINCE)
}

/// Returns the `RequestsSince` of a latest item whose requests all count as dropped, at this time of the writer's clock: the
/// request of an update can have been sent by a clock that is ahead of it, or with a claimed time in the future.
pub fn since_all(latest: Option<&Item>, now: RecordedAt) -> EpochMillis {
    let recorded = latest.and_then(RecordedAt::of_latest);
    let now = recorded.map_or(now, |recorded| recorded.max(now)).next_milli();
    let known = [latest.and_then(since), latest.and_then(ahead)];
    let bound = sent_at::after(now, CLOCK_DIFFERENCES);
    known.into_iter().flatten().fold(bound, EpochMillis::max)
}

/// Returns the latest time that a sender claimed when it was in the future.
pub fn ahead(latest: &Item) -> Option<EpochMillis> {
    time(latest, names::REQUESTS_AHEAD)
}

fn time(latest: &Item, name: &str) -> Option<EpochMillis> {
    number(latest, name)?.to_i64().map(EpochMillis::new)
}

/// Values of `RequestsDropped` and `RequestsSince`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Newest version whose request is not in the map.
    pub version: Version,
    /// Latest time at which one of these requests was sent.
    pub since: EpochMillis,
}

impl Dropped {
    /// Returns the values after these entries were removed from the map, at this time of the writer's clock. The version increases
    /// also if the entries are older, so that a concurrent removal cannot be missed.
    pub fn after_removal(
        latest_item: &Item,
        latest: Version,
        removed: &[(String, AttributeValue)],
        now: EpochMillis,
    ) -> Self {
        let limit = sent_at::after(now, CLOCK_DIFFERENCES);
        let limit = ahead(latest_item).map_or(limit, |ahead| ahead.max(limit));
        let removed = removed.iter().filter_map(|(_, value)| Entry::from_value(value));
        let next = Version::new(dropped(latest_item, latest).saturating_add(1));
        let versions = removed.clone().map(|entry| entry.version).chain(next);
        let times = removed.map(|entry| entry.sent.latest(limit)).chain(since(latest_item));
        Self {
            version: versions.max().unwrap_or(latest),
            since: times.max().unwrap_or(EpochMillis::new(0)),
        }
    }
}

/// Returns the hash of the request that created an item, from its `RequestId`.
pub fn last_request(item: &Item) -> Option<RequestHash> {
    let id = RequestId::new(text(item, names::REQUEST_ID)?).ok()?;
    Some(RequestHash::of(&id))
}

/// Maximum number of entries that one update removes: an expression is at most 4 KB long. A map above a window that was reduced
/// shrinks to it in several updates.
pub const MAX_REMOVED: usize = 55;

/// Returns the oldest entries, at most [`MAX_REMOVED`], whose removal leaves the map with one window of entries after one
/// more request.
pub fn oldest(requests: &HashMap<String, AttributeValue>, window: Window) -> Vec<(String, AttributeValue)> {
    let mut sorted: Vec<_> = requests.iter().collect();
    // An entry without a version cannot be used to detect a duplicate.
    sorted.sort_by_key(|(hash, value)| (Entry::from_value(value), hash.as_str()));
    let surplus = (requests.len() + 1).saturating_sub(window.get());
    let oldest = sorted.into_iter().take(surplus.min(MAX_REMOVED));
    oldest.map(|(hash, value)| (hash.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pruned_map_has_one_window_of_entries_after_one_more_request() {
        for size in 1..=Window::MAX {
            let window = Window::new(size).unwrap();
            assert!(window.full() <= window.max_entries(), "{window:?}");
            for held in 0..=window.max_entries() {
                let requests: HashMap<_, _> = (1..=held)
                    .map(|n| (format!("h{n}"), AttributeValue::N(n.to_string())))
                    .collect();
                let removed = oldest(&requests, window);
                let surplus = (held + 1).saturating_sub(window.get());
                assert_eq!(removed.len(), surplus.min(MAX_REMOVED), "{window:?} of {held}");
                assert!(held > window.full() || surplus <= MAX_REMOVED, "{window:?}");
                let expected: Vec<_> = (1..=removed.len()).map(|n| format!("h{n}")).collect();
                let names: Vec<_> = removed.into_iter().map(|(hash, _)| hash).collect();
                assert_eq!(names, expected);
            }
        }
    }

    #[test]
    fn versions_are_compared_as_numbers_and_invalid_ones_are_removed_first() {
        let requests = json!({"a": {"N": "10"}, "b": {"N": "9"}, "c": {"S": "11"}, "d": {"N": "1.1E1"}});
        let requests: HashMap<String, AttributeValue> = serde_json::from_value(requests).unwrap();
        let order: Vec<_> = oldest(&requests, Window::new(1).unwrap())
            .into_iter()
            .map(|(hash, _)| hash)
            .collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
    }

    #[test]
    fn a_request_is_found_by_its_hash() {
        let hash = RequestHash::of(&RequestId::new("abc").unwrap());
        // The first 42 bits of SHA-256("abc"), ba7816bf8f01.
        assert_eq!(hash.key(), "ungWv48");
        let latest = |requests| serde_json::from_value::<Item>(json!({"RecentRequests": requests})).unwrap();
        let found =
            |requests| entry_of(&latest(requests), &hash).map(|entry| (entry.version.get(), entry.check, entry.sent.0));
        let max = Entry {
            version: Version::new(Version::MAX).unwrap(),
            check: 99_999,
            sent: SentCode(99_999),
        };
        assert_eq!(
            max.value(),
            AttributeValue::N("9223372036854775807.9999999999".to_owned())
        );
        for (number, expected) in [
            ("7.04711", Some((7, 4711, 0))),
            ("7.0471186881", Some((7, 4711, 86_881))),
            ("7.5", Some((7, 50_000, 0))),
            ("7", Some((7, 0, 0))),
            ("9223372036854775807.9999999999", Some((Version::MAX, 99_999, 99_999))),
            ("9223372036854775808", None),
            ("0.04711", None),
            ("7.00000000001", None),
            ("-7", None),
        ] {
            let map = json!({"M": {"ungWv48": {"N": number}, "x": {"N": "8"}}});
            assert_eq!(found(map), expected, "{number}");
        }
        assert_eq!(found(json!({"M": {"x": {"N": "8"}}})), None);
        assert_eq!(found(json!({"S": "manual"})), None);
    }

    #[test]
    fn a_map_without_proof_of_completeness_has_dropped_every_version() {
        let latest = Version::new(6).unwrap();
        let map = json!({"M": {}});
        for (item, expected) in [
            (json!({"RecentRequests": map}), 0),
            (json!({"RecentRequests": map, "RequestsDropped": {"N": "4"}}), 4),
            (json!({"RecentRequests": map, "RequestsDropped": {"S": "4"}}), 6),
            (json!({"RecentRequests": map, "RequestsDropped": {"N": "0.5"}}), 6),
            // Another program removed the map.
            (json!({"RequestsDropped": {"N": "4"}}), 6),
            (json!({}), 6),
        ] {
            let item: Item = serde_json::from_value(item.clone()).unwrap();
            assert_eq!(dropped(&item, latest), expected, "{item:?}");
        }
    }

    #[test]
    fn a_code_stands_for_a_time_that_is_not_before_its_own() {
        for sent in [0, 99, 100, 1_795_328_688_123, 1_795_428_688_199] {
            let code = SentCode::of(EpochMillis::new(sent));
            for later in [0, 1, 99, 100, 9_999_899, 9_999_900, 10_000_000, 3_000_000_000] {
                let latest = code.latest(EpochMillis::new(sent + later)).get();
                assert!(
                    latest >= SentCode::floor(EpochMillis::new(sent)).get(),
                    "{sent} {later}"
                );
                assert!(latest <= sent + later && latest % 100 == 0, "{sent} {later}");
                // Exact for hours.
                assert!(later >= 9_999_900 || latest == sent / 100 * 100, "{sent} {later}");
            }
        }
    }

    #[test]
    fn neither_the_dropped_version_nor_its_time_decreases() {
        const NOW: i64 = 1_795_328_688_100;
        let version = |number| Version::new(number).unwrap();
        let entries = |entries: &[(u64, i64)]| -> Vec<_> {
            let entry = |&(number, sent)| Entry {
                version: version(number),
                check: 1,
                sent: SentCode::of(EpochMillis::new(sent)),
            };
            let entries = entries.iter().map(entry);
            entries
                .map(|entry| (entry.version.to_string(), entry.value()))
                .collect()
        };
        let empty = json!({"RecentRequests": {"M": {}}});
        let before = |dropped: u64, since: i64| {
            let mut item = empty.clone();
            item["RequestsDropped"] = json!({"N": dropped.to_string()});
            item["RequestsSince"] = json!({"N": since.to_string()});
            item
        };
        for (item, removed, expected) in [
            (
                empty.clone(),
                entries(&[(1, NOW - 500), (2, NOW - 600)]),
                (2, NOW - 500),
            ),
            (
                before(3, NOW - 700),
                entries(&[(4, NOW - 500), (5, NOW - 600)]),
                (5, NOW - 500),
            ),
            (before(3, NOW - 100), entries(&[(4, NOW - 500)]), (4, NOW - 100)),
            // Only entries that are not needed, for example after a repair.
            (before(9, NOW), entries(&[(4, NOW - 500)]), (10, NOW)),
            (before(9, NOW), entries(&[]), (10, NOW)),
        ] {
            let item: Item = serde_json::from_value(item).unwrap();
            let dropped = Dropped::after_removal(&item, version(20), &removed, EpochMillis::new(NOW));
            assert_eq!((dropped.version.get(), dropped.since.get()), expected, "{item:?}");
        }
    }
}
