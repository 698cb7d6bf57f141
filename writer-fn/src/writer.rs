//! Writes updates and change sets to the latest items, and logs and counts their outcomes.

use shared::{
    clock::{Clock, Deadline},
    config::{Config, Ordering, WriteOptions},
    dynamodb::{
        Store,
        read::{layout_error::LayoutError, table_config::in_time},
    },
    logging::chain,
    metrics::Tally,
    panics,
};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout_at},
};

use crate::{
    counter::{self, checked::CheckedEntities},
    error::Error,
    metrics,
    response::UpdateResponse,
    update::Update,
};

/// Writes updates to the latest items of a table.
#[derive(Debug, Clone)]
pub struct Writer {
    store: Store,
    ordering: Ordering,
    options: WriteOptions,
    known: CheckedEntities,
    /// Set once the layout of the table was checked.
    checked: OnceCell<()>,
}

impl Writer {
    /// Creates a writer with the settings of the environment.
    pub fn new(client: aws_sdk_dynamodb::Client, config: &Config) -> Self {
        Self {
            store: Store::new(client, config.table.clone(), config.digits)
                .with_history(config.history.clone())
                .with_compression(config.compression)
                .with_time_index(Some(config.time_index)),
            ordering: config.ordering,
            options: config.write,
            known: CheckedEntities::default(),
            checked: OnceCell::new(),
        }
    }

    /// Skips the check of the layout, for a caller that has checked it.
    #[must_use]
    pub fn with_checked_layout(mut self) -> Self {
        self.checked = OnceCell::new_with(Some(()));
        self
    }

    /// Replaces the clock, by which versions get their `RecordedAt`.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.store = self.store.with_clock(clock);
        self
    }

    /// Returns the order of the updates.
    pub(crate) fn ordering(&self) -> Ordering {
        self.ordering
    }

    /// Checks once that the table has no other layout, and stores the layout before the first write.
    pub(crate) async fn claim_layout(&self) -> Result<(), LayoutError> {
        let claimed = self.checked.get_or_try_init(async || self.store.claim_layout().await);
        claimed.await.copied()
    }

    /// Checks the layout until the deadline of an invocation.
    pub(crate) async fn check_layout(&self, deadline: Deadline) -> Result<(), LayoutError> {
        // Boxed: it is awaited once, and would be a part of the future of every update.
        let checked = in_time(Box::pin(self.claim_layout()), deadline).await;
        checked.inspect_err(|error| tracing::error!(error = chain(error), "layout"))
    }

    /// Applies one update, or the updates of a change set, until the deadline. `message` is the id of the queue message that contained it, if any.
    pub(crate) async fn write(
        &self,
        updates: &[Update],
        message: Option<&str>,
        deadline: Deadline,
        tally: &Tally,
    ) -> Result<UpdateResponse, Error> {
        let since = Instant::now();
        let write = panics::caught_async(self.apply(updates));
        let response = match timeout_at(deadline.finish_by, write).await {
            Ok(Ok(response)) => response,
            Ok(Err(panicked)) => Err(Error::from(panicked)),
            Err(_) => Err(Error::NotInTime),
        };
        metrics::update(tally, &response, since.elapsed());
        log(updates, message, Some(response.as_ref()));
        response
    }

    async fn apply(&self, updates: &[Update]) -> Result<UpdateResponse, Error> {
        match updates {
            [update] => {
                let now = || self.store.clock().now();
                let mut known = self.known.take(&update.entity, now());
                let outcome = counter::write_after(&self.store, update, self.options, &mut known).await?;
                self.known.keep(&update.entity, known, now());
                UpdateResponse::new(&update.entity, outcome)
            }
            set => match Box::pin(counter::set::write(&self.store, set, self.options)).await {
                Ok(outcome) => UpdateResponse::of_set(set, outcome),
                Err((None, error)) => Err(error.into()),
                Err((Some(update), error)) => Err(Error::from(error).of(&set[update].entity)),
            },
        }
    }
}

/// Counts and logs an event, or a queue message, that contains no valid update.
pub(crate) fn reject(message: Option<&str>, error: &Error, tally: &Tally) {
    metrics::rejected(tally, error);
    log(&[], message, Some(Err(error)));
}

/// Logs updates of an event, none if the event contains no valid one: those that were written, or the one that failed. `response` is
/// `None` if updates of a batch are returned as failed without an attempt.
pub(crate) fn log(updates: &[Update], message: Option<&str>, response: Option<Result<&UpdateResponse, &Error>>) {
    let request = updates.first().map(|update| update.request_id.in_logs());
    let request = request.as_deref();
    let entities = || updates.iter().map(|update| update.entity.digest());
    match response {
        Some(Ok(response)) => {
            for (entity, version) in entities().zip(response.versions()) {
                let outcome = response.outcome();
                tracing::info!(entity, request, message_id = message, outcome, version, "update");
            }
        }
        Some(Err(error)) => {
            let failed = match error {
                Error::OfEntity { entity, .. } => Some(entity.digest()),
                _ => entities().next(),
            };
            let (entity, outcome, error) = (failed.as_deref(), error.error_type(), chain(error));
            tracing::warn!(entity, request, message_id = message, outcome, error, "update");
        }
        None => {
            // Also a message without a valid update.
            for index in 0..updates.len().max(1) {
                let entity = entities().nth(index);
                tracing::info!(entity, request, message_id = message, outcome = "NotStarted", "update");
            }
        }
    }
}
