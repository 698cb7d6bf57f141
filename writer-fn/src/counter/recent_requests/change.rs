//! Change of the latest item's recent requests by an update, as a part of its [`Expression`].
//!
//! | latest item | change | rules |
//! |---|---|---|
//! | has a map | adds the request to it; a full map loses its oldest entries | the map has room, and has lost no other entries since it was read |
//! | has no map | creates it, with the request and the one before | there is still no map |
//! | any, with a ledger | counts the request as dropped: it is in a marker | none |

use aws_sdk_dynamodb::types::AttributeValue as Value;
use shared::{
    config::Window,
    domain::{
        Item,
        attribution::WrittenBy,
        names,
        recorded_at::RecordedAt,
        request_id::RequestHash,
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

/// Change of the recent requests that fits a latest item.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentRequests {
    expression: Expression,
    /// Payload of the update, `None` if the expression does not contain it.
    payload: Option<Payload>,
    /// `true` if the request is added to the existing map.
    is_added: bool,
    /// `true` if the oldest requests are removed.
    has_removal: bool,
}

/// Request to store, with the payload of its update and the time at which it was sent.
struct Request {
    hash: RequestHash,
    payload: Payload,
    sent: SentCode,
    /// The change of `RequestsAhead`.
    expression: Expression,
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

/// Returns the bounds of the time at which an update was sent that is applied at a time, and the change of `RequestsAhead`: to the time
/// that its sender claims, if that is in the future and later than all that the latest item knows.
fn sent(update: &Update, now: RecordedAt, stored: Option<&Item>) -> (Option<SentAt>, Expression) {
    let mut expression = Expression::default();
    let sent = update.sent_at.map(|sent| bounded(sent, now));
    let known = stored.and_then(recent_requests::ahead);
    let ahead = sent.filter(|sent| sent.is_ahead).and_then(|sent| sent.latest);
    if let Some(ahead) = ahead.filter(|ahead| known.is_none_or(|known| known < *ahead)) {
        assign(&mut expression, "#ahead = :ahead", n(ahead.get()));
        rules::AHEAD.add_to(&mut expression);
    }
    (sent, expression)
}

impl Request {
    fn of(update: &Update, now: RecordedAt, stored: Option<&Item>) -> Self {
        let (sent, expression) = sent(update, now, stored);
        let sent = sent.and_then(|sent| sent.latest);
        Self {
            hash: RequestHash::of(&update.request_id),
            payload: update.payload(),
            sent: SentCode::of(sent.unwrap_or_else(|| now.floor_millis())),
            expression,
        }
    }

    /// Adds the request to the existing map, which must have fewer entries than `max`.
    fn added(self, max: usize) -> RecentRequests {
        let mut expression = self.expression;
        // The latest version is increased by the same expression, and by 1 too.
        rules::set(
            &mut expression,
            "#recent.#hash = if_not_exists(#latest, :zero) + :entry",
        );
        expression
            .name("#hash", self.hash.key())
            .value(":zero", n(0))
            .value(":entry", n(Entry::increment(&self.payload, self.sent)))
            .value(":most", n(max));
        rules::HAS_MAP.add_to(&mut expression);
        rules::HAS_ROOM.add_to(&mut expression);
        RecentRequests {
            expression,
            payload: Some(self.payload),
            is_added: true,
            has_removal: false,
        }
    }

    /// Creates the map. The requests of the versions that the item has, `None` if there is none, count as dropped.
    fn in_new_map(self, before: Option<(&Item, Version)>, now: RecordedAt) -> RecentRequests {
        let mut expression = self.expression;
        let entry = |hash: &RequestHash, version, check, sent| {
            let entry = Entry { version, check, sent };
            (hash.key().to_owned(), Value::from(entry.value()))
        };
        let last = before.and_then(|(stored, latest)| match WrittenBy::of(stored, latest) {
            // If another program wrote the latest version, the request belongs to an older one.
            WrittenBy::Stale(_) => None,
            WrittenBy::Own | WrittenBy::Other => {
                let last = recent_requests::last_request(stored)?;
                Some(entry(&last, latest, 0, SentCode::UNKNOWN))
            }
        });
        let next = before.map_or(1, |(_, latest)| latest.get().saturating_add(1));
        let next = Version::new(next).unwrap_or(Version::FIRST);
        let this = entry(&self.hash, next, self.payload.check(), self.sent);
        let requests = Value::M(last.into_iter().chain([this]).collect());
        assign(&mut expression, "#recent = :requests", requests);
        match before {
            None => rules::FIRST_MAP.add_to(&mut expression),
            Some((stored, latest)) => {
                expression.value(":read", n(latest));
                rules::NEW_MAP.add_to(&mut expression);
                let since = recent_requests::since_all(Some(stored), now);
                assign(&mut expression, "#since = :since", n(since.get()));
                assign(&mut expression, "#dropped = :dropped", n(latest));
            }
        }
        RecentRequests {
            expression,
            payload: Some(self.payload),
            is_added: false,
            has_removal: false,
        }
    }
}

impl RecentRequests {
    /// Returns the form that most latest items need.
    pub fn assumed(update: &Update, window: Window, now: RecordedAt) -> Self {
        match update.expected {
            Some(ExpectedVersion::Absent) => Request::of(update, now, None).in_new_map(None, now),
            _ => Self::assumed_existing(update, window, now),
        }
    }

    /// Returns the form that most existing latest items need.
    pub fn assumed_existing(update: &Update, window: Window, now: RecordedAt) -> Self {
        Request::of(update, now, None).added(window.full())
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
        let request = Request::of(update, now, stored);
        let Some(stored) = stored.filter(|stored| stored.contains_key(names::LATEST)) else {
            return Ok(request.in_new_map(None, now));
        };
        let latest = latest_of(stored)?;
        let Some(requests) = recent_requests::requests_of(stored) else {
            return Ok(request.in_new_map(Some((stored, latest)), now));
        };
        // Concurrent updates can fill the map meanwhile.
        let max = window.max_entries();
        let (entries, full) = (requests.len(), window.full());
        let has_removal = entries >= max
            || match contention {
                Contention::LostRemoval => false,
                Contention::None if entries <= full => entries == full,
                Contention::None | Contention::LostRace => entries > window.get() + 1 && request.hash.is_one_in_eight(),
            };
        if !has_removal {
            return Ok(request.added(max));
        }
        let oldest = recent_requests::oldest(requests, window);
        let dropped = Dropped::after_removal(stored, latest, &oldest, now.next_milli());
        let mut form = request.added(max.max(entries + 1));
        form.has_removal = true;
        let expression = &mut form.expression;
        assign(expression, "#since = :since", n(dropped.since.get()));
        assign(expression, "#dropped = :dropped", n(dropped.version));
        match stored.get(names::REQUESTS_DROPPED) {
            Some(before) => {
                expression.value(":before_dropped", before.clone().into());
                rules::SAME_DROPPED.add_to(expression);
            }
            None => rules::NONE_DROPPED.add_to(expression),
        }
        for (index, (hash, _)) in oldest.into_iter().enumerate() {
            let name = format!("#f{index}");
            expression.remove(format!("#recent.{name}")).name(name, hash);
        }
        Ok(form)
    }

    /// Returns the form of an update whose request is in a marker of the ledger: an existing map does not get it, and has dropped it.
    pub fn in_marker(update: &Update, now: RecordedAt, stored: Option<&Item>) -> Self {
        let (sent, mut expression) = sent(update, now, stored);
        let since = recent_requests::since_all(stored, now);
        let latest = sent.and_then(|sent| sent.latest);
        let since = latest.map_or(since, |latest| since.max(latest));
        assign(&mut expression, "#since = :since", n(since.get()));
        rules::set(&mut expression, "#dropped = if_not_exists(#latest, :zero) + :one");
        Self {
            expression,
            payload: None,
            is_added: false,
            has_removal: false,
        }
    }

    /// Returns `true` if the request is added to the existing map.
    pub(crate) fn is_added(&self) -> bool {
        self.is_added
    }

    /// Returns `true` if the update removes the oldest requests.
    pub(crate) fn has_removal(&self) -> bool {
        self.has_removal
    }

    /// Returns the payload of the update, `None` if the form does not contain it.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref()
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        expression.extend(self.expression.clone());
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
