//! A table that other programs write, with its history: stream-fn's own code on its stream, and the command `vzero` on it.
//!
//! A test changes items with the client, and decides which stream records are delivered, when, and in which order.

use std::{ffi::OsString, ops::Deref, time::Duration};

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType, StreamViewType};
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::{
        Item,
        attached::{AttachedTable, key},
        entity::EntityId,
    },
    dynamodb::Store,
};
use stream_fn::{HistoryWriter, Purpose};

use crate::{
    database,
    table::{self, Record},
    vzero::Vzero,
};
use attach::selection::Selection;
use operations::read::history::{History, HistoryQuery};

pub(crate) const KEYS: [(&str, ScalarAttributeType); 2] =
    [("customer", ScalarAttributeType::S), ("no", ScalarAttributeType::N)];

/// Orders with the keys `customer` (S) and `no` (N), the version attribute `rev`, and the ignored attribute `seen`.
pub struct Orders {
    vzero: Vzero,
    /// Name of the table.
    pub table: String,
    /// Name of the history table.
    pub history: String,
    definition: AttachedTable,
}

impl Deref for Orders {
    type Target = Vzero;

    fn deref(&self) -> &Vzero {
        &self.vzero
    }
}

impl Orders {
    /// Creates both tables. `vzero` is the path of the command: `env!("CARGO_BIN_EXE_vzero")`.
    pub fn new(vzero: &'static str) -> Self {
        Self::with(vzero, &json!({}))
    }

    /// Creates both tables, with more members in the definition, such as a filter.
    pub fn with(vzero: &'static str, more: &Value) -> Self {
        let (mut table, mut history) = (String::new(), String::new());
        let vzero = Vzero::new(vzero, async |client, endpoint| {
            (table, history) = (endpoint.table("Orders"), endpoint.table("Orders-log"));
            table::create_history(client, &history).await.unwrap();
            database::create_streamed(client, &table, &KEYS, StreamViewType::NewAndOldImages).await
        });
        let json = json!({
            "TableName": table, "HistoryTable": history, "VersionAttribute": "rev", "IgnoreAttributes": ["seen"],
            "KeySchema": [
                {"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": "customer", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
            ],
        });
        let definition = attach::parse(&merged(json, more).to_string()).unwrap();
        // As stream-fn does when it starts.
        let store = Store::attached(vzero.client.clone(), definition.clone());
        vzero.block_on(store.put_definition()).unwrap();
        Self {
            definition,
            vzero: vzero.with_options(["--table", &table, "--history-table", &history].map(OsString::from)),
            table,
            history,
        }
    }

    /// Returns the store that the command uses.
    pub fn store(&self) -> Store {
        Store::attached(self.client.clone(), self.definition.clone())
    }

    /// Returns stream-fn, as an invocation runs it.
    pub fn writer(&self) -> HistoryWriter {
        HistoryWriter::from_store(self.store(), Purpose::Invocation)
    }

    /// Puts the order with this number, with these other attributes in DynamoDB JSON.
    pub fn put(&self, no: u64, attributes: &Value) {
        let item = merged(key_attributes(no), attributes);
        self.block_on(database::put_into(&self.client, &self.table, item));
    }

    /// Deletes an order.
    pub fn delete(&self, no: u64) {
        let request = self.client.delete_item().table_name(&self.table);
        self.block_on(request.set_key(Some(key_item(no).into())).send())
            .unwrap();
    }

    /// Returns an order in DynamoDB JSON without its keys, null if it does not exist.
    pub fn item(&self, no: u64) -> Value {
        let request = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = self
            .block_on(request.set_key(Some(key_item(no).into())).send())
            .unwrap();
        let Some(mut item) = found.item else { return Value::Null };
        item.retain(|name, _| !["customer", "no"].contains(&name.as_str()));
        serde_json::to_value(Item::from(item)).unwrap()
    }

    /// Returns the key of an order as a user writes it.
    pub fn key(no: u64) -> String {
        json!({"customer": "c", "no": no}).to_string()
    }

    /// Returns the partition key of the history of an order.
    pub fn entity(&self, no: u64) -> EntityId {
        key::parse(&self.definition, &Self::key(no)).unwrap()
    }

    /// Returns the stored items of an order's history.
    pub fn stored(&self, no: u64) -> Vec<Value> {
        let query = self.client.query().table_name(&self.history).consistent_read(true);
        let id = AttributeValue::S(self.entity(no).as_str().to_owned());
        let query = query
            .key_condition_expression("PK = :id")
            .expression_attribute_values(":id", id);
        let found = query.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
        let found = self.block_on(found).unwrap().into_iter();
        found
            .map(|item| serde_json::to_value(Item::from(item)).unwrap())
            .collect()
    }

    /// Returns the versions of an order: the sort key without zeros, the mark, and the attribute `state`.
    pub fn versions(&self, no: u64) -> Vec<String> {
        let versions = self.stored(no).into_iter().filter(|item| item.get("Image").is_some());
        let text = |item: Value| {
            let number: u64 = item["SK"]["S"].as_str().unwrap()[1..].parse().unwrap();
            let marks = ["Baseline", "Missed", "Late", "Deleted", "TTL", "Pinned", "Omitted"];
            let marks: Vec<_> = marks.into_iter().filter(|mark| item.get(*mark).is_some()).collect();
            let state = item["Image"]["M"]["state"]["S"].as_str().unwrap_or("-").to_owned();
            [&[format!("v{number}").as_str(), state.as_str()][..], &marks]
                .concat()
                .join(" ")
        };
        versions.map(text).collect()
    }

    /// Returns all stream records that the mapping delivers, oldest first.
    pub fn records(&self) -> Vec<Record> {
        let selection = Selection::new(&self.definition);
        self.selected(|record| selection.has_record(record))
    }

    /// Invokes stream-fn with these records. None may fail.
    pub fn deliver(&self, records: &[Record]) {
        self.deliver_to(self.store(), records);
    }

    /// Invokes stream-fn with another store, such as one with another clock.
    pub fn deliver_to(&self, store: Store, records: &[Record]) {
        let records: Vec<_> = records.iter().map(Record::json).collect();
        let event = json!({"Records": records}).to_string();
        let writer = HistoryWriter::from_store(store, Purpose::Invocation);
        let handled = writer.handle(&event, "lambda", Deadline::after(Duration::from_secs(600)));
        let response = self.block_on(handled).unwrap();
        assert!(response.batch_item_failures.is_empty(), "{response:?}");
    }

    /// Invokes stream-fn with all records so far.
    pub fn deliver_all(&self) {
        self.deliver(&self.records());
    }
}

/// Returns the states of the item with these keys, oldest first, `None` for a deletion. Its versions are dense, and none is marked.
pub async fn states(store: &Store, keys: &Item) -> Vec<Option<Item>> {
    let entity = key::of_item(store.attached_table().unwrap(), keys).unwrap();
    let query = HistoryQuery {
        oldest_first: true,
        consistent: true,
        ..HistoryQuery::default()
    };
    let Some(history) = History::read(store, &entity, query).await.unwrap() else {
        return Vec::new();
    };
    let views = history.collect().await.unwrap();
    let marks = ["Late", "Missed", "Baseline"];
    (1..)
        .zip(views)
        .map(|(number, view)| {
            assert_eq!(view.version.get(), number);
            let marked = view.record_json().keys().any(|name| marks.contains(&name.as_str()));
            assert!(!marked, "version {number}");
            (!view.deleted).then_some(view.attributes)
        })
        .collect()
}

/// Adds the members of another object.
fn merged(mut object: Value, more: &Value) -> Value {
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object
}

fn key_item(no: u64) -> Item {
    serde_json::from_value(key_attributes(no)).unwrap()
}

/// Returns the key attributes of an order in DynamoDB JSON.
pub fn key_attributes(no: u64) -> Value {
    json!({"customer": {"S": "c"}, "no": {"N": no.to_string()}})
}

/// Returns the attribute `state`, a text, in DynamoDB JSON.
pub fn state(state: &str) -> Value {
    json!({"state": {"S": state}})
}
