//! Writes every new image of a latest item to history as a version item, which is never changed afterwards.
//!
//! The history of an [attached table](shared::domain::attached) is written by a module of its own, `attached`.
//!
//! Data flows one way: batch → [`record`] (splits the batch, parses each stream record separately) → version items →
//! requests of [`shared::dynamodb`], each for up to 25 items → outcomes → [`response`].

mod attached;
mod chunk;
mod counted;
pub mod error;
mod metrics;
mod purged;
mod quarantine;
pub mod record;
pub mod redaction;
pub mod response;
#[cfg(feature = "runtime")]
mod runtime;

use std::{sync::OnceLock, time::Duration};

use aws_lambda_events::event::streams::DynamoDbEventResponse;
use futures::{StreamExt as _, stream};
use shared::{
    clock::{Clock, Deadline},
    config::Config,
    domain::attached::{AttachedTable, definition::AttachedSettings},
    dynamodb::{
        Store,
        client::error::ServiceError,
        put::insert_versions::MAX_STATEMENTS,
        read::{layout_error::LayoutError, table_config::in_time},
    },
    logging::chain,
    metrics::Tally,
    panics,
};
use tokio::{sync::OnceCell, time::timeout};

pub use crate::purged::Purpose;
#[cfg(feature = "runtime")]
pub use crate::runtime::run;
use crate::{
    error::{Error, RecordFailure},
    response::ProcessedRecord,
};

/// Maximum number of chunks processed concurrently. A chunk is parsed only when it starts, to limit memory.
const MAX_CONCURRENT_CHUNKS: usize = 16;
/// Maximum time that initialization waits for each of its parts.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes the versions that stream records contain to the history of a table.
#[derive(Debug, Clone)]
pub struct HistoryWriter {
    store: Store,
    /// Settings of an attached table, until its keys are known.
    attached: Option<AttachedSettings>,
    /// The attached table, once its keys were read.
    attached_table: OnceCell<AttachedTable>,
    purpose: Purpose,
    /// Set once the stored layout was checked.
    checked: OnceLock<()>,
}

impl HistoryWriter {
    /// Creates a writer with the table of the function's configuration.
    pub fn new(client: aws_sdk_dynamodb::Client, config: &Config) -> Self {
        let store = Store::new(client, config.table.clone(), config.digits)
            .with_history(config.history.clone())
            .with_compression(config.compression)
            .with_time_index(Some(config.time_index));
        Self {
            attached: config.attached.clone(),
            checked: OnceLock::new(),
            ..Self::from_store(store, Purpose::Invocation)
        }
    }

    /// Creates a writer for a table whose layout was checked, or for an attached table whose keys are known.
    pub fn from_store(store: Store, purpose: Purpose) -> Self {
        Self {
            store,
            attached: None,
            attached_table: OnceCell::new(),
            purpose,
            checked: OnceLock::from(()),
        }
    }

    /// Skips the check of the layout, for a caller that has checked it.
    #[must_use]
    pub fn with_checked_layout(mut self) -> Self {
        self.checked = OnceLock::from(());
        self
    }

    /// Replaces the clock, by which the age of a record is known.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.store = self.store.with_clock(clock);
        self
    }

    /// Checks once that the table stores the layout of this function. With another one, versions would be written where nobody
    /// reads them. As long as none is stored, each invocation checks: a writer can store another one at any time. An attached
    /// table has no layout; the names and types of its keys are read.
    async fn check_layout(&self) -> Result<(), LayoutError> {
        if let Some(settings) = &self.attached {
            let described = async || self.store.describe_attached(settings).await;
            self.attached_table.get_or_try_init(described).await?;
            return Ok(());
        }
        let is_checked = self.store.attached_table().is_some() || self.checked.get().is_some();
        if !is_checked && self.store.check_layout().await? {
            // Several invocations at once, as in tests, find the same.
            let _ = self.checked.set(());
        }
        Ok(())
    }

    /// Checks the layout, and stores for readers the definition of an attached table, and since when its history has the index by
    /// time, each within a time limit. An invocation repeats a check that failed; no record waits for what readers need.
    pub async fn start(&self) {
        if !matches!(timeout(START_TIMEOUT, self.check_layout()).await, Ok(Ok(()))) {
            return;
        }
        let mut store = self.store.clone();
        if let Some(table) = self.attached_table.get() {
            store = store.with_attached(table.clone());
        }
        let stored = timeout(START_TIMEOUT, store_settings(&store)).await;
        let stored = stored.map_or(Err("not in time".to_owned()), |stored| {
            stored.map_err(|error| chain(&error))
        });
        let _ = stored.inspect_err(|error| tracing::warn!(error, "settings for readers"));
    }

    /// Returns the writer for an invocation, after the check of the layout.
    async fn checked(&self, deadline: Deadline) -> Result<Self, LayoutError> {
        // Boxed: it is awaited once, and would be a part of the future of every invocation.
        let checked = in_time(Box::pin(self.check_layout()), deadline).await;
        checked.inspect_err(|error| tracing::error!(error = chain(error), "layout"))?;
        let mut writer = self.clone();
        if let Some(table) = self.attached_table.get() {
            writer.store = writer.store.with_attached(table.clone());
            writer.attached = None;
        }
        Ok(writer)
    }

    /// Processes one invocation after the check of the layout, and returns the records that failed or were not processed in time. Records that can never
    /// become a version are quarantined, and do not fail. `request_id` is the id that Lambda gave the invocation.
    pub async fn handle(
        &self,
        event: &str,
        request_id: &str,
        deadline: Deadline,
    ) -> Result<DynamoDbEventResponse, Error> {
        let records = record::split(event)?;
        let processed = self.checked(deadline).await?.process(records, deadline).await;
        let tally = Tally::default();
        // A panic there loses metrics, and fails no record.
        let _ = panics::caught(|| metrics::batch(&tally, &processed, self.store.clock().now(), deadline));
        tally.emit(request_id);
        response::of(processed)
    }

    /// Writes the versions that these stream records contain, and returns their outcomes in the order of the records. Records of an
    /// attached table whose keys were not read fail.
    pub async fn process(&self, records: Vec<&str>, deadline: Deadline) -> Vec<ProcessedRecord> {
        if self.attached.is_some() {
            let records = records.into_iter();
            return records
                .map(|raw| ProcessedRecord::failed(raw, RecordFailure::NotReached))
                .collect();
        }
        if let Some(table) = self.store.attached_table() {
            // Boxed, to keep the future of a table without it small.
            let processed = Box::pin(attached::write(&self.store, table, &records, self.purpose, deadline)).await;
            return self.quarantined(&records, processed, deadline).await;
        }
        let chunks: Vec<_> = records.chunks(MAX_STATEMENTS).collect();
        let mut processed: Vec<_> = stream::iter(0..chunks.len())
            .map(|index| self.process_chunk(index, chunks[index], deadline))
            .buffer_unordered(MAX_CONCURRENT_CHUNKS)
            .collect()
            .await;
        processed.sort_unstable_by_key(|(index, _)| *index);
        processed.into_iter().flat_map(|(_, processed)| processed).collect()
    }

    async fn process_chunk(&self, index: usize, chunk: &[&str], deadline: Deadline) -> (usize, Vec<ProcessedRecord>) {
        let processed = chunk::write(&self.store, chunk, self.purpose, deadline).await;
        (index, self.quarantined(chunk, processed, deadline).await)
    }

    /// Puts the records of an invocation that can never become a version into quarantine, and returns the outcomes.
    async fn quarantined(
        &self,
        records: &[&str],
        mut processed: Vec<ProcessedRecord>,
        deadline: Deadline,
    ) -> Vec<ProcessedRecord> {
        if self.purpose == Purpose::Invocation {
            quarantine::put(&self.store, records, &mut processed, deadline).await;
        }
        processed
    }
}

async fn store_settings(store: &Store) -> Result<(), ServiceError> {
    store.put_definition().await?;
    let since = store.has_time_index().await?.then(|| store.now().to_string());
    store.store_time_index_since(since.as_deref()).await
}
