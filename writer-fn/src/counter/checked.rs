//! Requests that a process has checked, so that the next update of an entity needs no search of history.
//!
//! Updates of one entity can be sent faster than the unit of a [`SentCode`](recent_requests::SentCode), or arrive in another order.
//! Then the [condition on the send time](crate::counter::rules::SENT) fails for each, and each would search history, and wait for it.
//! The process knows the requests of the versions that it has searched, of each map that it has seen, and of its own updates:
//!
//! ```text
//! version     1 … 40              41 … 58     59        60
//! request     of no update that   in a map    its own   of another writer
//!             is covered                      `base`    in the map, or the condition fails
//! ```
//!
//! An update that is covered and not among these requests is in no version of the incarnation up to `base`. So its first attempt has the
//! condition of a [later one](crate::counter::earlier_delivery), and requires the incarnation, which a purge ends. A table that was
//! restored can have the same incarnation, so nothing is known a minute after the last update of the entity.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use shared::domain::{
    Item, entity::EntityId, incarnation::Incarnation, recorded_at::RecordedAt, request_id::RequestHash,
    time::EpochMillis, version::Version, version_item::latest_of,
};

use crate::{
    counter::{
        earlier_delivery::EarlierDeliveries,
        recent_requests::{self, last_request, requests_of},
    },
    update::Update,
};

/// Maximum number of requests of an entity, as many as the longest search reads.
const MAX_REQUESTS: usize = 10_000;
/// Maximum number of versions after the base that a search reads. Of more, it reads only those since the update was sent.
const MAX_MISSING: u64 = 100;
/// Maximum number of entities.
const MAX_ENTITIES: usize = 32;

/// Maximum time for which an entity's requests are known without another update of it. It takes longer to restore a table.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Known requests of one entity.
#[derive(Debug, Default)]
pub struct Checked(Option<Known>);

#[derive(Debug)]
struct Known {
    incarnation: Incarnation,
    /// Newest version with a known request.
    base: Version,
    /// Updates are covered that were sent after this time.
    after: EpochMillis,
    /// Updates are covered, too, whose versions cannot be recorded before this time.
    since: Option<RecordedAt>,
    /// Latest time that a sender claimed when it was in the future. The process knows the requests of its own updates since then.
    ahead: Option<EpochMillis>,
    /// Keys of the requests, as in the map of the latest item.
    requests: HashSet<String>,
}

impl Known {
    /// Returns what a latest item shows. `None` if it has no incarnation, no valid version, or no map.
    fn of(latest_item: &Item) -> Option<Self> {
        let base = latest_of(latest_item).ok()?;
        let after = match recent_requests::dropped(latest_item, base) {
            0 => i64::MIN,
            _ => recent_requests::since(latest_item).map_or(i64::MAX, EpochMillis::get),
        };
        Some(Self {
            incarnation: Incarnation::of(latest_item)?,
            base,
            after: EpochMillis::new(after),
            since: None,
            ahead: recent_requests::ahead(latest_item),
            requests: requests_of(latest_item)?.keys().cloned().collect(),
        })
    }

    /// Returns `true` if `requests` must have an update's request, had it created a version up to the base.
    fn covers(&self, earlier: &EarlierDeliveries) -> bool {
        let earliest = earlier.earliest_version(self.ahead);
        let is_after = earlier.sent.is_some_and(|sent| self.after < sent);
        is_after
            || self
                .since
                .zip(earliest)
                .is_some_and(|(since, earliest)| since <= earliest)
    }

    /// Adds the versions after the base: their requests are in the map of a latest item, or were searched.
    fn extend(&mut self, newer: Self) {
        (self.base, self.ahead) = (newer.base, self.ahead.max(newer.ahead));
        self.requests.extend(newer.requests);
    }
}

/// Requests that a search for an earlier delivery reads.
#[derive(Debug)]
pub(crate) struct Searched {
    /// Newest version that was known.
    base: Option<Version>,
    /// Time from which on the versions are read, if none was known.
    pub(crate) since: Option<RecordedAt>,
    incarnation: Option<Incarnation>,
    requests: HashSet<String>,
}

impl Searched {
    /// Begins a search after this latest item was read.
    pub(crate) fn new(earlier: &EarlierDeliveries, stored: &Item) -> Self {
        let earliest = earlier.earliest_version(recent_requests::ahead(stored));
        Self {
            base: earlier.base,
            since: earliest.filter(|_| earlier.base.is_none()),
            incarnation: Incarnation::of(stored),
            requests: HashSet::new(),
        }
    }

    /// Adds the request of a version, or the map of a latest item: the next one can have dropped requests that no search reads.
    pub(crate) fn add(&mut self, item: &Item) {
        let of_map = requests_of(item).into_iter().flat_map(HashMap::keys).cloned();
        self.requests.extend(of_map);
        self.requests
            .extend(last_request(item).map(|hash| hash.key().to_owned()));
    }
}

impl Checked {
    /// Adds the base and its incarnation to the earlier deliveries of an update, before its first attempt.
    pub(crate) fn add_to(&self, earlier: &mut EarlierDeliveries, update: &Update) {
        if let Some(known) = &self.0
            && known.covers(earlier)
            && !known.requests.contains(RequestHash::of(&update.request_id).key())
        {
            earlier.base = Some(known.base);
            earlier.incarnation = Some(known.incarnation.clone());
        }
    }

    /// Forgets everything unless a stored latest item has the same incarnation, no lower version, and few dropped versions after the base.
    /// A base of an update's first attempt is then unknown, too.
    pub(crate) fn compare(&mut self, earlier: &mut EarlierDeliveries, stored: Option<&Item>) {
        let continues = |known: &Known, stored: &Item| {
            let latest = latest_of(stored).ok().filter(|latest| known.base <= *latest)?;
            let missing = recent_requests::dropped(stored, latest).saturating_sub(known.base.get());
            (missing <= MAX_MISSING && Incarnation::of(stored)? == known.incarnation).then_some(())
        };
        if let Some(known) = &self.0
            && stored.and_then(|stored| continues(known, stored)).is_none()
        {
            self.0 = None;
            if earlier.incarnation.take().is_some() {
                earlier.base = None;
            }
        }
    }

    /// Adds the requests that a stored latest item has, or replaces all by them. It was returned for an update, and [compared](Self::compare).
    pub(crate) fn observe(&mut self, earlier: &EarlierDeliveries, stored: Option<&Item>) {
        let Some(stored) = stored.filter(|_| earlier.sent.is_some()) else {
            return;
        };
        match (&mut self.0, Known::of(stored)) {
            (Some(known), Some(newer)) => {
                let is_connected = recent_requests::dropped(stored, newer.base) <= known.base.get();
                // With fewer requests, the next updates are covered as well if they are sent in order.
                let is_renewed = known.requests.len() > MAX_REQUESTS / 2 && newer.covers(earlier);
                match is_connected && !is_renewed {
                    true => known.extend(newer),
                    false => *known = newer,
                }
            }
            (known, newer) => *known = newer,
        }
        self.limit();
    }

    /// Adds what a search has read, up to the latest item that it read last.
    pub(crate) fn searched(&mut self, searched: Searched, newest: &Item) {
        let before = self.0.take();
        let newer = Known::of(newest).filter(|newer| searched.incarnation.as_ref() == Some(&newer.incarnation));
        self.0 = newer.and_then(|mut newer| {
            newer.requests.extend(searched.requests);
            let Some(base) = searched.base else {
                newer.since = searched.since;
                return Some(newer);
            };
            let mut known = before.filter(|known| known.base == base && known.incarnation == newer.incarnation)?;
            known.extend(newer);
            Some(known)
        });
        self.limit();
    }

    /// Adds an update that created a version. After a version of another writer, only a latest item or a search shows more.
    pub(crate) fn written(&mut self, update: &Update, version: Version) {
        if let Some(known) = &mut self.0
            && known.base.get() + 1 == version.get()
        {
            known.base = version;
            known
                .requests
                .insert(RequestHash::of(&update.request_id).key().to_owned());
        }
        self.limit();
    }

    fn limit(&mut self) {
        self.0.take_if(|known| known.requests.len() > MAX_REQUESTS);
    }
}

/// Known requests of the entities that the process updated last, and the times of these updates.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckedEntities(Arc<Mutex<Vec<(EntityId, Checked, Duration)>>>);

impl CheckedEntities {
    /// Takes what is known about an entity at this time. An update that fails leaves nothing.
    pub(crate) fn take(&self, entity: &EntityId, now: Duration) -> Checked {
        let mut entities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = entities.iter().position(|(known, ..)| known == entity);
        let taken = place.map(|place| entities.remove(place));
        let is_recent = |at: Duration| now.checked_sub(at).is_some_and(|age| age <= MAX_AGE);
        let recent = taken.filter(|(_, _, at)| is_recent(*at));
        recent.map(|(_, checked, _)| checked).unwrap_or_default()
    }

    /// Keeps what is known about an entity after an update at this time, instead of that about the entity of the longest time ago.
    pub(crate) fn keep(&self, entity: &EntityId, checked: Checked, now: Duration) {
        if checked.0.is_some() {
            let mut entities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            entities.retain(|(known, ..)| known != entity);
            entities.truncate(MAX_ENTITIES - 1);
            entities.insert(0, (entity.clone(), checked, now));
        }
    }
}

#[cfg(test)]
mod tests;
