//! Erasures and sealing beside other operators and writers, and proofs after others have changed the table or the log.

use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use futures::{FutureExt as _, future::OptionFuture};
use operations::{
    hold::{self, Hold},
    sealed::Kind,
};
use seal::format::member::{Namespace, Path};
use sealing::{
    erase::Erasing,
    keys::KeysTable,
    place::Place,
    prove::{ProveError, Which},
    state::StateTable,
};
use serde_json::{Value, json};
use shared::domain::{Item, quarantine::QuarantinedRecord, sequence::SequenceNumber};
use testkit::{
    cloud::Fault,
    database::{Database, delete_item, entity, items},
};
use tokio::time::Instant;

use crate::{
    erase::{ENTITY, erase, world},
    world::{World, operation},
};

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
    // Of a version that was pruned, of an operation, and of a map that is erased.
    let path = |namespace, names: &str| Path {
        namespace,
        names: names.split('.').map(str::to_owned).collect(),
    };
    let (old, to) = (path(Namespace::Attribute, "Old"), path(Namespace::Metadata, "To"));
    let hall = path(Namespace::Attribute, "Place.Hall");
    let mut stored = keys().await;
    stored.add([&old, &to].into_iter()).unwrap();
    assert!(table.store(&mut stored).await.unwrap());
    for (paths, is_kept) in [(&[vec!["Place".to_owned()]][..], true), (&[][..], false)] {
        let mut erasing = Erasing::plan(&world.store, &id, paths, "asked").await.unwrap();
        erasing.run(Duration::ZERO, false, |_| {}).await.unwrap();
        erasing.finish().await.unwrap();
        // An erasure of one of the paths before marks no other one.
        let removed = world.store.removed([&id], false).await.unwrap();
        let marked = &removed.erasures(&id).unwrap().0;
        assert!(erasing.erasures().0.keys().all(|path| marked.contains_key(path)));
        let left = keys().await;
        assert_eq!(left.of(&old).unwrap().is_some(), is_kept);
        assert!(left.of(&to).unwrap().is_some() && left.of(&hall).unwrap().is_none());
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
    // It is set after the plan, or during the wait.
    let mut erasing = Erasing::plan(&world.store, &id, &[], "asked").await.unwrap();
    hold::set(&world.store, &id, &hold).await.unwrap();
    assert!(erasing.run(Duration::ZERO, false, |_| ()).await.is_err());
    assert_eq!(world.store.removed([&id], false).await.unwrap().erasures(&id), None);
    hold::release(&world.store, &id).await.unwrap();
    let (store, held) = (world.store.clone(), id.clone());
    let holding = world.cloud.process(move |request| {
        let is_marker = request.operation == "PutItem" && request.body.contains(r#""purged""#);
        let (store, id, hold) = (store.clone(), held.clone(), hold.clone());
        async move {
            if is_marker {
                hold::set(&store, &id, &hold).await.unwrap();
            }
            None
        }
    });
    assert!(erase(&world, &holding).await.unwrap_err().contains("on hold"));
    let versions = items(&database.client, world.store.history_table()).await;
    assert!(versions.iter().any(|item| item.to_string().contains("\"H1\"")));
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
    // A value that only the current item has.
    let (table, new) = (world.store.history_table().to_owned(), vec!["New".to_owned()]);
    change(database.client.clone(), table, "v0", json!({"New": {"S": "x"}})).await;
    assert!(
        Erasing::plan(&world.store, &id, &[new], "asked")
            .await
            .unwrap()
            .is_current
    );
}

#[tokio::test]
async fn an_erasure_waits_between_its_marker_and_the_versions() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let client = Client::new(&world.cloud.process(|_| ready(None)).wrap(&database.endpoint.config));
    let (store, id) = (world.store.clone().with_client(client), entity(ENTITY));
    let wait = Duration::from_millis(50);
    // The time of a repeated erasure is over.
    for expected in [Some((wait, 1)), None] {
        let mut erasing = Erasing::plan(&store, &id, &[], "asked").await.unwrap();
        let (mut waited, before, start) = (None, world.cloud.requests().len(), Instant::now());
        let on_wait = |left| {
            let sent = world.cloud.requests().split_off(before).into_iter();
            let writes = sent.filter(|request| ["PutItem", "TransactWriteItems"].contains(&&*request.operation));
            waited = Some((left, writes.count()));
        };
        erasing.run(wait, false, on_wait).await.unwrap();
        assert_eq!(waited, expected);
        assert!(waited.is_none() || start.elapsed() >= wait);
        world.pass(1);
    }
}

#[tokio::test]
async fn only_a_proof_that_holds_is_made() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
    for version in 1..=3 {
        world.insert("E#0", version, 0).await;
        world.seal_now().await.unwrap();
        world.pass(3600);
    }
    let place = Place::of(&world.store).await.unwrap().unwrap();
    let state = StateTable::new(database.client.clone(), &place.state);
    for (id, table, entity, to) in [
        (1, &*place.table, "E#0", 1),
        (2, &*place.table, "E#1", 3),
        (3, "other", "E#0", 3),
    ] {
        let operation = operation(id, Kind::Prune, (table, entity), to);
        state.add_operation(&operation).await.unwrap();
    }
    let delete = |version| delete_item(&database.client, world.store.history_table(), "E#0", version);
    let is_deleted = async |version| {
        let proof = world.prove("E#0", Which::All, 3).await;
        matches!(proof, Err(ProveError::Deleted(deleted)) if deleted == version)
    };
    delete("v1").await;
    // No checkpoint has the operation yet.
    let killed = world.seal(|request| {
        let is_signed = request.operation == "Sign";
        ready(is_signed.then_some(Fault::Killed { executed: false }))
    });
    assert!(killed.await.is_err() && is_deleted(1).await);
    world.seal_now().await.unwrap();
    world.prove("E#0", Which::All, 3).await.unwrap();
    delete("v2").await;
    assert!(is_deleted(2).await);
    let (log, tile) = (world.cloud.objects("log"), "tile/0/000.p/6");
    let changed: Vec<_> = log[tile].iter().map(|byte| !byte).collect();
    let s3 = aws_sdk_s3::Client::new(&world.cloud.process(|_| ready(None)).config());
    let put = s3.put_object().bucket("log").key(tile).body(changed.into());
    put.send().await.unwrap();
    let proof = world.prove("E#0", Which::Newest, 3).await;
    assert!(matches!(proof, Err(ProveError::Invalid(_))));
}

#[tokio::test]
async fn a_version_that_moves_while_the_index_is_read_is_sealed_once() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
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

#[tokio::test]
async fn an_audit_reads_again_what_differs() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
    world.insert(ENTITY, 1, 0).await;
    world.seal_now().await.unwrap();
    let (client, table) = (database.client.clone(), world.store.history_table().to_owned());
    change(client.clone(), table.clone(), "v1", json!({"Qty": {"N": "9"}})).await;
    assert_eq!(world.audit(&world.cloud.process(|_| ready(None))).await.len(), 1);
    let process = world.cloud.process(move |request| {
        let is_again = request.operation == "GetItem" && request.body.contains(r#""v1""#);
        let to = json!({"Qty": {"N": "1"}});
        let change = is_again.then(|| change(client.clone(), table.clone(), "v1", to));
        OptionFuture::from(change).map(|_| None)
    });
    assert_eq!(world.audit(&process).await, []);
}
