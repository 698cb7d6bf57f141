//! Search of the sources for missing versions.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Mutex, PoisonError},
};

use shared::{
    domain::{
        entity::EntityId, keys::VersionDigits, sequence::SequenceNumber, version::Version, version_item::VersionItem,
    },
    dynamodb::put::purged::Removed,
};
use stream_fn::{
    record::{self, Content},
    response::ProcessedRecord,
};

use crate::{
    redrive::{Sink, Tally},
    version_set::VersionSet,
};

pub(super) type Missing = BTreeMap<EntityId, VersionSet>;

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

pub(super) type AllFound = BTreeMap<(EntityId, Version), Found>;

pub(super) struct Search<'a> {
    missing: &'a Missing,
    /// Markers of the entities with missing versions. A purged version is not used.
    purged: Removed,
    digits: VersionDigits,
    found: Mutex<AllFound>,
}

impl<'a> Search<'a> {
    pub(super) fn new(missing: &'a Missing, purged: Removed, digits: VersionDigits) -> Self {
        Self {
            missing,
            purged,
            digits,
            found: Mutex::default(),
        }
    }

    pub(super) fn found(self) -> AllFound {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, record: &str, source: &str) {
        let record = record::parse(record, self.digits);
        let (Ok(Content::Version(version)), sequence_number) = (record.content, record.sequence_number) else {
            return;
        };
        let missing = self.missing.get(version.entity());
        let is_missing = missing.is_some_and(|missing| missing.contains(version.version().get()));
        if !is_missing || self.purged.is_purged(&version) {
            return;
        }
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (version.entity().clone(), version.version());
        let found = Found {
            version,
            source: source.to_owned(),
            sequence_number,
            is_ambiguous: false,
        };
        match all.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(found);
            }
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
