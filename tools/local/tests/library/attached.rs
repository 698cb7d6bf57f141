//! History of an attached table on a real table.

mod as_of;
mod operations;
mod properties;
mod records;

use std::{sync::atomic::AtomicU64, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, ScalarAttributeType},
};
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
use stream_fn::HistoryWriter;
use testkit::database::Database;

const HISTORY: &str = "Orders-history";
const LABEL: &str = "2026-11-22T06:24:48.123";

/// Item: its state, and the value of an ignored attribute.
type State = Option<(u8, u32)>;

/// Stream record, with what it means.
#[derive(Debug, Clone)]
struct Change {
    item: usize,
    number: String,
    old: State,
    new: State,
    is_ttl: bool,
}

/// A version in a form to compare: `RequestId`, the state, and the marks.
type Version = (String, Option<u8>, &'static str);

struct Orders {
    database: Database,
    /// Separates the items of test cases in one table.
    case: AtomicU64,
}

impl Orders {
    async fn new() -> Self {
        let database = Database::start().await;
        let keys = [("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)];
        database.table(HISTORY, &keys).await;
        Self {
            database,
            case: AtomicU64::new(1),
        }
    }

    fn table(&self) -> AttachedTable {
        let definition = json!({
            "TableName": "Orders", "HistoryTable": self.database.table_name(HISTORY),
            "KeySchema": [
                {"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": "customer", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
            ],
            "VersionAttribute": "rev", "IgnoreAttributes": ["seen", "other"],
        });
        AttachedTable::parse(&definition.to_string()).unwrap()
    }

    fn writer(&self, client: Client) -> HistoryWriter {
        HistoryWriter::attached(client, self.table())
    }

    fn store(&self) -> Store {
        Store::attached(self.database.client.clone(), self.table())
    }

    fn entity(&self, keys: &Value) -> EntityId {
        key::of_item(&self.table(), &serde_json::from_value(keys.clone()).unwrap()).unwrap()
    }

    /// Returns the stored items of an entity, in the order of their sort keys.
    async fn stored(&self, entity: &EntityId) -> Vec<Value> {
        let client = &self.database.client;
        let request = client
            .query()
            .table_name(self.database.table_name(HISTORY))
            .key_condition_expression("PK = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(entity.as_str().to_owned()))
            .consistent_read(true);
        let items = request
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<_>, _>>()
            .await;
        let items = items.unwrap().into_iter();
        items
            .map(|item| serde_json::to_value(Item::from(item)).unwrap())
            .collect()
    }

    /// Deletes a version, as DynamoDB deletes an expired one.
    async fn delete(&self, entity: &EntityId, number: u64) {
        let key = [("PK", entity.as_str().to_owned()), ("SK", format!("v{number:010}"))];
        let key = key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
        let client = &self.database.client;
        let request = client.delete_item().table_name(self.database.table_name(HISTORY));
        request.set_key(Some(key.into())).send().await.unwrap();
    }

    /// Returns the versions of an item of a case, which must be dense.
    async fn versions(&self, case: u64, item: usize) -> Vec<Version> {
        let stored = self.stored(&self.entity(&keys(case, item))).await;
        let is_version = |stored: &Value| stored["SK"]["S"].as_str().unwrap().starts_with('v');
        let stored: Vec<_> = stored.into_iter().filter(is_version).collect();
        let numbers: Vec<_> = stored
            .iter()
            .map(|stored| stored["SK"]["S"].as_str().unwrap())
            .collect();
        let dense: Vec<_> = (1..=stored.len()).map(|number| format!("v{number:010}")).collect();
        assert_eq!(numbers, dense);
        stored.iter().map(version).collect()
    }
}

fn keys(case: u64, item: usize) -> Value {
    json!({"customer": {"S": format!("c{case}")}, "no": {"N": item.to_string()}})
}

fn version(stored: &Value) -> Version {
    let is = |name: &str| stored[name]["BOOL"] == true;
    let image = &stored["Image"]["M"];
    let state = image["state"]["N"].as_str().map(|state| state.parse().unwrap());
    assert_eq!(state.is_none(), is("Deleted"), "{stored}");
    assert_eq!(stored["Stream"]["S"], LABEL);
    let mark = match (is("Baseline"), is("Missed"), is("Late"), stored["Reason"]["S"].as_str()) {
        (false, false, false, None) => "",
        (false, false, false, Some("TTL")) => "TTL",
        (true, false, false, None) => "Baseline",
        (false, true, false, None) => "Missed",
        (false, false, true, _) => "Late",
        other => panic!("{other:?}"),
    };
    (stored["RequestId"]["S"].as_str().unwrap().to_owned(), state, mark)
}

fn image(case: u64, item: usize, (state, seen): (u8, u32)) -> Value {
    let mut image = keys(case, item);
    (image["state"], image["seen"]) = (json!({"N": state.to_string()}), json!({"N": seen.to_string()}));
    // Attributes of the user with our names.
    for name in ["PK", "SK", "RequestId", "Image", "Stream", "Version"] {
        image[name] = json!({"S": "user"});
    }
    (image["TTL"], image["Deleted"]) = (json!({"N": "1"}), json!({"BOOL": true}));
    image
}

/// Returns a stream record in JSON.
fn record(case: u64, change: &Change) -> Value {
    let event = match (change.old, change.new) {
        (None, _) => "INSERT",
        (_, Some(_)) => "MODIFY",
        (_, None) => "REMOVE",
    };
    let mut dynamodb = json!({
        "Keys": keys(case, change.item), "SequenceNumber": change.number, "StreamViewType": "NEW_AND_OLD_IMAGES",
        "ApproximateCreationDateTime": shared::clock::since_epoch().as_secs(),
    });
    for (name, state) in [("OldImage", change.old), ("NewImage", change.new)] {
        if let Some(state) = state {
            dynamodb[name] = image(case, change.item, state);
        }
    }
    let arn = format!("arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/{LABEL}");
    let mut record = json!({"eventName": event, "eventSourceARN": arn, "dynamodb": dynamodb});
    if change.is_ttl {
        record["userIdentity"] = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    }
    record
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(600))
}

fn batch(records: &[Value]) -> String {
    json!({"Records": records}).to_string()
}

/// Handles a batch, and returns the sequence numbers of the failed records.
async fn handle(writer: &HistoryWriter, records: &[Value]) -> Vec<String> {
    let response = writer.handle(&batch(records), "lambda", deadline()).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier.unwrap()).collect()
}
