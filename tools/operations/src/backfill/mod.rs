//! Backfill: puts existing items under versioning, as version 1.
//!
//! | items | become | module |
//! |---|---|---|
//! | of another table | an update that expects no version | [`mapping`], `import` |
//! | latest items without `Latest` | counted latest items | `in_place` |
//! | of an attached table, without history | version 1 with the present state | `baseline` |
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

mod baseline;
mod import;
mod in_place;
pub mod mapping;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use attach::selection::Selection;
use serde::{Deserialize, Serialize};
use shared::{
    config::{Ordering, WriteOptions},
    domain::Item,
    dynamodb::{Store, read::describe_table::Description},
};

use crate::{
    backfill::mapping::{Mapping, Refusal, Template},
    connection::Connection,
    error::OperationError,
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{self, Plan, SegmentRun, Work, counts, scan::Segment},
};

/// Table with the existing items, and how they become versions.
#[derive(Debug, Clone)]
pub struct Import {
    /// Table with the existing items, which can be the versioned table itself. It is the table of an attached table.
    pub from_table: String,
    /// Template of the entity's partition key. `None` for the partition key of the table, if it is the only key.
    pub id: Option<Template>,
    /// New names of attributes, by their names.
    pub rename: BTreeMap<String, String>,
    pub ordering: Ordering,
    pub write: WriteOptions,
    pub pace: RateLimiter,
    pub dry_run: bool,
}

/// Options of a backfill that a resumed run must have as well.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub struct Options {
    from_table: String,
    id: Option<String>,
}

/// Items that were not imported, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

type Progress = segments::Progress<Item, Counts>;

/// Backfill of a table. A step writes the items of a page, and returns the refused ones.
pub type BackfillRun = SegmentRun<Options, Progress, Refused>;

impl Import {
    /// Describes the table with the existing items, and prepares its import, or resumes the run of the checkpoint.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Service`] if the request fails, [`OperationError::TwoKeys`] or [`OperationError::KeyNotNamed`] if two
    /// items can be one entity, and the errors of a checkpoint.
    pub async fn run(
        self,
        connection: &Connection,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<(Description, BackfillRun), OperationError> {
        let (store, attached) = (&connection.store, connection.store.attached_table());
        let source = match attached {
            Some(_) => store.clone(),
            None => Store::new(connection.client.clone(), &self.from_table, store.digits())
                .with_clock(store.clock().clone()),
        };
        let table = source.describe().await?;
        let backfill = Arc::new(Backfill {
            mapping: self.mapping(connection, &table)?,
            selection: attached.map(Selection::new).unwrap_or_default(),
            source: Paced::new(&source, &self.pace),
            target: Paced::new(store, &self.pace),
            options: self.write,
            dry_run: self.dry_run,
        });
        let options = Options {
            from_table: self.from_table,
            id: self.id.map(|id| id.to_string()),
        };
        let plan = Plan {
            command: "backfill",
            store,
            options: Some(options),
            segments,
            checkpoint,
            pace: &self.pace,
        };
        let run = BackfillRun::begin(plan, |segment, progress| SegmentBackfill {
            backfill: Arc::clone(&backfill),
            segment,
            progress,
        })?;
        Ok((table, run))
    }

    /// Returns the mapping of items to updates. Within one table, there is one only with a template.
    fn mapping(&self, connection: &Connection, table: &Description) -> Result<Option<Mapping>, OperationError> {
        let from = &self.from_table;
        let keys: Vec<_> = table.keys.iter().map(|(name, _)| name.clone()).collect();
        let id = match (&self.id, keys.as_slice()) {
            (Some(template), _) => template.clone(),
            (None, _) if *from == connection.table => return Ok(None),
            (None, [key]) => Template::attribute(key),
            (None, _) => {
                let table = from.clone();
                return Err(OperationError::TwoKeys { table, keys });
            }
        };
        if let Some(key) = keys.iter().find(|key| !id.names(key)) {
            return Err(OperationError::KeyNotNamed(key.clone()));
        }
        Ok(Some(Mapping {
            table: from.clone(),
            keys,
            id,
            rename: self.rename.clone(),
            ordering: self.ordering,
        }))
    }
}

counts! {
    /// Counts of a backfill.
    pub struct Counts {
        /// Items read.
        pub items: u64,
        /// Items that became version 1.
        pub written: u64,
        /// Items that an earlier run imported, or whose entity has all their attributes.
        pub already_there: u64,
        /// Items whose entity was created by another update, or may have been, and lacks attributes.
        #[serde(default)]
        pub conflicts: u64,
        /// Items to which the backfill does not apply.
        pub skipped: u64,
        /// Items that cannot become a version.
        pub refused: u64,
    }
}

impl Counts {
    fn count(&mut self, outcome: &Outcome) {
        self.items += 1;
        *match outcome {
            Ok(ItemOutcome::Written) => &mut self.written,
            Ok(ItemOutcome::AlreadyThere) => &mut self.already_there,
            Ok(ItemOutcome::Skipped) => &mut self.skipped,
            Err(why) if why.is_conflict() => &mut self.conflicts,
            Err(_) => &mut self.refused,
        } += 1;
    }
}

/// Source, target and options of a backfill.
struct Backfill {
    /// Table that items are read from.
    source: Paced,
    /// Versioned or attached table, which can be the same.
    target: Paced,
    /// Mapping of items to updates. Without it, only latest items without `Latest` are converted.
    mapping: Option<Mapping>,
    /// Items of an attached table that have a history.
    selection: Selection,
    options: WriteOptions,
    /// `true` to write nothing.
    dry_run: bool,
}

/// Outcome of an item that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemOutcome {
    /// It became version 1 of its entity.
    Written,
    /// An earlier run imported it, or its entity has all its attributes.
    AlreadyThere,
    /// The backfill does not apply to it.
    Skipped,
}

/// Outcome of an item, or the reason why it cannot become a version.
type Outcome = Result<ItemOutcome, Refusal>;

/// Reason why an item has no outcome.
enum Stop {
    Refused(Refusal),
    Failed(OperationError),
}

impl From<Refusal> for Stop {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl<E: Into<OperationError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Backfill {
    /// Writes the items of a page.
    async fn page(&self, items: Vec<Item>) -> Result<Vec<(Item, Outcome)>, OperationError> {
        if let Some(table) = self.target.store.attached_table() {
            return Ok(self.baselines(table, items).await?);
        }
        let mut outcomes = Vec::new();
        for item in items {
            let outcome = match self.item(&item).await {
                Ok(outcome) => Ok(outcome),
                Err(Stop::Refused(why)) => Err(why),
                Err(Stop::Failed(error)) => return Err(error),
            };
            outcomes.push((item, outcome));
        }
        Ok(outcomes)
    }
}

struct SegmentBackfill {
    backfill: Arc<Backfill>,
    segment: Segment,
    progress: Progress,
}

impl Work for SegmentBackfill {
    type Progress = Progress;
    type Found = Refused;

    fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Processes one page. It is complete when all its items are, so that a continued run does not skip one.
    async fn step(&mut self) -> Result<Option<Refused>, OperationError> {
        if self.progress.done {
            return Ok(None);
        }
        let (source, start) = (&self.backfill.source, self.progress.after.clone());
        let page = source.scan(source.store.latest_table(), self.segment, start.map(Into::into), true);
        let (items, next) = page.await?;
        let mut refused = Vec::new();
        for (item, outcome) in Box::pin(self.backfill.page(items)).await? {
            self.progress.counts.count(&outcome);
            refused.extend(outcome.err().map(|why| (item, why)));
        }
        self.progress.done = next.is_none();
        self.progress.after = next.map(Item::from);
        Ok(Some(refused))
    }
}
