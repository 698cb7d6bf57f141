//! Backfill: puts existing items under versioning, as version 1.
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

pub mod attached;
pub mod import;
pub mod in_place;
pub mod mapping;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use futures::stream;
use serde::{Deserialize, Serialize};
use shared::{
    config::{Ordering, WriteOptions},
    domain::Item,
    dynamodb::{
        Store,
        read::{describe_table::Description, query_items::Cursor},
    },
};

use crate::{
    backfill::{
        attached::AttachedBackfill,
        import::{Backfill, BackfillError, Counts, Progress},
        mapping::{Mapping, Template},
    },
    connection::Connection,
    error::OperationError,
    rate_limit::{Consumed, RateLimiter},
    segments::{
        Plan, SegmentRun,
        scan::{Segment, scan_segment},
    },
};

pub use import::Refused;

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct Options {
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
            source: self.source(connection),
            target: connection.store.clone(),
            options: self.write,
            limiter: self.pace.clone(),
            dry_run: self.dry_run,
        };
        let options = Options {
            id: self.id.as_ref().map(ToString::to_string),
            from_table: self.from_table,
        };
        BackfillRun::new(connection, options, Engine::Import(backfill), segments, checkpoint)
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

/// Conversion of the items of a page to versions.
enum Engine {
    Import(Backfill),
    Attached(AttachedBackfill),
}

impl Engine {
    /// Returns the store of the items that are read, and the limiter of all requests.
    fn source(&self) -> (&Store, &RateLimiter) {
        match self {
            Self::Import(backfill) => (&backfill.source, &backfill.limiter),
            Self::Attached(backfill) => (&backfill.store, &backfill.limiter),
        }
    }

    /// Processes one page of a segment, and returns the refused items with the reasons. `None` at the end.
    async fn step(&self, segment: Segment, progress: &mut Progress) -> Result<Option<Refused>, BackfillError> {
        if progress.done {
            return Ok(None);
        }
        let start: Option<Cursor> = progress.after.clone().map(Cursor::from);
        let (store, limiter) = self.source();
        let limit = limiter.page_limit();
        let page =
            limiter.run(async || scan_segment(store, store.latest_table(), segment, start.clone(), limit, true).await);
        let (items, next) = page.await?;
        // A page is complete when all its items are, so that a continued run does not skip one.
        let mut counts = progress.counts;
        counts.items += items.len() as u64;
        let refused = match self {
            Self::Import(backfill) => Box::pin(backfill.page(items, &mut counts)).await?,
            Self::Attached(backfill) => Box::pin(backfill.page(items, &mut counts)).await?,
        };
        progress.counts = counts;
        progress.done = next.is_none();
        progress.after = next.map(Item::from);
        Ok(Some(refused))
    }
}

pub struct BackfillRun(SegmentRun<Options, Progress, Refused>);

impl BackfillRun {
    /// Prepares a backfill in this number of segments, or resumes the run of the checkpoint.
    fn new(
        connection: &Connection,
        options: Options,
        backfill: Engine,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let plan = Plan {
            command: "backfill",
            connection,
            options: Some(options),
            segments,
            checkpoint,
        };
        let pace = backfill.source().1.clone();
        let backfill = Arc::new(backfill);
        let run = SegmentRun::new(plan, &pace, |segment, progress| {
            stream::try_unfold(
                (Arc::clone(&backfill), progress),
                move |(backfill, mut progress)| async move {
                    let refused = backfill.step(segment, &mut progress).await?;
                    Ok::<_, BackfillError>(refused.map(|refused| ((refused, progress.clone()), (backfill, progress))))
                },
            )
        });
        Ok(Self(run?))
    }

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
        let backfill = AttachedBackfill::new(connection.store.clone(), pace.clone(), dry_run);
        Self::new(connection, options, Engine::Attached(backfill), segments, checkpoint)
    }

    /// Writes the items of the next page. Returns the refused ones, or `None` at the end.
    pub async fn step(&mut self) -> Result<Option<Refused>, OperationError> {
        self.0.step().await
    }

    /// Returns the counts so far, including earlier runs.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for progress in self.0.progress() {
            counts.merge(&progress.counts);
        }
        counts
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        self.0.consumed()
    }
}
