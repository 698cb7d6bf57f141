//! Tables of its own for each test.

use std::sync::{
    Arc,
    atomic::{self, AtomicU32},
};

use aws_sdk_dynamodb::{
    Client,
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::FinalizerInterceptorContextRef},
    error::BoxError,
    operation::update_item::UpdateItemError,
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use serde_json::Value;
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::VersionDigits,
        number::Decimal,
        update::{Ordering, Update},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::capacity::Meter,
        write::{WriteMode, WriteOptions, WriteOutcome},
    },
};

use crate::endpoint::{Endpoint, Engine};

pub(crate) struct Database {
    pub(crate) client: Client,
    pub(crate) meter: Meter,
    pub(crate) refusals: Refusals,
    pub(crate) endpoint: Endpoint,
}

/// Counts the updates whose condition failed. Each costs write units by the size of the item it met, and no answer says so.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<AtomicU32>);

impl Refusals {
    /// How many there were since it was asked last.
    pub(crate) fn take(&self) -> u32 {
        self.0.swap(0, atomic::Ordering::Relaxed)
    }
}

impl Intercept for Refusals {
    fn name(&self) -> &'static str {
        "refusals"
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let error = match context.output_or_error() {
            Some(Err(error)) => error.as_operation_error(),
            _ => None,
        };
        let error = error.and_then(|error| error.downcast_ref::<UpdateItemError>());
        if error.is_some_and(UpdateItemError::is_conditional_check_failed_exception) {
            self.0.fetch_add(1, atomic::Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Database {
    pub(crate) async fn start() -> Self {
        let endpoint = Endpoint::open().await;
        let meter = Meter::default();
        let refusals = Refusals::default();
        let config = aws_sdk_dynamodb::config::Builder::from(&endpoint.config)
            .interceptor(meter.clone())
            .interceptor(refusals.clone())
            .build();
        Self {
            client: Client::from_conf(config),
            meter,
            refusals,
            endpoint,
        }
    }

    /// Makes a table with these keys, each a name and a type.
    pub(crate) async fn table(&self, name: &str, keys: &[(&str, ScalarAttributeType)]) {
        let table = self.endpoint.table(name);
        let mut request = self
            .client
            .create_table()
            .table_name(&table)
            .billing_mode(BillingMode::PayPerRequest);
        for ((key, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
            let definition = AttributeDefinition::builder()
                .attribute_name(*key)
                .attribute_type(kind.clone());
            let element = KeySchemaElement::builder().attribute_name(*key).key_type(role);
            request = request
                .attribute_definitions(definition.build().unwrap())
                .key_schema(element.build().unwrap());
        }
        request.send().await.unwrap();
        self.endpoint.is_there(&table).await;
    }

    /// What the table that a test calls so is called.
    pub(crate) fn named(&self, name: &str) -> String {
        self.endpoint.named(name)
    }

    /// Makes a table of items under `PK` and `SK`, and opens it.
    pub(crate) async fn store(&self, name: &str, digits: u8) -> Store {
        self.table(name, &[("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)])
            .await;
        Store::new(
            self.client.clone(),
            self.named(name),
            VersionDigits::new(digits).unwrap(),
        )
    }

    pub(crate) async fn put(&self, table: &str, item: Value) {
        let item = serde_json::from_value::<Item>(item).unwrap();
        self.client
            .put_item()
            .table_name(self.named(table))
            .set_item(Some(item.into()))
            .send()
            .await
            .unwrap();
    }

    /// What the requests since the last call consumed: operation and units.
    pub(crate) fn consumed(&self) -> Vec<(&'static str, f64)> {
        // DynamoDB counts a transaction twice, and DynamoDB Local does not.
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

    /// The longest name of an attribute: here too long a name is an error of the service.
    pub(crate) fn longest_name(&self, what: &str) -> usize {
        if self.endpoint.differs(what, &["long-name"]) {
            50_000
        } else {
            65_535
        }
    }
}

pub(crate) fn entity(id: &str) -> EntityId {
    EntityId::new(id).unwrap()
}

pub(crate) fn mode(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        ..WriteOptions::default()
    }
}

/// Writes an update, and does the stream's part where that is the mode.
pub(crate) async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, String> {
    let outcome = store
        .write(update, options)
        .await
        .map_err(|error| shared::logging::chain(&error))?;
    if options.mode == WriteMode::Stream
        && let WriteOutcome::Written { .. } = outcome
    {
        record(store, &update.entity).await;
    }
    Ok(outcome)
}

/// What the stream does with the latest item.
pub(crate) async fn record(store: &Store, entity: &EntityId) {
    let image = store
        .get(entity, &store.digits().latest_key(), true)
        .await
        .unwrap()
        .unwrap();
    store
        .put_version(&VersionItem::from_image(image, store.digits()).unwrap())
        .await
        .unwrap();
}

/// An update by its JSON, with an id of its own.
pub(crate) fn update(json: Value) -> Update {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Update::parse(json, &format!("request-{id}"), Ordering::Arrival).unwrap()
}

/// Writes each number in one way: not every engine does, and none is the other's.
fn canonical(value: &mut Value) {
    let of = |value: &mut Value| {
        let text = value.as_str().unwrap();
        // Other whole numbers are written in one way already.
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

/// A table as its rows, each its attributes in DynamoDB JSON, sorted; numbers by their value.
pub(crate) async fn rows(database: &Database, table: &str) -> Vec<Value> {
    let scan = database
        .client
        .scan()
        .table_name(database.named(table))
        .consistent_read(true);
    let scanned = scan
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await;
    let items = scanned.unwrap().into_iter().map(Item::from);
    let mut rows: Vec<_> = items.map(|item| serde_json::to_value(&item).unwrap()).collect();
    rows.iter_mut().for_each(canonical);
    rows.iter_mut().for_each(Value::sort_all_objects);
    rows.sort_by_key(Value::to_string);
    rows
}

/// The expected rows of a table, in the same order.
pub(crate) fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.iter_mut().for_each(canonical);
    rows.iter_mut().for_each(Value::sort_all_objects);
    rows.sort_by_key(Value::to_string);
    rows
}
