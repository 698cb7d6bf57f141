//! Version items of a table, segment by segment, with strongly consistent reads.

use shared::{
    domain::{Item, marks::is_expired},
    dynamodb::read::query_items::Cursor,
};

use super::{
    Plan, SegmentRun,
    progress::{self, counts},
};
use crate::{error::OperationError, read::paced::Paced};

counts! {
    /// Counts of the reads.
    pub struct Counts {
        /// Items read, of all kinds.
        pub items: u64,
        /// Versions that have not expired.
        pub versions: u64,
    }
}

type Progress = progress::Progress<Counts>;

/// Reads of all versions. A step returns the version items of a page, flat and whole.
pub type VersionRun = SegmentRun<Counts, (), Vec<Item>>;

impl VersionRun {
    /// Prepares the reads.
    ///
    /// # Errors
    ///
    /// Returns no error without a checkpoint.
    pub fn versions(plan: Plan<'_>) -> Result<Self, OperationError> {
        let table = Paced::new(plan.store, plan.pace);
        Self::begin(plan, "versions", (), |segment, _| {
            let table = table.clone();
            async move |progress: &mut Progress| {
                if progress.done {
                    return Ok(None);
                }
                let (history, start) = (table.store.history_table(), progress.after.take().map(Cursor::from));
                let (mut items, next) = table.scan(history, segment, start, true).await?;
                progress.counts.items += items.len() as u64;
                let now = table.store.clock().now();
                items.retain(|item| table.store.digits().version_of_item(item).is_some() && !is_expired(item, now));
                progress.counts.versions += items.len() as u64;
                progress.done = next.is_none();
                progress.after = next.map(Item::from);
                Ok(Some(items))
            }
        })
    }
}
