//! Searches failure documents and the table's stream for missing versions.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, PoisonError},
};

use shared::{
    domain::{
        entity::EntityId, keys::VersionDigits, version::Version, version_item::VersionItem, version_set::VersionSet,
    },
    dynamodb::put::purged::PurgeMarkers,
};
use stream_fn::record::{self, Content};

use crate::{
    error::OperationError,
    failures::document::Document,
    redrive::{Reader, Sink, Tally},
};

pub(super) type Missing = BTreeMap<EntityId, VersionSet>;

#[derive(Debug)]
pub(super) struct Found {
    pub(super) version: VersionItem,
    pub(super) source: String,
    /// `true` if the sources contain different items for this version.
    pub(super) is_ambiguous: bool,
}

pub(super) type AllFound = BTreeMap<(EntityId, Version), Found>;

pub(super) struct Search<'a> {
    missing: &'a Missing,
    /// Markers of the entities with missing versions. A purged version is not used.
    purged: PurgeMarkers,
    digits: VersionDigits,
    reader: Reader,
    found: Mutex<AllFound>,
}

impl<'a> Search<'a> {
    pub(super) fn new(missing: &'a Missing, purged: PurgeMarkers, digits: VersionDigits, reader: Reader) -> Self {
        Self {
            missing,
            purged,
            digits,
            reader,
            found: Mutex::default(),
        }
    }

    pub(super) async fn stream(&self, table: &str) -> Result<(), OperationError> {
        let take = |record: String| self.take(&record, "the stream");
        self.reader.stream.all(table, take).await
    }

    pub(super) fn found(self) -> AllFound {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, record: &str, source: &str) {
        let Ok(Content::Version(version)) = record::parse(record, self.digits).content else {
            return;
        };
        let missing = self.missing.get(version.entity());
        let is_missing = missing.is_some_and(|missing| missing.contains(version.version().get()));
        if !is_missing || self.purged.covers(&version) {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match found.entry((version.entity().clone(), version.version())) {
            Entry::Vacant(entry) => {
                entry.insert(Found {
                    version,
                    source: source.to_owned(),
                    is_ambiguous: false,
                });
            }
            Entry::Occupied(mut entry) => {
                let other = entry.get_mut();
                other.is_ambiguous |= !version.is_same_as(other.version.item());
            }
        }
    }
}

impl Sink for Search<'_> {
    async fn document(&self, name: &str, document: Document) -> Result<Tally, OperationError> {
        let read = self.reader.read(name, document).await?;
        for record in &read.records {
            self.take(record, name);
        }
        Ok(read.tally)
    }

    /// Returns `false`: a search reads messages, and only a redrive deletes them.
    fn may_delete(&self, _: &Tally) -> bool {
        false
    }
}
