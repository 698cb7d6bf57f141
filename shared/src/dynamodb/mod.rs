//! Requests to DynamoDB. Each file builds a request (pure), sends it, and turns the output into an outcome (pure).
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | the SDK client, its timeouts and retries, errors, consumed capacity, log lines |
//! | [`read`] | items, pages, versions and history |
//! | [`put`] | version items, one or many in a request |
//! | [`condition`] | conditions as values |
//! | [`expression`] | update expressions with their conditions |
//! | [`mod@write`] | conditional writes of one item, alone or in a transaction |
//! | [`cancellation`] | transactions, and the reasons of cancelled ones |
//! | [`time_index`] | the index of versions by time |

pub mod cancellation;
pub mod client;
pub mod condition;
pub mod expression;
pub mod put;
pub mod read;
pub mod time_index;
pub mod write;

use std::{collections::HashMap, sync::Arc, time::Duration};

use aws_sdk_dynamodb::{Client, config::retry::RetryConfig, types::AttributeValue};
use tokio::{sync::OnceCell, time::Instant};

use crate::{
    clock::Clock,
    domain::{
        Item,
        attached::{AttachedTable, digits as attached_digits, item as attached_item},
        compression::Compression,
        entity::EntityId,
        keys::VersionDigits,
        layout, names,
        recorded_at::RecordedAt,
        version::Version,
        version_item::VersionItem,
        view::VersionView,
    },
    dynamodb::client::{ClientSettings, error::ServiceError},
};

/// Versioned table. The requests of the functions are methods of it.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) client: Client,
    /// Client without retries, for the update of the latest item: the counter is not idempotent.
    pub(crate) client_without_retries: Client,
    pub(crate) table: String,
    /// Name or ARN of the table of history, `None` if it is the same table.
    pub(crate) history: Option<String>,
    /// Definition of the table, if other programs write it and this project writes only its history.
    pub(crate) attached: Option<Arc<AttachedTable>>,
    /// Compression of new versions in a history table.
    pub(crate) compression: Compression,
    pub(crate) digits: VersionDigits,
    /// `true` if the table of history has the [index by time](time_index). Empty until the table was asked.
    pub(crate) time_index: Arc<OnceCell<bool>>,
    pub(crate) clock: Clock,
}

impl Store {
    /// Creates the store of a table whose version keys have this width.
    pub fn new(client: Client, table: impl Into<String>, digits: VersionDigits) -> Self {
        Self {
            client_without_retries: without_retries(&client),
            client,
            table: table.into(),
            history: None,
            attached: None,
            compression: Compression::None,
            digits,
            time_index: Arc::new(OnceCell::new_with(Some(false))),
            clock: Clock::default(),
        }
    }

    /// Creates the store of a table that other programs write, and of its history table. Its latest items are the newest versions.
    /// Only operators' requests are sent to the table itself.
    pub fn attached(client: Client, table: AttachedTable) -> Self {
        Self::new(client, table.table(), attached_digits()).with_attached(table)
    }

    /// Stores the history of this table, which other programs write. A table that is given by its ARN keeps it.
    #[must_use]
    pub fn with_attached(self, table: AttachedTable) -> Self {
        let history = table.history_table().to_owned();
        let is_same = layout::table_name(&self.table) == table.table();
        Self {
            table: if is_same { self.table } else { table.table().to_owned() },
            digits: attached_digits(),
            attached: Some(Arc::new(table)),
            ..self
        }
        .with_history(Some(history))
    }

    /// Returns the definition of the table, if other programs write it.
    pub fn attached_table(&self) -> Option<&AttachedTable> {
        self.attached.as_deref()
    }

    /// Returns the client that sends the requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the client that sends each request once.
    pub fn client_without_retries(&self) -> &Client {
        &self.client_without_retries
    }

    /// Sends the requests with another client.
    #[must_use]
    pub fn with_client(mut self, client: Client) -> Self {
        self.client_without_retries = without_retries(&client);
        self.client = client;
        self
    }

    /// Stores history in a table of its own, see [`layout`]. `None`, or the name of this table: history is in this table. If this
    /// table is given by its ARN, so is the other.
    #[must_use]
    pub fn with_history(mut self, history: Option<String>) -> Self {
        let history = history.map(|history| layout::table_beside(&self.table, &history));
        self.history = history.filter(|history| *history != self.table);
        self
    }

    /// Compresses new versions, if history has a table of its own. Reads do not depend on it.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Returns the compression of new versions.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the name of the table of latest items.
    pub fn latest_table(&self) -> &str {
        &self.table
    }

    /// Returns the name of the table of history, which can be the table of latest items.
    pub fn history_table(&self) -> &str {
        self.history.as_ref().unwrap_or(&self.table)
    }

    /// Returns the table of history if it is not the table of latest items.
    pub fn own_history(&self) -> Option<&str> {
        self.history.as_deref()
    }

    /// Returns `true` if history has a table of its own.
    pub fn has_own_history(&self) -> bool {
        self.history.is_some()
    }

    /// Checks that this project writes the latest items of the table.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if other programs write them: the table is attached.
    pub fn check_writable(&self, operation: &'static str) -> Result<(), ServiceError> {
        match self.attached {
            Some(_) => Err(ServiceError::refused(
                operation,
                "other programs write the items of an attached table, and only its history is stored here",
            )),
            None => Ok(()),
        }
    }

    /// Returns the names of the tables: latest items, then history if it has its own. The items of an attached table are not
    /// those of entities.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        let latest = self.attached.is_none().then_some(self.table.as_str());
        latest.into_iter().chain(self.own_history())
    }

    /// Returns the name of the table that has the item with this sort key.
    pub fn table_of(&self, sort_key: &str) -> &str {
        match self.attached.is_some() || layout::is_history(sort_key, self.digits) {
            true => self.history_table(),
            false => &self.table,
        }
    }

    /// Converts an item of a table to one whose attributes are flat. Its parts are [joined](Self::flat_all).
    pub fn flat(&self, item: Item, table: &str) -> Item {
        let is_history = layout::table_name(table) != layout::table_name(&self.table);
        match self.digits.version_of_item(&item) {
            Some(_) if !is_history => layout::version_item_beside_latest(item),
            Some(_) if self.attached.is_some() => attached_item::flat(item),
            Some(_) => layout::version_item(item),
            None => item,
        }
    }

    /// Returns the view of a version item or a latest item, as the reads of the store return it.
    pub fn view(&self, entity: &EntityId, version: Version, item: Item) -> VersionView {
        match self.attached {
            Some(_) => VersionView::of_attached(entity.clone(), version, item),
            None => VersionView::new(entity.clone(), version, item),
        }
    }

    /// Returns the items that the table of history stores for a version that is inserted now: the version item, and its further parts.
    ///
    /// # Errors
    ///
    /// As [`Self::has_time_index`].
    pub async fn stored(&self, version: &VersionItem) -> Result<Vec<Item>, ServiceError> {
        let item = self.indexed(version.item()).await?;
        Ok(match self.has_own_history() {
            true => layout::stored(&item, self.compression),
            false => layout::stored_beside_latest(&item),
        })
    }

    /// Replaces the clock, by which versions get their `RecordedAt`.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the time of the writer's clock.
    pub fn now(&self) -> RecordedAt {
        RecordedAt::since_epoch(self.clock.now())
    }

    /// Returns the width of the table's version keys.
    pub fn digits(&self) -> VersionDigits {
        self.digits
    }

    /// Returns the maximum number of attempts that the client's settings allow.
    pub fn max_attempts(&self) -> u32 {
        retries(&self.client).max_attempts()
    }

    /// Returns the random wait after this number of failures, by the client's settings. Its bound doubles with each failure.
    pub fn backoff(&self, failures: u32) -> Duration {
        let settings = retries(&self.client);
        let bound = settings
            .initial_backoff()
            .saturating_mul(1 << failures.saturating_sub(1).min(16));
        bound.min(settings.max_backoff()).mul_f64(fastrand::f64())
    }

    /// Returns the end of an operation that starts now, with all its attempts, if the client's settings limit it.
    pub fn operation_end(&self) -> Option<Instant> {
        let timeouts = self.client.config().timeout_config();
        Some(Instant::now() + timeouts?.operation_timeout()?)
    }
}

fn without_retries(client: &Client) -> Client {
    let once = retries(client).with_max_attempts(1);
    Client::from_conf(client.config().to_builder().retry_config(once).build())
}

fn retries(client: &Client) -> RetryConfig {
    let settings = client.config().retry_config().cloned();
    settings.unwrap_or_else(|| ClientSettings::default().retries())
}

/// Returns a string value.
pub fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Returns the key of an item.
pub fn key(partition_key: impl Into<String>, sort_key: impl Into<String>) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (names::PK.to_owned(), s(partition_key)),
        (names::SK.to_owned(), s(sort_key)),
    ])
}

/// Returns a number value.
pub fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

#[cfg(test)]
mod test_requests;
