//! Backfill: puts existing items under versioning, as version 1.
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

mod attached;
mod import;
pub mod in_place;
pub mod mapping;

use std::{collections::BTreeMap, iter::Sum, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use shared::{
    config::{Ordering, WriteOptions},
    domain::Item,
    dynamodb::{Store, read::describe_table::Description},
};

use crate::{
    attached::selection::Selection,
    backfill::{
        attached::AttachedBackfill,
        import::{Backfill, ItemOutcome},
        mapping::{Mapping, Refusal, Template},
    },
    connection::Connection,
    error::OperationError,
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{self, Plan, SegmentRun, Work, scan::Segment},
};

/// Options of a backfill that a resumed run must have as well.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub struct Options {
    from_table: String,
    id: Option<String>,
}

/// Table with the existing items, and how they become versions.
#[derive(Debug, Clone)]
pub struct Import {
    /// Table with the existing items, which can be the versioned table itself.
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

impl Import {
    /// Describes the table with the existing items.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Service`] if the request fails.
    pub async fn describe(&self, connection: &Connection) -> Result<Description, OperationError> {
        Ok(self.source(connection).describe().await?)
    }

    /// Prepares the import of a table with this description, or resumes the run of the checkpoint.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::TwoKeys`] or [`OperationError::KeyNotNamed`] if two items can be one entity, and the errors of
    /// a checkpoint.
    pub fn run(
        self,
        connection: &Connection,
        table: &Description,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<BackfillRun, OperationError> {
        let backfill = Backfill {
            mapping: self.mapping(connection, table)?,
            source: Paced::new(&self.source(connection), &self.pace),
            target: Paced::new(&connection.store, &self.pace),
            options: self.write,
            dry_run: self.dry_run,
        };
        let options = Options {
            id: self.id.as_ref().map(ToString::to_string),
            from_table: self.from_table,
        };
        BackfillRun::of(connection, options, Conversion::Import(backfill), segments, checkpoint)
    }

    fn source(&self, connection: &Connection) -> Store {
        let (client, digits) = (connection.client.clone(), connection.store.digits());
        Store::new(client, &self.from_table, digits).with_clock(connection.store.clock().clone())
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

/// Items that were not imported, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

type Progress = segments::Progress<Item, Counts>;

/// Counts of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
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

impl<'a> Sum<&'a Self> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            items: sum.items + counts.items,
            written: sum.written + counts.written,
            already_there: sum.already_there + counts.already_there,
            conflicts: sum.conflicts + counts.conflicts,
            skipped: sum.skipped + counts.skipped,
            refused: sum.refused + counts.refused,
        })
    }
}

/// Backfill of a table. A step writes the items of a page, and returns the refused ones.
pub type BackfillRun = SegmentRun<Options, Progress, Refused>;

impl BackfillRun {
    /// Prepares the backfill of an attached table: its items that have no history get their present state as version 1.
    ///
    /// # Errors
    ///
    /// Returns the errors of a checkpoint.
    pub fn attached(
        connection: &Connection,
        pace: &RateLimiter,
        dry_run: bool,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let options = Options {
            from_table: connection.table.clone(),
            id: None,
        };
        let table = connection.store.attached_table();
        let backfill = Conversion::Attached(AttachedBackfill {
            selection: table.map(Selection::new).unwrap_or_default(),
            table: Paced::new(&connection.store, pace),
            dry_run,
        });
        Self::of(connection, options, backfill, segments, checkpoint)
    }

    fn of(
        connection: &Connection,
        options: Options,
        conversion: Conversion,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let conversion = Arc::new(conversion);
        let plan = Plan {
            command: "backfill",
            store: &connection.store,
            options: Some(options),
            segments,
            checkpoint,
            pace: &conversion.source().limiter.clone(),
        };
        Self::begin(plan, |segment, progress| SegmentBackfill {
            conversion: Arc::clone(&conversion),
            segment,
            progress,
        })
    }
}

/// Conversion of the items of a page to versions.
enum Conversion {
    Import(Backfill),
    Attached(AttachedBackfill),
}

impl Conversion {
    /// Returns the table of the items that are read.
    fn source(&self) -> &Paced {
        match self {
            Self::Import(backfill) => &backfill.source,
            Self::Attached(backfill) => &backfill.table,
        }
    }
}

struct SegmentBackfill {
    conversion: Arc<Conversion>,
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
        let (source, start) = (self.conversion.source(), self.progress.after.clone());
        let page = source.scan(source.store.latest_table(), self.segment, start.map(Into::into), true);
        let (items, next) = page.await?;
        let outcomes = match &*self.conversion {
            Conversion::Import(backfill) => Box::pin(backfill.page(items)).await?,
            Conversion::Attached(backfill) => Box::pin(backfill.page(items)).await?,
        };
        let (counts, mut refused) = (&mut self.progress.counts, Vec::new());
        for (item, outcome) in outcomes {
            counts.items += 1;
            match outcome {
                ItemOutcome::Written => counts.written += 1,
                ItemOutcome::AlreadyThere => counts.already_there += 1,
                ItemOutcome::Skipped => counts.skipped += 1,
                ItemOutcome::Refused(why) => {
                    match why.is_conflict() {
                        true => counts.conflicts += 1,
                        false => counts.refused += 1,
                    }
                    refused.push((item, why));
                }
            }
        }
        self.progress.done = next.is_none();
        self.progress.after = next.map(Item::from);
        Ok(Some(refused))
    }
}
