//! Erasure: killed between any two requests, and beside seal-fn.

use std::{
    collections::BTreeSet,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use seal::{
    format::{
        leaf::Kind,
        member::{Namespace, Path},
    },
    log::tree,
};
use sealing::{
    erase::{Changed, Erasing},
    keys::KeysTable,
    members::{leaf, members_of},
    place::Place,
    prove::Which,
    state::StateTable,
};
use serde_json::{Value, json};
use shared::domain::{
    Item, attributes::item_from_dynamodb_json, keys::sort_key_of, version::Version, version_item::latest_of,
};
use testkit::{
    cloud::{Fault, Process},
    database::{Database, delete_item, entity, items, put_into},
};

use crate::world::World;

pub(crate) const ENTITY: &str = "E#0";

/// Returns a world in which two versions are sealed, and one waits. All have the value.
pub(crate) async fn world(database: &Arc<Database>) -> World {
    world_in(database, true).await
}

/// Returns this world, or the one in which seal-fn has not started yet.
async fn world_in(database: &Arc<Database>, is_sealed: bool) -> World {
    let world = World::new(database).await;
    world.insert_all(2, 1..=2).await;
    if is_sealed {
        world.seal_now().await.unwrap();
    }
    world.insert(ENTITY, 3, 0).await;
    let latest = json!({
        "PK": {"S": ENTITY}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "RecordedVersion": {"N": "3"}, "Actor": {"S": "amy"},
        "RequestPayload": {"S": "hash"}, "RecentRequests": {"M": {"a": {"N": "3.1"}}}, "Place": {"M": {"Hall": {"S": "H1"}}},
    });
    let marker =
        json!({"PK": {"S": ENTITY}, "SK": {"S": "request#r"}, "Version": {"N": "3"}, "Payload": {"S": "hash"}});
    for item in [latest, marker] {
        put_into(&database.client, world.store.history_table(), item).await;
    }
    world
}

/// Erases the hall in a process. Returns what was changed.
pub(crate) async fn erase(world: &World, process: &Process) -> Result<[Changed; 2], String> {
    let client = Client::new(&process.wrap(&world.database.endpoint.config));
    let store = world.store.clone().with_client(client);
    let entity = entity(ENTITY);
    let paths = [vec!["Place".to_owned(), "Hall".to_owned()], vec!["Actor".to_owned()]];
    let text = |error: sealing::erase::EraseError| error.to_string();
    let mut erasing = Erasing::plan(&store, &entity, &paths, "asked").await.map_err(text)?;
    let run = erasing.run(Duration::ZERO, false, |_| {}).await.map_err(text)?;
    Ok([run, erasing.finish().await.map_err(text)?])
}

/// Erases, or seals, on another thread: the future of a script must be sendable.
async fn elsewhere(world: World, is_erasure: bool) {
    let (done, is_done) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let outcome = runtime.block_on(async {
            match is_erasure {
                true => erase(&world, &world.cloud.process(|_| ready(None))).await.map(drop),
                false => world.seal_now().await.map(drop).map_err(|error| error.to_string()),
            }
        });
        done.send(outcome)
    });
    assert_eq!(is_done.await, Ok(Ok(())));
}

async fn dump(world: &World) -> String {
    let tables = [world.store.history_table(), &world.settings.keys, &world.settings.state];
    let mut all = String::new();
    for table in tables {
        let mut items = items(&world.database.client, table).await;
        items.iter_mut().for_each(Value::sort_all_objects);
        let mut items: Vec<_> = items.iter().map(Value::to_string).collect();
        items.sort_unstable();
        all.extend(items);
    }
    all
}

/// Checks that the value is nowhere, that its key is deleted, and that the log has the leaf of each version in the table.
async fn check(world: &World) {
    world.seal_now().await.unwrap();
    world.check(5);
    let (client, entity) = (&world.database.client, entity(ENTITY));
    let place = Place::of(&world.store).await.unwrap().unwrap();
    let keys = KeysTable::new(client.clone(), &place.keys);
    let keys = keys.read(&place.table, std::slice::from_ref(&entity)).await.unwrap();
    let keys = &keys[&entity];
    for (namespace, names) in [
        (Namespace::Attribute, vec!["Place", "Hall"]),
        (Namespace::Metadata, vec!["Actor"]),
    ] {
        let names = names.into_iter().map(str::to_owned).collect();
        assert_eq!(keys.of(&Path { namespace, names }).unwrap(), None);
    }
    let log: BTreeSet<_> = world.log().iter().map(|leaf| tree::leaf_hash(&leaf.bytes())).collect();
    let mut latest = Item::default();
    for item in items(client, world.store.history_table()).await {
        let item: Item = item_from_dynamodb_json(&item.to_string()).unwrap();
        if item.get("PK") != Some(&shared::domain::attributes::s(ENTITY)) {
            continue;
        }
        let Some(version) = world.store.digits().version_of_item(&item) else {
            match sort_key_of(&item) {
                Some("v0") => latest = item,
                _ => assert!(!item.contains_key("Payload")),
            }
            continue;
        };
        let text = serde_json::to_string(&item).unwrap();
        assert!(
            !text.contains("\"H1\"") && !text.contains("\"amy\"") && item.contains_key("InsertedAt"),
            "{text}"
        );
        let members = members_of(&place.table, &world.store.view(&entity, version, item));
        let of_table = leaf(Kind::Version, &members, keys, version.get(), None)
            .unwrap()
            .unwrap();
        assert!(log.contains(&tree::leaf_hash(&of_table.bytes())), "{version}");
    }
    assert_eq!(latest_of(&latest).unwrap().get(), 3);
    assert!(!latest.contains_key("RecentRequests") && !latest.contains_key("RequestPayload"));
    assert_eq!(latest.get("RequestsDropped"), Some(&shared::domain::attributes::n(3)));
    let operations = StateTable::new(client.clone(), &place.state)
        .operations(true, None)
        .await
        .unwrap();
    let (operations, _) = operations;
    assert_eq!(operations.len(), 1);
    assert_eq!(
        (operations[0].kind, operations[0].versions),
        (operations::sealed::Kind::Erase, (1, 3))
    );
}

#[tokio::test]
async fn an_erasure_that_is_killed_at_any_request_is_finished_by_the_next_one() {
    let database = Arc::new(Database::start().await);
    let requests = {
        let world = world(&database).await;
        let process = world.cloud.process(|_| ready(None));
        let before = world.cloud.requests().len();
        let [run, _] = erase(&world, &process).await.unwrap();
        assert_eq!((run.versions, run.others), (3, 2));
        let sent = world.cloud.requests().len() - before;
        check(&world).await;
        sent
    };
    assert!(requests > 20, "{requests}");
    for number in 0..requests {
        for executed in [false, true] {
            let world = world(&database).await;
            let mut sent = 0;
            let process = world.cloud.process(move |_| {
                sent += 1;
                ready((sent == number + 1).then_some(Fault::Killed { executed }))
            });
            let outcome = erase(&world, &process).await;
            assert!(outcome.is_err() || !process.is_killed(), "{number}");
            let next = world.cloud.process(|_| ready(None));
            erase(&world, &next).await.unwrap();
            check(&world).await;
            let before = dump(&world).await;
            assert_eq!(
                erase(&world, &next).await.unwrap(),
                <[Changed; 2]>::default(),
                "{number}"
            );
            assert!(dump(&world).await == before, "{number}");
        }
    }
}

#[tokio::test]
async fn an_erasure_and_seal_fn_run_between_any_two_requests_of_each_other() {
    let database = Arc::new(Database::start().await);
    for is_erasure in [false, true] {
        for number in 0.. {
            let (world, sent) = (world(&database).await, Arc::new(AtomicUsize::new(0)));
            let (other, count) = (world.clone(), sent.clone());
            let process = world.cloud.process(move |request| {
                // Queries of the index, of which each run of seal-fn has 128, change nothing.
                let counts = !is_erasure || request.operation != "Query";
                let is_here = counts && count.fetch_add(1, Ordering::Relaxed) == number;
                let other = other.clone();
                async move {
                    if is_here {
                        elsewhere(other, is_erasure).await;
                    }
                    None
                }
            });
            match is_erasure {
                true => drop(world.seal_in(&process).await.unwrap()),
                false => drop(erase(&world, &process).await.unwrap()),
            }
            if sent.load(Ordering::Relaxed) <= number {
                assert!(number > 10);
                break;
            }
            check(&world).await;
        }
    }
}

#[tokio::test]
async fn an_erasure_that_waits_finds_a_log_that_begins_meanwhile() {
    let database = Arc::new(Database::start().await);
    let world = world_in(&database, false).await;
    let (other, mut is_marked) = (world.clone(), false);
    let process = world.cloud.process(move |request| {
        let is_first = request.operation == "PutItem" && !std::mem::replace(&mut is_marked, true);
        let other = other.clone();
        async move {
            if is_first {
                elsewhere(other, false).await;
            }
            None
        }
    });
    let [run, finish] = erase(&world, &process).await.unwrap();
    assert!(run.versions == 3 && finish.keys);
    check(&world).await;
}

#[tokio::test]
async fn keys_in_several_items_are_those_of_one_revision() {
    let database = Arc::new(Database::start().await);
    let world = World::new(&database).await;
    let process = world.cloud.process(|_| ready(None));
    let client = Client::new(&process.wrap(&database.endpoint.config));
    let table = KeysTable::new(client, &world.settings.keys);
    let all = [entity(ENTITY)];
    let read = async || table.read("table", &all).await.unwrap().remove(&all[0]).unwrap();
    let path = |number: usize| Path {
        namespace: Namespace::Attribute,
        names: vec![number.to_string()],
    };
    let paths: Vec<_> = (0..10_000).map(path).collect();
    let (mut keys, mut other) = (read().await, read().await);
    for keys in [&mut keys, &mut other] {
        keys.add(paths.iter()).unwrap();
    }
    assert!(table.store(&mut keys).await.unwrap());
    assert!(!table.store(&mut other).await.unwrap());
    assert_eq!(read().await, keys);
    let mut old = read().await;
    keys.remove_others(paths[..10].iter()).unwrap();
    assert!(table.store(&mut keys).await.unwrap());
    assert_eq!(read().await, keys);
    let stored = items(&database.client, &world.settings.keys).await;
    assert_eq!(stored.len(), 1);
    assert!(!table.store(&mut old).await.unwrap());
    keys.add(paths.iter()).unwrap();
    assert!(table.store(&mut keys).await.unwrap());
    let partition_key = stored[0]["PK"]["S"].as_str().unwrap();
    delete_item(&database.client, &world.settings.keys, partition_key, "2").await;
    assert!(table.read("table", &all).await.is_err());
    table.page(None).await.unwrap();
    for request in world.cloud.requests() {
        let is_read = ["GetItem", "BatchGetItem", "Scan"].contains(&request.operation.as_str());
        assert!(
            !is_read || request.body.contains(r#""ConsistentRead":true"#),
            "{}",
            request.body
        );
    }
}

#[tokio::test]
async fn a_version_that_is_written_meanwhile_is_erased_or_stays_provable() {
    let database = Arc::new(Database::start().await);
    let world = world(&database).await;
    let (other, state, mut is_over) = (world.clone(), world.settings.state.clone(), false);
    let process = world.cloud.process(move |request| {
        // That of the operation, when no version is erased any more.
        let is_put = request.operation == "PutItem" && request.body.contains(&state);
        let is_first = is_put && !std::mem::replace(&mut is_over, true);
        let other = other.clone();
        async move {
            if is_first {
                other.insert_and_seal_elsewhere(ENTITY, 5).await;
            }
            None
        }
    });
    let client = Client::new(&process.wrap(&database.endpoint.config));
    let (store, id) = (world.store.clone().with_client(client), entity(ENTITY));
    let mut erasing = Erasing::plan(&store, &id, &[], "asked").await.unwrap();
    erasing.run(Duration::ZERO, false, |_| {}).await.unwrap();
    world.insert(ENTITY, 4, 0).await;
    world.seal_now().await.unwrap();
    assert_eq!(erasing.finish().await.unwrap().versions, 1);
    let removed = store.removed([&id], false).await.unwrap();
    let mut erasures = removed.erasures(&id).unwrap().0.values();
    assert!(erasures.all(|erasure| erasure.to.get() == 4));
    let items = items(&database.client, world.store.history_table()).await;
    let is_version = |item: &&Value| item["PK"]["S"] == ENTITY && item["SK"]["S"] == "v4";
    let item = items.iter().find(is_version).unwrap();
    assert!(item["Erased"].is_object() && item["Qty"].is_null() && item["Place"].is_null());
    let which = Which::One(Version::new(5).unwrap());
    world.prove(ENTITY, which, 5).await.unwrap();
}
