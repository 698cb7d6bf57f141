//! Test tables as the library uses them, with the capacity that its requests consume.

use std::{collections::BTreeSet, sync::Mutex};

use aws_sdk_dynamodb::{
    Client, Error,
    operation::create_table::builders::CreateTableFluentBuilder,
    types::{
        AttributeDefinition, AttributeValue, BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate,
        KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType, StreamSpecification,
        StreamViewType,
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
        time_index::{INDEX_NAME, INSERTED_AT, PARTITION, late_partitions, partitions},
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
        let is_halved =
            |operation: &str| self.endpoint.engine == Engine::DynamodbLocal && operation.starts_with("Transact");
        let charges = self.meter.take().into_iter();
        let units = |operation, units| if is_halved(operation) { units * 2.0 } else { units };
        let charged = charges.map(|charge| (charge.operation, units(charge.operation, charge.units)));
        charged.collect()
    }

    /// Returns the sum of the consumed units since the last call.
    pub fn units(&self) -> f64 {
        self.consumed().iter().map(|(_, units)| units).sum()
    }

    /// Returns the length of the longest attribute name that the engine accepts.
    pub fn longest_name(&self) -> usize {
        let is_shorter = self.endpoint.differs(&["long-name"]);
        if is_shorter { 50_000 } else { 65_535 }
    }
}

/// Creates a table with these keys, each a name and a type, and billed by request.
pub async fn create_table(client: &Client, table: &str, keys: &[(&str, ScalarAttributeType)]) -> Result<(), Error> {
    create(client, table, keys).send().await?;
    Ok(())
}

/// Creates a table as [`create_table`] does, with a stream, and returns the ARN of the stream.
pub async fn create_streamed(
    client: &Client,
    table: &str,
    keys: &[(&str, ScalarAttributeType)],
    view: StreamViewType,
) -> Result<String, Error> {
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(view);
    let request = create(client, table, keys).stream_specification(stream.build()?);
    let created = request.send().await?.table_description;
    Ok(created.and_then(|table| table.latest_stream_arn).unwrap())
}

fn create(client: &Client, table: &str, keys: &[(&str, ScalarAttributeType)]) -> CreateTableFluentBuilder {
    let (definitions, schema) = schema(keys);
    let request = client.create_table().table_name(table);
    let request = request.billing_mode(BillingMode::PayPerRequest);
    request
        .set_attribute_definitions(Some(definitions))
        .set_key_schema(Some(schema))
}

fn schema(keys: &[(&str, ScalarAttributeType)]) -> (Vec<AttributeDefinition>, Vec<KeySchemaElement>) {
    let keys = keys.iter().zip([KeyType::Hash, KeyType::Range]);
    let elements = keys.map(|((name, kind), role)| {
        let definition = AttributeDefinition::builder().attribute_name(*name);
        let element = KeySchemaElement::builder().attribute_name(*name).key_type(role);
        (
            definition.attribute_type(kind.clone()).build().unwrap(),
            element.build().unwrap(),
        )
    });
    elements.unzip()
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
    let mut found = scan.into_paginator().items().send();
    let mut items = Vec::new();
    while let Some(item) = found.next().await {
        items.push(serde_json::to_value(Item::from(item.unwrap())).unwrap());
    }
    items
}

/// Adds an index with these keys to a table.
pub async fn add_index(client: &Client, table: &str, name: &str, keys: &[(&str, ScalarAttributeType)]) {
    let (definitions, schema) = schema(keys);
    let projection = Projection::builder().projection_type(ProjectionType::KeysOnly);
    let index = CreateGlobalSecondaryIndexAction::builder().index_name(name);
    let index = index.set_key_schema(Some(schema)).projection(projection.build());
    let created = GlobalSecondaryIndexUpdate::builder().create(index.build().unwrap());
    let request = client.update_table().table_name(table);
    let request = request.set_attribute_definitions(Some(definitions));
    request
        .global_secondary_index_updates(created.build())
        .send()
        .await
        .unwrap();
}

/// Adds the index by time to a table.
pub async fn add_time_index(client: &Client, table: &str) {
    let keys = [PARTITION, INSERTED_AT].map(|name| (name, ScalarAttributeType::S));
    add_index(client, table, INDEX_NAME, &keys).await;
}

/// Returns the keys in the index by time, sorted: sort key, entity, partition and time of insertion.
pub async fn index_entries(client: &Client, table: &str) -> Vec<[String; 4]> {
    let mut entries = Vec::new();
    for partition in partitions().chain(late_partitions()) {
        let query = client.query().table_name(table).index_name(INDEX_NAME).limit(1);
        let query = query.key_condition_expression(format!("{PARTITION} = :partition"));
        let query = query.expression_attribute_values(":partition", AttributeValue::S(partition));
        let mut found = query.into_paginator().items().send();
        while let Some(item) = found.next().await {
            let item = item.unwrap();
            assert_eq!(item.len(), 4, "only keys are projected");
            entries.push(["SK", "PK", PARTITION, INSERTED_AT].map(|name| item[name].as_s().unwrap().clone()));
        }
    }
    entries.sort_unstable();
    entries
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
    let history = is_versioned.then(|| history_of(table));
    for table in history.into_iter().chain([table.to_owned()]) {
        items.extend(self::items(&database.client, &database.table_name(&table)).await);
    }
    let whole = |item| serde_json::to_value(layout::version_item(serde_json::from_value(item).unwrap())).unwrap();
    sorted(items.into_iter().map(whole).collect())
}

/// Sorts items as [`rows`] does.
pub fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(canonical);
    rows.iter_mut().for_each(Value::sort_all_objects);
    rows.sort_by_key(Value::to_string);
    rows
}
