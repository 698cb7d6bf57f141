//! Findings of an audit.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use shared::domain::{entity::EntityId, version::Version, version_item::InvalidImage};

use crate::version_set::VersionSet;

/// Deviations from a consistent entity.
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
    /// Findings that are not about a range of versions.
    pub others: Vec<Finding>,
}

impl Discrepancies {
    /// Returns `true` if no discrepancy requires an action.
    pub fn is_clean(&self) -> bool {
        !self.findings().iter().any(Finding::is_wrong)
    }

    /// Returns `true` if the counter of the latest item does not fit the versions, or is missing: a repair gives it another
    /// number. That must be above every version whose stream record is not processed yet.
    pub fn is_counter_doubtful(&self) -> bool {
        let is_about_counter = |finding: &Finding| match finding {
            Finding::NoVersion { why } => *why == InvalidImage::NoLatest,
            finding => matches!(finding, Finding::LatestDiffers { .. } | Finding::BelowFloor { .. }),
        };
        !self.strays.is_empty() || !self.orphans.is_empty() || self.others.iter().any(is_about_counter)
    }

    /// Returns one finding for each range of versions. Missing versions are reported as gaps.
    pub fn findings(&self) -> Vec<Finding> {
        let runs = runs(&self.missing, |from, to| Finding::Gap { from, to })
            .chain(runs(&self.strays, |from, to| Finding::Stray { from, to }))
            .chain(runs(&self.orphans, |from, to| Finding::Orphan { from, to }))
            .chain(runs(&self.unpruned, |from, to| Finding::Unpruned { from, to }));
        self.others.iter().copied().chain(runs).collect()
    }
}

fn runs(set: &VersionSet, finding: impl Fn(Version, Version) -> Finding) -> impl Iterator<Item = Finding> {
    set.ranges()
        .filter_map(move |(from, to)| Some(finding(Version::new(from)?, Version::new(to)?)))
}

/// Finding of an audit, with its first and last version, or with the version, floor or number that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "Finding", rename_all_fields = "PascalCase")]
pub enum Finding {
    /// Versions are missing and did not arrive within the lag.
    Gap { from: Version, to: Version },
    /// Versions exist beyond `Latest`.
    Stray { from: Version, to: Version },
    /// The item of the latest version differs from the latest item.
    LatestDiffers { version: Version },
    /// The `RecordedAt` of the latest item is far ahead of the clock. The next versions get even later times.
    Ahead { version: Version },
    /// Versions were missing but arrived within the lag. `through` is the newest version without a gap before it, 0 for none. This
    /// is not an error.
    Lagging { through: u64, latest: Version },
    /// The latest item has no valid version: another client wrote it.
    NoVersion {
        #[serde(serialize_with = "as_text")]
        why: InvalidImage,
    },
    /// Versions exist, but there is no latest item that counts them.
    Orphan { from: Version, to: Version },
    /// Stream records of the entity are in [quarantine](shared::domain::quarantine): they can never become a version.
    Quarantined { records: u64 },
    /// History begins at the floor, but neither a version nor the latest item has its number or a higher one: the latest item
    /// was deleted, or its counter was set back.
    BelowFloor { floor: Version },
    /// The item of an attached table differs from its newest state in history: a change is missing there.
    Differs { version: Version },
    /// The change of a version is not after that of the version before, and the version is not marked as late.
    Unordered { version: Version },
    /// Versions came late, from records that are older than the version before. This is not an error.
    Late { versions: u64 },
    /// Versions are states that never reached history by their own records. This is not an error.
    Missed { versions: u64 },
    /// Versions do not have the state of their item, because it did not fit. Their records are in quarantine, which is the error.
    Omitted { versions: u64 },
    /// Unmarked versions exist below the floor: pruning was interrupted, or they were written again. `vzero admin prune` marks
    /// them.
    Unpruned { from: Version, to: Version },
}

impl Finding {
    /// Returns the name of the finding's kind.
    pub fn name(&self) -> String {
        let members = self.members();
        let name = members.get("Finding").and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    }

    fn members(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
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
        let id = ("ID".to_owned(), Value::from(entity.as_str()));
        [id].into_iter().chain(self.members()).collect()
    }
}

fn as_text<S: Serializer>(why: &InvalidImage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(why)
}
