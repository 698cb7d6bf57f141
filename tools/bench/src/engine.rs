//! The embedded DynamoDB in this program, for comparisons with more items than DynamoDB Local can store in the time of a run.

use std::{collections::HashMap, net::TcpListener};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use local::dynamodb::{Embedded, sdk_config};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{HistoryTable, Store},
};
use testkit::table;

use crate::{
    error::{BenchError, cannot},
    seed::SeedItem,
};

/// Number of items that one transaction imports.
const CHUNK: usize = 10_000;

pub(crate) struct Engine {
    pub(crate) client: Client,
    embedded: Embedded,
}

impl Engine {
    pub(crate) async fn start() -> Result<Self, BenchError> {
        let embedded = Embedded::serve(TcpListener::bind("127.0.0.1:0")?, None);
        let embedded = embedded.map_err(cannot("start the embedded DynamoDB"))?;
        let client = Client::new(&sdk_config(embedded.endpoint()).await);
        Ok(Self { client, embedded })
    }

    pub(crate) fn endpoint(&self) -> &str {
        self.embedded.endpoint()
    }

    /// Returns the number of requests so far, of all clients.
    pub(crate) fn requests(&self) -> u64 {
        self.embedded.requests()
    }

    /// Creates a versioned table, and stores its layout.
    pub(crate) async fn create(&self, name: &str, digits: VersionDigits) -> Result<Store, BenchError> {
        let created = table::create(&self.client, name).await;
        created.map_err(cannot("create the table"))?;
        let store = Store::new(self.client.clone(), name, digits);
        store.claim_layout().await.map_err(cannot("store the layout"))?;
        Ok(store)
    }

    /// Creates a history table, and stores in the layout of the store's table that its history is to be migrated.
    pub(crate) async fn add_history(&self, store: Store, name: String) -> Result<(), BenchError> {
        let created = table::create_history(&self.client, &name).await;
        created.map_err(cannot("create the history table"))?;
        let is_migrating = true;
        let store = store.with_history(Some(HistoryTable { name, is_migrating }));
        store.claim_layout().await.map_err(cannot("store the layout"))?;
        Ok(())
    }

    /// Creates a table with one key attribute, as programs without versions have it.
    pub(crate) async fn create_plain(&self, name: &str, key: &str) -> Result<(), BenchError> {
        let schema = KeySchemaElement::builder()
            .attribute_name(key)
            .key_type(KeyType::Hash)
            .build();
        let attribute = AttributeDefinition::builder()
            .attribute_name(key)
            .attribute_type(ScalarAttributeType::S)
            .build();
        let request = self
            .client
            .create_table()
            .table_name(name)
            .billing_mode(BillingMode::PayPerRequest)
            .key_schema(schema.map_err(cannot("build a request"))?)
            .attribute_definitions(attribute.map_err(cannot("build a request"))?);
        request.send().await.map_err(cannot("create the table"))?;
        Ok(())
    }

    /// Stores items without requests and without stream records.
    pub(crate) async fn import(&self, table: &str, items: impl Iterator<Item = SeedItem>) -> Result<(), BenchError> {
        let mut items = items.map(converted).peekable();
        while items.peek().is_some() {
            let chunk = items.by_ref().take(CHUNK).collect();
            let imported = self.embedded.import(table.to_owned(), chunk).await;
            imported.map_err(cannot("import items"))?;
        }
        Ok(())
    }
}

/// Converts an item of texts and numbers.
fn converted(item: SeedItem) -> HashMap<String, dynoxide::AttributeValue> {
    let attributes = item.into_iter().filter_map(|(name, value)| {
        let value = match value {
            AttributeValue::S(text) => dynoxide::AttributeValue::S(text),
            AttributeValue::N(number) => dynoxide::AttributeValue::N(number),
            _ => return None,
        };
        Some((name, value))
    });
    attributes.collect()
}
