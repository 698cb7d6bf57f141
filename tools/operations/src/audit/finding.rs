//! Findings of an audit.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use shared::{
    domain::{entity::EntityId, version::Version, version_item::InvalidImage},
    logging::variant,
};

use crate::version_set::VersionSet;

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
    /// Versions and latest items of another program have keys of another width, such as `v01`. Beside other versions, they are a second
    /// history.
    OtherWidth { items: u64 },
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
    /// Returns one gap for each range of missing versions.
    pub(super) fn gaps(missing: &VersionSet) -> impl Iterator<Item = Self> {
        of_ranges(missing, |from, to| Self::Gap { from, to })
    }

    /// Returns the first and last version of a finding about versions.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Gap { from, to }
            | Self::Stray { from, to }
            | Self::Orphan { from, to }
            | Self::Unpruned { from, to } => Some((from.get(), to.get())),
            _ => None,
        }
    }

    /// Returns the name of the finding's kind.
    pub fn name(&self) -> String {
        variant(self)
    }

    /// Returns `true` if the finding requires an action.
    pub fn is_wrong(&self) -> bool {
        !matches!(
            self,
            Self::Lagging { .. } | Self::Late { .. } | Self::Missed { .. } | Self::Omitted { .. }
        )
    }

    /// Returns `true` if the counter of the latest item does not fit the versions, or is missing: a repair gives it another
    /// number. That must be above every version whose stream record is not processed yet.
    pub(super) fn is_about_counter(&self) -> bool {
        match self {
            Self::NoVersion { why } => *why == InvalidImage::NoLatest,
            Self::Stray { .. } | Self::Orphan { .. } | Self::LatestDiffers { .. } | Self::BelowFloor { .. } => true,
            _ => false,
        }
    }

    /// `{"ID": …, "Finding": "Gap", "From": 3, "To": 4}`.
    pub fn to_json(&self, entity: &EntityId) -> Value {
        let mut json = json!({"ID": entity.as_str()});
        if let (Some(json), Ok(Value::Object(members))) = (json.as_object_mut(), serde_json::to_value(self)) {
            json.extend(members);
        }
        json
    }
}

/// Returns the missing versions that findings report as gaps.
pub fn missing(findings: &[Finding]) -> VersionSet {
    let gaps = findings.iter().filter(|finding| matches!(finding, Finding::Gap { .. }));
    gaps.filter_map(Finding::range).collect::<Vec<_>>().into()
}

/// Returns one finding for each range of versions.
pub(super) fn of_ranges(
    set: &VersionSet,
    finding: impl Fn(Version, Version) -> Finding,
) -> impl Iterator<Item = Finding> {
    set.ranges()
        .filter_map(move |(from, to)| Some(finding(Version::new(from)?, Version::new(to)?)))
}

fn as_text<S: Serializer>(why: &InvalidImage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(why)
}
