//! Change of the latest item's recent requests by an update, as a part of its [`Expression`].

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue as Value;
use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attribution::Writer,
        names,
        recorded_at::RecordedAt,
        request_id::RequestHash,
        time::EpochMillis,
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::{expression::Expression, n},
};

use crate::{
    counter::{
        earlier_delivery::bounded,
        recent_requests::{self, Dropped, Entry, SentCode},
        rules,
    },
    update::{ExpectedVersion, Update, payload::Payload},
};

/// Form in which an update's request is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum RecentRequests {
    /// In a marker of the ledger. An existing map is read but not changed, and has dropped this request.
    Marker {
        /// Time before which all requests were sent, with this one.
        since: EpochMillis,
        /// Time that the sender claims and that is in the future, unless the latest item has a later one.
        ahead: Option<EpochMillis>,
    },
    /// In the existing map, which has room.
    Add {
        /// Request to add.
        request: Request,
        /// Number of entries that the map must not have reached.
        full: usize,
    },
    /// In a new map.
    Create {
        /// Request to add.
        request: Request,
        /// Latest version, whose request and all earlier ones count as dropped. `None` if there is none.
        latest: Option<Version>,
        /// Request that created the latest version, if it is known.
        last: Option<RequestHash>,
        /// Time before which the requests of these versions were sent.
        since: Option<EpochMillis>,
    },
    /// In the existing map, which is full: the oldest entries are removed.
    Replace {
        /// Request to add.
        request: Request,
        /// Entries to remove, with their values.
        oldest: Vec<(String, AttributeValue)>,
        /// Number of entries that the map must not have reached.
        max: usize,
        /// `RequestsDropped` that was read, which must not have changed.
        before: Option<AttributeValue>,
        /// Requests that are not in the map without these entries.
        dropped: Dropped,
    },
}

/// Request to add, with the payload of its update and the time at which it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    hash: RequestHash,
    payload: Payload,
    sent: SentCode,
    /// Time that the sender claims and that is in the future, unless the latest item has a later one.
    ahead: Option<EpochMillis>,
}

impl Request {
    /// Returns the request of an update that is applied at a time.
    pub fn of(update: &Update, now: RecordedAt) -> Self {
        let bounded = update.sent_at.map(|sent| bounded(sent, now));
        let sent = bounded.and_then(|sent| sent.latest);
        Self {
            ahead: bounded.filter(|sent| sent.is_ahead).and_then(|sent| sent.latest),
            hash: RequestHash::of(&update.request_id),
            payload: update.payload(),
            sent: SentCode::of(sent.unwrap_or_else(|| now.floor_millis())),
        }
    }
}

/// What an attempt has shown about other writers of the entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contention {
    /// Nothing.
    None,
    /// Another writer was faster.
    LostRace,
    /// Another writer changed the map before this one removed the oldest entries.
    LostRemoval,
}

impl RecentRequests {
    /// Returns the form that most latest items need.
    pub fn assumed(update: &Update, window: Window, now: RecordedAt) -> Self {
        match update.expected {
            Some(ExpectedVersion::Absent) => Self::Create {
                request: Request::of(update, now),
                latest: None,
                last: None,
                since: None,
            },
            _ => Self::assumed_existing(update, window, now),
        }
    }

    /// Returns the form that most existing latest items need.
    pub fn assumed_existing(update: &Update, window: Window, now: RecordedAt) -> Self {
        Self::Add {
            request: Request::of(update, now),
            full: window.full(),
        }
    }

    /// Returns the form that this latest item needs, for an update at a time.
    ///
    /// If a map is full, each concurrent writer would remove the oldest entries, and all but one would fail. So under contention,
    /// [one writer in eight](RequestHash::is_one_in_eight) removes them. The others use the room that is left for this case.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version.
    pub fn fitting(
        update: &Update,
        window: Window,
        now: RecordedAt,
        stored: Option<&Item>,
        contention: Contention,
    ) -> Result<Self, InvalidImage> {
        let mut request = Request::of(update, now);
        let known = stored.and_then(recent_requests::ahead);
        request.ahead = request.ahead.filter(|ahead| known.is_none_or(|known| known < *ahead));
        let latest = stored.filter(|stored| stored.contains_key(names::LATEST));
        let Some((stored, requests)) = latest.and_then(|latest| Some((latest, recent_requests::requests_of(latest)?)))
        else {
            let version = latest.map(latest_of).transpose()?;
            // If another program wrote the latest version, the request belongs to an older one.
            let is_current = |(item, version)| !matches!(Writer::of(item, version), Writer::Stale(_));
            let last = latest.filter(|item| version.is_some_and(|version| is_current((*item, version))));
            let last = last.and_then(recent_requests::last_request);
            let since = latest.map(|latest| recent_requests::since_all(Some(latest), now));
            let latest = version;
            return Ok(Self::Create {
                request,
                latest,
                last,
                since,
            });
        };
        // Concurrent updates can fill the map meanwhile.
        let max = window.max_entries();
        let (entries, full) = (requests.len(), window.full());
        let removes = match contention {
            Contention::LostRemoval => false,
            Contention::None if entries <= full => entries == full,
            Contention::None | Contention::LostRace => entries > window.get() + 1 && request.hash.is_one_in_eight(),
        };
        if entries < max && !removes {
            return Ok(Self::Add { request, full: max });
        }
        let oldest = recent_requests::oldest(requests, window);
        Ok(Self::Replace {
            request,
            max: max.max(requests.len() + 1),
            before: stored.get(names::REQUESTS_DROPPED).cloned(),
            dropped: Dropped::after_removal(stored, latest_of(stored)?, &oldest, now.next_milli()),
            oldest,
        })
    }

    /// Returns the form of an update whose request is in a marker of the ledger.
    pub fn in_marker(update: &Update, now: RecordedAt, stored: Option<&Item>) -> Self {
        let sent = update.sent_at.map(|sent| bounded(sent, now));
        let since = recent_requests::since_all(stored, now);
        let claimed = sent.filter(|sent| sent.is_ahead).and_then(|sent| sent.latest);
        let known = stored.and_then(recent_requests::ahead);
        Self::Marker {
            since: sent
                .and_then(|sent| sent.latest)
                .map_or(since, |latest| since.max(latest)),
            ahead: claimed.filter(|ahead| known.is_none_or(|known| known < *ahead)),
        }
    }

    fn ahead(&self) -> Option<EpochMillis> {
        match self {
            Self::Marker { ahead, .. } => *ahead,
            _ => self.request()?.ahead,
        }
    }

    /// Returns the payload of the update, `None` if the form does not contain it.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        self.request().map(|request| &request.payload)
    }

    fn request(&self) -> Option<&Request> {
        match self {
            Self::Marker { .. } => None,
            Self::Add { request, .. } | Self::Create { request, .. } | Self::Replace { request, .. } => Some(request),
        }
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        // The latest version is increased by the same expression, and by 1 too.
        const THIS_VERSION: &str = "#recent.#hash = if_not_exists(#latest, :zero) + :entry";
        if !matches!(self, Self::Marker { .. }) {
            expression.name("#recent", names::RECENT_REQUESTS);
        }
        let add = |expression: &mut Expression, request: &Request, max: usize| {
            expression
                .set(THIS_VERSION)
                .name("#hash", request.hash.key())
                .value(":entry", n(Entry::increment(&request.payload, request.sent)))
                .value(":most", n(max));
            for rule in [rules::HAS_MAP, rules::NOT_RECENT_REQUEST, rules::HAS_ROOM] {
                rule.add_to(expression);
            }
        };
        let set_since = |expression: &mut Expression, since: &EpochMillis| {
            expression
                .set("#since = :since")
                .name("#since", names::REQUESTS_SINCE)
                .name("#dropped", names::REQUESTS_DROPPED)
                .value(":since", n(since.get()));
        };
        if let Some(ahead) = self.ahead() {
            expression.set("#ahead = :ahead").value(":ahead", n(ahead.get()));
            rules::AHEAD.add_to(expression);
        }
        match self {
            Self::Marker { since, .. } => {
                set_since(expression, since);
                expression.set("#dropped = if_not_exists(#latest, :zero) + :one");
            }
            Self::Add { request, full } => add(expression, request, *full),
            Self::Create {
                request,
                latest,
                last,
                since,
            } => {
                let entry = |version: u64, check: u32, sent: SentCode| {
                    let version = Version::new(version).unwrap_or(Version::FIRST);
                    Value::from(Entry { version, check, sent }.value())
                };
                let next = latest.map_or(0, Version::get).saturating_add(1);
                let this = entry(next, request.payload.check(), request.sent);
                let mut requests = HashMap::from([(request.hash.key().to_owned(), this)]);
                if let (Some(latest), Some(last)) = (latest, last) {
                    requests.insert(last.key().to_owned(), entry(latest.get(), 0, SentCode::UNKNOWN));
                }
                expression
                    .set("#recent = :requests")
                    .value(":requests", Value::M(requests));
                match latest {
                    Some(latest) => {
                        expression.value(":read", n(latest));
                        rules::NEW_MAP.add_to(expression);
                    }
                    None => rules::FIRST_MAP.add_to(expression),
                }
                if let (Some(since), Some(latest)) = (since, latest) {
                    set_since(expression, since);
                    expression.set("#dropped = :dropped").value(":dropped", n(latest));
                }
            }
            Self::Replace {
                request,
                oldest,
                max,
                before,
                dropped,
            } => {
                add(expression, request, *max);
                set_since(expression, &dropped.since);
                expression
                    .set("#dropped = :dropped")
                    .value(":dropped", n(dropped.version));
                match before {
                    Some(before) => {
                        expression.value(":before", before.clone().into());
                        rules::SAME_DROPPED.add_to(expression);
                    }
                    None => rules::NONE_DROPPED.add_to(expression),
                }
                for (index, (hash, _)) in oldest.iter().enumerate() {
                    let name = format!("#f{index}");
                    expression.remove(format!("#recent.{name}")).name(name, hash);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::config::Ordering;

    use super::*;

    #[test]
    fn under_contention_one_writer_in_eight_removes_the_oldest_requests() {
        const WRITERS: u32 = 1000;
        let window = Window::default();
        let now = RecordedAt::since_epoch(std::time::Duration::from_secs(1));
        let replacing = |entries: usize, contention| {
            let requests: serde_json::Map<_, _> = (1..=entries)
                .map(|number| (format!("h{number}"), json!({"N": number.to_string()})))
                .collect();
            let stored = json!({"Latest": {"N": entries.to_string()}, "RecentRequests": {"M": requests}});
            let stored: Item = serde_json::from_value(stored).unwrap();
            let replaces = |writer: &u32| {
                let update = json!({"ID": "E", "A": 1});
                let update = Update::parse(update, &format!("r-{writer}"), Ordering::Arrival).unwrap();
                let form = RecentRequests::fitting(&update, window, now, Some(&stored), contention).unwrap();
                matches!(form, RecentRequests::Replace { .. })
            };
            (0..WRITERS).filter(replaces).count()
        };
        let (full, max) = (window.full(), window.max_entries());
        assert_eq!(replacing(full - 1, Contention::None), 0);
        assert_eq!(replacing(full, Contention::None), 1000);
        assert_eq!(replacing(window.get(), Contention::LostRace), 0);
        assert!((90..160).contains(&replacing(full, Contention::LostRace)));
        // Only concurrent updates exceed a full map.
        assert_eq!(
            replacing(full + 1, Contention::None),
            replacing(full, Contention::LostRace)
        );
        assert_eq!(
            replacing(full, Contention::LostRace),
            replacing(max - 1, Contention::LostRace)
        );
        assert_eq!(replacing(max, Contention::LostRace), 1000);
        assert_eq!(replacing(max - 1, Contention::LostRemoval), 0);
        assert_eq!(replacing(max, Contention::LostRemoval), 1000);
    }
}
