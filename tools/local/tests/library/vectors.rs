//! Vectors that every library which reads versions has to pass: this one, and those below `tools/clients`.

use std::collections::BTreeSet;

use item_diff::{
    change::{Change, Kind},
    versions::{Comparison, is_comparable},
};
use operations::{
    as_of::{
        as_of,
        effective_at::{client_time, effective_at},
    },
    read::history::{History, HistoryQuery},
};
use serde_json::{Value, json};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{AttachedTable, item::flat, key},
        attributes::{same_item, same_value},
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits, sort_key_of},
        layout,
        recorded_at::RecordedAt,
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::{
        Store,
        read::{layout_error::LayoutError, table_config::Layout, versions::ReadError},
    },
};
use testkit::{
    database::{Database, KEYS, entity, put_into},
    pages::root,
};

fn all() -> Value {
    let text = std::fs::read(root().join("tools/clients/vectors.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns the vectors of this kind.
fn vectors(kind: &str) -> Vec<Value> {
    all()[kind].as_array().unwrap().clone()
}

fn digits(of: &Value) -> VersionDigits {
    VersionDigits::new(u8::try_from(of["digits"].as_u64().unwrap()).unwrap()).unwrap()
}

fn version(of: &Value) -> Option<Version> {
    of.as_u64().and_then(Version::new)
}

#[test]
fn keys() {
    for vector in vectors("keys") {
        let (version, key) = (version(&vector["version"]), vector["key"].as_str().unwrap());
        assert_eq!(digits(&vector).version_key(version.unwrap()), key);
        assert_eq!(digits(&vector).version_of(key), version);
    }
    for vector in vectors("otherKeys") {
        let key = vector["key"].as_str().unwrap();
        assert_eq!(digits(&vector).version_of(key), None, "{vector}");
    }
}

#[test]
fn times() {
    for vector in vectors("times") {
        let text = vector["text"].as_str().unwrap();
        let time = RecordedAt::parse(text).ok().map(|time| time.to_string());
        assert_eq!(time.as_deref(), vector["time"].as_str(), "{text}");
    }
}

#[test]
fn views() {
    for vector in vectors("views") {
        let item: Item = serde_json::from_value(vector["item"].clone()).unwrap();
        let item = match vector["inHistoryTable"] == true {
            true => layout::version_item(item),
            false => layout::version_item_beside_latest(item),
        };
        let version = match sort_key_of(&item).unwrap() {
            LATEST_KEY => latest_of(&item).unwrap(),
            key => VersionDigits::default().version_of(key).unwrap(),
        };
        let view = VersionView::new(entity("E"), version, item);
        let mut expected = vector["view"].clone();
        let attributes = expected.as_object_mut().unwrap().remove("Attributes").unwrap();
        let shown = json!({
            "Version": view.version, "Deleted": view.deleted,
            "RecordedAt": view.recorded_at.map(|time| time.to_string()), "RecordedByStream": view.recorded_by_stream,
            "RequestId": view.request_id, "Actor": view.actor, "Reason": view.reason, "ChangeSet": view.change_set,
            "ChangeSetSize": view.change_set_size, "Sender": view.sender, "RestoredFrom": view.restored_from,
        });
        assert_eq!(shown, expected, "{}", vector["name"]);
        let attributes = serde_json::from_value(attributes).unwrap();
        assert!(same_item(&view.attributes, &attributes), "{}", vector["name"]);
    }
}

/// Returns a change with values in DynamoDB JSON.
fn change_json(change: &Change<'_>) -> Value {
    let (path, kind) = (change.path.to_string(), change.kind());
    match &change.kind {
        Kind::Added(to) => json!({"Path": path, "Kind": kind, "To": to}),
        Kind::Removed(from) => json!({"Path": path, "Kind": kind, "From": from}),
        Kind::Changed(from, to) => json!({"Path": path, "Kind": kind, "From": from, "To": to}),
        Kind::Moved(from, _) => json!({"Path": path, "Kind": kind, "FromPath": from.to_string()}),
    }
}

#[test]
fn diffs() {
    for vector in vectors("diffs") {
        let view = |number, item: &Value| {
            let item: Option<Item> = serde_json::from_value(item.clone()).unwrap();
            let version = Version::new(number).unwrap();
            item.map(|item| match vector["attached"] == true {
                true => VersionView::of_attached(entity("E"), version, flat(item)),
                false => VersionView::new(entity("E"), version, item),
            })
        };
        let (from, to) = (view(1, &vector["from"]), view(2, &vector["to"]).unwrap());
        let comparison = Comparison::new(from.as_ref(), &to);
        let changes: Vec<_> = comparison.diff().changes.iter().map(change_json).collect();
        assert_eq!(Value::from(changes), vector["changes"], "{}", vector["name"]);
    }
}

/// Returns the versions that `vzero log` shows, each with the paths of its changes.
fn log(mut views: Vec<VersionView>, read: &Value) -> Value {
    views.sort_by_key(|view| view.version);
    let entry = |(index, view): (usize, &VersionView)| {
        let previous = index.checked_sub(1).map(|index| &views[index]);
        let previous = previous.filter(|previous| previous.version.get() + 1 == view.version.get());
        let comparison = is_comparable(previous, view).then(|| Comparison::new(previous, view));
        let paths = |comparison: Comparison| {
            let changes = comparison.diff().changes.into_iter();
            changes.map(|change| change.path.to_string()).collect::<Vec<_>>()
        };
        json!([view.version, comparison.map(paths)])
    };
    let mut entries: Vec<_> = views.iter().enumerate().map(entry).collect();
    entries.retain(|entry| entry[0].as_u64() >= read["from"].as_u64());
    if read["oldestFirst"] != true {
        entries.reverse();
    }
    entries.truncate(
        read["limit"]
            .as_u64()
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()),
    );
    json!({"log": entries})
}

#[test]
fn attached_keys() {
    for vector in vectors("attachedKeys") {
        let keys = vector["keys"].as_array().unwrap().iter();
        let types = keys
            .clone()
            .map(|key| json!({"AttributeName": key[0], "AttributeType": key[1]}));
        let keys = keys.zip(["HASH", "RANGE"]);
        let keys = keys.map(|(key, role)| json!({"AttributeName": key[0], "KeyType": role}));
        let definition = json!({
            "TableName": "Orders", "KeySchema": keys.collect::<Vec<_>>(), "AttributeDefinitions": types.collect::<Vec<_>>(),
        });
        let table = attach::parse(&definition.to_string()).unwrap();
        let id = key::parse(&table, &vector["key"].to_string()).unwrap();
        assert_eq!(id.as_str(), vector["partitionKey"], "{vector}");
    }
}

/// Returns a stored layout that belongs to this table, and names the history table as the engine does.
async fn layout_of(layout: &Value, database: &Database, table: &str, history: &str) -> Value {
    let described = database.client.describe_table().table_name(table).send().await;
    let described = described.unwrap().table.unwrap();
    let mut layout = layout.clone();
    layout["TableId"] = json!({"S": described.table_id.or(described.table_arn)});
    layout["TableName"] = json!({"S": table});
    if layout["HistoryTable"]["S"].is_string() {
        layout["HistoryTable"]["S"] = history.into();
    }
    layout
}

#[tokio::test]
async fn layouts() {
    let database = Database::start().await;
    for (number, vector) in vectors("layouts").into_iter().enumerate() {
        let name = format!("Layout{number}");
        database.table(&name, &KEYS).await;
        let table = database.table_name(&name);
        if !vector["item"].is_null() {
            let history = vector["layout"]["history"].as_str().unwrap_or_default();
            let item = layout_of(&vector["item"], &database, &table, history).await;
            put_into(&database.client, &table, item).await;
        }
        let store = Store::new(database.client.clone(), table, VersionDigits::default());
        match store.stored_layout().await {
            Ok(layout) => {
                let (digits, history) = parts(layout);
                let found = json!({"digits": digits.get(), "history": history});
                assert_eq!(found, vector["layout"], "{vector}");
            }
            Err(LayoutError::Unreadable) => assert_eq!(vector["error"], "InvalidLayout", "{vector}"),
            Err(error) => panic!("{vector}: {error}"),
        }
    }
}

/// Opens the tables of a vector, with its items.
async fn open(database: &Database, number: usize, vector: &Value) -> Store {
    let names = [format!("Vectors{number}"), format!("Vectors{number}-history")];
    for name in &names {
        database.table(name, &KEYS).await;
    }
    let [latest, history] = names.map(|name| database.table_name(&name));
    if !vector["layout"].is_null() {
        let layout = layout_of(&vector["layout"], database, &latest, &history).await;
        put_into(&database.client, &latest, layout).await;
    }
    for (table, items) in [(&latest, &vector["items"]), (&history, &vector["history"])] {
        for item in items.as_array().into_iter().flatten() {
            put_into(&database.client, table, item.clone()).await;
        }
    }
    let store = |digits| Store::new(database.client.clone(), latest.clone(), digits);
    let (digits, history) = parts(store(VersionDigits::default()).stored_layout().await.unwrap());
    store(digits).with_history(history)
}

/// Returns the width and the history table of a table with this layout.
fn parts(layout: Option<Layout>) -> (VersionDigits, Option<String>) {
    layout.map_or_else(Default::default, |layout| (layout.digits, layout.history))
}

fn id_of(table: Option<&AttachedTable>, of: &Value) -> EntityId {
    let key = |table| key::parse(table, &of.to_string()).unwrap();
    table.map_or_else(|| entity(of.as_str().unwrap()), key)
}

/// Returns the result of a read in the form of the vectors.
async fn result(store: &Store, read: &Value) -> Value {
    let id = id_of(store.attached_table(), &read["entity"]);
    let time = || read["time"].as_str().unwrap();
    let limit = read["limit"].as_u64();
    let found = match read["read"].as_str().unwrap() {
        "latest" => store.latest(&id, true).await.map(|found| found.map(|view| vec![view])),
        "version" => {
            let version = version(&read["version"]).unwrap();
            let found = store.version(&id, version, true).await;
            found.and_then(|found| found.ok_or(ReadError::Missing { version }).map(|view| Some(vec![view])))
        }
        "asOf" | "effectiveAt" => {
            let found = if read["read"] == "asOf" {
                as_of(store, &id, RecordedAt::parse(time()).unwrap(), true).await
            } else {
                let time = client_time(time()).unwrap();
                effective_at(store, &id, time, limit.unwrap_or(u64::MAX), true, |_| {}).await
            };
            match found {
                Ok(None) if store.newest(&id, true).await.unwrap().is_some() => return json!({"version": null}),
                found => found.map(|found| found.map(|view| vec![view])),
            }
        }
        "history" | "log" => {
            let is_log = read["read"] == "log";
            let limit = limit.filter(|_| !is_log);
            let query = HistoryQuery {
                from: version(&read["from"]).filter(|_| !is_log),
                to: version(&read["to"]),
                oldest_first: read["oldestFirst"] == true,
                limit: limit.map(|limit| usize::try_from(limit).unwrap()),
                consistent: true,
            };
            match History::read(store, &id, query).await {
                Ok(Some(history)) => history.collect().await.map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            }
        }
        unknown => panic!("unknown read {unknown}"),
    };
    match found {
        Ok(None) => json!({"error": "EntityNotFound"}),
        Ok(Some(views)) if read["read"] == "log" => log(views, read),
        Ok(Some(views)) if read["read"] == "history" => {
            json!({"versions": views.iter().map(|view| view.version).collect::<Vec<_>>()})
        }
        Ok(Some(views)) if views[0].deleted => json!({"version": views[0].version, "deleted": true}),
        Ok(Some(views)) => {
            let state = AttributeValue::S(views[0].version.to_string());
            assert!(same_value(&views[0].attributes["State"], &state), "{read}");
            json!({"version": views[0].version})
        }
        Err(ReadError::Missing { version }) => {
            let Some((latest, _)) = store.newest(&id, true).await.unwrap() else {
                return json!({"error": "EntityNotFound"});
            };
            let floor = store.floor(&id, true).await.unwrap();
            match version < floor {
                true => json!({"error": "VersionPruned", "floor": floor}),
                false => json!({"error": "VersionNotFound", "first": floor, "latest": latest}),
            }
        }
        Err(ReadError::Pruned { floor }) => json!({"error": "VersionPruned", "floor": floor}),
        Err(ReadError::NotRecordedAt { version } | ReadError::NoTime { version, .. }) => {
            json!({"error": "UnknownTime", "version": version})
        }
        Err(ReadError::Limit { read }) => json!({"error": "LimitReached", "read": read}),
        Err(ReadError::Latest(_) | ReadError::Uncounted) => json!({"error": "InvalidLatest"}),
        Err(ReadError::Service(error)) => panic!("{error}"),
    }
}

/// Checks the reads of a store, and returns their kinds.
async fn check(store: &Store, name: &Value, reads: &Value) -> BTreeSet<String> {
    let (mut errors, mut kinds) = (Vec::new(), BTreeSet::new());
    for read in reads.as_array().unwrap() {
        kinds.insert(read["read"].to_string());
        let found = Box::pin(result(store, read)).await;
        if found != read["expect"] {
            errors.push(format!("{name}: {read}: {found}"));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    kinds
}

#[tokio::test]
async fn reads() {
    let database = Database::start().await;
    let mut kinds = BTreeSet::new();
    for (number, vector) in vectors("tables").iter().enumerate() {
        let store = open(&database, number, vector).await;
        kinds.extend(check(&store, &vector["name"], &vector["reads"]).await);
    }
    assert_eq!(kinds.len(), 6, "{kinds:?}");
}

#[tokio::test]
async fn reads_of_an_attached_table() {
    let (database, vector) = (Database::start().await, &all()["attached"]);
    database.table("Orders-history", &KEYS).await;
    let mut definition = vector["definition"].clone();
    definition["HistoryTable"] = database.table_name("Orders-history").into();
    let table = attach::parse(&definition.to_string()).unwrap();
    for item in vector["history"].as_array().unwrap() {
        put_into(&database.client, table.history_table(), item.clone()).await;
    }
    let store = Store::attached(database.client.clone(), table);
    check(&store, &"attached".into(), &vector["reads"]).await;
}
