//! Backfill: puts existing items under versioning, as version 1.
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

use std::{path::Path, sync::Arc};

use futures::stream;
use serde::{Deserialize, Serialize};
use shared::{
    domain::{Item, backfill::Refusal},
    dynamodb::maintain::{
        backfill::{Backfill, BackfillError, Counts, Progress},
        rate_limit::Consumed,
    },
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

/// Items that were not imported, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

pub struct BackfillRun(SegmentRun<Options, Progress, Refused>);

impl BackfillRun {
    /// Prepares a backfill from a table in this number of segments, or resumes the run of the checkpoint.
    pub fn new(
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
