//! Search of the sources for missing versions.

use std::{
    cell::RefCell,
    collections::{BTreeMap, btree_map::Entry},
};

use shared::{
    domain::{entity::EntityId, sequence::SequenceNumber, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::purged::Removed},
};
use stream_fn::{
    record::{self, Content},
    response::ProcessedRecord,
};

use crate::{
    error::OperationError,
    failures::source::Source,
    redrive::{Feed, Sink, Tally},
    version_set::VersionSet,
};

pub(super) type Missing = BTreeMap<EntityId, VersionSet>;

/// Adds versions of an entity.
pub(super) fn add(missing: &mut Missing, entity: &EntityId, ranges: impl IntoIterator<Item = (u64, u64)>) {
    let versions = missing.entry(entity.clone()).or_default();
    for (from, to) in ranges {
        versions.insert_range(from, to);
    }
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) version: VersionItem,
    pub(super) source: String,
    sequence_number: Option<SequenceNumber>,
    /// `true` if the sources contain different items for this version, and nothing tells which record is the first.
    pub(super) is_ambiguous: bool,
}

impl Found {
    /// Keeps the first of two records of this version: stream-fn processes records in order, and would have put that one.
    fn or_earlier(&mut self, other: Self) {
        let is_other = !other.version.is_same_as(self.version.item());
        match (&self.sequence_number, &other.sequence_number) {
            (Some(this), Some(that)) if that < this => *self = other,
            (Some(this), Some(that)) if this < that => {}
            _ => self.is_ambiguous |= is_other,
        }
    }
}

type AllFound = BTreeMap<(EntityId, Version), Found>;

/// Searches these versions. A purged version is not used.
pub(super) async fn search(
    store: &Store,
    feed: &Feed<'_>,
    sources: &[Source],
    wanted: &Missing,
) -> Result<AllFound, OperationError> {
    let search = Search {
        store,
        wanted,
        purged: store.removed(wanted.keys(), false).await?,
        found: RefCell::default(),
    };
    if !wanted.is_empty() {
        feed.all(sources, &search, &mut Tally::default()).await?;
    }
    Ok(search.found.into_inner())
}

struct Search<'a> {
    store: &'a Store,
    wanted: &'a Missing,
    purged: Removed,
    found: RefCell<AllFound>,
}

impl Search<'_> {
    fn take(&self, record: &str, source: &str) {
        let record = record::parse(record, self.store.digits());
        let (Ok(Content::Version(version)), sequence_number) = (record.content, record.sequence_number) else {
            return;
        };
        let wanted = self.wanted.get(version.entity());
        let is_wanted = wanted.is_some_and(|wanted| wanted.contains(version.version().get()));
        if !is_wanted || self.purged.is_purged(&version) {
            return;
        }
        let key = (version.entity().clone(), version.version());
        let found = Found {
            version,
            source: source.to_owned(),
            sequence_number,
            is_ambiguous: false,
        };
        match self.found.borrow_mut().entry(key) {
            Entry::Vacant(entry) => _ = entry.insert(found),
            Entry::Occupied(mut entry) => entry.get_mut().or_earlier(found),
        }
    }
}

impl Sink for Search<'_> {
    async fn records(&self, name: &str, records: Vec<&str>) -> Vec<ProcessedRecord> {
        for record in records {
            self.take(record, name);
        }
        Vec::new()
    }

    /// Returns `false`: a search reads messages, and only a redrive deletes them.
    fn may_delete(&self, _: &Tally) -> bool {
        false
    }
}
