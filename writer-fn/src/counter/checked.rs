//! Requests that a process has checked, so that the next update of an entity needs no search of history.
//!
//! Updates of one entity can be sent faster than the unit of a [`SentCode`](recent_requests::SentCode), or arrive in another order.
//! Then the [condition on the send time](crate::counter::rules::SENT) fails for each, and each would search history, and wait for it. The process
//! knows the requests of the versions that it has searched, of each latest item that DynamoDB returned to it, and of its own updates:
//!
//! ```text
//! version     1 … 40             41 … 58     59        60
//! request     sent earlier       in a map    its own   of another writer
//!             (`Coverage`)                   `base`    in the map, or the condition fails
//! ```
//!
//! An update that is covered and not among these requests is in no version up to `base`. So its first attempt has the condition of a
//! [later one](crate::counter::earlier_delivery), and requires the same incarnation: the process can have read it minutes before.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use shared::domain::{
    Item, entity::EntityId, incarnation::Incarnation, recorded_at::RecordedAt, request_id::RequestHash,
    time::EpochMillis, version::Version, version_item::latest_of,
};

use crate::{
    counter::{
        earlier_delivery::EarlierDeliveries,
        outcome::MAX_SEARCHED,
        recent_requests::{self, requests_of},
    },
    update::Update,
};

/// Maximum number of requests of an entity.
const MAX_REQUESTS: usize = MAX_SEARCHED as usize;
/// Maximum number of versions after the base that a search reads. Of more, it reads only those since the update was sent.
const MAX_MISSING: u64 = 100;
/// Maximum number of entities.
const MAX_ENTITIES: usize = 32;

/// What a process knows about the requests of one entity.
#[derive(Debug, Default)]
pub struct Checked(Option<Known>);

#[derive(Debug)]
struct Known {
    incarnation: Incarnation,
    /// Newest version whose request is known.
    base: Version,
    coverage: Coverage,
    /// Keys of the requests, as in the map of the latest item.
    requests: HashSet<String>,
}

/// Updates whose requests would be known if they had created a version up to the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    All,
    /// All that were sent after this time.
    SentAfter(EpochMillis),
    /// All that can have no earlier version.
    RecordedSince(RecordedAt),
}

impl Coverage {
    /// Returns `true` if an update is covered that was sent at this time.
    fn has(self, earlier: &EarlierDeliveries, sent: EpochMillis) -> bool {
        match self {
            Self::All => true,
            Self::SentAfter(after) => after < sent,
            // The search for a claimed time can start earlier.
            Self::RecordedSince(since) => !earlier.is_claimed && since <= EarlierDeliveries::earliest_after(sent),
        }
    }
}

impl Known {
    /// Returns what a latest item shows. `None` if it has no incarnation, or no map.
    fn of(latest_item: &Item) -> Option<Self> {
        let base = latest_of(latest_item).ok()?;
        let coverage = match recent_requests::dropped(latest_item, base) {
            0 => Coverage::All,
            _ => Coverage::SentAfter(recent_requests::since(latest_item)?),
        };
        Some(Self {
            incarnation: Incarnation::of(latest_item)?,
            base,
            coverage,
            requests: requests_of(latest_item)?.keys().cloned().collect(),
        })
    }

    /// Adds the versions after the base, which all have their requests in the map of a latest item.
    fn extend(&mut self, newer: Self, searched: HashSet<String>) {
        self.base = newer.base;
        self.requests.extend(newer.requests);
        self.requests.extend(searched);
    }
}

impl Checked {
    /// Adds to what is known about the earlier deliveries of an update, before its first attempt.
    pub(crate) fn add_to(&self, earlier: &mut EarlierDeliveries, update: &Update) {
        let (Some(known), Some(sent)) = (&self.0, earlier.sent) else {
            return;
        };
        let hash = RequestHash::of(&update.request_id);
        if known.coverage.has(earlier, sent) && !known.requests.contains(hash.key()) {
            earlier.base = Some(known.base);
            earlier.incarnation = Some(known.incarnation.clone());
        }
    }

    /// Forgets what a stored latest item does not continue, also in the earlier deliveries of an update.
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

    /// Adds the requests that a stored latest item has. It was returned for an update.
    pub(crate) fn observe(&mut self, earlier: &EarlierDeliveries, stored: Option<&Item>) {
        let (Some(stored), Some(sent)) = (stored, earlier.sent) else {
            return;
        };
        let newer = Known::of(stored);
        match (&mut self.0, newer) {
            (Some(known), Some(newer)) => {
                let is_connected = recent_requests::dropped(stored, newer.base) <= known.base.get();
                // With fewer requests, the next updates are covered as well if they are sent in order.
                let is_renewed = known.requests.len() > MAX_REQUESTS / 2 && newer.coverage.has(earlier, sent);
                match is_connected && !is_renewed {
                    true => known.extend(newer, HashSet::new()),
                    false => *known = newer,
                }
            }
            (known, newer) => *known = newer,
        }
        self.limit();
    }

    /// Adds the requests of a search for an update, up to the latest item that was read last. `since`: time from which on versions
    /// were read, if no version was known.
    pub(crate) fn searched(
        &mut self,
        base: Option<Version>,
        since: Option<RecordedAt>,
        newest: &Item,
        requests: HashSet<String>,
    ) {
        let newer = Known::of(newest);
        let before = self.0.take();
        self.0 = match (newer, base, since) {
            (Some(newer), Some(base), _) => before
                .filter(|known| known.base == base && known.incarnation == newer.incarnation)
                .map(|mut known| {
                    known.extend(newer, requests);
                    known
                }),
            (Some(mut newer), None, Some(since)) => {
                newer.coverage = Coverage::RecordedSince(since);
                newer.requests.extend(requests);
                Some(newer)
            }
            _ => None,
        };
        self.limit();
    }

    /// Adds an update that created a version. After a version of another writer, only a latest item shows more.
    pub(crate) fn written(&mut self, update: &Update, version: Version) {
        if let Some(known) = &mut self.0
            && known.base.get() + 1 == version.get()
        {
            known.base = version;
            known
                .requests
                .insert(RequestHash::of(&update.request_id).key().to_owned());
        }
    }

    fn limit(&mut self) {
        self.0.take_if(|known| known.requests.len() > MAX_REQUESTS);
    }
}

/// What a process knows about the requests of the entities whose updates it applied last.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckedEntities(Arc<Mutex<Vec<(EntityId, Checked)>>>);

impl CheckedEntities {
    /// Takes what is known about an entity. An update that ends without a result leaves nothing.
    pub(crate) fn take(&self, entity: &EntityId) -> Checked {
        let mut entities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = entities.iter().position(|(known, _)| known == entity);
        place.map(|place| entities.remove(place).1).unwrap_or_default()
    }

    /// Keeps what is known about an entity, instead of that about the entity of the longest time ago.
    pub(crate) fn keep(&self, entity: &EntityId, checked: Checked) {
        if checked.0.is_some() {
            let mut entities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            entities.truncate(MAX_ENTITIES - 1);
            entities.insert(0, (entity.clone(), checked));
        }
    }
}

#[cfg(test)]
mod tests;
