//! Purge: deletes an entity with all its items. Nothing else deletes versions or a latest item.
//!
//! ```text
//! read v0 ─▶ purge marker ─▶ delete all other items ─▶ wait ─▶ delete what arrived ─▶ delete v0, if it has not changed
//! ```
//!
//! The [marker](shared::domain::purge_marker) makes stream-fn and redrives reject the purged versions. stream-fn does not read
//! it for a record that is younger than [`MAX_UNCHECKED_AGE`](shared::domain::purge_marker::MAX_UNCHECKED_AGE); during the
//! wait, the records of that age are processed.
//!
//! A purge refuses an entity on [hold]. If the hold is set later, the purge ends before the next batch, and what it has
//! deleted stays deleted.
//!
//! The latest item is deleted last: an interrupted purge keeps the counter and can be repeated, and no concurrent update is
//! lost unnoticed.
//!
//! The item of an attached table belongs to other programs, and stays. Its writers need not stop: a change after the purge begins a
//! new history, with the state before it as its baseline. If versions from before the purge came first, history begins after
//! them: their numbers are below the floor.

pub(crate) mod requests;

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use shared::{
    domain::{
        Item,
        attached::item::late_key_of,
        entity::EntityId,
        erased::Erasures,
        keys::{FLOOR_KEY, ItemKind, LATEST_KEY, sort_key_of},
        purge_marker::PurgeMarker,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError},
};

use crate::{
    connection::entity_of,
    error::OperationError,
    hold::{self, refusal},
    prune::requests::raise_floor,
    purge::requests::{
        MAX_DELETIONS, Marker, OF_VERSION, OPERATION, batch_request, delete_floor, delete_latest, deletions, put_marker,
    },
    rate_limit::RateLimiter,
    read::{items::sort_keys, paced::Paced},
    sealed::{Kind, Record},
};

/// Wait of a purge, by default: the age of a record that is put without a check, the longest invocation of stream-fn (60 s),
/// and the difference between clocks.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(90);
/// Maximum number of checks after the latest item is deleted, while items of a slow writer arrive.
const MAX_CHECKS: u32 = 5;
/// Maximum number of attempts to write the marker, if the entity is purged concurrently.
const MAX_MARKER_ATTEMPTS: u32 = 5;

/// Number of items of each kind.
pub type ItemCounts = BTreeMap<ItemKind, u64>;

/// Purge of one entity.
#[derive(Debug)]
pub struct Purge {
    table: Paced,
    entity: EntityId,
    record: Option<Record>,
    /// Items that the entity had.
    pub existing: ItemCounts,
    /// Items that were deleted so far, also after an error.
    pub deleted: ItemCounts,
}

impl Purge {
    /// Prepares the purge of an entity whose items are not counted.
    pub fn new(store: &Store, entity: EntityId) -> Self {
        Self {
            table: Paced::new(store, &RateLimiter::unlimited()),
            entity,
            record: None,
            existing: ItemCounts::new(),
            deleted: ItemCounts::new(),
        }
    }

    /// Records what is removed from a table whose versions are sealed.
    #[must_use]
    pub fn with_record(self, record: Option<Record>) -> Self {
        Self { record, ..self }
    }

    /// Records the removal of all versions that exist, if there are later ones than recorded so far. Returns the newest one.
    async fn record(&self, recorded: u64) -> Result<u64, ServiceError> {
        let Some(record) = &self.record else {
            return Ok(recorded);
        };
        let (store, mut newest) = (&self.table.store, recorded);
        let add = |item: Item| {
            let version = store.digits().version_of_item(&item);
            newest = newest.max(version.map_or(0, Version::get));
        };
        self.table.each_version(&self.entity, add).await?;
        let latest = self.latest().await?.and_then(|latest| latest_of(&latest).ok());
        newest = newest.max(latest.map_or(0, Version::get));
        if newest > recorded {
            record.add(store, Kind::Purge, &self.entity, (1, newest)).await?;
        }
        Ok(newest)
    }

    /// Counts the items of an entity. Nothing is deleted yet.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::NoEntity`] if it has no items, [`OperationError::Held`] if it is on hold, or the error of a read.
    pub async fn of(store: &Store, id: &str) -> Result<Self, OperationError> {
        let mut purge = Self::new(store, entity_of(store, id)?);
        hold::check(store, &purge.entity).await?;
        for key in sort_keys(store, &purge.entity).await? {
            *purge.existing.entry(store.digits().kind_of(&key)).or_default() += 1;
        }
        match purge.existing.is_empty() {
            true => Err(OperationError::NoEntity(id.to_owned())),
            false => Ok(purge),
        }
    }

    /// Deletes every item of the entity, of an attached table its history. `wait` is the time between the purge marker and the last
    /// check: [`DEFAULT_WAIT`], or zero if nothing reads the table's stream. `on_wait` is called when the wait begins, with its
    /// remaining duration.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Service`] if a request fails, [`OperationError::WrittenAgain`] if the entity is written concurrently,
    /// [`OperationError::Held`] if it is on hold.
    /// The purge can be repeated.
    pub async fn run(&mut self, wait: Duration, on_wait: impl FnOnce(Duration)) -> Result<(), OperationError> {
        hold::check(&self.table.store, &self.entity).await?;
        let is_attached = self.table.store.attached_table().is_some();
        let mut marker = PurgeMarker::new(self.table.store.now());
        let mut latest = None;
        if !is_attached {
            latest = self.latest().await?;
            self.add_incarnations(latest.as_ref(), &mut marker).await?;
        }
        let recorded = self.record(0).await?;
        mark(&self.table.store, &self.entity, |stored| {
            let raised = stored
                .purge
                .as_ref()
                .map_or_else(|| marker.clone(), |seen| seen.max(&marker));
            stored.purge = Some(raised);
        })
        .await?;
        let end = Instant::now() + wait;
        // Versions of an update after the marker stay: if there is one, the purge is given up.
        let purged = latest.as_ref().and_then(|latest| latest_of(latest).ok());
        self.delete_others(purged).await?;
        if !wait.is_zero() {
            on_wait(end.saturating_duration_since(Instant::now()));
            tokio::time::sleep_until(end).await;
            if is_attached {
                self.record(recorded).await?;
                Box::pin(self.delete_covered(&marker)).await?;
            } else if is_unchanged(latest.as_ref(), self.latest().await?.as_ref()) {
                self.delete_others(None).await?;
            } else {
                // The versions that arrived may belong to an update after the marker.
                return Err(OperationError::WrittenAgain);
            }
        }
        match is_attached {
            true => Ok(()),
            false => self.delete_latest(latest.as_ref()).await,
        }
    }

    async fn latest(&self) -> Result<Option<Item>, ServiceError> {
        self.table.store.get(&self.entity, LATEST_KEY, true).await
    }

    /// Deletes the latest item if it is still the version that was read, and what a slow writer puts afterwards.
    async fn delete_latest(&mut self, latest: Option<&Item>) -> Result<(), OperationError> {
        if let Some(latest) = latest {
            hold::check(&self.table.store, &self.entity).await?;
            let delete = delete_latest(&self.entity, latest, self.table.store.latest_table());
            if delete.send(self.table.store.client()).await?.is_ok() {
                *self.deleted.entry(ItemKind::Latest).or_default() += 1;
            }
        }
        for _ in 0..MAX_CHECKS {
            // If the condition failed, the latest item exists, unless the response to the deletion was lost.
            if self.latest().await?.is_some() {
                return Err(OperationError::WrittenAgain);
            }
            if self.delete_others(None).await? == 0 {
                return Ok(());
            }
        }
        Err(OperationError::WrittenAgain)
    }

    /// Adds the latest item and all versions that history has. There are several incarnations if the latest item was deleted, or
    /// overwritten by another program.
    async fn add_incarnations(&self, latest: Option<&Item>, marker: &mut PurgeMarker) -> Result<(), ServiceError> {
        if let Some((latest, version)) = latest.and_then(|latest| Some((latest, latest_of(latest).ok()?))) {
            marker.add_latest(latest, version);
        }
        let add = |version: Item| {
            if self.table.store.digits().version_of_item(&version).is_some() {
                marker.add_version(&version);
            }
        };
        self.table.each_version(&self.entity, add).await
    }

    /// Deletes all items except the latest item and versions above a number, and returns the number of deleted items.
    async fn delete_others(&mut self, through: Option<Version>) -> Result<usize, OperationError> {
        let digits = self.table.store.digits();
        let mut keys = sort_keys(&self.table.store, &self.entity).await?;
        let is_later = |key: &str| {
            let version = digits.version_of(key).or_else(|| digits.version_of_part(key));
            version.zip(through).is_some_and(|(version, through)| version > through)
        };
        keys.retain(|key| key != LATEST_KEY && !is_later(key));
        let (count, has_floor) = (keys.len(), keys.iter().any(|key| key == FLOOR_KEY));
        keys.retain(|key| key != FLOOR_KEY);
        // A version item without its parts cannot be read.
        keys.sort_by_key(|key| digits.version_of_part(key).is_some());
        self.delete(&keys).await?;
        if has_floor {
            let delete = delete_floor(&self.entity, self.table.store.history_table());
            let outcome = delete.send(self.table.store.client()).await?;
            outcome.map_or_else(|failed| refusal(&failed), |_| Ok(()))?;
            *self.deleted.entry(ItemKind::Floor).or_default() += 1;
        }
        Ok(count)
    }

    /// Deletes the versions of an attached table's item from before a purge. If later ones exist, history begins with them.
    async fn delete_covered(&mut self, marker: &PurgeMarker) -> Result<(), OperationError> {
        let (mut covered, mut late, mut first) = (Vec::new(), Vec::new(), None);
        let add = |item: Item| match self.table.store.digits().version_of_item(&item) {
            Some(version) if marker.covers_item(&item, version) => {
                covered.extend(sort_key_of(&item).map(str::to_owned));
                late.extend(late_key_of(&item));
            }
            // Their keys sort as their versions.
            later => first = first.or(later),
        };
        self.table.each_version(&self.entity, add).await?;
        if let Some(first) = first.filter(|first| *first > Version::FIRST) {
            raise_floor(&self.table.store, &self.entity, first).await?;
        }
        covered.append(&mut late);
        self.delete(&covered).await
    }

    /// Deletes the items with these sort keys, and counts each deleted one.
    async fn delete(&mut self, keys: &[String]) -> Result<(), OperationError> {
        for table in self.table.store.tables() {
            let keys = keys.iter().map(String::as_str);
            let keys: Vec<_> = keys.filter(|key| self.table.store.table_of(key) == table).collect();
            for keys in keys.chunks(MAX_DELETIONS) {
                hold::check(&self.table.store, &self.entity).await?;
                let left = RefCell::new(deletions(&self.entity, keys)?);
                // Unprocessed deletions are requested again, as throttled ones are.
                let delete = async |store: &Store| {
                    let request = batch_request(left.borrow().clone(), table);
                    let output = request.send_with(store.client()).await;
                    let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
                    let unprocessed = output.unprocessed_items.unwrap_or_default().remove(table);
                    left.replace(unprocessed.unwrap_or_default());
                    match left.borrow().is_empty() {
                        true => Ok(()),
                        false => Err(ServiceError::unprocessed(OPERATION)),
                    }
                };
                self.table.send(delete).await?;
                for key in keys {
                    *self.deleted.entry(self.table.store.digits().kind_of(key)).or_default() += 1;
                }
            }
        }
        Ok(())
    }
}

/// Adds erasures to those of an entity, so that versions that arrive later are stored without them. stream-fn does not read them for
/// records of the age that a [purge](self) waits for.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails, or if the item is changed each time that it is read.
pub async fn mark_erased(store: &Store, entity: &EntityId, erasures: &Erasures) -> Result<(), ServiceError> {
    mark(store, entity, |stored| stored.erasures = stored.erasures.max(erasures)).await
}

/// Changes the item of an entity's purge marker: what it covers never decreases.
async fn mark(store: &Store, entity: &EntityId, add: impl Fn(&mut Marker)) -> Result<(), ServiceError> {
    for _ in 0..MAX_MARKER_ATTEMPTS {
        let removed = store.removed([entity], false).await?;
        let seen = Marker {
            purge: removed.marker(entity).cloned(),
            erasures: removed.erasures(entity).cloned().unwrap_or_default(),
        };
        let mut marker = seen.clone();
        add(&mut marker);
        let put = put_marker(entity, &marker, &seen, store.history_table());
        // If the condition fails, the response to an earlier attempt was lost, or another operator changed the marker.
        if put.send(store.client()).await?.is_ok() {
            return Ok(());
        }
    }
    let reason = "did not write the purge marker: other purges of the entity change it";
    Err(ServiceError::unusable("PutItem", reason))
}

/// Returns `true` if there is no latest item, or if it is the same version as before. An expired one can be deleted meanwhile.
fn is_unchanged(before: Option<&Item>, now: Option<&Item>) -> bool {
    let version = |latest: &Item| OF_VERSION.map(|name| latest.get(name).cloned());
    now.is_none_or(|now| before.is_some_and(|before| version(before) == version(now)))
}

/// Returns the number of items of each kind: `{"v0": 1, "versions": 7}`.
pub fn to_json(counts: &ItemCounts) -> Value {
    let name = |kind: &ItemKind| match kind {
        ItemKind::Latest => "v0",
        ItemKind::Version => "versions",
        ItemKind::Part => "parts",
        ItemKind::Floor => "floor",
        ItemKind::Metadata => "metadata",
        ItemKind::Quarantined => "quarantined",
        ItemKind::Request => "requests",
        ItemKind::State => "states",
        ItemKind::Other => "other",
    };
    let members = counts.iter().map(|(kind, count)| (name(kind).to_owned(), json!(count)));
    Value::Object(members.collect::<Map<_, _>>())
}
