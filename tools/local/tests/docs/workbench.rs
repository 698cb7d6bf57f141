//! `docs/version-control.nosql-workbench.json`: the table as a model for `NoSQL` Workbench, with the items that the local stack
//! writes for the updates of a factory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use aws_sdk_dynamodb::Client;
use local::{dynamodb::sdk_config, stack::Stack, template::Template};
use operations::metadata;
use patterns::time_series::{PutOutcome, StateTime, TimeSeries};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, change::Change, entity::EntityId};
use testkit::stack::{invoke, options, settled};

use crate::root;

const MODEL: &str = "docs/version-control.nosql-workbench.json";

/// An entity, its name and factory, and its states in their order, each with its time.
type Equipment = (&'static str, [&'static str; 2], &'static [(&'static str, &'static str)]);

const FACTORY: [Equipment; 3] = [
    (
        "Equipment#1",
        ["Equipment-001", "F#88546"],
        &[
            ("2023-10-03T12:32:00", "NORMAL"),
            ("2023-11-05T12:12:00", "WARNING1"),
            ("2023-11-06T12:05:00", "NORMAL"),
        ],
    ),
    (
        "Equipment#6",
        ["Equipment-006", "F#56658"],
        &[("2024-03-07T22:09:29", "ERROR"), ("2024-03-30T22:09:29", "WARNING2")],
    ),
    (
        "Equipment#118",
        ["Equipment-118", "F#88985"],
        &[
            ("2023-12-15T08:30:00", "NORMAL"),
            ("2023-12-16T09:45:00", "WARNING1"),
            ("2023-12-17T10:20:00", "NORMAL"),
            ("2023-12-18T11:05:00", "ERROR"),
            ("2023-12-19T12:15:00", "WARNING2"),
        ],
    ),
];

const FACETS: [(&str, &str); 4] = [
    ("Latest", "v0"),
    ("History", "v1 … vN"),
    ("Metadata", "Metadata"),
    ("States by time", "an ISO 8601 time"),
];

fn facet(sk: &str) -> &'static str {
    match sk {
        "v0" => FACETS[0].0,
        "Metadata" => FACETS[2].0,
        version if version.starts_with('v') => FACETS[1].0,
        _ => FACETS[3].0,
    }
}

/// Sends the factory's updates to a new stack, and returns the items of its table.
async fn table() -> Vec<Value> {
    let template = Template::read(&root().join("template.yaml"), &[]).unwrap();
    let stack = Stack::start(options(template, Some(env!("CARGO_BIN_EXE_local"))));
    let stack = stack.await.unwrap();
    let states = TimeSeries::new(Client::new(&sdk_config(stack.dynamodb_endpoint()).await), &stack.table);
    for (id, [name, factory], updates) in FACTORY {
        let entity = EntityId::new(id).unwrap();
        let text = |text: &str| Change::Set(AttributeValue::S(text.to_owned()));
        let metadata = BTreeMap::from([("Name".to_owned(), text(name)), ("FactoryId".to_owned(), text(factory))]);
        metadata::update(&stack.store, &entity, &metadata).await.unwrap();
        for (index, (time, state)) in updates.iter().enumerate() {
            let request = format!("{}-{}", name.to_lowercase(), index + 1);
            let update = json!({"ID": id, "Time": time, "State": state, "RequestId": request});
            assert_eq!(invoke(&stack, "writer-fn", &update).await["Outcome"], "Written");
            let state = serde_json::from_value(json!({"State": {"S": state}})).unwrap();
            let put = states
                .put(&entity, &StateTime::parse(time).unwrap(), state, false)
                .await;
            assert_eq!(put, Ok(PutOutcome::Put));
        }
    }
    let items = settled(&stack).await.into_iter().filter(|(pk, _)| pk != "#vzero");
    let items = items.flat_map(|(_, collection)| collection.items().to_vec());
    items
        .map(|(_, item)| reproducible(serde_json::to_value(item).unwrap()))
        .collect()
}

/// Sorts an item, and replaces what depends on the clock: its times with one shortly after the update's own, and in recent requests
/// with an example, and the token of the incarnation.
fn reproducible(mut item: Value) -> Value {
    let requests = item.pointer_mut("/RecentRequests/M").and_then(Value::as_object_mut);
    for request in requests.into_iter().flat_map(|requests| requests.values_mut()) {
        let entry = request["N"].as_str().unwrap();
        let (version, digits) = entry.split_once('.').unwrap();
        request["N"] = json!(format!("{version}.{}85429", &digits[..5]));
    }
    if item["V0Id"].is_object() {
        item["V0Id"] = json!({"S": "q83H"});
    } else {
        item.as_object_mut().unwrap().remove("V0Id");
    }
    if item["RecordedAt"].is_object() {
        let time = item["Time"]["S"].as_str().unwrap();
        item["RecordedAt"] = json!({"S": format!("{time}.250000000Z")});
    } else {
        item.as_object_mut().unwrap().remove("RecordedAt");
    }
    item.sort_all_objects();
    item
}

/// Returns the model in the form that `NoSQL` Workbench exports.
fn model(items: &[Value]) -> Value {
    let facets = FACETS.map(|(name, sort_key)| {
        let members: Vec<_> = items
            .iter()
            .filter(|item| facet(item["SK"]["S"].as_str().unwrap()) == name)
            .collect();
        let names: BTreeSet<_> = members
            .iter()
            .flat_map(|item| attributes(item))
            .map(|(name, _)| name)
            .collect();
        json!({
            "FacetName": name,
            "KeyAttributeAlias": {"PartitionKeyAlias": "entity", "SortKeyAlias": sort_key},
            "TableData": members,
            "NonKeyAttributes": names,
            "DataAccess": {"MySql": {}},
        })
    });
    let mut types: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, kind) in items.iter().flat_map(attributes) {
        assert_eq!(
            types.insert(name, kind).unwrap_or(kind),
            kind,
            "{name} has one type, as the model requires"
        );
    }
    let types = types
        .iter()
        .map(|(name, kind)| json!({"AttributeName": name, "AttributeType": kind}));
    json!({
        "ModelName": "Version control",
        "ModelMetadata": {
            "Author": "",
            "DateCreated": "Nov 21, 2026, 12:00 PM",
            "DateLastModified": "Nov 21, 2026, 12:00 PM",
            "Description": "Every version of each item, in one table: v0 is the latest, v1 to vN are its history, Metadata describes the entity \
                            itself, and the sort key of a state can be its time instead of a number.",
            "AWSService": "Amazon DynamoDB",
            "Version": "3.0",
        },
        "DataModel": [{
            "TableName": "VersionControl",
            "KeyAttributes": {
                "PartitionKey": {"AttributeName": "PK", "AttributeType": "S"},
                "SortKey": {"AttributeName": "SK", "AttributeType": "S"},
            },
            "NonKeyAttributes": types.collect::<Vec<_>>(),
            "TableFacets": facets,
            "GlobalSecondaryIndexes": [],
            "DataAccess": {"MySql": {}},
            "BillingMode": "PAY_PER_REQUEST",
        }],
    })
}

/// Returns the names and types of the attributes outside the key.
fn attributes(item: &Value) -> impl Iterator<Item = (&String, &String)> {
    let attributes = item.as_object().into_iter().flatten();
    let attributes = attributes.filter(|(name, _)| *name != "PK" && *name != "SK");
    attributes.filter_map(|(name, value)| Some((name, value.as_object()?.keys().next()?)))
}

#[tokio::test]
async fn the_model_contains_the_items_that_the_stack_writes() {
    let generated = model(&table().await);
    let stored = fs::read(root().join(MODEL)).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap_or_default();
    if generated != stored {
        let path = format!("{}/workbench.json", env!("CARGO_TARGET_TMPDIR"));
        fs::write(&path, format!("{generated:#}\n")).unwrap();
        panic!("{MODEL} is out of date: see {path}");
    }
    let tables = generated["DataModel"].as_array().unwrap();
    let facets = tables[0]["TableFacets"].as_array().unwrap();
    let sizes: Vec<_> = facets
        .iter()
        .map(|facet| facet["TableData"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [3, 10, 3, 10]);
}
