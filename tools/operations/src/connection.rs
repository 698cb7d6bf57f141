//! A table, and the clients that read and write it.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use shared::{
    clock::Clock,
    domain::{
        attached::{self, AttachedTable},
        entity::EntityId,
        keys::VersionDigits,
    },
    dynamodb::{Store, client::capacity::Meter},
};

use crate::error::OperationError;

#[derive(Debug, Clone)]
pub struct Connection {
    /// The table, with the width of its version keys.
    pub store: Store,
    /// DynamoDB client, for patterns without version keys.
    pub client: Client,
    /// Capacity that the command's own requests consume.
    pub meter: Meter,
    /// Capacity that limits the rate of a long operation.
    pub pace_meter: Meter,
    pub table: String,
    pub consistent: bool,
    /// Credentials, Region and timeouts for clients of other services.
    pub sdk: SdkConfig,
    /// Endpoint of DynamoDB and DynamoDB Streams, if not at AWS.
    pub endpoint_url: Option<String>,
}

impl Connection {
    pub fn new(client: &Client, sdk: SdkConfig, endpoint_url: &str, table: &str, digits: VersionDigits) -> Self {
        let pace_meter = Meter::default();
        let config = client.config().to_builder().interceptor(pace_meter.clone());
        let client = Client::from_conf(config.build());
        Self {
            store: Store::new(client.clone(), table, digits),
            client,
            meter: Meter::default(),
            pace_meter,
            table: table.to_owned(),
            consistent: true,
            sdk,
            endpoint_url: Some(endpoint_url.to_owned()),
        }
    }

    /// Replaces the clock, by which items expire and new items get their times.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.store = self.store.with_clock(clock);
        self
    }

    /// Uses the history table of this layout, if any.
    #[must_use]
    pub fn with_history(mut self, history: Option<String>) -> Self {
        self.store = self.store.with_history(history);
        self
    }

    /// Creates the connection to a table that other programs write, and to its history.
    #[must_use]
    pub fn attached(mut self, table: AttachedTable) -> Self {
        table.table().clone_into(&mut self.table);
        self.store = self.store.with_attached(table);
        self
    }

    /// Returns the entity of an id: its partition key, or the key of an item of an attached table in JSON.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Entity`] or [`OperationError::Key`] if the id is invalid.
    pub fn entity(&self, id: &str) -> Result<EntityId, OperationError> {
        entity_of(&self.store, id)
    }

    /// Returns the same table with a client that has its own meter.
    pub fn metered(&self) -> (Store, Meter) {
        let meter = Meter::default();
        let config = self.client.config().to_builder().interceptor(meter.clone()).build();
        (self.store.clone().with_client(Client::from_conf(config)), meter)
    }

    /// Clears the meters: they grow with each request.
    pub fn clear_meters(&self) {
        self.meter.take();
        self.pace_meter.take();
    }
}

/// As [`Connection::entity`].
pub(crate) fn entity_of(store: &Store, id: &str) -> Result<EntityId, OperationError> {
    match store.attached_table() {
        Some(table) => Ok(attached::key::parse(table, id)?),
        None => Ok(EntityId::new(id)?),
    }
}
