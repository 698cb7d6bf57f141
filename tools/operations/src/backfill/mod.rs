//! Backfill: puts existing items under versioning, as version 1.
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

pub mod attached;
pub mod import;
pub mod in_place;
pub mod mapping;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use crate::{
    backfill::{
        attached::AttachedBackfill,
        import::{Backfill, BackfillError, Counts, Progress},
        mapping::{Mapping, Refusal, Template},
    },
    rate_limit::{Consumed, RateLimiter},
};
use futures::stream;
use serde::{Deserialize, Serialize};
use shared::{
    domain::{Item, update::Ordering},
    dynamodb::{Store, client::error::ServiceError, read::describe_table::Description, write::WriteOptions},
};

use crate::{
    connection::Connection,
    error::OperationError,
    segments::{Plan, SegmentRun},
};

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
        let template = self.id.as_ref().map(ToString::to_string);
        BackfillRun::new(connection, backfill, (&self.from_table, template), segments, checkpoint)
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

pub struct BackfillRun(SegmentRun<Options, Progress, Refused>);

impl BackfillRun {
    /// Prepares a backfill from a table in this number of segments, or resumes the run of the checkpoint.
    fn new(
        connection: &Connection,
        backfill: Backfill,
        (from_table, template): (&str, Option<String>),
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let plan = Plan {
            command: "backfill",
            connection,
            options: Some(Options {
                from_table: from_table.to_owned(),
                id: template,
            }),
            segments,
            checkpoint,
        };
        let pace = backfill.limiter.clone();
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
        let plan = Plan {
            command: "backfill",
            connection,
            options: Some(Options {
                from_table: connection.table.clone(),
                id: None,
            }),
            segments,
            checkpoint,
        };
        let backfill = Arc::new(AttachedBackfill::new(connection.store.clone(), pace.clone(), dry_run));
        let run = SegmentRun::new(plan, pace, |segment, progress| {
            stream::try_unfold(
                (Arc::clone(&backfill), progress),
                move |(backfill, mut progress)| async move {
                    let refused = backfill.step(segment, &mut progress).await?;
                    Ok::<_, ServiceError>(refused.map(|refused| ((refused, progress.clone()), (backfill, progress))))
                },
            )
        });
        Ok(Self(run?))
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
