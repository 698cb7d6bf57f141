//! Change of the latest item's recent requests by an update, as a part of its [`Expression`].

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
        rules::{self, assign},
    },
    update::{ExpectedVersion, Update, payload::Payload, sent_at::SentAt},
};

/// Form in which an update's request is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentRequests {
    map: Map,
    /// Time that the sender claims and that is in the future, unless the latest item has a later one.
    ahead: Option<EpochMillis>,
}

/// Map of recent requests.
#[derive(Debug, Clone, PartialEq)]
enum Map {
    /// An existing map is read but not changed, and has dropped this request, which is in a marker of the ledger.
    Unchanged {
        /// Time before which all requests were sent, with this one.
        since: EpochMillis,
    },
    /// The request is added to the existing map.
    Existing {
        request: Request,
        /// Number of entries that the map must not have reached.
        max: usize,
        /// Removal of the oldest entries, if the map is full.
        removal: Option<Removal>,
    },
    /// The request creates the map.
    New {
        request: Request,
        /// Versions that the item has, `None` if there is none.
        before: Option<Before>,
    },
}

/// Versions whose requests count as dropped, because there is no map.
#[derive(Debug, Clone, PartialEq)]
struct Before {
    latest: Version,
    /// Request that created the latest version, if it is known.
    last: Option<RequestHash>,
    /// Time before which the requests were sent.
    since: EpochMillis,
}

#[derive(Debug, Clone, PartialEq)]
struct Removal {
    /// Entries to remove, with their values.
    oldest: Vec<(String, AttributeValue)>,
    /// `RequestsDropped` that was read, which must not have changed.
    before: Option<AttributeValue>,
    /// Requests that are not in the map without these entries.
    dropped: Dropped,
}

/// Request to add, with the payload of its update and the time at which it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    hash: RequestHash,
    payload: Payload,
    sent: SentCode,
}

/// Returns the bounds of the time at which an update was sent that is applied at a time, and the time that its sender claims if that is
/// in the future and later than all that the latest item knows.
fn sent(update: &Update, now: RecordedAt, stored: Option<&Item>) -> (Option<SentAt>, Option<EpochMillis>) {
    let sent = update.sent_at.map(|sent| bounded(sent, now));
    let known = stored.and_then(recent_requests::ahead);
    let ahead = sent.filter(|sent| sent.is_ahead).and_then(|sent| sent.latest);
    (sent, ahead.filter(|ahead| known.is_none_or(|known| known < *ahead)))
}

impl Request {
    fn of(update: &Update, now: RecordedAt, sent: Option<SentAt>) -> Self {
        let sent = sent.and_then(|sent| sent.latest);
        Self {
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
        let mut form = Self::assumed_existing(update, window, now);
        if let (Some(ExpectedVersion::Absent), Map::Existing { request, .. }) = (update.expected, &form.map) {
            let request = request.clone();
            form.map = Map::New { request, before: None };
        }
        form
    }

    /// Returns the form that most existing latest items need.
    pub fn assumed_existing(update: &Update, window: Window, now: RecordedAt) -> Self {
        let (sent, ahead) = sent(update, now, None);
        let map = Map::Existing {
            request: Request::of(update, now, sent),
            max: window.full(),
            removal: None,
        };
        Self { map, ahead }
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
        let (sent, ahead) = sent(update, now, stored);
        let request = Request::of(update, now, sent);
        let counted = stored.filter(|stored| stored.contains_key(names::LATEST));
        let counted = counted
            .map(|stored| latest_of(stored).map(|latest| (stored, latest)))
            .transpose()?;
        let Some((stored, latest, requests)) =
            counted.and_then(|(stored, latest)| Some((stored, latest, recent_requests::requests_of(stored)?)))
        else {
            let before = counted.map(|(stored, latest)| Before {
                latest,
                // If another program wrote the latest version, the request belongs to an older one.
                last: match Writer::of(stored, latest) {
                    Writer::Stale(_) => None,
                    Writer::Own | Writer::Other => recent_requests::last_request(stored),
                },
                since: recent_requests::since_all(Some(stored), now),
            });
            let map = Map::New { request, before };
            return Ok(Self { map, ahead });
        };
        // Concurrent updates can fill the map meanwhile.
        let max = window.max_entries();
        let (entries, full) = (requests.len(), window.full());
        let removes = match contention {
            Contention::LostRemoval => false,
            Contention::None if entries <= full => entries == full,
            Contention::None | Contention::LostRace => entries > window.get() + 1 && request.hash.is_one_in_eight(),
        };
        let removal = (entries >= max || removes).then(|| {
            let oldest = recent_requests::oldest(requests, window);
            Removal {
                before: stored.get(names::REQUESTS_DROPPED).cloned(),
                dropped: Dropped::after_removal(stored, latest, &oldest, now.next_milli()),
                oldest,
            }
        });
        let map = Map::Existing {
            request,
            max: if removal.is_some() { max.max(entries + 1) } else { max },
            removal,
        };
        Ok(Self { map, ahead })
    }

    /// Returns the form of an update whose request is in a marker of the ledger.
    pub fn in_marker(update: &Update, now: RecordedAt, stored: Option<&Item>) -> Self {
        let (sent, ahead) = sent(update, now, stored);
        let since = recent_requests::since_all(stored, now);
        let since = sent
            .and_then(|sent| sent.latest)
            .map_or(since, |latest| since.max(latest));
        let map = Map::Unchanged { since };
        Self { map, ahead }
    }

    /// Returns `true` if the update removes the oldest requests.
    pub(crate) fn has_removal(&self) -> bool {
        matches!(self.map, Map::Existing { removal: Some(_), .. })
    }

    /// Returns the payload of the update, `None` if the form does not contain it.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        match &self.map {
            Map::Unchanged { .. } => None,
            Map::Existing { request, .. } | Map::New { request, .. } => Some(&request.payload),
        }
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        if let Some(ahead) = self.ahead {
            assign(expression, "#ahead = :ahead", n(ahead.get()));
            rules::AHEAD.add_to(expression);
        }
        match &self.map {
            Map::Unchanged { since } => {
                assign(expression, "#since = :since", n(since.get()));
                rules::set(expression, "#dropped = if_not_exists(#latest, :zero) + :one");
            }
            Map::Existing { request, max, removal } => {
                request.add_to(expression, *max);
                if let Some(removal) = removal {
                    removal.add_to(expression);
                }
            }
            Map::New { request, before } => {
                let entry = |hash: &RequestHash, version: u64, check, sent| {
                    let version = Version::new(version).unwrap_or(Version::FIRST);
                    let entry = Entry { version, check, sent };
                    (hash.key().to_owned(), Value::from(entry.value()))
                };
                let latest = before.as_ref().map_or(0, |before| before.latest.get());
                let last = before.as_ref().and_then(|before| before.last.as_ref());
                let last = last.map(|last| entry(last, latest, 0, SentCode::UNKNOWN));
                let this = entry(
                    &request.hash,
                    latest.saturating_add(1),
                    request.payload.check(),
                    request.sent,
                );
                rules::set(expression, "#recent = :requests");
                expression.value(":requests", Value::M(last.into_iter().chain([this]).collect()));
                let Some(before) = before else {
                    return rules::FIRST_MAP.add_to(expression);
                };
                expression.value(":read", n(before.latest));
                rules::NEW_MAP.add_to(expression);
                assign(expression, "#since = :since", n(before.since.get()));
                assign(expression, "#dropped = :dropped", n(before.latest));
            }
        }
    }
}

impl Request {
    /// Adds the request to the existing map, which must have fewer entries than a number.
    fn add_to(&self, expression: &mut Expression, max: usize) {
        // The latest version is increased by the same expression, and by 1 too.
        rules::set(expression, "#recent.#hash = if_not_exists(#latest, :zero) + :entry");
        expression
            .name("#hash", self.hash.key())
            .value(":entry", n(Entry::increment(&self.payload, self.sent)))
            .value(":most", n(max));
        for rule in [rules::HAS_MAP, rules::NOT_RECENT_REQUEST, rules::HAS_ROOM] {
            rule.add_to(expression);
        }
    }
}

impl Removal {
    fn add_to(&self, expression: &mut Expression) {
        assign(expression, "#since = :since", n(self.dropped.since.get()));
        assign(expression, "#dropped = :dropped", n(self.dropped.version));
        match &self.before {
            Some(before) => {
                expression.value(":before_dropped", before.clone().into());
                rules::SAME_DROPPED.add_to(expression);
            }
            None => rules::NONE_DROPPED.add_to(expression),
        }
        for (index, (hash, _)) in self.oldest.iter().enumerate() {
            let name = format!("#f{index}");
            expression.remove(format!("#recent.{name}")).name(name, hash);
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
                form.has_removal()
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
