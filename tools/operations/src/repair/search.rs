//! Search of the sources for missing versions.

use std::{cell::RefCell, collections::BTreeMap};

use shared::domain::{entity::EntityId, sequence::SequenceNumber, version::Version, version_item::VersionItem};
use stream_fn::record::{self, Content};

use crate::{
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Progress,
    redrive::{Feed, Services, Tally},
    version_set::VersionSet,
};

pub(super) type Missing = BTreeMap<EntityId, VersionSet>;

/// Adds versions of an entity.
pub(super) fn add(missing: &mut Missing, entity: &EntityId, ranges: impl IntoIterator<Item = (u64, u64)>) {
    for (from, to) in ranges {
        missing.entry(entity.clone()).or_default().insert_range(from, to);
    }
}

/// Searches these versions, which were not purged. Returns each that was found with the name of its source, or `None` if the sources
/// contain different items for it, and nothing tells which record is the first.
pub(super) async fn search(
    connection: &Connection,
    services: &Services,
    sources: &[Source],
    wanted: &Missing,
    progress: &dyn Progress,
) -> Result<BTreeMap<(EntityId, Version), Option<(VersionItem, String)>>, OperationError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (store, found) = (&connection.store, RefCell::new(BTreeMap::<_, Vec<_>>::new()));
    let purged = store.removed(wanted.keys(), false).await?;
    let take = async |source: &str, records: Vec<&str>| {
        for record in records {
            let record = record::parse(record, store.digits());
            if let Ok(Content::Version(version)) = record.content
                && let (entity, number) = (version.entity(), version.version())
                && wanted.get(entity).is_some_and(|wanted| wanted.contains(number.get()))
                && !purged.is_purged(&version)
            {
                let key = (entity.clone(), number);
                let one = (record.sequence_number, purged.erased(version), source.to_owned());
                found.borrow_mut().entry(key).or_default().push(one);
            }
        }
        Vec::new()
    };
    let feed = Feed::new(connection, services, None, progress, take);
    feed.all(sources, &mut Tally::default()).await?;
    drop(feed);
    let found = found.into_inner().into_iter();
    Ok(found.map(|(key, records)| (key, first(records))).collect())
}

/// Returns the first record of a version: stream-fn processes records in order, and would have put that one. A record without a number
/// can be the first one.
fn first(mut records: Vec<(Option<SequenceNumber>, VersionItem, String)>) -> Option<(VersionItem, String)> {
    records.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let (number, version, source) = records.swap_remove(0);
    let is_later = |other: &Option<SequenceNumber>| number.is_some() && *other > number;
    let is_clear = |(other, item, _): &_| is_later(other) || version.is_same_as(VersionItem::item(item));
    records.iter().all(is_clear).then_some((version, source))
}
