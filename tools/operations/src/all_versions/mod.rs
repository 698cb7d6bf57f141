//! Versions of all entities in the order of their times: a scan in segments or queries of the index, files of sorted rows, then pages of
//! versions.
//!
//! ```text
//! Scan  ┐
//!       ├─ row of each version that the filter selects ── sorted files on disk ── merge ── BatchGetItem of a page
//! Query ┘
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

pub mod completeness;
pub mod filter;
mod index;
pub mod journal;
mod missing;
pub mod pages;
pub mod paths;
pub mod row;
mod scan;
pub mod sorted_files;
pub mod tally;

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use self::{
    completeness::OldestRecord, filter::VersionFilter, index::IndexRows, missing::Missing, row::VersionRow,
    scan::SegmentScan,
};
use crate::{
    error::OperationError,
    read::paced::Paced,
    segments::{Plan, SegmentRun, progress},
    time_index::source::Source,
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
    /// Records in quarantine.
    pub quarantined: OldestRecord,
    /// Entities with a version that a latest item counts, and that the scan did not find.
    pub missing: OldestRecord,
}

impl<'a> Sum<&'a Self> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            items: sum.items + counts.items,
            rows: sum.rows + counts.rows,
            undated: sum.undated + counts.undated,
            quarantined: sum.quarantined.with(&counts.quarantined),
            missing: sum.missing.with(&counts.missing),
        })
    }
}

type SegmentProgress = progress::Progress<Counts, Missing>;

/// Reads of a segment.
enum Rows {
    Scan(SegmentScan),
    Index(IndexRows),
}

/// Search for the versions of all entities in the source of the plan. A step returns the rows of a page, in no order.
pub type AllVersions = SegmentRun<Counts, Missing, Vec<VersionRow>>;

impl AllVersions {
    /// Prepares a search, or resumes the run of the checkpoint: then the rows of the earlier run are not returned again, except those of its
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
            format!("{filter:?} {:?}", plan.source),
            |segment, progress: &SegmentProgress| {
                let (table, filter) = (table.clone(), filter.clone());
                let mut rows = match plan.source {
                    Source::Scan => Rows::Scan(SegmentScan::new(table, segment, filter, progress.after.clone())),
                    Source::Index(window) => Rows::Index(IndexRows::new(table, *window, segment, filter)),
                };
                async move |progress: &mut SegmentProgress| {
                    Ok(match &mut rows {
                        _ if progress.done => None,
                        Rows::Scan(scan) => Some(Box::pin(scan.next_page(progress)).await?),
                        Rows::Index(index) => Some(Box::pin(index.next_page(progress)).await?),
                    })
                }
            },
        )
    }
}
