//! Deleted entities on a real table: their state ends, and an undelete brings it back from history.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        keys::LATEST_KEY,
        request_id::RequestId,
        update::{Ordering, Update},
    },
    dynamodb::{
        Store,
        put::put_version::PutOutcome,
        write::{
            WriteError, WriteMode, WriteOptions, WriteOutcome,
            restore::{ChangeOptions, RestoreError},
        },
    },
};
use testkit::database::{Database, duplicate, entity, item, put_version, record, settings, update, version, written};

const ID: &str = "Pump#1";
/// Number of attributes of a wide item: more than one request can remove.
const WIDE: usize = 1000;

async fn write(store: &Store, mut members: Value, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    members["ID"] = json!(ID);
    record(store, &update(members), options).await
}

/// Returns the attributes of an item that are state, sorted by name.
async fn state(store: &Store, key: &str) -> Map<String, Value> {
    let item = item(store, ID, key).await;
    let mut state = item.as_object().unwrap().clone();
    state.retain(|name, _| shared::domain::attribution::is_state(name));
    state.sort_keys();
    state
}

/// Returns the state of a version as readers see it.
async fn read(store: &Store, number: u64) -> (bool, Value) {
    let view = store
        .version(&entity(ID), version(number), true)
        .await
        .unwrap()
        .unwrap();
    (view.deleted, serde_json::to_value(&view.attributes).unwrap())
}

fn request(id: &str) -> RequestId {
    RequestId::new(id).unwrap()
}

async fn undelete(store: &Store, id: &str, options: WriteOptions) -> Result<Option<WriteOutcome>, RestoreError> {
    let undeleted = store
        .undelete(&entity(ID), request(id), ChangeOptions::default(), options)
        .await;
    if options.mode == WriteMode::Stream && matches!(undeleted, Ok(Some(WriteOutcome::Written { .. }))) {
        put_version(store, &entity(ID)).await;
    }
    undeleted
}

/// Changes the latest item as another program does.
async fn change(database: &Database, table: &str, expression: &str, names: &[(&str, &str)], values: Value) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mut request = database
        .client
        .update_item()
        .table_name(database.table_name(table))
        .key("PK", text(ID))
        .key("SK", text(LATEST_KEY))
        .update_expression(expression);
    for (placeholder, name) in names {
        request = request.expression_attribute_names(*placeholder, *name);
    }
    let values: std::collections::HashMap<String, serde_dynamo::AttributeValue> =
        serde_json::from_value(values).unwrap();
    for (placeholder, value) in values {
        request = request.expression_attribute_values(placeholder, value.into());
    }
    request.send().await.unwrap();
}

#[tokio::test]
async fn a_deletion_removes_the_state_and_the_next_update_starts_from_an_empty_item() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        let first = json!({"A": 1, "M": {"N": 1}, "Actor": "amy"});
        assert_eq!(write(&store, first, options).await, Ok(written(1)));
        assert_eq!(write(&store, json!({"B": 2}), options).await, Ok(written(2)));
        let deletion = json!({"Deleted": true, "Why": "sold", "B": null, "Reason": "moved"});
        assert_eq!(write(&store, deletion, options).await, Ok(written(3)));
        assert_eq!(state(&store, LATEST_KEY).await, Map::new(), "{options:?}");
        assert_eq!(Value::from(state(&store, "v3").await), json!({"Why": {"S": "sold"}}));
        let tombstone = (true, json!({"Why": {"S": "sold"}}));
        assert_eq!(read(&store, 3).await, tombstone);
        let latest = store.latest(&entity(ID), true).await.unwrap().unwrap();
        assert_eq!(
            (latest.deleted, serde_json::to_value(&latest.attributes).unwrap()),
            tombstone
        );

        // There is no map whose members could be updated, neither before nor by a deletion.
        for members in [
            json!({"M": {"$update": {"N": 2}}}),
            json!({"Deleted": true, "M": {"$update": {"N": 2}}}),
        ] {
            let refused = write(&store, members, options).await;
            assert!(
                matches!(refused, Err(WriteError::NoMap { .. })),
                "{options:?} {refused:?}"
            );
        }
        // The tombstone is compared as before.
        let conflict = write(&store, json!({"ExpectedVersion": 0}), options).await;
        assert_eq!(conflict, Ok(WriteOutcome::Conflict { expected: 0, latest: 3 }));

        // Deletions in a row.
        assert_eq!(write(&store, json!({"Deleted": true}), options).await, Ok(written(4)));
        assert_eq!(read(&store, 4).await, (true, json!({})));
        let revived = json!({"C": 3, "ExpectedVersion": 4});
        assert_eq!(write(&store, revived, options).await, Ok(written(5)));
        for key in [LATEST_KEY, "v5"] {
            assert_eq!(
                Value::from(state(&store, key).await),
                json!({"C": {"N": "3"}}),
                "{options:?} {key}"
            );
        }
        let latest = serde_json::to_value(store.get(&entity(ID), LATEST_KEY, true).await.unwrap()).unwrap();
        for name in ["Deleted", "TombstoneState", "TTL", "Actor", "Reason"] {
            assert!(latest.get(name).is_none(), "{options:?} {name}");
        }
        let findings = store.audit(&entity(ID), Duration::ZERO).await.unwrap();
        assert_eq!(findings, Some(Vec::new()), "{options:?}");
    }
}

#[tokio::test]
async fn only_deletions_and_updates_after_them_need_a_second_request() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = settings()[0];
    let requests = async |members: Value| {
        let mut members = members;
        members["ID"] = json!(ID);
        database.consumed();
        store.write(&update(members), options).await.unwrap();
        let operations = database.consumed();
        put_version(&store, &entity(ID)).await;
        operations
            .into_iter()
            .map(|(operation, _)| operation)
            .collect::<Vec<_>>()
    };
    requests(json!({"A": 1})).await;
    assert_eq!(requests(json!({"A": 2})).await, ["UpdateItem"]);
    assert_eq!(requests(json!({"Deleted": true})).await, ["GetItem", "UpdateItem"]);
    // A failed condition consumes units, which the response does not contain.
    let attempts = async |members: Value| {
        database.requests.take();
        requests(members).await;
        database.requests.take()
    };
    let (_, failed) = attempts(json!({"B": 1})).await;
    assert_eq!(failed, 1);
    assert_eq!(attempts(json!({"B": 2})).await.1, 0);
}

#[tokio::test]
async fn updates_ordered_by_time_are_compared_with_the_tombstone() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        let write = async |members: Value, request: &str| {
            let mut members = members;
            members["ID"] = json!(ID);
            let update = Update::parse(members, request, Ordering::Time).unwrap();
            record(&store, &update, options).await
        };
        assert_eq!(write(json!({"Timestamp": 1000, "A": 1}), "r-1").await, Ok(written(1)));
        assert_eq!(
            write(json!({"Timestamp": 3000, "Deleted": true}), "r-2").await,
            Ok(written(2))
        );
        let stale = WriteOutcome::Stale { version: version(2) };
        assert_eq!(
            write(json!({"Timestamp": 2000, "A": 2}), "r-3").await,
            Ok(stale),
            "{options:?}"
        );
        assert_eq!(write(json!({"Timestamp": 4000, "B": 1}), "r-4").await, Ok(written(3)));
        assert_eq!(Value::from(state(&store, LATEST_KEY).await), json!({"B": {"N": "1"}}));
        // An earlier delivery is still detected.
        let repeated = duplicate(2);
        let again = write(json!({"Timestamp": 3000, "Deleted": true}), "r-2").await;
        assert_eq!(again, Ok(repeated), "{options:?}");
    }
}

#[tokio::test]
async fn an_undelete_restores_the_newest_version_that_is_no_tombstone() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        write(&store, json!({"A": 1, "Actor": "amy"}), options).await.unwrap();
        write(&store, json!({"B": 2, "M": {"N": 1}}), options).await.unwrap();
        for _ in 0..3 {
            write(&store, json!({"Deleted": true, "Why": "sold"}), options)
                .await
                .unwrap();
        }
        assert_eq!(
            undelete(&store, "u-1", options).await,
            Ok(Some(written(6))),
            "{options:?}"
        );
        let expected = json!({"A": {"N": "1"}, "B": {"N": "2"}, "M": {"M": {"N": {"N": "1"}}}});
        assert_eq!(read(&store, 6).await, (false, expected.clone()));
        assert_eq!(Value::from(state(&store, LATEST_KEY).await), expected);
        let view = store.latest(&entity(ID), true).await.unwrap().unwrap();
        assert_eq!((view.restored_from, view.actor), (Some(version(2)), None));
        // A repetition is the same undelete, and an entity that is not deleted stays as it is.
        let repeated = duplicate(6);
        assert_eq!(
            undelete(&store, "u-1", options).await,
            Ok(Some(repeated)),
            "{options:?}"
        );
        assert_eq!(undelete(&store, "u-2", options).await, Ok(None));
        // An entity that was created with a deletion has nothing to restore.
        let new = entity("New");
        let delete = async |id: &str| {
            let deleted = store.delete(&new, request(id), ChangeOptions::default(), options);
            deleted.await.unwrap()
        };
        let other = Update::parse(json!({"ID": "New", "Deleted": true}), "n-1", Ordering::Arrival).unwrap();
        store.write(&other, options).await.unwrap();
        let nothing = store
            .undelete(&new, request("n-2"), ChangeOptions::default(), options)
            .await;
        assert_eq!(nothing, Err(RestoreError::NothingBefore { tombstone: version(1) }));
        // A deletion is applied once, and changes no entity that is deleted.
        assert_eq!(delete("n-3").await, None);
        let revived = Update::parse(json!({"ID": "New"}), "n-4", Ordering::Arrival).unwrap();
        store.write(&revived, options).await.unwrap();
        assert_eq!(delete("n-5").await, Some(written(3)));
        assert_eq!(delete("n-5").await, Some(duplicate(3)));
        // A restore brings back a tombstone, too.
        let restored = store
            .restore(
                &entity(ID),
                version(4),
                request("u-3"),
                ChangeOptions::default(),
                options,
            )
            .await;
        assert_eq!(restored, Ok(written(7)));
        let latest = store.latest(&entity(ID), true).await.unwrap().unwrap();
        assert!(latest.deleted);
        assert_eq!(
            serde_json::to_value(&latest.attributes).unwrap(),
            json!({"Why": {"S": "sold"}})
        );
        assert_eq!(state(&store, LATEST_KEY).await, Map::new());
    }
}

#[tokio::test]
async fn an_undelete_waits_for_history() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = settings()[0];
    // The stream has delivered nothing yet.
    let image = async |members: Value| {
        let mut members = members;
        members["ID"] = json!(ID);
        store.write(&update(members), options).await.unwrap();
        let latest = store.get(&entity(ID), LATEST_KEY, true).await.unwrap().unwrap();
        shared::domain::version_item::VersionItem::from_image(latest, store.digits()).unwrap()
    };
    let first = image(json!({"A": 1})).await;
    let second = image(json!({"Deleted": true})).await;
    let missing = store
        .undelete(&entity(ID), request("u-1"), ChangeOptions::default(), options)
        .await;
    assert_eq!(missing, Err(RestoreError::NotInHistory { version: version(1) }));
    let missing = store
        .restore(
            &entity(ID),
            version(1),
            request("u-2"),
            ChangeOptions::default(),
            options,
        )
        .await;
    assert_eq!(missing, Err(RestoreError::NotInHistory { version: version(1) }));
    let never = store
        .restore(
            &entity(ID),
            version(9),
            request("u-3"),
            ChangeOptions::default(),
            options,
        )
        .await;
    assert_eq!(never, Err(RestoreError::NotFound));
    let late = async {
        // After the undelete has missed it.
        let mut requests = database.requests.take().0;
        while requests < 4 {
            tokio::task::yield_now().await;
            requests += database.requests.take().0;
        }
        for version in [&second, &first] {
            assert_eq!(store.put_version(version).await.unwrap(), PutOutcome::Recorded);
        }
    };
    database.requests.take();
    let (undeleted, ()) = tokio::join!(undelete(&store, "u-1", options), late);
    assert_eq!(undeleted, Ok(Some(written(3))));
    assert_eq!(Value::from(state(&store, LATEST_KEY).await), json!({"A": {"N": "1"}}));
}

/// Returns wide state: names and values of some length.
fn wide(from: usize, to: usize) -> Map<String, Value> {
    (from..to)
        .map(|number| (format!("Attribute-{number:04}-{}", "x".repeat(40)), json!(number)))
        .collect()
}

/// Writes an item with more attributes than one request can remove. Returns its version.
async fn write_wide(store: &Store, options: WriteOptions) -> u64 {
    let step = 250;
    for from in (0..WIDE).step_by(step) {
        write(store, Value::Object(wide(from, from + step)), options)
            .await
            .unwrap();
    }
    (WIDE / step) as u64
}

#[tokio::test]
async fn an_item_with_more_attributes_than_one_request_can_remove_is_deleted() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        let before = write_wide(&store, options).await;
        assert_eq!(state(&store, LATEST_KEY).await.len(), WIDE);
        let deletion = json!({"Deleted": true, "Why": "sold"});
        assert_eq!(
            write(&store, deletion, options).await,
            Ok(written(before + 1)),
            "{options:?}"
        );
        assert_eq!(state(&store, LATEST_KEY).await, Map::new(), "{options:?}");
        let tombstone = (true, json!({"Why": {"S": "sold"}}));
        assert_eq!(read(&store, before + 1).await, tombstone);
        // A record of the stream from the removal is the same version.
        assert_eq!(put_version(&store, &entity(ID)).await, PutOutcome::AlreadyRecorded);
        let findings = store.audit(&entity(ID), Duration::ZERO).await.unwrap();
        assert_eq!(findings, Some(Vec::new()), "{options:?}");
        // An undelete sets them all again, in one version.
        assert_eq!(
            undelete(&store, "u-1", options).await,
            Ok(Some(written(before + 2))),
            "{options:?}"
        );
        for key in [LATEST_KEY, &format!("v{}", before + 2)] {
            let names: Vec<_> = state(&store, key).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(
                names,
                wide(0, WIDE).keys().cloned().collect::<Vec<_>>(),
                "{options:?} {key}"
            );
        }
        let latest = store.get(&entity(ID), LATEST_KEY, true).await.unwrap().unwrap();
        assert!(!latest.contains_key("TombstoneStaged") && !latest.contains_key("TombstoneState"));
        // A restore sets only what differs, and an entity that is not deleted needs one request.
        let restore = async |number: u64, id: &str| {
            let change = ChangeOptions::default();
            let restored = store
                .restore(&entity(ID), version(number), request(id), change, options)
                .await;
            if restored.is_ok() && options.mode == WriteMode::Stream {
                put_version(&store, &entity(ID)).await;
            }
            restored
        };
        assert_eq!(restore(before - 1, "u-2").await, Ok(written(before + 3)));
        assert_eq!(state(&store, LATEST_KEY).await.len(), WIDE - 250);
        assert_eq!(
            write(&store, json!({"Deleted": true}), options).await,
            Ok(written(before + 4))
        );
        assert_eq!(write(&store, json!({"A": 1}), options).await, Ok(written(before + 5)));
        assert_eq!(
            restore(before, "u-3").await,
            Err(RestoreError::TooManyAttributes { count: WIDE })
        );
        assert_eq!(
            write(&store, json!({"Deleted": true}), options).await,
            Ok(written(before + 6))
        );
        assert_eq!(restore(before, "u-3").await, Ok(written(before + 7)));
        assert_eq!(state(&store, LATEST_KEY).await.len(), WIDE);
        let findings = store.audit(&entity(ID), Duration::ZERO).await.unwrap();
        assert_eq!(findings, Some(Vec::new()), "{options:?}");
    }
}

#[tokio::test]
async fn attributes_that_an_interrupted_deletion_left_do_not_come_back() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let table = format!("T{number}");
        let store = database.store(&table, 1).await;
        write(&store, json!({"A": 1}), options).await.unwrap();
        let deletion = update(json!({"ID": ID, "Deleted": true, "Why": "sold"}));
        // The process stopped before it removed the rest. Another program cannot tell it from the state.
        let interrupt = async || {
            for from in (0..WIDE).step_by(250) {
                let names: Vec<_> = wide(from, from + 250).into_iter().map(|(name, _)| name).collect();
                let placeholders: Vec<_> = (0..names.len()).map(|index| format!("#a{index}")).collect();
                let sets: Vec<_> = placeholders
                    .iter()
                    .map(|placeholder| format!("{placeholder} = :x"))
                    .collect();
                let pairs: Vec<_> = placeholders
                    .iter()
                    .map(String::as_str)
                    .zip(names.iter().map(String::as_str))
                    .collect();
                let expression = format!("SET {}", sets.join(", "));
                change(&database, &table, &expression, &pairs, json!({":x": {"S": "x"}})).await;
            }
        };
        assert_eq!(record(&store, &deletion, options).await, Ok(written(2)));
        interrupt().await;
        // Readers and history do not see it.
        let latest = store.latest(&entity(ID), true).await.unwrap().unwrap();
        assert_eq!(
            serde_json::to_value(&latest.attributes).unwrap(),
            json!({"Why": {"S": "sold"}})
        );
        assert_eq!(put_version(&store, &entity(ID)).await, PutOutcome::AlreadyRecorded);
        let findings = store.audit(&entity(ID), Duration::ZERO).await.unwrap();
        assert_eq!(findings, Some(Vec::new()), "{options:?}");
        // The next delivery of the deletion removes it.
        let repeated = duplicate(2);
        assert_eq!(record(&store, &deletion, options).await, Ok(repeated));
        assert_eq!(state(&store, LATEST_KEY).await, Map::new(), "{options:?}");
        // So does the next update, which has as many attributes as an update can have.
        interrupt().await;
        let next: Map<_, _> = wide(500, 750);
        assert_eq!(
            write(&store, Value::Object(next.clone()), options).await,
            Ok(written(3)),
            "{options:?}"
        );
        for key in [LATEST_KEY, "v3"] {
            let names: Vec<_> = state(&store, key).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, next.keys().cloned().collect::<Vec<_>>(), "{options:?} {key}");
        }
    }
}

#[tokio::test]
async fn a_deletion_by_another_program_ends_the_state_for_the_next_update() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let table = format!("T{number}");
        let store = database.store(&table, 1).await;
        write(&store, json!({"A": 1}), options).await.unwrap();
        let delete = "SET Deleted = :true, Note = :note ADD Latest :one";
        let values = json!({":true": {"BOOL": true}, ":note": {"S": "n"}, ":one": {"N": "1"}});
        change(&database, &table, delete, &[], values).await;
        put_version(&store, &entity(ID)).await;
        // Its version has what the program left.
        assert_eq!(
            read(&store, 2).await,
            (true, json!({"A": {"N": "1"}, "Note": {"S": "n"}}))
        );
        assert_eq!(
            write(&store, json!({"B": 1}), options).await,
            Ok(written(3)),
            "{options:?}"
        );
        for key in [LATEST_KEY, "v3"] {
            assert_eq!(
                Value::from(state(&store, key).await),
                json!({"B": {"N": "1"}}),
                "{options:?} {key}"
            );
        }
        assert_eq!(write(&store, json!({"Deleted": true}), options).await, Ok(written(4)));
        assert_eq!(undelete(&store, "u-1", options).await, Ok(Some(written(5))));
        assert_eq!(Value::from(state(&store, LATEST_KEY).await), json!({"B": {"N": "1"}}));
    }
}
