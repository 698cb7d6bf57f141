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

use std::{collections::BTreeMap, sync::Arc};

use attach::selection::Selection;
use aws_sdk_dynamodb::types::TableDescription;
use futures::{StreamExt as _, stream};
use serde_json::json;
use shared::{
    config::{Ordering, WriteOptions},
    domain::{Item, layout::table_name, names},
    dynamodb::{Store, read::describe_table::keys_of},
};

use crate::{
    backfill::mapping::{Mapping, Refusal, Template},
    connection::Connection,
    error::OperationError,
    read::paced::Paced,
    segments::{
        Plan, SegmentRun,
        progress::{self, counts},
        scan::Segment,
    },
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
    pub dry_run: bool,
}

/// Items that were not imported, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

type Progress = progress::Progress<Counts>;

/// Backfill of a table. A step writes the items of a page, and returns the refused ones.
pub type BackfillRun = SegmentRun<Counts, (), Refused>;

/// Maximum number of concurrent writes of a segment of an attached table. Two items of another table can be one entity, of which the
/// first one counts.
const MAX_CONCURRENT_BASELINES: usize = 16;

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
        plan: Plan<'_>,
    ) -> Result<(TableDescription, BackfillRun), OperationError> {
        let (store, attached) = (&connection.store, connection.store.attached_table());
        let source = match attached {
            Some(_) => store.clone(),
            None => Store::new(connection.client.clone(), &self.from_table, store.digits())
                .with_clock(store.clock().clone()),
        };
        let table = source.description().await?;
        let backfill = Arc::new(Backfill {
            mapping: self.mapping(connection, &table)?,
            selection: attached.map(Selection::new).unwrap_or_default(),
            source: Paced::new(&source, plan.pace),
            target: Paced::new(store, plan.pace),
            options: self.write,
            dry_run: self.dry_run,
        });
        let id = self.id.map(|id| id.to_string());
        let options = json!({"FromTable": self.from_table, "Id": id});
        let run = BackfillRun::begin(plan, "backfill", options, |segment, _| {
            let backfill = Arc::clone(&backfill);
            async move |progress: &mut Progress| backfill.step(segment, progress).await
        })?;
        Ok((table, run))
    }

    /// Returns the mapping of items to updates. Within one table, there is one only with a template.
    fn mapping(&self, connection: &Connection, table: &TableDescription) -> Result<Option<Mapping>, OperationError> {
        let from = &self.from_table;
        let keys: Vec<_> = keys_of(table).into_iter().map(|(name, _)| name).collect();
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
        pub conflicts: u64,
        /// Items to which the backfill does not apply.
        pub skipped: u64,
        /// Items that cannot become a version.
        pub refused: u64,
    }
}

/// Source, target and options of a backfill.
pub(crate) struct Backfill {
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
pub(crate) enum ItemOutcome {
    /// It became version 1 of its entity.
    Written,
    /// An earlier run imported it, or its entity has all its attributes.
    AlreadyThere,
    /// The backfill does not apply to it.
    Skipped,
}

/// Reason why an item has no outcome.
pub(crate) enum Stop {
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
    /// Creates the backfill of states of another table's entities, which are items with these attributes and `PK`.
    pub(crate) fn of_states(source: Paced, target: Paced, ordering: Ordering, options: WriteOptions) -> Self {
        let mapping = Mapping {
            table: table_name(source.store.latest_table()).to_owned(),
            keys: vec![names::PK.to_owned()],
            id: Template::attribute(names::PK),
            rename: BTreeMap::new(),
            ordering,
        };
        Self {
            source,
            target,
            mapping: Some(mapping),
            selection: Selection::default(),
            options,
            dry_run: false,
        }
    }

    /// Writes the items of the next page. It is complete when all its items are, so that a continued run does not skip one.
    async fn step(&self, segment: Segment, progress: &mut Progress) -> Result<Option<Refused>, OperationError> {
        if progress.done {
            return Ok(None);
        }
        let (source, start) = (&self.source, progress.after.take());
        let page = source.scan(source.store.latest_table(), segment, start.map(Into::into), true);
        let (items, next) = page.await?;
        let concurrency = match self.target.store.attached_table() {
            Some(_) => MAX_CONCURRENT_BASELINES,
            None => 1,
        };
        let mut outcomes = stream::iter(items)
            .map(async |item| (self.write(&item).await, item))
            .buffered(concurrency);
        let (counts, mut refused) = (&mut progress.counts, Vec::new());
        while let Some((outcome, item)) = outcomes.next().await {
            counts.items += 1;
            *match outcome {
                Ok(ItemOutcome::Written) => &mut counts.written,
                Ok(ItemOutcome::AlreadyThere) => &mut counts.already_there,
                Ok(ItemOutcome::Skipped) => &mut counts.skipped,
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Refused(why)) => {
                    let count = match why.is_conflict() {
                        true => &mut counts.conflicts,
                        false => &mut counts.refused,
                    };
                    refused.push((item, why));
                    count
                }
            } += 1;
        }
        progress.done = next.is_none();
        progress.after = next.map(Item::from);
        Ok(Some(refused))
    }

    async fn write(&self, item: &Item) -> Result<ItemOutcome, Stop> {
        match self.target.store.attached_table() {
            Some(table) => self.baseline(table, item).await,
            None => Box::pin(self.item(item)).await,
        }
    }
}
