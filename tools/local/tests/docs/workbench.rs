//! `docs/version-control.nosql-workbench.json`: the table as a model for `NoSQL` Workbench has the items that the local stack writes
//! for the updates of its versions, in the facet of their kind.

use std::{collections::BTreeSet, fs};

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

/// Sends the updates of which a model contains the versions to a new stack, and returns the items of its table.
async fn table(model: &Value) -> Vec<Value> {
    let template = Template::read(&root().join("template.yaml"), &[]).unwrap();
    let stack = Stack::start(options(template, Some(env!("CARGO_BIN_EXE_local"))));
    let stack = stack.await.unwrap();
    let states = TimeSeries::new(Client::new(&sdk_config(stack.dynamodb_endpoint()).await), &stack.table);
    let [_, versions, described, _] =
        [0_usize, 1, 2, 3].map(|facet| model["TableFacets"][facet]["TableData"].as_array().unwrap());
    let text = |item: &Value, name: &str| item[name]["S"].as_str().unwrap().to_owned();
    for item in described {
        let entity = EntityId::new(text(item, "PK")).unwrap();
        let set = |name: &str| (name.to_owned(), Change::Set(AttributeValue::S(text(item, name))));
        let facts = ["Name", "FactoryId"].map(set).into();
        metadata::update(&stack.store, &entity, &facts).await.unwrap();
    }
    for version in versions {
        let [id, time, state, request] = ["PK", "Time", "State", "RequestId"].map(|name| text(version, name));
        let update = json!({"ID": id, "Time": time, "State": state, "RequestId": request});
        assert_eq!(invoke(&stack, "writer-fn", &update).await["Outcome"], "Written");
        let state = serde_json::from_value(json!({"State": {"S": state}})).unwrap();
        let (entity, time) = (EntityId::new(id).unwrap(), StateTime::parse(&time).unwrap());
        assert_eq!(states.put(&entity, &time, state, false).await, Ok(PutOutcome::Put));
    }
    let items = settled(&stack).await.into_iter().filter(|(pk, _)| pk != "#vzero");
    let items = items.flat_map(|(_, collection)| collection);
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
    let stored: Value = serde_json::from_slice(&fs::read(root().join(MODEL)).unwrap()).unwrap();
    let items = table(&stored["DataModel"][0]).await;
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
