//! Restore of an old version, deletion, and reversal of a deletion. Each creates a new version.

use std::{collections::BTreeMap, time::Duration};

use shared::{
    config::WriteOptions,
    domain::{
        AttributeValue, Item,
        attributes::same_value,
        attribution,
        change::Change,
        entity::EntityId,
        erased::{Erased, keep},
        names,
        request_id::RequestId,
        time::EpochMillis,
        version::Version,
        view::VersionView,
    },
    dynamodb::Store,
};
use writer_fn::{
    counter::{self, WriteError, WriteOutcome, ended_state::stage_state},
    update::{ExpectedVersion, Update, nested, sent_at::SentAt},
};

use crate::{error::OperationError, waiting::Waiting};

/// Maximum number of attempts for a restore, if concurrent updates win.
const MAX_ATTEMPTS: u32 = 5;

/// Maximum time that a restore waits for a version that is not in history yet.
pub const MAX_WAIT: Duration = Duration::from_secs(5);
/// Options of a restore, a deletion or its reversal.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// Version that must be the latest.
    pub expected: Option<ExpectedVersion>,
    /// Time of the change, if updates are ordered by time.
    pub timestamp: Option<EpochMillis>,
    /// Time at which the request was sent. `None` if it is sent for the first time.
    pub sent_at: Option<SentAt>,
    /// Additional changes, and author, reason and time of the new version. They override the restored attributes.
    pub changes: BTreeMap<String, Change>,
}

/// Creates a new version with the state of an old one, including whether it is a tombstone. Newer attributes are removed.
/// Author, reason and time of the old version are not restored: they describe that version only.
///
/// If history does not have the old version yet, it waits for it, at most [`MAX_WAIT`].
///
/// # Errors
///
/// Returns [`OperationError::NoVersion`] if the entity or the version does not exist, [`OperationError::NotInHistory`] if the version
/// did not arrive in history, [`OperationError::TooManyAttributes`] if it differs too much from the latest one, and
/// [`OperationError::Read`] or [`OperationError::Write`] if a request fails.
pub async fn restore(
    store: &Store,
    entity: &EntityId,
    version: Version,
    request_id: RequestId,
    change: ChangeOptions,
    options: WriteOptions,
) -> Result<WriteOutcome, OperationError> {
    let restored = restore_or_undelete(store, entity, Some(version), &request_id, &change, options);
    restored.await?.ok_or(OperationError::NoVersion)
}

/// Creates a tombstone. `None` if the entity is deleted already.
///
/// # Errors
///
/// Returns [`OperationError::NoEntity`] if the entity does not exist, [`OperationError::Read`] or [`OperationError::Write`] if a request
/// fails.
pub async fn delete(
    store: &Store,
    entity: &EntityId,
    request_id: RequestId,
    change: ChangeOptions,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, OperationError> {
    let latest = store.latest(entity, true).await?.ok_or_else(|| no_entity(entity))?;
    if latest.deleted && latest.request_id.as_deref() != Some(request_id.as_str()) {
        return Ok(None);
    }
    let update = Update {
        deleted: true,
        ..change.update(entity, &request_id)
    };
    Ok(Some(counter::write(store, &update, options).await?))
}

/// Restores the state that a deleted entity had before it was deleted: that of the newest version that is no tombstone. `None` if
/// the entity is not deleted.
///
/// If history does not have that version yet, it waits for it, at most [`MAX_WAIT`].
///
/// # Errors
///
/// Returns [`OperationError::NoEntity`] if the entity does not exist, [`OperationError::NothingBefore`] if history has only tombstones
/// of it, otherwise as [`restore`].
pub async fn undelete(
    store: &Store,
    entity: &EntityId,
    request_id: RequestId,
    change: ChangeOptions,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, OperationError> {
    restore_or_undelete(store, entity, None, &request_id, &change, options).await
}

/// Restore of a version, or of the state before a deletion, that is ready to be written.
pub struct Revision {
    /// Latest version, which the restore is based on.
    pub latest: Option<VersionView>,
    /// Update that makes the version.
    pub update: Update,
    /// Values that were erased from the old version, and stay as they are in the latest one.
    pub erased: Erased,
}

/// Plans the restore of a version, or without a number of the state before a deletion. `None` if the entity is not deleted then.
///
/// # Errors
///
/// As [`restore`] and [`undelete`], which write what this function plans.
pub async fn plan(
    store: &Store,
    entity: &EntityId,
    version: Option<Version>,
    request_id: &RequestId,
    change: &ChangeOptions,
) -> Result<Option<Revision>, OperationError> {
    let (mut old, payload) = match version {
        Some(version) => {
            let old = arrived_version(store, entity, version).await?;
            let old = old.ok_or(OperationError::NoVersion)?;
            (Some(old), Update::restore_payload(version, &change.changes))
        }
        None => (None, Update::undelete_payload(&change.changes)),
    };
    let latest = store.latest(entity, true).await?;
    if version.is_none() {
        let latest = latest.as_ref().ok_or_else(|| no_entity(entity))?;
        old = match latest.deleted {
            true => Some(before_deletion(store, entity, latest.version).await?),
            // A repetition has the payload of the first delivery, whatever was restored.
            false if latest.request_id.as_deref() == Some(request_id.as_str()) => None,
            false => return Ok(None),
        };
    }
    let mut update = Update {
        request_payload: Some(payload),
        ..change.update(entity, request_id)
    };
    if let Some(old) = &old {
        let latest = latest.as_ref();
        // The attributes to remove are known only for this version.
        let expected = latest.map_or(ExpectedVersion::Absent, |latest| ExpectedVersion::Is(latest.version));
        update.expected = update.expected.or(Some(expected));
        update.deleted = old.deleted;
        update.changes = changes(&restorable(old, latest), old.deleted, latest, change);
        update.restored_from = Some(old.version);
    }
    let erased = old.map(|old| old.erased.of_attributes()).unwrap_or_default();
    Ok(Some(Revision { latest, update, erased }))
}

/// Restores a version, or without a number the state before a deletion. `None` if the entity is not deleted then.
async fn restore_or_undelete(
    store: &Store,
    entity: &EntityId,
    version: Option<Version>,
    request_id: &RequestId,
    change: &ChangeOptions,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, OperationError> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(Revision { latest, update, .. }) = plan(store, entity, version, request_id, change).await? else {
            return Ok(None);
        };
        match write_restored(store, &update, latest.as_ref(), options).await? {
            WriteOutcome::Conflict { .. } if change.expected.is_none() => {}
            outcome => return Ok(Some(outcome)),
        }
    }
    Err(WriteError::Contended { attempts: MAX_ATTEMPTS }.into())
}

/// Returns the version that an update of the latest version would make.
///
/// # Errors
///
/// Returns [`OperationError::Expected`] if the update expects another latest version, and [`OperationError::Write`] if the latest version
/// lacks a map whose members change.
pub fn preview(latest: Option<&VersionView>, update: &Update) -> Result<VersionView, OperationError> {
    let number = latest.map_or(0, |latest| latest.version.get());
    if let Some(expected) = update.expected.map(ExpectedVersion::number)
        && expected != number
    {
        return Err(OperationError::Expected {
            expected,
            latest: number,
        });
    }
    // A deletion ends the state, and an update of a tombstone starts from an empty item.
    let before = latest.filter(|latest| !latest.deleted && !update.deleted);
    if let Some(path) = nested::missing_map(&update.changes, before.map(|before| &before.attributes)) {
        return Err(WriteError::NoMap { path }.into());
    }
    let mut item = before.map(|before| before.attributes.clone()).unwrap_or_default();
    for name in attribution::OF_CLIENT {
        item.remove(name);
    }
    nested::change(item.inner_mut(), &update.changes);
    if update.deleted {
        item.insert(names::DELETED.to_owned(), AttributeValue::Bool(true));
    }
    let next = Version::new(number + 1).unwrap_or(Version::FIRST);
    Ok(VersionView::new(update.entity.clone(), next, item))
}

/// Returns the attributes that the restore of a version restores. What was erased from it stays as it is in the latest version.
pub fn restorable(old: &VersionView, latest: Option<&VersionView>) -> Item {
    let mut state = old.attributes.clone();
    if let Some(latest) = latest.filter(|latest| !latest.deleted && !old.deleted) {
        keep(&mut state, &latest.attributes, old.erased.paths());
    }
    state
}

/// Returns what was erased from the version that the latest one restored, or from the version with this number.
///
/// # Errors
///
/// Returns the error of a read.
pub async fn erased(store: &Store, entity: &EntityId, version: Option<Version>) -> Result<Erased, OperationError> {
    let version = match version {
        None => store
            .latest(entity, true)
            .await?
            .and_then(|latest| latest.restored_from),
        version => version,
    };
    let Some(version) = version else {
        return Ok(Erased::default());
    };
    let old = store.version(entity, version, true).await?;
    Ok(old.map(|old| old.erased.of_attributes()).unwrap_or_default())
}

fn no_entity(entity: &EntityId) -> OperationError {
    OperationError::NoEntity(entity.as_str().to_owned())
}

/// Returns the update that gives the latest version this state, `None` for a deletion.
pub(crate) fn update_to(
    state: Option<&Item>,
    latest: &VersionView,
    entity: &EntityId,
    request_id: &RequestId,
    change: &ChangeOptions,
) -> Update {
    let mut update = change.update(entity, request_id);
    match state {
        Some(state) => update.changes = changes(state, false, Some(latest), change),
        None => update.deleted = true,
    }
    update
}

/// Writes a restore, if necessary in several requests.
pub(crate) async fn write_restored(
    store: &Store,
    update: &Update,
    latest: Option<&VersionView>,
    options: WriteOptions,
) -> Result<WriteOutcome, OperationError> {
    if update.is_wide() && !update.deleted {
        match latest {
            Some(latest) if latest.deleted => {
                let staged = Box::pin(stage_state(store, update, latest.version)).await;
                staged.map_err(WriteError::from)?;
            }
            Some(_) => {
                let count = update.new_state().count();
                return Err(OperationError::TooManyAttributes { count });
            }
            None => {}
        }
    }
    Ok(counter::write(store, update, options).await?)
}

/// Returns the newest version before a tombstone that is no tombstone.
///
/// # Errors
///
/// Returns [`OperationError::NothingBefore`] if there is none, and [`OperationError::NotInHistory`] if history does not have it yet.
pub async fn before_deletion(
    store: &Store,
    entity: &EntityId,
    tombstone: Version,
) -> Result<VersionView, OperationError> {
    for version in (1..tombstone.get()).rev().filter_map(Version::new) {
        let before = arrived_version(store, entity, version).await?;
        let before = before.ok_or(OperationError::NothingBefore { tombstone })?;
        if !before.deleted {
            return Ok(before);
        }
    }
    Err(OperationError::NothingBefore { tombstone })
}

/// Reads a version, and waits until history has it. `None` if it does not exist, or was pruned.
async fn arrived_version(
    store: &Store,
    entity: &EntityId,
    version: Version,
) -> Result<Option<VersionView>, OperationError> {
    let mut waiting = Waiting::at_most(MAX_WAIT);
    loop {
        if let Some(view) = store.version(entity, version, true).await? {
            return Ok(Some(view));
        }
        let newest = store.newest(entity, true).await?;
        let is_counted = newest.is_some_and(|(newest, _)| version <= newest);
        let floor = store.floor(entity, true).await?;
        if !is_counted || version < floor {
            return Ok(None);
        }
        if !waiting.again().await {
            return Err(OperationError::NotInHistory { version });
        }
    }
}

impl ChangeOptions {
    /// Returns the update that has these options and changes.
    fn update(&self, entity: &EntityId, request_id: &RequestId) -> Update {
        Update {
            entity: entity.clone(),
            request_id: request_id.clone(),
            expected: self.expected,
            deleted: false,
            timestamp: self.timestamp,
            changes: self.changes.clone(),
            request_payload: None,
            sent_at: self.sent_at,
            sender: None,
            restored_from: None,
            change_set_size: None,
        }
    }
}

/// Returns the changes that give the latest version the state of an old one.
fn changes(
    old: &Item,
    is_deleted: bool,
    latest: Option<&VersionView>,
    change: &ChangeOptions,
) -> BTreeMap<String, Change> {
    // An update of a tombstone starts from an empty item.
    let latest = latest.filter(|latest| !latest.deleted);
    let is_state = |name: &&String| !attribution::OF_CLIENT.contains(&name.as_str());
    let removed = latest.into_iter().flat_map(|latest| latest.attributes.keys());
    let removed = removed.filter(|name| !old.contains_key(*name));
    let removed = removed.filter(is_state).map(|name| (name.clone(), Change::Remove));
    let restored = old.iter().filter(|(name, _)| is_state(name));
    let restored = restored.map(|(name, value)| (name.clone(), Change::Set(value.clone())));
    let mut changes: BTreeMap<_, _> = removed.chain(restored).collect();
    for (name, change) in change.changes.clone() {
        match (changes.get_mut(&name), change) {
            // The restored map, and not the one of the latest item.
            (Some(Change::Set(value)), Change::Update(members)) => nested::apply(value, &members),
            (_, change) => {
                changes.insert(name, change);
            }
        }
    }
    // An expression has room for some hundred attributes.
    if let Some(latest) = latest.filter(|_| !is_deleted) {
        let is_same = |name: &String, change: &Change| match change {
            Change::Set(value) => latest
                .attributes
                .get(name.as_str())
                .is_some_and(|before| same_value(before, value)),
            Change::Remove | Change::Update(_) => false,
        };
        changes.retain(|name, change| !attribution::is_state(name) || !is_same(name, change));
    }
    changes
}
