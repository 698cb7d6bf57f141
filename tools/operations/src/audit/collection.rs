//! Consistency of an entity's items. [`Collection::check`] reports the deviations.
//!
//! | part | consistent if |
//! |---|---|
//! | versions | every version from the floor to `Latest` exists, and none beyond |
//! | latest item | it equals its newest version |
//! | versions of an attached table | every version from the floor to the newest one exists; those that are not late are in the order of the changes |

use std::{collections::BTreeMap, time::Duration};

pub use crate::audit::finding::Finding;
use crate::{audit::finding::Discrepancies, version_set::VersionSet};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::item::{LATE, MISSED, OMITTED, Recorded},
        attribution::Writer,
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits, floor_of, sort_key_of},
        marks::{is_marked, is_pinned},
        quarantine,
        recorded_at::RecordedAt,
        tombstone::is_deleted,
        version::Version,
        version_item::{InvalidImage, VersionItem, latest_of},
    },
    dynamodb::Store,
};

/// Summary of an entity's items: which versions there are, when they were recorded, and the items to compare.
#[derive(Clone, Default)]
pub struct Collection {
    pub(super) latest: Option<Item>,
    /// Version item with the latest item's number; before the latest item was added, the highest one. Of an attached table, the
    /// newest version that is not late.
    pub(super) newest: Option<Item>,
    pub(super) versions: VersionSet,
    /// Versions that are marked or pinned. Below the floor, all must be.
    pub(super) settled: VersionSet,
    pub(super) floor: Option<Version>,
    /// `true` if there is a latest item at a padded key.
    pub(super) has_padded: bool,
    /// Number of records in quarantine.
    pub(super) quarantined: u64,
    /// Times at which versions were recorded, except for late versions.
    pub(super) times: BTreeMap<u64, RecordedAt>,
    pub(super) tombstones: VersionSet,
    pub(super) attached: Option<AttachedVersions>,
}

/// What the versions of an attached table have besides.
#[derive(Clone, Default)]
pub(super) struct AttachedVersions {
    /// The newest version that is not late, without its image.
    last: Option<Recorded>,
    /// First version that is not late, and whose change is not after that of the version before.
    unordered: Option<Version>,
    late: VersionSet,
    missed: u64,
    omitted: u64,
}

impl AttachedVersions {
    /// Adds a version in the order of the sort keys. Returns `false` if it is late.
    fn add(&mut self, version: Version, flat: &Item) -> bool {
        let is = |name| flat.get(name) == Some(&AttributeValue::Bool(true));
        self.missed += u64::from(is(MISSED));
        self.omitted += u64::from(flat.contains_key(OMITTED));
        if is(LATE) {
            self.late.insert(version.get());
            return false;
        }
        let recorded = Recorded::of_parts(version, flat, Item::default());
        if self.last.as_ref().is_some_and(|last| last.place >= recorded.place) {
            self.unordered.get_or_insert(version);
        }
        self.last = Some(recorded);
        true
    }
}

impl Collection {
    /// Adds one of the entity's items, in any order; of an attached table, a [flat](shared::domain::attached::item::flat) item, in
    /// the order of the sort keys.
    pub(crate) fn add(&mut self, item: Item, store: &Store) {
        self.add_item(item, store.digits(), store.attached_table().is_some());
    }

    /// Adds one of the items of an entity, in any order.
    pub fn add_item(&mut self, item: Item, digits: VersionDigits, is_attached: bool) {
        let Some(key) = sort_key_of(&item) else {
            return;
        };
        let version = match key {
            LATEST_KEY => latest_of(&item).ok(),
            _ => digits.version_of(key),
        };
        if let Some(version) = version {
            // The time of a late version says nothing about when the version before it was the latest.
            let is_late = is_attached && item.contains_key(LATE);
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
                .take_if(|newest| digits.version_of_item(newest).map(Ok) != latest);
        } else if key == FLOOR_KEY {
            self.floor = floor_of(&item);
        } else if let Some(version) = version {
            self.versions.insert(version.get());
            if is_marked(&item) || is_pinned(&item) {
                self.settled.insert(version.get());
            }
            let is_newest = match self.latest_version() {
                _ if is_attached => self.attached.get_or_insert_default().add(version, &item),
                Some(latest) => latest == Ok(version),
                None => self.highest() == Some(version),
            };
            if is_newest {
                self.newest = Some(item);
            }
        } else if digits.padded_latest_key().as_deref() == Some(key) {
            self.has_padded = true;
        } else if quarantine::is_first(key) {
            self.quarantined += 1;
        }
    }

    /// Returns `true` if there is a latest item, a version, a floor, or a record in quarantine.
    pub fn is_entity(&self) -> bool {
        let has_history = !self.versions.is_empty() || self.has_padded || self.floor.is_some();
        self.latest.is_some() || has_history || self.quarantined > 0
    }

    /// Returns the floor if neither a version nor the latest item has its number or a higher one.
    pub(super) fn uncounted_floor(&self) -> Option<Version> {
        let counted = self.latest_version().and_then(Result::ok);
        let highest = self.highest().max(counted);
        self.floor.filter(|floor| highest < Some(*floor))
    }

    /// Returns the version number of the latest item, `None` without a latest item. That of an attached table is its newest version.
    pub fn latest_version(&self) -> Option<Result<Version, InvalidImage>> {
        match self.attached {
            Some(_) => self.highest().map(Ok),
            None => self.latest.as_ref().map(latest_of),
        }
    }

    /// Returns the first version of history, 1 unless it was pruned.
    pub fn floor(&self) -> Version {
        self.floor.unwrap_or(Version::FIRST)
    }

    /// Returns the highest version that was added.
    pub fn highest(&self) -> Option<Version> {
        Version::new(self.versions.last()?)
    }

    /// Returns the versions that were added.
    pub fn versions(&self) -> &VersionSet {
        &self.versions
    }

    /// Returns the late versions of an attached table. `None` for another table.
    pub fn late(&self) -> Option<&VersionSet> {
        Some(&self.attached.as_ref()?.late)
    }

    /// Returns the versions that are neither marked nor pinned.
    pub fn unsettled(&self) -> VersionSet {
        self.versions.without(&self.settled)
    }

    /// Returns the time at which each version was recorded, if it is known.
    pub fn times(&self) -> &BTreeMap<u64, RecordedAt> {
        &self.times
    }

    /// Returns the versions that are tombstones.
    pub fn tombstones(&self) -> &VersionSet {
        &self.tombstones
    }

    /// Returns the discrepancies, provided that all items of the entity were added and none changed while they were read.
    pub fn check(&self, digits: VersionDigits, now: Duration) -> Discrepancies {
        let (versions, floor, mut found) = (&self.versions, self.floor().get(), Discrepancies::default());
        let (latest, uncounted_floor) = (self.latest_version(), self.uncounted_floor());
        let no_version = match latest {
            Some(counted) => counted.err(),
            None => self.has_padded.then_some(InvalidImage::NoLatest),
        };
        let latest = latest.and_then(Result::ok);
        match latest {
            Some(latest) => {
                found.missing = versions.gaps(floor, latest.get());
                found.strays = versions.within(latest.get().saturating_add(1), u64::MAX);
                if latest.get() >= floor {
                    found.unpruned = self.unsettled().within(1, floor - 1);
                }
            }
            None if uncounted_floor.is_none() && matches!(no_version, None | Some(InvalidImage::NoLatest)) => {
                found.orphans = versions.clone();
            }
            None => {}
        }
        let recorded = self.latest.as_ref().and_then(RecordedAt::of_latest);
        let is_ahead = recorded.is_some_and(|recorded| recorded.is_ahead_of(RecordedAt::since_epoch(now)));
        let both = self.latest.as_ref().zip(self.newest.as_ref());
        let differs = both.is_some_and(|(latest, newest)| !is_same(latest, newest, digits));
        let attached = self.attached.clone().unwrap_or_default();
        let some = |count: u64| (count > 0).then_some(count);
        let others = [
            no_version.map(|why| Finding::NoVersion { why }),
            uncounted_floor.map(|floor| Finding::BelowFloor { floor }),
            latest
                .filter(|_| differs)
                .map(|version| Finding::LatestDiffers { version }),
            latest.filter(|_| is_ahead).map(|version| Finding::Ahead { version }),
            attached.unordered.map(|version| Finding::Unordered { version }),
            some(self.quarantined).map(|records| Finding::Quarantined { records }),
            some(attached.late.len()).map(|versions| Finding::Late { versions }),
            some(attached.missed).map(|versions| Finding::Missed { versions }),
            some(attached.omitted).map(|versions| Finding::Omitted { versions }),
        ];
        found.others.extend(others.into_iter().flatten());
        found
    }
}

/// Returns the time at which the version of a version item or a latest item was recorded.
fn recorded(item: &Item, version: Version) -> Option<RecordedAt> {
    if sort_key_of(item) != Some(LATEST_KEY) {
        return RecordedAt::of(item);
    }
    // The time of an item that another program wrote belongs to an older version.
    RecordedAt::of_latest(item).filter(|_| Writer::of(item, version) == Writer::Own)
}

/// Returns `true` if a latest item and the item of its version are equal, except for bookkeeping attributes.
fn is_same(latest: &Item, newest: &Item, digits: VersionDigits) -> bool {
    VersionItem::from_image(latest.clone(), digits).is_ok_and(|made| made.is_same_as(newest))
}

#[cfg(test)]
mod tests;
