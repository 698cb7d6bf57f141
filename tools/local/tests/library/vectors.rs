//! Vectors that every library which reads versions has to pass: this one, and those below `tools/clients`.

use std::{collections::HashMap, path::Path};

use aws_sdk_dynamodb::types::ScalarAttributeType;
use operations::as_of::{as_of, effective_at::effective_at};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{
    domain::{
        Item,
        attributes::same_value,
        keys::{LATEST_KEY, VersionDigits, sort_key_of},
        layout,
        recorded_at::RecordedAt,
        time::ClientTime,
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::{
        Store,
        read::{
            history::HistoryQuery,
            table_config::{Layout, LayoutError},
            versions::ReadError,
        },
    },
};
use testkit::database::{Database, entity, put_into};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vectors {
    keys: Vec<Value>,
    other_keys: Vec<Value>,
    times: Vec<Value>,
    layouts: Vec<Value>,
    views: Vec<Value>,
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    name: String,
    layout: Option<Value>,
    items: Vec<Value>,
    history: Option<Vec<Value>>,
    reads: Vec<Read>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    #[serde(rename = "read")]
    kind: String,
    entity: String,
    version: Option<u64>,
    time: Option<String>,
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    oldest_first: bool,
    expect: Value,
}

fn vectors() -> Vectors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/vectors.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn digits(of: &Value) -> VersionDigits {
    VersionDigits::new(u8::try_from(of["digits"].as_u64().unwrap()).unwrap()).unwrap()
}

#[test]
fn keys() {
    let vectors = vectors();
    for vector in &vectors.keys {
        let version = Version::new(vector["version"].as_u64().unwrap()).unwrap();
        let key = vector["key"].as_str().unwrap();
        assert_eq!(digits(vector).version_key(version), key);
        assert_eq!(digits(vector).version_of(key), Some(version));
    }
    for vector in &vectors.other_keys {
        assert_eq!(
            digits(vector).version_of(vector["key"].as_str().unwrap()),
            None,
            "{vector}"
        );
    }
}

#[test]
fn times() {
    for vector in vectors().times {
        let text = vector["text"].as_str().unwrap();
        let time = RecordedAt::parse(text).ok().map(|time| time.to_string());
        assert_eq!(time.as_deref(), vector["time"].as_str(), "{text}");
    }
}

fn json_of(view: &VersionView) -> Value {
    json!({
        "Version": view.version, "Deleted": view.deleted, "RecordedAt": view.recorded_at.map(|time| time.to_string()),
        "RecordedByStream": view.recorded_by_stream, "RequestId": view.request_id, "Actor": view.actor,
        "Reason": view.reason, "Sender": view.sender, "RestoredFrom": view.restored_from,
    })
}

#[test]
fn views() {
    for vector in vectors().views {
        let name = vector["name"].as_str().unwrap();
        let mut item: Item = serde_json::from_value(vector["item"].clone()).unwrap();
        item = match vector["inHistoryTable"] == true {
            true => layout::version_item(item),
            false => layout::version_item_beside_latest(item),
        };
        let version = match sort_key_of(&item).unwrap() {
            LATEST_KEY => latest_of(&item).unwrap(),
            key => VersionDigits::default().version_of(key).unwrap(),
        };
        let view = VersionView::new(entity("E"), version, item);
        let mut expected = vector["view"].clone();
        let attributes: Item = serde_json::from_value(expected["Attributes"].take()).unwrap();
        expected.as_object_mut().unwrap().remove("Attributes");
        assert_eq!(json_of(&view), expected, "{name}");
        assert_eq!(view.attributes.len(), attributes.len(), "{name}");
        for (attribute, value) in attributes.iter() {
            assert!(same_value(value, &view.attributes[attribute]), "{name}: {attribute}");
        }
    }
}

const KEYS: [(&str, ScalarAttributeType); 2] = [("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)];

/// Returns a stored layout that names the history table as the engine does.
fn renamed(mut layout: Value, history: &str) -> Value {
    if layout["HistoryTable"]["S"].is_string() {
        layout["HistoryTable"]["S"] = history.into();
    }
    layout
}

/// Returns a layout that belongs to this table.
async fn of_table(mut layout: Value, database: &Database, table: &str) -> Value {
    let described = database.client.describe_table().table_name(table).send().await;
    let described = described.unwrap().table.unwrap();
    let id = described.table_id.or(described.table_arn);
    layout["TableId"] = json!({"S": id});
    layout["TableName"] = json!({"S": table});
    layout
}

fn layout_json(layout: &Layout, history: &str) -> Value {
    let name = layout
        .history
        .as_deref()
        .map(|name| if name == history { "History" } else { name });
    let digits = layout.digits.unwrap_or_default().get();
    json!({"digits": digits, "history": name})
}

#[tokio::test]
async fn layouts() {
    let database = Database::start().await;
    for (number, vector) in vectors().layouts.into_iter().enumerate() {
        let name = format!("Layout{number}");
        database.table(&name, &KEYS).await;
        let table = database.table_name(&name);
        if !vector["item"].is_null() {
            put_into(
                &database.client,
                &table,
                of_table(vector["item"].clone(), &database, &table).await,
            )
            .await;
        }
        let store = Store::new(database.client.clone(), table, VersionDigits::default());
        match store.stored_layout().await {
            Ok(layout) => assert_eq!(layout_json(&layout, "History"), vector["layout"], "{vector}"),
            Err(LayoutError::Unreadable) => assert_eq!(vector["error"], "InvalidLayout", "{vector}"),
            Err(error) => panic!("{vector}: {error}"),
        }
    }
}

/// Opens the tables of a vector, with its items.
async fn open(database: &Database, number: usize, table: &Table) -> Store {
    let names = [format!("Vectors{number}"), format!("Vectors{number}-history")];
    for name in &names {
        database.table(name, &KEYS).await;
    }
    let [latest, history] = names.map(|name| database.table_name(&name));
    if let Some(layout) = &table.layout {
        let layout = of_table(renamed(layout.clone(), &history), database, &latest).await;
        put_into(&database.client, &latest, layout).await;
    }
    for item in table.items.clone() {
        put_into(&database.client, &latest, item).await;
    }
    for item in table.history.iter().flatten() {
        put_into(&database.client, &history, item.clone()).await;
    }
    let store = Store::new(database.client.clone(), latest, VersionDigits::default());
    let layout = store.stored_layout().await.unwrap();
    let store = Store::new(
        database.client.clone(),
        store.latest_table(),
        layout.digits.unwrap_or_default(),
    );
    store.with_history(layout.history)
}

/// Returns the result of a read in the form of the vectors.
async fn result(store: &Store, read: &Read) -> Value {
    let id = entity(&read.entity);
    let parsed = || read.time.as_deref().unwrap();
    let found = match read.kind.as_str() {
        "latest" => match store.latest(&id, true).await {
            Ok(None) => return json!({"error": "EntityNotFound"}),
            found => found,
        },
        "version" => {
            let version = Version::new(read.version.unwrap()).unwrap();
            match store.version(&id, version, true).await {
                Ok(None) => Err(ReadError::Missing { version }),
                found => found,
            }
        }
        "asOf" => as_of(store, &id, RecordedAt::parse(parsed()).unwrap(), true).await,
        "effectiveAt" => {
            let limit = read.limit.map_or(u64::MAX, |limit| limit.try_into().unwrap());
            effective_at(store, &id, ClientTime::parse(parsed()).unwrap(), limit, true, |_| {}).await
        }
        "history" => return history(store, read).await,
        unknown => panic!("unknown read {unknown}"),
    };
    match found {
        Ok(Some(view)) if view.deleted => json!({"version": view.version, "deleted": true}),
        Ok(Some(view)) => {
            assert!(
                same_value(&view.attributes["State"], &state(view.version)),
                "{}",
                view.version
            );
            json!({"version": view.version})
        }
        Ok(None) if store.newest(&id, true).await.unwrap().is_none() => json!({"error": "EntityNotFound"}),
        Ok(None) => json!({"version": null}),
        Err(error) => error_json(store, read, error).await,
    }
}

fn state(version: Version) -> shared::domain::AttributeValue {
    shared::domain::AttributeValue::S(version.to_string())
}

async fn history(store: &Store, read: &Read) -> Value {
    let query = HistoryQuery {
        from: read.from.and_then(Version::new),
        to: read.to.and_then(Version::new),
        oldest_first: read.oldest_first,
        limit: read.limit,
        consistent: true,
    };
    let found = match store.history(&entity(&read.entity), query).await {
        Ok(None) => return json!({"error": "EntityNotFound"}),
        Ok(Some(history)) => history.collect().await,
        Err(error) => Err(error),
    };
    match found {
        Ok(views) => json!({"versions": views.iter().map(|view| view.version).collect::<Vec<_>>()}),
        Err(error) => error_json(store, read, error).await,
    }
}

async fn error_json(store: &Store, read: &Read, error: ReadError) -> Value {
    let id = entity(&read.entity);
    match error {
        ReadError::Missing { version } => {
            let Some((latest, _)) = store.newest(&id, true).await.unwrap() else {
                return json!({"error": "EntityNotFound"});
            };
            let floor = store.floor(&id, true).await.unwrap();
            match version < floor {
                true => json!({"error": "VersionPruned", "floor": floor}),
                false => json!({"error": "VersionNotFound", "first": floor, "latest": latest}),
            }
        }
        ReadError::Pruned { floor } => json!({"error": "VersionPruned", "floor": floor}),
        ReadError::NotRecordedAt { version } | ReadError::NoTime { version, .. } => {
            json!({"error": "UnknownTime", "version": version})
        }
        ReadError::Limit { read } => json!({"error": "LimitReached", "read": read}),
        ReadError::Latest(_) | ReadError::Uncounted => json!({"error": "InvalidLatest"}),
        ReadError::Service(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn reads() {
    let database = Database::start().await;
    let mut errors = Vec::new();
    let mut kinds = HashMap::<String, usize>::new();
    for (number, table) in vectors().tables.iter().enumerate() {
        let store = open(&database, number, table).await;
        for read in &table.reads {
            *kinds.entry(read.kind.clone()).or_default() += 1;
            let found = result(&store, read).await;
            if found != read.expect {
                let (
                    Read {
                        kind,
                        entity,
                        version,
                        time,
                        ..
                    },
                    name,
                ) = (read, &table.name);
                errors.push(format!(
                    "{name}: {kind} {entity} {version:?} {time:?}: {found}, expected {}",
                    read.expect
                ));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}
