//! Consistency of an entity's items. [`Collection::check`] reports the deviations.
//!
//! | part | consistent if |
//! |---|---|
//! | versions | every version from the floor to `Latest` exists, and none beyond |
//! | keys | all have the width of the table |
//! | latest item | it equals its newest version |
//! | versions of an attached table | every version from the floor to the newest one exists; those that are not late are in the order of the changes |

use std::{collections::BTreeMap, time::Duration};

pub use crate::audit::finding::{Finding, missing};
use crate::{audit::finding::of_ranges, hold::Hold, read::paced::Paced, version_set::VersionSet};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{
            change::Place,
            item::{LATE, MISSED, OMITTED},
        },
        attribution::WrittenBy,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits, Widths, floor_of, sort_key_of},
        marks::{is_marked, is_pinned},
        quarantine,
        recorded_at::RecordedAt,
        tombstone::is_deleted,
        version::Version,
        version_item::{InvalidImage, VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ServiceError},
};

/// Summary of an entity's items: which versions there are, when they were recorded, and the items to compare.
#[derive(Clone, Default)]
pub struct Collection {
    digits: VersionDigits,
    pub(crate) is_attached: bool,
    pub(super) latest: Option<Item>,
    /// Version item with the latest item's number; before the latest item was added, the highest one. Of an attached table, the
    /// newest version that is not late.
    pub(super) newest: Option<Item>,
    pub(crate) versions: VersionSet,
    /// Versions that are marked or pinned. Below the floor, all must be.
    settled: VersionSet,
    pub(super) floor: Option<Version>,
    pub(crate) hold: Option<Hold>,
    /// `true` if there is a latest item at a padded key.
    pub(super) has_padded: bool,
    /// Number of items at keys of versions and latest items of another width.
    pub(super) of_other_width: u64,
    /// Number of records in quarantine.
    pub(super) quarantined: u64,
    /// Times at which versions were recorded, except for late versions.
    pub(crate) times: BTreeMap<u64, RecordedAt>,
    pub(crate) tombstones: VersionSet,
    /// Place of the newest version of an attached table that is not late.
    last: Option<Place>,
    /// First version of an attached table that is not late, and whose change is not after that of the version before.
    unordered: Option<Version>,
    /// Late versions of an attached table.
    pub(crate) late: VersionSet,
    missed: u64,
    omitted: u64,
}

impl Collection {
    /// Creates the summary of an entity whose items are to be added.
    pub fn new(digits: VersionDigits, is_attached: bool) -> Self {
        Self {
            digits,
            is_attached,
            ..Self::default()
        }
    }

    pub(crate) fn of(store: &Store) -> Self {
        Self::new(store.digits(), store.attached_table().is_some())
    }

    /// Reads floor, versions and latest item of an entity; of an attached table, floor and versions.
    pub(crate) async fn read(table: &Paced, entity: &EntityId) -> Result<Self, ServiceError> {
        // In a table without a history of its own, the latest item is among the versions.
        let has_latest_item = table.store.has_own_history() && table.store.attached_table().is_none();
        let keys: &[_] = if has_latest_item {
            &[FLOOR_KEY, LATEST_KEY]
        } else {
            &[FLOOR_KEY]
        };
        let mut all = Self::read_items(table, entity, keys).await?;
        table.each_version(entity, |item| all.add(item)).await?;
        Ok(all)
    }

    /// Reads the items with these sort keys.
    pub(super) async fn read_items(table: &Paced, entity: &EntityId, keys: &[&str]) -> Result<Self, ServiceError> {
        let mut read = Self::of(&table.store);
        for key in keys {
            if let Some(item) = table.get(entity, key).await? {
                read.add(item);
            }
        }
        Ok(read)
    }

    /// Adds one of the entity's items, in any order; of an attached table, a [flat](shared::domain::attached::item::flat) item, in
    /// the order of the sort keys.
    pub fn add(&mut self, item: Item) {
        let Some(key) = sort_key_of(&item) else {
            return;
        };
        let version = match key {
            LATEST_KEY => latest_of(&item).ok(),
            _ => self.digits.version_of(key),
        };
        let is_late = self.is_attached && item.get(LATE) == Some(&AttributeValue::Bool(true));
        if let Some(version) = version {
            // The time of a late version says nothing about when the version before it was the latest.
            let time = recorded(&item, version).filter(|_| !is_late);
            self.times.extend(time.map(|time| (version.get(), time)));
            if is_deleted(&item) {
                self.tombstones.insert(version.get());
            }
        }
        if key == LATEST_KEY {
            self.latest = Some(item);
            let latest = self.latest_version();
            self.newest
                .take_if(|newest| self.digits.version_of_item(newest).map(Ok) != latest);
        } else if key == FLOOR_KEY {
            self.floor = floor_of(&item);
            self.hold = Hold::of(&item);
        } else if let Some(version) = version {
            self.versions.insert(version.get());
            if is_marked(&item) || is_pinned(&item) {
                self.settled.insert(version.get());
            }
            let is_newest = match self.latest_version() {
                _ if self.is_attached => self.add_change(version, is_late, &item),
                Some(latest) => latest == Ok(version),
                None => self.highest() == Some(version),
            };
            if is_newest {
                self.newest = Some(item);
            }
        } else if self.digits.padded_latest_key().as_deref() == Some(key) {
            self.has_padded = true;
        } else if quarantine::is_first(key) {
            self.quarantined += 1;
        } else if Widths::of([key]).other_than(self.digits).is_some() {
            self.of_other_width += 1;
        }
    }

    /// Adds a version of an attached table in the order of the sort keys. Returns `false` if it is late.
    fn add_change(&mut self, version: Version, is_late: bool, flat: &Item) -> bool {
        self.missed += u64::from(flat.get(MISSED) == Some(&AttributeValue::Bool(true)));
        self.omitted += u64::from(flat.contains_key(OMITTED));
        if is_late {
            self.late.insert(version.get());
            return false;
        }
        let place = Place::of(flat);
        if self.newest.is_some() && self.last >= place {
            self.unordered.get_or_insert(version);
        }
        self.last = place;
        true
    }

    /// Returns `true` if there is a latest item, a version, also of another width, a floor, or a record in quarantine.
    pub fn is_entity(&self) -> bool {
        let has_history = !self.versions.is_empty() || self.has_padded || self.floor.is_some();
        self.latest.is_some() || has_history || self.quarantined > 0 || self.of_other_width > 0
    }

    /// Returns the floor if neither a version nor the latest item has its number or a higher one.
    pub(super) fn uncounted_floor(&self) -> Option<Version> {
        let counted = self.latest_version().and_then(Result::ok);
        let highest = self.highest().max(counted);
        self.floor.filter(|floor| highest < Some(*floor))
    }

    /// Returns the version number of the latest item, `None` without a latest item. That of an attached table is its newest version.
    pub fn latest_version(&self) -> Option<Result<Version, InvalidImage>> {
        match self.is_attached {
            true => self.highest().map(Ok),
            false => self.latest.as_ref().map(latest_of),
        }
    }

    /// Returns the first version of history, 1 unless it was pruned.
    pub(crate) fn floor(&self) -> Version {
        self.floor.unwrap_or(Version::FIRST)
    }

    /// Returns the highest version that was added.
    pub(super) fn highest(&self) -> Option<Version> {
        Version::new(self.versions.last()?)
    }

    /// Returns the versions that are neither marked nor pinned.
    pub(crate) fn unsettled(&self) -> VersionSet {
        self.versions.without(&self.settled)
    }

    /// Returns the findings, provided that all items of the entity were added and none changed while they were read. Missing versions
    /// are gaps: their stream records may not be processed yet.
    pub fn check(&self, now: Duration) -> Vec<Finding> {
        let (versions, floor, counted) = (&self.versions, self.floor().get(), self.latest_version());
        let (latest, uncounted_floor) = (counted.and_then(Result::ok), self.uncounted_floor());
        let no_version = match counted {
            Some(counted) => counted.err(),
            None => self.has_padded.then_some(InvalidImage::NoLatest),
        };
        let recorded = self.latest.as_ref().and_then(RecordedAt::of_latest);
        let is_ahead = recorded.is_some_and(|recorded| recorded.is_ahead_of(RecordedAt::since_epoch(now)));
        let both = self.latest.as_ref().zip(self.newest.as_ref());
        let differs = both.is_some_and(|(latest, newest)| !is_same(latest, newest, self.digits));
        let some = |count: u64| (count > 0).then_some(count);
        let found = [
            no_version.map(|why| Finding::NoVersion { why }),
            uncounted_floor.map(|floor| Finding::BelowFloor { floor }),
            latest
                .filter(|_| differs)
                .map(|version| Finding::LatestDiffers { version }),
            latest.filter(|_| is_ahead).map(|version| Finding::Ahead { version }),
            self.unordered.map(|version| Finding::Unordered { version }),
            some(self.quarantined).map(|records| Finding::Quarantined { records }),
            some(self.of_other_width).map(|items| Finding::OtherWidth { items }),
            some(self.late.len()).map(|versions| Finding::Late { versions }),
            some(self.missed).map(|versions| Finding::Missed { versions }),
            some(self.omitted).map(|versions| Finding::Omitted { versions }),
        ];
        let missing = latest.map_or_else(VersionSet::default, |latest| versions.gaps(floor, latest.get()));
        let mut found: Vec<_> = Finding::gaps(&missing).chain(found.into_iter().flatten()).collect();
        match latest {
            Some(latest) => {
                let strays = versions.within(latest.get().saturating_add(1), u64::MAX);
                found.extend(of_ranges(&strays, |from, to| Finding::Stray { from, to }));
                if latest.get() >= floor {
                    let unpruned = self.unsettled().within(1, floor - 1);
                    found.extend(of_ranges(&unpruned, |from, to| Finding::Unpruned { from, to }));
                }
            }
            None if uncounted_floor.is_none() && no_version.is_none_or(|why| why == InvalidImage::NoLatest) => {
                found.extend(of_ranges(versions, |from, to| Finding::Orphan { from, to }));
            }
            None => {}
        }
        found
    }
}

/// Returns the time at which the version of a version item or a latest item was recorded.
fn recorded(item: &Item, version: Version) -> Option<RecordedAt> {
    if sort_key_of(item) != Some(LATEST_KEY) {
        return RecordedAt::of(item);
    }
    // The time of an item that another program wrote belongs to an older version.
    RecordedAt::of_latest(item).filter(|_| WrittenBy::of(item, version) == WrittenBy::Own)
}

/// Returns `true` if a latest item and the item of its version are equal, except for bookkeeping attributes.
fn is_same(latest: &Item, newest: &Item, digits: VersionDigits) -> bool {
    VersionItem::from_image(latest.clone(), digits).is_ok_and(|made| made.is_same_as(newest))
}

#[cfg(test)]
mod tests;
