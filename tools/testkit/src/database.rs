//! Test tables as the library uses them, with the capacity that its requests consume.

use std::sync::atomic::{self, AtomicU64};

use aws_sdk_dynamodb::{
    Client, Error,
    types::{AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use serde_json::Value;
use shared::{
    clock::Clock,
    domain::{
        Item,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        number::Decimal,
        update::{Ordering, Update},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::capacity::Meter,
        put::put_version::PutOutcome,
        write::{WriteMode, WriteOptions, WriteOutcome},
    },
};

use crate::{
    endpoint::{Endpoint, Engine},
    requests::RequestCounter,
};

/// A DynamoDB, and a client of it whose requests are metered.
pub struct Database {
    pub client: Client,
    pub meter: Meter,
    pub requests: RequestCounter,
    pub endpoint: Endpoint,
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
        self.table(name, &[("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)])
            .await;
        Store::new(
            self.client.clone(),
            self.table_name(name),
            VersionDigits::new(digits).unwrap(),
        )
    }

    pub async fn put(&self, table: &str, item: Value) {
        put_item(&self.client, &self.table_name(table), item).await;
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
        self.meter
            .take()
            .into_iter()
            .map(|charge| (charge.operation, charge.units * times(charge.operation)))
            .collect()
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
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest);
    for ((key, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let definition = AttributeDefinition::builder()
            .attribute_name(*key)
            .attribute_type(kind.clone());
        let element = KeySchemaElement::builder().attribute_name(*key).key_type(role);
        request = request
            .attribute_definitions(definition.build()?)
            .key_schema(element.build()?);
    }
    request.send().await?;
    Ok(())
}

pub async fn put_item(client: &Client, table: &str, item: Value) {
    let item = serde_json::from_value::<Item>(item).unwrap();
    let request = client.put_item().table_name(table).set_item(Some(item.into()));
    request.send().await.unwrap();
}

pub async fn delete_item(client: &Client, table: &str, pk: &str, sk: &str) {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let request = client.delete_item().table_name(table);
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

pub fn mode(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        ..WriteOptions::default()
    }
}

/// Writes an update. In the mode `stream`, it also puts the version item, as stream-fn does.
pub async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, String> {
    let outcome = store
        .write(update, options)
        .await
        .map_err(|error| shared::logging::chain(&error))?;
    if options.mode == WriteMode::Stream
        && let WriteOutcome::Written { .. } = outcome
    {
        put_version(store, &update.entity).await;
    }
    Ok(outcome)
}

/// Puts the version item of the latest item, as stream-fn does.
pub async fn put_version(store: &Store, entity: &EntityId) -> PutOutcome {
    let latest = store.get(entity, LATEST_KEY, true).await;
    let version = VersionItem::from_image(latest.unwrap().unwrap(), store.digits()).unwrap();
    store.put_version(&version).await.unwrap()
}

pub fn update(json: Value) -> Update {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, atomic::Ordering::Relaxed);
    Update::parse(json, &format!("request-{id}"), Ordering::Arrival).unwrap()
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
    let scan = database.client.scan().table_name(database.table_name(table));
    let pages = scan.consistent_read(true).into_paginator().items().send();
    let items = pages.collect::<Result<Vec<_>, _>>().await.unwrap().into_iter();
    sorted(
        items
            .map(|item| serde_json::to_value(Item::from(item)).unwrap())
            .collect(),
    )
}

/// Sorts items as [`rows`] does.
pub fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(canonical);
    rows.iter_mut().for_each(Value::sort_all_objects);
    rows.sort_by_key(Value::to_string);
    rows
}
