//! Erasure and sealing beside other operators and writers.

use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use futures::{FutureExt as _, future::OptionFuture};
use operations::hold::{self, Hold};
use seal::format::member::{Namespace, Path};
use sealing::{erase::Erasing, keys::KeysTable, place::Place};
use serde_json::{Value, json};
use shared::domain::{Item, quarantine::QuarantinedRecord, sequence::SequenceNumber};
use testkit::database::{Database, delete_item, entity, items};

use crate::erase::{ENTITY, erase, world};

/// Sets attributes of an item, or deletes it.
pub(crate) async fn change(client: Client, table: String, sort_key: &'static str, to: Value) {
    if to.is_null() {
        return delete_item(&client, &table, ENTITY, sort_key).await;
    }
    let to: HashMap<String, AttributeValue> = serde_json::from_value::<Item>(to).unwrap().into();
    let names: Vec<_> = to.keys().map(|name| format!("#{name} = :{name}")).collect();
    let update = client
        .update_item()
        .table_name(table)
        .update_expression(format!("SET {}", names.join(", ")));
    let mut update = update
        .key("PK", AttributeValue::S(ENTITY.to_owned()))
        .key("SK", AttributeValue::S(sort_key.to_owned()));
    for (name, value) in to {
        update = update
            .expression_attribute_names(format!("#{name}"), &name)
            .expression_attribute_values(format!(":{name}"), value);
    }
    update.send().await.unwrap();
}

#[tokio::test]
async fn what_others_change_between_a_read_and_a_write_of_an_erasure_stays() {
    let database = Arc::new(Database::start().await);
    for (sort_key, to) in [
        // A version is pruned, or deleted.
        ("v1", json!({"TTL": {"N": "9999999999"}})),
        ("v1", Value::Null),
        // The next version has no erased value, so the hash of its update stays.
        ("v0", json!({"Latest": {"N": "4"}, "RequestPayload": {"S": "of 4"}})),
        ("v0", Value::Null),
        ("request#r", Value::Null),
        // The record was redriven.
        ("quarantine#7", Value::Null),
    ] {
        let world = world(&database).await;
        let quarantined = QuarantinedRecord {
            entity: entity(ENTITY),
            number: SequenceNumber::new("7").unwrap(),
            kind: "Conflict".to_owned(),
            reason: "a reason".to_owned(),
            version: None,
            at: None,
            record: r#"{"dynamodb":{"NewImage":{"Actor":{"S":"amy"}}}}"#.to_owned(),
        };
        assert!(world.store.quarantine(&quarantined).await.unwrap());
        let (client, table) = (database.client.clone(), world.store.history_table().to_owned());
        let (of_item, mut is_done, to_change) = (format!(r#""SK":{{"S":"{sort_key}"}}"#), false, to.clone());
        let process = world.cloud.process(move |request| {
            let is_write = ["PutItem", "UpdateItem", "TransactWriteItems"].contains(&request.operation.as_str());
            let is_here = is_write && request.body.contains(&of_item);
            let is_first = is_here && !std::mem::replace(&mut is_done, true);
            let change = is_first.then(|| change(client.clone(), table.clone(), sort_key, to_change.clone()));
            async move {
                OptionFuture::from(change).await;
                None
            }
        });
        erase(&world, &process).await.unwrap();
        let items = items(&database.client, world.store.history_table()).await;
        let item = items
            .into_iter()
            .find(|item| item["PK"]["S"] == ENTITY && item["SK"]["S"] == sort_key);
        match &to {
            Value::Object(members) => {
                for (name, value) in members {
                    assert_eq!(item.as_ref().unwrap()[name], *value, "{sort_key}");
                }
            }
            _ => assert_eq!(item, None, "{sort_key}"),
        }
    }
}

#[tokio::test]
async fn an_erasure_keeps_the_keys_of_other_paths() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let arn = Place::of(&world.store).await.unwrap().unwrap().table;
    let (id, table) = (
        entity(ENTITY),
        KeysTable::new(database.client.clone(), &world.settings.keys),
    );
    let keys = async || {
        table
            .read(&arn, std::slice::from_ref(&id))
            .await
            .unwrap()
            .remove(&id)
            .unwrap()
    };
    // Of a version that was pruned, and of an operation.
    let [old, to] = [(Namespace::Attribute, "Old"), (Namespace::Metadata, "To")].map(|(namespace, name)| Path {
        namespace,
        names: vec![name.to_owned()],
    });
    let mut stored = keys().await;
    stored.add([&old, &to].into_iter()).unwrap();
    assert!(table.store(&mut stored).await.unwrap());
    for (paths, is_kept) in [(&[vec!["Qty".to_owned()]][..], true), (&[][..], false)] {
        let mut erasing = Erasing::plan(&world.store, &id, paths, "asked").await.unwrap();
        erasing.run(Duration::ZERO, false, |_| {}).await.unwrap();
        erasing.finish().await.unwrap();
        let left = keys().await;
        assert_eq!(left.of(&old).unwrap().is_some(), is_kept);
        assert!(left.of(&to).unwrap().is_some());
    }
}

#[tokio::test]
async fn an_erasure_is_refused_on_hold_and_covers_versions_that_history_lacks() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let (id, process) = (entity(ENTITY), world.cloud.process(|_| ready(None)));
    let hold = Hold::new(world.store.now(), "a case", None);
    hold::set(&world.store, &id, &hold).await.unwrap();
    assert!(erase(&world, &process).await.unwrap_err().contains("on hold"));
    hold::release(&world.store, &id).await.unwrap();
    for newest in [3, 4] {
        // The stream still has version 4 with the values, so a repeated erasure does not resume the one before it.
        let latest = json!({"Latest": {"N": newest.to_string()}});
        let table = world.store.history_table().to_owned();
        change(database.client.clone(), table, "v0", latest).await;
        erase(&world, &process).await.unwrap();
        let removed = world.store.removed([&id], false).await.unwrap();
        let mut erasures = removed.erasures(&id).unwrap().0.values();
        assert!(erasures.all(|erasure| erasure.to.get() == newest), "{newest}");
    }
}

#[tokio::test]
async fn a_version_that_moves_while_the_index_is_read_is_sealed_once() {
    let database = Arc::new(Database::start().await);
    let world = crate::world::World::new(&database).await;
    world.insert(ENTITY, 1, 0).await;
    let (client, table) = (database.client.clone(), world.store.history_table().to_owned());
    let sealed = world.seal(move |request| {
        let is_here = request.operation == "Query" && request.body.contains(r#""late20""#);
        let to = json!({"TimePartition": {"S": "late63"}});
        let change = is_here.then(|| change(client.clone(), table.clone(), "v1", to));
        OptionFuture::from(change).map(|_| None)
    });
    assert_eq!(sealed.await.unwrap(), 1);
    world.check(1);
}
