//! Recent requests of a latest item: the map by which a repeated update is detected as a duplicate without a read.
//!
//! ```text
//! RecentRequests      {"ungWv48B": 7.04711, "LPJNul-w": 8.5, …}
//!                       ^^^^^^^^^^ hash of a request id
//!                                   ^ version that the request created
//!                                     ^^^^^ check digits of the update's payload
//! RequestsSince       1795328688124          all versions that were recorded from this time on are in the map
//! RequestsCheckpoint  [8, 1795328690312]     the versions up to 8 were recorded before this time
//! ```
//!
//! The map holds the last requests of the entity, at least as many as the [`Window`] says. An update that removes the oldest
//! ones sets `RequestsSince` to the time of the last checkpoint, and makes the latest version the next checkpoint. Without
//! `RequestsSince` the map is complete. None of these attributes is part of a version item.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
};

use thiserror::Error;

use super::{
    AttributeValue, Item,
    attributes::text,
    names,
    number::Decimal,
    payload::Payload,
    recorded_at::RecordedAt,
    request_id::{RequestHash, RequestId},
    time::EpochMillis,
    version::Version,
};

/// Minimum number of an entity's last requests that its latest item holds, from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(u8);

impl Window {
    /// Largest window: the number of entries that one expression can remove.
    pub const MAX: u8 = 100;
    /// Number of requests that the map can hold in addition to a window, so that not every update has to remove the oldest.
    const SLACK: usize = 8;

    /// Returns `None` outside 1 to [`Self::MAX`].
    pub fn new(requests: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&requests).then_some(Self(requests))
    }

    /// Returns the minimum number of requests.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the number of entries from which the map is pruned. With the default window the map has at most 18 entries of
    /// about 14 bytes.
    pub fn full(self) -> usize {
        self.get() + Self::SLACK
    }

    /// Returns the maximum number of entries of the map, which concurrent updates can reach.
    pub fn max_entries(self) -> usize {
        self.full() + self.get().max(Self::SLACK)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(10)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Window {
    type Err = InvalidWindow;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or(InvalidWindow)
    }
}

/// The text is not a number from 1 to [`Window::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the window is a number from 1 to {max}", max = Window::MAX)]
pub struct InvalidWindow;

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
}

impl Entry {
    /// Number of check digits.
    const DIGITS: u32 = 5;

    /// Reads a value of the map.
    pub fn from_value(value: &AttributeValue) -> Option<Self> {
        let AttributeValue::N(text) = value else { return None };
        let scaled = Decimal::parse(text).ok()?.scaled(Self::DIGITS)?;
        let unit = 10u128.pow(Self::DIGITS);
        Some(Self {
            version: Version::new(u64::try_from(scaled / unit).ok()?)?,
            check: u32::try_from(scaled % unit).ok()?,
        })
    }

    /// Returns the value in the map.
    pub fn value(self) -> AttributeValue {
        AttributeValue::N(Self::number(self.version.get(), self.check))
    }

    /// Returns the number that is added to the latest version: 1, with the check digits as the fraction.
    pub fn increment(payload: &Payload) -> String {
        Self::number(1, payload.check())
    }

    /// Returns `false` if the entry belongs to a different update.
    pub fn is_of(self, payload: &Payload) -> bool {
        self.check == 0 || self.check == payload.check()
    }

    fn number(whole: u64, check: u32) -> String {
        format!("{whole}.{check:0width$}", width = Self::DIGITS as usize)
    }
}

/// Returns the entry of a request, if it is among the recent requests.
pub fn entry_of(latest: &Item, request: &RequestHash) -> Option<Entry> {
    requests_of(latest)?.get(request.key()).and_then(Entry::from_value)
}

/// Returns the number of the version from which on every version up to the latest has an entry in the map, one above the
/// latest if that has none. A version of another program has no entry, and neither has one with a marker in a ledger.
pub fn complete_from(latest_item: &Item, latest: Version) -> u64 {
    let entries = requests_of(latest_item).into_iter().flat_map(HashMap::values);
    let versions: HashSet<_> = entries
        .filter_map(Entry::from_value)
        .map(|entry| entry.version.get())
        .collect();
    let mut from = latest.get().saturating_add(1);
    while versions.contains(&(from - 1)) {
        from -= 1;
    }
    from
}

/// Returns the time since which the map is complete. `None` if it is complete, or missing.
pub fn since(latest: &Item) -> Option<EpochMillis> {
    match latest.get(names::REQUESTS_SINCE) {
        Some(AttributeValue::N(millis)) => Decimal::parse(millis).ok()?.to_i64().map(EpochMillis::new),
        _ => None,
    }
}

/// Version, and a time after it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Version.
    pub version: Version,
    /// Time before which it and all earlier versions were recorded.
    pub before: EpochMillis,
}

impl Checkpoint {
    /// Reads the checkpoint of a latest item.
    pub fn of(latest: &Item) -> Option<Self> {
        let Some(AttributeValue::L(parts)) = latest.get(names::REQUESTS_CHECKPOINT) else {
            return None;
        };
        let number = |part: &AttributeValue| match part {
            AttributeValue::N(text) => Decimal::parse(text).ok(),
            _ => None,
        };
        let [version, before] = &parts[..] else { return None };
        Some(Self {
            version: Version::new(number(version)?.to_u64()?)?,
            before: EpochMillis::new(number(before)?.to_i64()?),
        })
    }

    /// Returns the checkpoint at the version of a latest item. `now` is used if the item has no time.
    pub fn at(latest: &Item, version: Version, now: RecordedAt) -> Self {
        let recorded = RecordedAt::of_latest(latest).unwrap_or(now);
        Self {
            version,
            before: recorded.next_milli(),
        }
    }

    /// Returns the attribute value.
    pub fn value(self) -> AttributeValue {
        let version = AttributeValue::N(self.version.to_string());
        AttributeValue::L(vec![version, AttributeValue::N(self.before.get().to_string())])
    }
}

/// Returns the time since which a map is complete, after these entries were removed from it.
pub fn since_after_removal(latest: &Item, removed: &[(String, AttributeValue)], end: Checkpoint) -> EpochMillis {
    let removed = removed.iter().filter_map(|(_, value)| Entry::from_value(value));
    let last = removed.map(|entry| entry.version).max();
    let checkpoint = Checkpoint::of(latest).filter(|checkpoint| last.is_none_or(|last| last <= checkpoint.version));
    let computed = checkpoint.unwrap_or(end).before;
    // It can be later because of updates that were not added to the map.
    since(latest).map_or(computed, |since| since.max(computed))
}

/// Returns the hash of the request that created an item, from its `RequestId`.
pub fn last_request(item: &Item) -> Option<RequestHash> {
    let id = RequestId::new(text(item, names::REQUEST_ID)?).ok()?;
    Some(RequestHash::of(&id))
}

/// Maximum number of entries that one update removes: an expression is at most 4 KB long. A window that was reduced is
/// reached in several updates.
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
    fn a_window_has_bounds() {
        for (text, expected) in [
            ("1", Some(1)),
            ("16", Some(16)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("256", None),
            ("-1", None),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(text.parse::<Window>().ok().map(Window::get), expected, "{text}");
        }
    }

    #[test]
    fn a_pruned_map_has_one_window_of_entries_after_one_more_request() {
        for size in 1..=Window::MAX {
            let window = Window::new(size).unwrap();
            assert!(window.full() <= window.max_entries(), "{window}");
            for held in 0..=window.max_entries() {
                let requests: HashMap<_, _> = (1..=held)
                    .map(|n| (format!("h{n}"), AttributeValue::N(n.to_string())))
                    .collect();
                let removed = oldest(&requests, window);
                let surplus = (held + 1).saturating_sub(window.get());
                assert_eq!(removed.len(), surplus.min(MAX_REMOVED), "{window} of {held}");
                assert!(held > window.full() || surplus <= MAX_REMOVED, "{window}");
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
        let order: Vec<_> = oldest(&requests, Window(1)).into_iter().map(|(hash, _)| hash).collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
    }

    #[test]
    fn a_request_is_found_by_its_hash() {
        let hash = RequestHash::of(&RequestId::new("abc").unwrap());
        // The first 6 bytes of SHA-256("abc"), ba7816bf8f01.
        assert_eq!(hash.key(), "ungWv48B");
        let latest = |requests| serde_json::from_value::<Item>(json!({"RecentRequests": requests})).unwrap();
        let found = |requests| entry_of(&latest(requests), &hash).map(|entry| (entry.version.get(), entry.check));
        for (number, expected) in [
            ("7.04711", Some((7, 4711))),
            ("7.5", Some((7, 50_000))),
            ("7", Some((7, 0))),
            ("9223372036854775807.99999", Some((Version::MAX, 99_999))),
            ("9223372036854775808", None),
            ("0.04711", None),
            ("7.000001", None),
            ("-7", None),
        ] {
            let map = json!({"M": {"ungWv48B": {"N": number}, "x": {"N": "8"}}});
            assert_eq!(found(map), expected, "{number}");
        }
        assert_eq!(found(json!({"M": {"x": {"N": "8"}}})), None);
        assert_eq!(found(json!({"S": "manual"})), None);
    }

    #[test]
    fn a_version_without_an_entry_interrupts_the_map() {
        for (versions, latest, expected) in [
            (&[4, 5, 6][..], 6, 4),
            (&[2, 4, 5, 6], 6, 4),
            (&[4, 5], 6, 7),
            (&[], 6, 7),
            (&[1, 2], 2, 1),
        ] {
            let entries = versions
                .iter()
                .map(|version| (format!("h{version}"), json!({"N": version.to_string()})));
            let map = serde_json::Value::Object(entries.collect());
            let item: Item = serde_json::from_value(json!({"RecentRequests": {"M": map}})).unwrap();
            assert_eq!(
                complete_from(&item, Version::new(latest).unwrap()),
                expected,
                "{versions:?}"
            );
        }
    }

    #[test]
    fn the_map_is_complete_since_the_last_checkpoint() {
        let version = |number| Version::new(number).unwrap();
        let millis = EpochMillis::new;
        let end = Checkpoint {
            version: version(24),
            before: millis(900),
        };
        let removed = |numbers: &[u64]| -> Vec<_> {
            let entry = |number: &u64| {
                Entry {
                    version: version(*number),
                    check: 1,
                }
                .value()
            };
            numbers
                .iter()
                .map(|number| (number.to_string(), entry(number)))
                .collect()
        };
        let latest = |since: Option<i64>, checkpoint: Option<(u64, i64)>| {
            let mut item = Item::from(HashMap::<_, AttributeValue>::new());
            if let Some(since) = since {
                item.insert(names::REQUESTS_SINCE.to_owned(), AttributeValue::N(since.to_string()));
            }
            if let Some((number, before)) = checkpoint {
                let checkpoint = Checkpoint {
                    version: version(number),
                    before: millis(before),
                };
                item.insert(names::REQUESTS_CHECKPOINT.to_owned(), checkpoint.value());
                assert_eq!(Checkpoint::of(&item), Some(checkpoint));
            }
            item
        };
        for (latest, numbers, expected) in [
            (latest(None, None), &[1, 2][..], 900),
            (latest(Some(100), Some((15, 500))), &[8, 15], 500),
            // A version after the checkpoint is removed: the map is complete since the latest version only.
            (latest(Some(100), Some((15, 500))), &[8, 16], 900),
            (latest(Some(700), Some((15, 500))), &[8, 15], 700),
        ] {
            let since = since_after_removal(&latest, &removed(numbers), end);
            assert_eq!(since, millis(expected), "{numbers:?}");
        }
    }
}
