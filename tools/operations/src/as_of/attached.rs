//! The state of an attached table's item at a time: the last one by place in the stream whose `RecordedAt` is not later.
//!
//! ```text
//! versions in order   v1 ── v2 ───── v3 ───── v5     bisected by RecordedAt, which never decreases along them
//! late versions           v6    v4                   late entries, which sort by RecordedAt and place: one Query
//! time                               ^               v2 and v4, of which v4 has the higher place
//! ```
//!
//! A late version is stored between versions that are later than it. It names the last version in order before it, so a probe that
//! meets it divides the history there.

use shared::{
    domain::{
        Item,
        attached::{
            change::Place,
            item::{dividing, late_entries_until, late_entry_of},
        },
        entity::EntityId,
        recorded_at::RecordedAt,
        version::Version,
        view::VersionView,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{query_items::Range, versions::ReadError},
    },
};

/// The last version in order that is not later than a time. Its item is known unless a late version named it.
struct Found {
    version: Version,
    item: Option<Item>,
}

/// As [`as_of`](super::as_of), for an attached table: log2 N + 4 reads, with any number of late versions.
pub(crate) async fn attached_as_of(
    store: &Store,
    entity: &EntityId,
    time: RecordedAt,
    consistent: bool,
) -> Result<Option<VersionView>, ReadError> {
    let Some((newest, item)) = store.attached_newest(entity, consistent).await? else {
        return Ok(None);
    };
    // Each version in order below `low` is not later, or was pruned. Each one from `high` on is later.
    let (mut low, mut high) = (1, newest.get() + 1);
    let (mut found, mut pruned) = (None, None);
    let mut probed = Some((newest, item));
    while low < high {
        let (version, item) = if let Some((version, item)) = probed.take() {
            (version, Some(item))
        } else {
            let Some(middle) = Version::new(low + (high - low) / 2) else {
                break;
            };
            (middle, store.version_item(entity, middle, consistent).await?)
        };
        let Some(item) = item else {
            let floor = store.floor(entity, consistent).await?;
            if floor <= version {
                return Err(ReadError::Missing { version });
            }
            (low, found, pruned) = (floor.get(), None, Some(floor));
            continue;
        };
        let (divides, recorded) = dividing(version, &item);
        let recorded = recorded.ok_or(ReadError::NotRecordedAt { version: divides })?;
        if recorded > time {
            high = divides.get();
        } else {
            low = version.get() + 1;
            let is_known = |found: &Found| found.version == divides;
            if !found.as_ref().is_some_and(is_known) {
                found = Some(Found {
                    version: divides,
                    item: (divides == version).then_some(item),
                });
            }
        }
    }
    let late = late_until(store, entity, time, consistent).await?;
    let in_order = match (found, pruned) {
        (Some(found), _) => {
            let version = found.version;
            let item = match found.item {
                Some(item) => item,
                None => kept(store, entity, version, consistent).await?,
            };
            Some((version, item))
        }
        (None, Some(floor)) => return Err(ReadError::Pruned { floor }),
        (None, None) => None,
    };
    let place = in_order.as_ref().and_then(|(_, item)| Place::of(item));
    let last = match late.filter(|(_, late)| Some(late) > place.as_ref()) {
        Some((version, _)) => Some((version, kept(store, entity, version, consistent).await?)),
        None => in_order,
    };
    Ok(last.map(|(version, item)| store.view(entity, version, item)))
}

/// Returns the last late version by place that is not later than a time.
async fn late_until(
    store: &Store,
    entity: &EntityId,
    time: RecordedAt,
    consistent: bool,
) -> Result<Option<(Version, Place)>, ServiceError> {
    let (from, to) = late_entries_until(time);
    let range = Range {
        from,
        to,
        reversed: true,
        limit: Some(1),
        consistent,
    };
    let (items, _) = store.query_page(entity, &range, None).await?;
    Ok(items.first().and_then(late_entry_of))
}

/// Reads a version that exists, or was pruned.
async fn kept(store: &Store, entity: &EntityId, version: Version, consistent: bool) -> Result<Item, ReadError> {
    if let Some(item) = store.version_item(entity, version, consistent).await? {
        return Ok(item);
    }
    let floor = store.floor(entity, consistent).await?;
    Err(match version < floor {
        true => ReadError::Pruned { floor },
        false => ReadError::Missing { version },
    })
}
