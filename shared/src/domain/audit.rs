//! Whether an entity's items are what they should be: every version from the floor to `Latest`, none beyond, and the
//! latest item the same as its newest version.

use serde_json::{Value, json};

use super::{
    AttributeValue, Item,
    entity::EntityId,
    keys::{FLOOR_KEY, VersionDigits},
    marks::{is_marked, is_pinned},
    names,
    number::Decimal,
    version::Version,
    version_item::{InvalidImage, VersionItem, latest_of},
    version_set::VersionSet,
};

/// What was seen of an entity's items. It stays small, however many versions there are.
#[derive(Clone, Default)]
pub struct Collection {
    latest: Option<Item>,
    /// The version item that the latest item says it is.
    newest: Option<Item>,
    versions: VersionSet,
    items: u64,
    /// The versions that are marked or pinned: below the floor, all should be.
    settled: VersionSet,
    floor: Option<Version>,
}

impl Collection {
    /// Adds one of the entity's items, in any order. What is no version counts for nothing.
    pub fn add(&mut self, item: Item, digits: VersionDigits) {
        self.items += 1;
        let Some(AttributeValue::S(key)) = item.get(names::SK) else {
            return;
        };
        if *key == digits.latest_key() {
            self.latest = Some(item);
        } else if key == FLOOR_KEY {
            self.floor = floor_of(&item);
        } else if let Some(version) = digits.version_of(key) {
            self.versions.insert(version.get());
            if is_marked(&item) || is_pinned(&item) {
                self.settled.insert(version.get());
            }
            if self.head() == Some(Ok(version)) {
                self.newest = Some(item);
            }
        }
    }

    /// Whether there is anything of an entity: its latest item, or versions.
    pub fn is_entity(&self) -> bool {
        self.latest.is_some() || !self.versions.is_empty()
    }

    /// The version that the latest item says it is, `None` without a latest item.
    pub fn head(&self) -> Option<Result<Version, InvalidImage>> {
        self.latest.as_ref().map(latest_of)
    }

    /// Where history begins, 1 unless it was pruned.
    pub fn floor(&self) -> Version {
        self.floor.unwrap_or(Version::FIRST)
    }

    /// How many items were added, of all kinds.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The versions that are there.
    pub fn versions(&self) -> &VersionSet {
        &self.versions
    }

    /// The versions that are neither marked nor pinned.
    pub fn unsettled(&self) -> VersionSet {
        self.versions.without(&self.settled)
    }

    /// Whether the latest item and its version were both there, but were not held against each other, because the version
    /// came first.
    pub fn is_uncompared(&self) -> bool {
        let head = self.head().and_then(Result::ok);
        self.newest.is_none() && head.is_some_and(|head| self.versions.contains(head.get()))
    }

    /// What is wrong, if these are all items of the entity, and nothing was under way while they were read.
    pub fn judge(&self, digits: VersionDigits) -> Judgement {
        let mut judgement = Judgement::default();
        let (versions, floor) = (&self.versions, self.floor().get());
        match self.head() {
            None => judgement.orphans = versions.clone(),
            Some(Err(why)) => judgement.no_version = Some(why),
            Some(Ok(head)) => {
                judgement.missing = versions.gaps(floor, head.get());
                judgement.strays = head
                    .get()
                    .checked_add(1)
                    .map_or_else(VersionSet::default, |beyond| versions.within(beyond, u64::MAX));
                judgement.unpruned = self.unsettled().within(1, floor - 1);
                if let (Some(latest), Some(newest)) = (&self.latest, &self.newest)
                    && !is_same(latest, newest, digits)
                {
                    judgement.head_differs = Some(head);
                }
            }
        }
        judgement
    }
}

/// Whether a latest item and the item of its version are the same, as far as they should be.
pub fn is_same(latest: &Item, newest: &Item, digits: VersionDigits) -> bool {
    VersionItem::from_image(latest.clone(), digits).is_ok_and(|made| made.is_same_as(newest))
}

/// The version that the item `floor` names.
pub fn floor_of(item: &Item) -> Option<Version> {
    match item.get(names::FLOOR) {
        Some(AttributeValue::N(floor)) => Version::new(Decimal::parse(floor).ok()?.to_u64()?),
        _ => None,
    }
}

/// What is wrong with an entity, as sets of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Not there, from the floor to `Latest`. They may be on their way.
    pub missing: VersionSet,
    /// There, beyond `Latest`.
    pub strays: VersionSet,
    /// There, without a latest item.
    pub orphans: VersionSet,
    /// There, below the floor, neither marked nor pinned.
    pub unpruned: VersionSet,
    /// Another item than the latest one.
    pub head_differs: Option<Version>,
    /// Why the latest item makes no version.
    pub no_version: Option<InvalidImage>,
}

impl Judgement {
    /// Whether all is well.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// One finding for each run of versions. What is missing counts as a gap.
    pub fn findings(&self) -> Vec<Finding> {
        let single = [
            self.no_version.map(|why| Finding::NoVersion { why }),
            self.head_differs.map(|version| Finding::HeadDiffers { version }),
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

/// What an audit found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// These versions are not there, and did not come within the lag.
    Gap {
        /// The first.
        from: Version,
        /// The last.
        to: Version,
    },
    /// These versions are there, beyond `Latest`.
    Stray {
        /// The first.
        from: Version,
        /// The last.
        to: Version,
    },
    /// The item of the latest version is another than the latest item.
    HeadDiffers {
        /// The latest version.
        version: Version,
    },
    /// Versions were missing, and came within the lag. Nothing is wrong.
    Lagging {
        /// The newest version that was there with all before it, 0 for none.
        through: u64,
        /// The latest version.
        head: Version,
    },
    /// The latest item makes no version: something else than a writer wrote it.
    NoVersion {
        /// Why.
        why: InvalidImage,
    },
    /// These versions are there, and there is no latest item.
    Orphan {
        /// The first.
        from: Version,
        /// The last.
        to: Version,
    },
    /// These versions are there below the floor, and will stay: pruning was broken off, or something wrote them again. `vzero
    /// prune` takes them away.
    Unpruned {
        /// The first.
        from: Version,
        /// The last.
        to: Version,
    },
}

impl Finding {
    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "Gap",
            Self::Stray { .. } => "Stray",
            Self::HeadDiffers { .. } => "HeadDiffers",
            Self::Lagging { .. } => "Lagging",
            Self::NoVersion { .. } => "NoVersion",
            Self::Orphan { .. } => "Orphan",
            Self::Unpruned { .. } => "Unpruned",
        }
    }

    /// Whether somebody has to do something about it.
    pub fn is_wrong(&self) -> bool {
        !matches!(self, Self::Lagging { .. })
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
            Self::HeadDiffers { version } => json!({"ID": id, "Finding": finding, "Version": version}),
            Self::Lagging { through, head } => {
                json!({"ID": id, "Finding": finding, "Through": through, "Head": head})
            }
            Self::NoVersion { why } => json!({"ID": id, "Finding": finding, "Why": why.to_string()}),
        }
    }
}

#[cfg(test)]
mod tests;
