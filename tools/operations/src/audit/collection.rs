//! Consistency of an entity's items. A consistent entity has every version from the floor to `Latest`, none beyond, and
//! a latest item that equals its newest version. [`Collection::check`] reports the deviations as [`Discrepancies`].

use std::time::Duration;

use serde_json::{Value, json};

use shared::domain::{
    Item,
    entity::EntityId,
    keys::{FLOOR_KEY, LATEST_KEY, VersionDigits, floor_of, sort_key_of},
    marks::{is_marked, is_pinned},
    quarantine,
    recorded_at::RecordedAt,
    version::Version,
    version_item::{InvalidImage, VersionItem, latest_of},
    version_set::VersionSet,
};

/// Summary of an entity's items. Its size does not grow with the number of versions, as long as they are dense.
#[derive(Clone, Default)]
pub struct Collection {
    latest: Option<Item>,
    /// Version item with the latest item's number; before the latest item was added, the highest one.
    newest: Option<Item>,
    versions: VersionSet,
    /// Versions that are marked or pinned. Below the floor, all must be.
    settled: VersionSet,
    floor: Option<Version>,
    highest: Option<Version>,
    /// `true` if there is a latest item at a padded key.
    has_padded: bool,
    /// Number of records in quarantine.
    quarantined: u64,
}

impl Collection {
    /// Adds one of the entity's items, in any order.
    pub fn add(&mut self, item: Item, digits: VersionDigits) {
        let Some(key) = sort_key_of(&item) else {
            return;
        };
        if key == LATEST_KEY {
            self.latest = Some(item);
            let latest = self.latest_version();
            self.newest
                .take_if(|newest| digits.version_of_item(newest).map(Ok) != latest);
        } else if key == FLOOR_KEY {
            self.floor = floor_of(&item);
        } else if let Some(version) = digits.version_of(key) {
            self.versions.insert(version.get());
            self.highest = self.highest.max(Some(version));
            if is_marked(&item) || is_pinned(&item) {
                self.settled.insert(version.get());
            }
            let is_newest = match self.latest_version() {
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

    /// Returns the number of records in quarantine.
    pub fn quarantined(&self) -> u64 {
        self.quarantined
    }

    /// Adds this number of records in quarantine.
    pub fn add_quarantined(&mut self, records: u64) {
        self.quarantined += records;
    }

    /// Returns the floor if neither a version nor the latest item has its number or a higher one.
    pub fn uncounted_floor(&self) -> Option<Version> {
        let counted = self.latest_version().and_then(Result::ok).map(Version::get);
        let highest = self.versions.last().max(counted).unwrap_or_default();
        self.floor.filter(|floor| highest < floor.get())
    }

    /// Returns the version number of the latest item, `None` without a latest item.
    pub fn latest_version(&self) -> Option<Result<Version, InvalidImage>> {
        self.latest.as_ref().map(latest_of)
    }

    /// Returns the first version of history, 1 unless it was pruned.
    pub fn floor(&self) -> Version {
        self.floor.unwrap_or(Version::FIRST)
    }

    /// Returns the highest version that was added.
    pub fn highest(&self) -> Option<Version> {
        self.highest
    }

    /// Returns `true` if there is a latest item at a padded key, and none at its own.
    pub fn is_padded(&self) -> bool {
        self.has_padded && self.latest.is_none()
    }

    /// Returns the versions that were added.
    pub fn versions(&self) -> &VersionSet {
        &self.versions
    }

    /// Returns the versions that are neither marked nor pinned.
    pub fn unsettled(&self) -> VersionSet {
        self.versions.without(&self.settled)
    }

    /// Returns `true` if the latest item and its version were both added but not compared, because the version was added
    /// first, and a higher one too.
    pub fn is_uncompared(&self) -> bool {
        let latest = self.latest_version().and_then(Result::ok);
        self.newest.is_none() && latest.is_some_and(|latest| self.versions.contains(latest.get()))
    }

    /// Returns the discrepancies, provided that all items of the entity were added and none changed while they were read.
    pub fn check(&self, digits: VersionDigits, now: Duration) -> Discrepancies {
        let mut found = Discrepancies {
            quarantined: self.quarantined,
            ..Discrepancies::default()
        };
        let (versions, floor) = (&self.versions, self.floor().get());
        found.uncounted_floor = self.uncounted_floor();
        match self.latest_version() {
            None => {
                if self.is_padded() {
                    found.no_version = Some(InvalidImage::NoLatest);
                }
                if found.uncounted_floor.is_none() {
                    found.orphans = versions.clone();
                }
            }
            Some(Err(why)) => {
                found.no_version = Some(why);
                if why == InvalidImage::NoLatest && found.uncounted_floor.is_none() {
                    found.orphans = versions.clone();
                }
            }
            Some(Ok(number)) => {
                let recorded = self.latest.as_ref().and_then(RecordedAt::of_latest);
                let now = RecordedAt::since_epoch(now);
                found.ahead = recorded.filter(|recorded| recorded.is_ahead_of(now)).map(|_| number);
                found.missing = versions.gaps(floor, number.get());
                found.strays = number
                    .get()
                    .checked_add(1)
                    .map_or_else(VersionSet::default, |beyond| versions.within(beyond, u64::MAX));
                if number.get() >= floor {
                    found.unpruned = self.unsettled().within(1, floor - 1);
                }
                if let (Some(latest), Some(newest)) = (&self.latest, &self.newest)
                    && !is_same(latest, newest, digits)
                {
                    found.latest_differs = Some(number);
                }
            }
        }
        found
    }
}

/// Returns `true` if a latest item and the item of its version are equal, except for bookkeeping attributes.
pub fn is_same(latest: &Item, newest: &Item, digits: VersionDigits) -> bool {
    VersionItem::from_image(latest.clone(), digits).is_ok_and(|made| made.is_same_as(newest))
}

/// Deviations from a consistent entity, as sets of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discrepancies {
    /// Missing versions from the floor to `Latest`. Their stream records may not be processed yet.
    pub missing: VersionSet,
    /// Versions beyond `Latest`.
    pub strays: VersionSet,
    /// Versions without a latest item that counts them.
    pub orphans: VersionSet,
    /// Versions below the floor that are neither marked nor pinned.
    pub unpruned: VersionSet,
    /// Floor, if neither a version nor the latest item has its number or a higher one.
    pub uncounted_floor: Option<Version>,
    /// Latest version, if its item differs from the latest item.
    pub latest_differs: Option<Version>,
    /// Reason why the latest item has no valid version.
    pub no_version: Option<InvalidImage>,
    /// Latest version, if its time is far ahead of the clock.
    pub ahead: Option<Version>,
    /// Number of records in quarantine.
    pub quarantined: u64,
}

impl Discrepancies {
    /// Returns `true` if there are no discrepancies.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if the counter of the latest item does not fit the versions, or is missing: a repair gives it another
    /// number. That must be above every version whose stream record is not processed yet.
    pub fn is_counter_doubtful(&self) -> bool {
        !self.strays.is_empty()
            || !self.orphans.is_empty()
            || self.latest_differs.is_some()
            || self.no_version == Some(InvalidImage::NoLatest)
            || self.uncounted_floor.is_some()
    }

    /// Returns one finding for each range of versions. Missing versions are reported as gaps.
    pub fn findings(&self) -> Vec<Finding> {
        let single = [
            self.no_version.map(|why| Finding::NoVersion { why }),
            self.uncounted_floor.map(|floor| Finding::BelowFloor { floor }),
            self.latest_differs.map(|version| Finding::LatestDiffers { version }),
            self.ahead.map(|version| Finding::Ahead { version }),
            (self.quarantined > 0).then_some(Finding::Quarantined {
                records: self.quarantined,
            }),
        ];
        let runs = runs(&self.missing, |from, to| Finding::Gap { from, to })
            .chain(runs(&self.strays, |from, to| Finding::Stray { from, to }))
            .chain(runs(&self.orphans, |from, to| Finding::Orphan { from, to }))
            .chain(runs(&self.unpruned, |from, to| Finding::Unpruned { from, to }));
        single.into_iter().flatten().chain(runs).collect()
    }
}

fn runs(set: &VersionSet, finding: impl Fn(Version, Version) -> Finding) -> impl Iterator<Item = Finding> {
    set.ranges()
        .filter_map(move |(from, to)| Some(finding(Version::new(from)?, Version::new(to)?)))
}

/// Finding of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Versions are missing and did not arrive within the lag.
    Gap {
        /// First version.
        from: Version,
        /// Last version.
        to: Version,
    },
    /// Versions exist beyond `Latest`.
    Stray {
        /// First version.
        from: Version,
        /// Last version.
        to: Version,
    },
    /// The item of the latest version differs from the latest item.
    LatestDiffers {
        /// Latest version.
        version: Version,
    },
    /// The `RecordedAt` of the latest item is far ahead of the clock. The next versions get even later times.
    Ahead {
        /// Latest version.
        version: Version,
    },
    /// Versions were missing but arrived within the lag. This is not an error.
    Lagging {
        /// Newest version without a gap before it, 0 for none.
        through: u64,
        /// Latest version.
        latest: Version,
    },
    /// The latest item has no valid version: another client wrote it.
    NoVersion {
        /// Reason.
        why: InvalidImage,
    },
    /// Versions exist, but there is no latest item that counts them.
    Orphan {
        /// First version.
        from: Version,
        /// Last version.
        to: Version,
    },
    /// Stream records of the entity are in [quarantine]: they can never become a version.
    Quarantined {
        /// Number of records.
        records: u64,
    },
    /// History begins at the floor, but neither a version nor the latest item has its number or a higher one: the latest item
    /// was deleted, or its counter was set back.
    BelowFloor {
        /// Floor.
        floor: Version,
    },
    /// The item of an attached table differs from its newest state in history: a change is missing there.
    Differs {
        /// Newest version.
        version: Version,
    },
    /// The change of a version is not after that of the version before, and the version is not marked as late.
    Unordered {
        /// First such version.
        version: Version,
    },
    /// Versions came late, from records that are older than the version before. This is not an error.
    Late {
        /// Number of versions.
        versions: u64,
    },
    /// Versions are states of which history got no record. This is not an error.
    Missed {
        /// Number of versions.
        versions: u64,
    },
    /// Versions do not have the state of their item, because it did not fit. Their records are in quarantine, which is the error.
    Omitted {
        /// Number of versions.
        versions: u64,
    },
    /// Unmarked versions exist below the floor: pruning was interrupted, or they were written again. `vzero admin prune` marks
    /// them.
    Unpruned {
        /// First version.
        from: Version,
        /// Last version.
        to: Version,
    },
}

impl Finding {
    /// Returns the name of the finding's kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "Gap",
            Self::Stray { .. } => "Stray",
            Self::LatestDiffers { .. } => "LatestDiffers",
            Self::Ahead { .. } => "Ahead",
            Self::Lagging { .. } => "Lagging",
            Self::NoVersion { .. } => "NoVersion",
            Self::Orphan { .. } => "Orphan",
            Self::BelowFloor { .. } => "BelowFloor",
            Self::Unpruned { .. } => "Unpruned",
            Self::Quarantined { .. } => "Quarantined",
            Self::Differs { .. } => "Differs",
            Self::Unordered { .. } => "Unordered",
            Self::Late { .. } => "Late",
            Self::Missed { .. } => "Missed",
            Self::Omitted { .. } => "Omitted",
        }
    }

    /// Returns the floor of a finding [`Self::BelowFloor`].
    pub fn uncounted_floor(&self) -> Option<Version> {
        match self {
            Self::BelowFloor { floor } => Some(*floor),
            _ => None,
        }
    }

    /// Returns `true` if the finding requires an action.
    pub fn is_wrong(&self) -> bool {
        !matches!(
            self,
            Self::Lagging { .. } | Self::Late { .. } | Self::Missed { .. } | Self::Omitted { .. }
        )
    }

    /// `{"ID": …, "Finding": "Gap", "From": 3, "To": 4}`.
    pub fn to_json(&self, entity: &EntityId) -> Value {
        let (id, finding) = (entity.as_str(), self.name());
        match self {
            Self::Gap { from, to }
            | Self::Stray { from, to }
            | Self::Orphan { from, to }
            | Self::Unpruned { from, to } => {
                json!({"ID": id, "Finding": finding, "From": from, "To": to})
            }
            Self::Quarantined { records } => json!({"ID": id, "Finding": finding, "Records": records}),
            Self::BelowFloor { floor } => json!({"ID": id, "Finding": finding, "Floor": floor}),
            Self::Late { versions } | Self::Missed { versions } | Self::Omitted { versions } => {
                json!({"ID": id, "Finding": finding, "Versions": versions})
            }
            Self::LatestDiffers { version }
            | Self::Ahead { version }
            | Self::Differs { version }
            | Self::Unordered { version } => {
                json!({"ID": id, "Finding": finding, "Version": version})
            }
            Self::Lagging { through, latest } => {
                json!({"ID": id, "Finding": finding, "Through": through, "Latest": latest})
            }
            Self::NoVersion { why } => json!({"ID": id, "Finding": finding, "Why": why.to_string()}),
        }
    }
}

#[cfg(test)]
mod tests;
