//! Consistency of the history of an attached table's item.
//!
//! | part of history | consistent if |
//! |---|---|
//! | numbers of the versions | dense from the floor to the newest one |
//! | versions that are not late | in the order of the changes |
//! | the newest version that is not late | equal to the item in the table, except for ignored attributes |
//!
//! [`History::findings`] reports the deviations that history itself shows, and [`Newest::differs`] compares it with the item.

use crate::audit::collection::Finding;
use shared::domain::attached::{
    decision::agrees,
    definition::AttachedTable,
    digits,
    item::{self, KnownState, LATE, MISSED, OMITTED, Recorded},
    selection::Selection,
};
use shared::domain::{
    AttributeValue, Item,
    keys::{FLOOR_KEY, floor_of, sort_key_of},
    marks::{is_marked, is_pinned},
    quarantine,
    tombstone::is_deleted,
    version::Version,
    version_set::VersionSet,
};

/// Summary of an item's history. Its size does not grow with the number of versions, as long as they are dense.
#[derive(Clone, Default)]
pub struct History {
    versions: VersionSet,
    /// Versions that are marked or pinned. Below the floor, all must be.
    settled: VersionSet,
    floor: Option<Version>,
    newest: Option<Newest>,
    /// The newest version that is not late, without its image.
    last: Option<Recorded>,
    /// First version that is not late, and whose change is not after that of the version before.
    unordered: Option<Version>,
    late: u64,
    missed: u64,
    omitted: u64,
    quarantined: u64,
}

/// The newest state of an item in history.
#[derive(Clone, PartialEq)]
pub struct Newest {
    /// Its version.
    pub version: Version,
    /// `true` if the item was deleted.
    pub is_deleted: bool,
    /// `true` if the version does not have the state, see [`Omission`](shared::domain::attached::item::Omission).
    pub is_omitted: bool,
    /// The item, or the key attributes of a deleted or omitted one.
    pub image: Item,
}

impl Newest {
    /// Reads a version whose attributes are [flat](shared::domain::attached::item::flat).
    pub fn of_flat(version: Version, flat: Item) -> Self {
        let is_deleted = is_deleted(&flat);
        let (outer, image) = item::split_flat(flat);
        Self {
            version,
            is_deleted,
            is_omitted: outer.contains_key(OMITTED),
            image,
        }
    }

    /// Returns the key attributes of the item. `None` if the image does not have them.
    pub fn key(&self, table: &AttachedTable) -> Option<Item> {
        let mut key = Item::default();
        for attribute in table.keys() {
            key.insert(attribute.name.clone(), self.image.get(&attribute.name)?.clone());
        }
        Some(key)
    }

    /// Returns the state, `None` if the item was deleted.
    pub fn state(&self) -> Option<&Item> {
        (!self.is_deleted).then_some(&self.image)
    }

    /// Returns `true` if the item in the table is in another state, and its change should be part of history. Ignored attributes
    /// are not compared.
    pub fn differs(&self, table: &AttachedTable, selection: &Selection, item: Option<&Item>) -> bool {
        let known = match (self.is_deleted, self.is_omitted) {
            (true, _) => KnownState::Deleted,
            (false, true) => KnownState::Unknown,
            (false, false) => KnownState::Item(self.image.clone()),
        };
        !agrees(&known, item, table.ignored()) && selection.has_change(self.state(), item)
    }
}

impl History {
    /// Adds an item of the history, in the order of the sort keys. Its attributes are [flat](shared::domain::attached::item::flat).
    pub fn add(&mut self, flat: Item) {
        let Some(key) = sort_key_of(&flat) else {
            return;
        };
        if key == FLOOR_KEY {
            self.floor = floor_of(&flat);
        } else if quarantine::is_first(key) {
            self.quarantined += 1;
        } else if let Some(version) = digits().version_of(key) {
            self.add_version(version, flat);
        }
    }

    fn add_version(&mut self, version: Version, flat: Item) {
        self.versions.insert(version.get());
        if is_marked(&flat) || is_pinned(&flat) {
            self.settled.insert(version.get());
        }
        let is = |name| flat.get(name) == Some(&AttributeValue::Bool(true));
        self.missed += u64::from(is(MISSED));
        self.omitted += u64::from(flat.contains_key(OMITTED));
        if is(LATE) {
            self.late += 1;
            return;
        }
        let recorded = Recorded::of_outer(version, &flat);
        if let Some(last) = &self.last
            && last.place >= recorded.place
        {
            self.unordered.get_or_insert(version);
        }
        self.last = Some(recorded);
        self.newest = Some(Newest::of_flat(version, flat));
    }

    /// Returns `true` if there is a version, a floor, or a record in quarantine.
    pub fn is_entity(&self) -> bool {
        !self.versions.is_empty() || self.floor.is_some() || self.quarantined > 0
    }

    /// Returns the versions that were added.
    pub fn versions(&self) -> &VersionSet {
        &self.versions
    }

    /// Adds this number of records in quarantine.
    pub fn add_quarantined(&mut self, records: u64) {
        self.quarantined += records;
    }

    /// Returns the newest state, `None` if all versions are late.
    pub fn newest(&self) -> Option<&Newest> {
        self.newest.as_ref()
    }

    /// Returns the findings, provided that all items were added and none changed while they were read.
    pub fn findings(&self) -> Vec<Finding> {
        let highest = self.versions.last().unwrap_or_default();
        let floor = self.floor.map_or(1, Version::get);
        let count = |versions: u64| (versions > 0).then_some(versions);
        let single = [
            self.floor
                .filter(|floor| highest < floor.get())
                .map(|floor| Finding::BelowFloor { floor }),
            self.unordered.map(|version| Finding::Unordered { version }),
            count(self.quarantined).map(|records| Finding::Quarantined { records }),
            count(self.late).map(|versions| Finding::Late { versions }),
            count(self.missed).map(|versions| Finding::Missed { versions }),
            count(self.omitted).map(|versions| Finding::Omitted { versions }),
        ];
        let ranges = |set: VersionSet| {
            let ranges: Vec<_> = set.ranges().collect();
            let version = |(from, to)| Some((Version::new(from)?, Version::new(to)?));
            ranges.into_iter().filter_map(version)
        };
        let missing = self.versions.gaps(floor, highest);
        let unpruned = match highest < floor {
            true => VersionSet::default(),
            false => self.versions.without(&self.settled).within(1, floor - 1),
        };
        let runs = ranges(missing)
            .map(|(from, to)| Finding::Gap { from, to })
            .chain(ranges(unpruned).map(|(from, to)| Finding::Unpruned { from, to }));
        single.into_iter().flatten().chain(runs).collect()
    }
}

#[cfg(test)]
mod tests;
