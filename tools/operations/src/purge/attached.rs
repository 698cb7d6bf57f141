//! Purge of the history of an attached table's item. The item itself belongs to other programs, and stays.
//!
//! ```text
//! purge marker ─▶ delete history ─▶ wait ─▶ delete the versions from before the purge that arrived
//! ```
//!
//! The writers of the table need not stop. A change after the purge begins a new history, with the state before it as its
//! baseline. If versions from before the purge came first, history begins after them: their numbers are below the floor.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    prune::requests::raise_floor,
    purge::{
        entity::{ItemCounts, MAX_DELETIONS, batch_delete, delete_others},
        marker::mark_purged,
    },
};
use shared::{
    domain::{
        attached::item::late_key_of,
        entity::EntityId,
        keys::{ItemKind, sort_key_of},
        purge_marker::PurgeMarker,
        version::Version,
        version_set::VersionSet,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Range},
};

/// As [`purge`](super::entity::purge), for an attached table.
pub(crate) async fn purge_attached(
    store: &Store,
    entity: &EntityId,
    wait: Duration,
    on_wait: impl FnOnce(Duration),
    deleted: &mut ItemCounts,
) -> Result<(), ServiceError> {
    let marker = PurgeMarker::new(store.now());
    mark_purged(store, entity, &marker).await?;
    let end = Instant::now() + wait;
    delete_others(store, entity, None, deleted).await?;
    if wait.is_zero() {
        return Ok(());
    }
    on_wait(end.saturating_duration_since(Instant::now()));
    tokio::time::sleep_until(end).await;
    delete_covered(store, entity, &marker, deleted).await
}

/// Deletes the versions from before a purge. If later ones exist, history begins with them.
async fn delete_covered(
    store: &Store,
    entity: &EntityId,
    marker: &PurgeMarker,
    deleted: &mut ItemCounts,
) -> Result<(), ServiceError> {
    let (mut covered, mut late, mut later) = (Vec::new(), Vec::new(), VersionSet::default());
    let range = Range::all_versions(None);
    let mut cursor = None;
    loop {
        let (items, next) = store.query_page(entity, &range, cursor).await?;
        for item in items {
            let Some(version) = store.digits().version_of_item(&item) else {
                continue;
            };
            match marker.covers_item(&item, version) {
                true => {
                    covered.extend(sort_key_of(&item).map(str::to_owned));
                    late.extend(late_key_of(&item));
                }
                false => later.insert(version.get()),
            }
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let first = later.ranges().next().and_then(|(first, _)| Version::new(first));
    if let Some(first) = first.filter(|first| *first > Version::FIRST) {
        raise_floor(store, entity, first).await?;
    }
    for keys in covered.chunks(MAX_DELETIONS) {
        batch_delete(store, entity, keys, store.history_table()).await?;
        *deleted.entry(ItemKind::Version).or_default() += keys.len() as u64;
    }
    for keys in late.chunks(MAX_DELETIONS) {
        batch_delete(store, entity, keys, store.history_table()).await?;
    }
    Ok(())
}
