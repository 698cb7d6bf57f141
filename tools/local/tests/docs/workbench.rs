//! `docs/version-control.nosql-workbench.json`: the table as a model for `NoSQL` Workbench has the items that the local stack writes
//! for the updates of a factory, in the facet of their kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use aws_sdk_dynamodb::Client;
use local::{dynamodb::sdk_config, stack::Stack, template::Template};
use patterns::time_series::{PutOutcome, StateTime, TimeSeries};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, entity::EntityId};
use testkit::{
    stack::{invoke, options, settled},
    updates::{Change, metadata},
};

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

/// Facets of the model, with the number of their items.
const FACETS: [(&str, usize); 4] = [("Latest", 3), ("History", 10), ("Metadata", 3), ("States by time", 10)];

fn facet_of(sort_key: &str) -> &'static str {
    match sort_key {
        "v0" => "Latest",
        "Metadata" => "Metadata",
        version if version.starts_with('v') => "History",
        _ => "States by time",
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
        let facts = BTreeMap::from([("Name".to_owned(), text(name)), ("FactoryId".to_owned(), text(factory))]);
        metadata::update(&stack.store, &entity, &facts).await.unwrap();
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

/// Returns the names and types of the attributes outside the key.
fn attributes(item: &Value) -> impl Iterator<Item = (&String, &String)> {
    let attributes = item.as_object().into_iter().flatten();
    let attributes = attributes.filter(|(name, _)| *name != "PK" && *name != "SK");
    attributes.filter_map(|(name, value)| Some((name, value.as_object()?.keys().next()?)))
}

#[tokio::test]
async fn the_model_contains_the_items_that_the_stack_writes() {
    let items = table().await;
    let stored: Value = serde_json::from_slice(&fs::read(root().join(MODEL)).unwrap()).unwrap();
    let mut generated = stored.clone();
    let model = &mut generated["DataModel"][0];
    let types: BTreeSet<_> = items.iter().flat_map(attributes).collect();
    let of_type = |(name, kind): &(&String, &String)| json!({"AttributeName": name, "AttributeType": kind});
    model["NonKeyAttributes"] = types.iter().map(of_type).collect();
    let facets = model["TableFacets"].as_array_mut().unwrap();
    for (facet, (name, count)) in facets.iter_mut().zip(FACETS) {
        let is_member = |item: &&Value| facet_of(item["SK"]["S"].as_str().unwrap()) == name;
        let members: Vec<_> = items.iter().filter(is_member).collect();
        assert_eq!((&facet["FacetName"], members.len()), (&json!(name), count));
        let names: BTreeSet<_> = members
            .iter()
            .flat_map(|item| attributes(item))
            .map(|(name, _)| name)
            .collect();
        facet["NonKeyAttributes"] = json!(names);
        facet["TableData"] = json!(members);
    }
    if generated != stored {
        let path = format!("{}/workbench.json", env!("CARGO_TARGET_TMPDIR"));
        fs::write(&path, format!("{generated:#}\n")).unwrap();
        panic!("{MODEL} is out of date: see {path}");
    }
}
