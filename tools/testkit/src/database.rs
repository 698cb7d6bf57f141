//! Test tables as the library uses them, with the capacity that its requests consume.

use std::{collections::BTreeSet, sync::Mutex};

use aws_sdk_dynamodb::{
    Client, Error,
    operation::create_table::CreateTableOutput,
    types::{
        AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
        StreamSpecification, StreamViewType,
    },
};
use serde_json::Value;
use shared::{
    clock::Clock,
    domain::{
        Item,
        compression::Compression,
        entity::EntityId,
        keys::{VersionDigits, sort_key_of},
        layout,
        number::Decimal,
    },
    dynamodb::{Store, client::capacity::Meter},
};

pub use crate::updates::{mode, put_version, update, version, write};
use crate::{
    endpoint::{Endpoint, Engine, has_own_history},
    requests::RequestCounter,
};

/// Keys of a versioned table.
pub const KEYS: [(&str, ScalarAttributeType); 2] = [("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)];

/// A DynamoDB, and a client of it whose requests are metered.
pub struct Database {
    pub client: Client,
    pub meter: Meter,
    pub requests: RequestCounter,
    pub endpoint: Endpoint,
    /// Tables with a history table.
    with_history: Mutex<BTreeSet<String>>,
}

impl Database {
    pub async fn start() -> Self {
        let endpoint = Endpoint::open().await;
        let meter = Meter::default();
        let requests = RequestCounter::default();
        let config = aws_sdk_dynamodb::config::Builder::from(&endpoint.config)
            .interceptor(meter.clone())
            .interceptor(requests.clone())
            .build();
        Self {
            client: Client::from_conf(config),
            meter,
            requests,
            endpoint,
            with_history: Mutex::default(),
        }
    }

    /// Creates a table with these keys, each a name and a type.
    pub async fn table(&self, name: &str, keys: &[(&str, ScalarAttributeType)]) {
        let table = self.endpoint.table(name);
        create_table(&self.client, &table, keys).await.unwrap();
        self.endpoint.wait_until_active(&table).await;
    }

    pub fn table_name(&self, name: &str) -> String {
        self.endpoint.table_name(name)
    }

    /// Creates a table with the keys `PK` and `SK`, and opens it.
    pub async fn store(&self, name: &str, digits: u8) -> Store {
        self.table(name, &KEYS).await;
        let digits = VersionDigits::new(digits).unwrap();
        let store = Store::new(self.client.clone(), self.table_name(name), digits);
        if !has_own_history() {
            return store;
        }
        let history = history_of(name);
        self.table(&history, &KEYS).await;
        self.with_history.lock().unwrap().insert(name.to_owned());
        store.with_history(Some(self.table_name(&history)))
    }

    /// Puts an item into a table, or into its history table.
    pub async fn put(&self, table: &str, item: Value) {
        let is_versioned = self.with_history.lock().unwrap().contains(table);
        let table = self.table_name(table);
        match is_versioned {
            true => put_item(&self.client, &table, item).await,
            false => put_into(&self.client, &table, item).await,
        }
    }

    /// Returns the operation and the consumed units of each request since the last call.
    pub fn consumed(&self) -> Vec<(&'static str, f64)> {
        // A transaction consumes twice the units, but not in DynamoDB Local.
        let once = self.endpoint.engine == Engine::DynamodbLocal;
        let times = |operation: &str| {
            if once && operation.starts_with("Transact") {
                2.0
            } else {
                1.0
            }
        };
        let charges = self.meter.take().into_iter();
        let charged = charges.map(|charge| (charge.operation, charge.units * times(charge.operation)));
        charged.collect()
    }

    /// Returns the sum of the consumed units since the last call.
    pub fn units(&self) -> f64 {
        self.consumed().iter().map(|(_, units)| units).sum()
    }

    /// Returns the length of the longest attribute name that the engine accepts.
    pub fn longest_name(&self, test: &str) -> usize {
        if self.endpoint.differs(test, &["long-name"]) {
            50_000
        } else {
            65_535
        }
    }
}

/// Creates a table with these keys, each a name and a type, and billed by request.
pub async fn create_table(client: &Client, table: &str, keys: &[(&str, ScalarAttributeType)]) -> Result<(), Error> {
    create(client, table, keys, None).await.map(drop)
}

/// Creates a table as [`create_table`] does, with a stream, and returns the ARN of the stream.
pub async fn create_streamed(
    client: &Client,
    table: &str,
    keys: &[(&str, ScalarAttributeType)],
    view: StreamViewType,
) -> Result<String, Error> {
    let created = create(client, table, keys, Some(view)).await?;
    let description = created.table_description.unwrap();
    Ok(description.latest_stream_arn.unwrap())
}

async fn create(
    client: &Client,
    table: &str,
    keys: &[(&str, ScalarAttributeType)],
    view: Option<StreamViewType>,
) -> Result<CreateTableOutput, Error> {
    let stream = view.map(|view| {
        let stream = StreamSpecification::builder().stream_enabled(true);
        stream.stream_view_type(view).build().unwrap()
    });
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_stream_specification(stream);
    for ((key, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let definition = AttributeDefinition::builder()
            .attribute_name(*key)
            .attribute_type(kind.clone());
        let element = KeySchemaElement::builder().attribute_name(*key).key_type(role);
        request = request
            .attribute_definitions(definition.build()?)
            .key_schema(element.build()?);
    }
    Ok(request.send().await?)
}

/// Returns the name of the history table of a table.
pub fn history_of(table: &str) -> String {
    format!("{table}-history")
}

/// Returns the name of the table, or of its history table, that has the item with this sort key.
fn table_of(table: &str, sort_key: &str) -> (String, bool) {
    let of_history = |digits| layout::is_history(sort_key, VersionDigits::new(digits).unwrap());
    match has_own_history() && (1..=20).any(of_history) {
        true => (history_of(table), true),
        false => (table.to_owned(), false),
    }
}

/// Puts an item into a versioned table, or into its history table.
pub async fn put_item(client: &Client, table: &str, item: Value) {
    let mut item = serde_json::from_value::<Item>(item).unwrap();
    let sort_key = sort_key_of(&item).unwrap_or_default().to_owned();
    let (table, is_history) = table_of(table, &sort_key);
    if is_history && sort_key.starts_with('v') {
        item = layout::stored(&item, Compression::None).remove(0);
    }
    put_into(client, &table, serde_json::to_value(item).unwrap()).await;
}

/// Puts an item into a table, as it is.
pub async fn put_into(client: &Client, table: &str, item: Value) {
    let item = serde_json::from_value::<Item>(item).unwrap();
    let request = client.put_item().table_name(table).set_item(Some(item.into()));
    request.send().await.unwrap();
}

/// Returns the items of a table, as they are.
pub async fn items(client: &Client, table: &str) -> Vec<Value> {
    let scan = client.scan().table_name(table).consistent_read(true);
    let items = scan
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await;
    let items = items.unwrap().into_iter().map(Item::from);
    items.map(|item| serde_json::to_value(item).unwrap()).collect()
}

/// Deletes an item of a versioned table, or of its history table.
pub async fn delete_item(client: &Client, table: &str, pk: &str, sk: &str) {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let request = client.delete_item().table_name(table_of(table, sk).0);
    request.key("PK", key(pk)).key("SK", key(sk)).send().await.unwrap();
}

pub fn entity(id: &str) -> EntityId {
    EntityId::new(id).unwrap()
}

/// Returns the store with a clock that shows this number of seconds since 1970.
pub fn at_second(store: &Store, second: u64) -> Store {
    let clock = Clock::new(move || std::time::Duration::from_secs(second));
    store.clone().with_clock(clock)
}

/// Gives each number its canonical form: engines return numbers in different forms.
fn canonical(value: &mut Value) {
    let of = |value: &mut Value| {
        let text = value.as_str().unwrap();
        // All other numbers are canonical.
        if text.contains(['.', 'e', 'E']) || text.ends_with('0') {
            *value = Decimal::parse(text).unwrap().canonical().into();
        }
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("N", Value::String(_)) => of(value),
                    ("NS", Value::Array(numbers)) => numbers.iter_mut().for_each(of),
                    _ => canonical(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(canonical),
        _ => {}
    }
}

/// Returns the items of a table in DynamoDB JSON, sorted, with canonical numbers.
pub async fn rows(database: &Database, table: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let is_versioned = database.with_history.lock().unwrap().contains(table);
    let tables = is_versioned.then(|| history_of(table)).into_iter();
    for table in tables.chain([table.to_owned()]) {
        items.extend(self::items(&database.client, &database.table_name(&table)).await);
    }
    let whole = |item| layout::version_item(serde_json::from_value(item).unwrap());
    let items = items.into_iter().map(|item| serde_json::to_value(whole(item)).unwrap());
    sorted(items.collect())
}

/// Sorts items as [`rows`] does.
pub fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(canonical);
    rows.iter_mut().for_each(Value::sort_all_objects);
    rows.sort_by_key(Value::to_string);
    rows
}
