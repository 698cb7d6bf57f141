//! Versions of all entities in the order of their times: a scan in segments, files of sorted rows, then pages of versions.
//!
//! ```text
//! Scan ── row of each version that the filter selects ── sorted files on disk ── merge ── BatchGetItem of a page
//! ```
//!
//! | tables | scanned |
//! |---|---|
//! | one | the table: versions and latest items |
//! | history in its own table | 1. history, 2. latest items |
//! | history of an attached table | history: its newest version stands for the latest item |
//!
//! A latest item counts, because history can lack its version. Usually it has it, so that both are rows with the same time,
//! entity and version, of which the merge drops one. If another program wrote the latest item, the time is not known, and
//! history is asked for the version.

pub mod filter;
pub mod pages;
pub mod row;
mod scan;
pub mod sorted_files;
pub mod tally;

use std::{iter::Sum, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{domain::recorded_at::RecordedAt, dynamodb::Store};

use self::{filter::VersionFilter, row::VersionRow, scan::SegmentScan};
use crate::{
    error::OperationError,
    read::paced::Paced,
    segments::{Plan, SegmentRun, progress},
};

/// Counts of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read, of all kinds.
    pub items: u64,
    /// Rows found. A version and the latest item can both be one.
    pub rows: u64,
    /// Versions that the filter for times excluded because their time is not known.
    pub undated: u64,
    /// Earliest time that a record in quarantine names.
    pub oldest_quarantined: Option<String>,
    /// Number of records in quarantine that name no time.
    pub quarantined_without_time: u64,
}

impl<'a> Sum<&'a Self> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            items: sum.items + counts.items,
            rows: sum.rows + counts.rows,
            undated: sum.undated + counts.undated,
            oldest_quarantined: earliest(sum.oldest_quarantined, counts.oldest_quarantined.clone()),
            quarantined_without_time: sum.quarantined_without_time + counts.quarantined_without_time,
        })
    }
}

fn earliest(one: Option<String>, other: Option<String>) -> Option<String> {
    one.into_iter().chain(other).min()
}

impl Counts {
    /// Returns two minutes before now: a scan that starts now finds all older versions, unless the stream is late. The time is for
    /// differences of clocks, the usual lag of the stream, and eventually consistent reads.
    pub fn before_start(store: &Store) -> RecordedAt {
        RecordedAt::since_epoch(store.clock().now().saturating_sub(Duration::from_secs(120)))
    }

    /// Returns the time before which all versions were found, as far as it is known, and `true` if it is that of a record in quarantine.
    pub fn complete_until(&self, before_start: RecordedAt) -> (RecordedAt, bool) {
        let oldest = self.oldest_quarantined.as_ref();
        let oldest = oldest
            .and_then(|time| RecordedAt::parse(time).ok())
            .filter(|time| *time < before_start);
        (oldest.unwrap_or(before_start), oldest.is_some())
    }

    /// Returns `{"CompleteUntil": …, "RestsOn": {"TwoMinutesBeforeStart": …, "OldestInQuarantine": …, "InQuarantineWithoutTime": 0,
    /// "NotKnown": […]}}`.
    pub fn completeness(&self, before_start: RecordedAt) -> Value {
        json!({
            "CompleteUntil": self.complete_until(before_start).0.to_string(),
            "RestsOn": {
                "TwoMinutesBeforeStart": before_start.to_string(),
                "OldestInQuarantine": self.oldest_quarantined,
                "InQuarantineWithoutTime": self.quarantined_without_time,
                "NotKnown": ["StreamIteratorAge", "FailureDocuments"],
            },
        })
    }
}

type SegmentProgress = progress::Progress<Counts>;

/// Scan for the versions of all entities. A step returns the rows of a page, in no order.
pub type AllVersions = SegmentRun<Counts, (), Vec<VersionRow>>;

impl AllVersions {
    /// Prepares a scan, or resumes the run of the checkpoint: then the rows of the earlier run are not returned again, except those of its
    /// last step.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if the checkpoint cannot be read, or belongs to another run.
    pub fn new(plan: Plan<'_>, filter: &VersionFilter) -> Result<Self, OperationError> {
        let table = Paced::new(plan.store, plan.pace);
        Self::begin(
            plan,
            "log",
            format!("{filter:?}"),
            |segment, progress: &SegmentProgress| {
                let mut scan = SegmentScan::new(table.clone(), segment, filter.clone(), progress.after.clone());
                async move |progress: &mut SegmentProgress| match progress.done {
                    true => Ok(None),
                    false => Ok(Some(Box::pin(scan.next_page(progress)).await?)),
                }
            },
        )
    }
}
