//! Deleted entities on a real table: their state ends, and an undelete brings it back from history.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use operations::{
    audit::auditor::audit,
    revision::{self, ChangeOptions, RestoreError},
};
use serde_json::{Map, Value, json};
use shared::{
    config::{Ordering, WriteMode, WriteOptions},
    domain::{keys::LATEST_KEY, request_id::RequestId, view::VersionView},
    dynamodb::{Store, put::put_version::PutOutcome},
};
use testkit::database::{Database, duplicate, entity, item, put_version, record, settings, update, version, written};
use writer_fn::{
    counter::{self, WriteError, WriteOutcome},
    update::Update,
};

const ID: &str = "Pump#1";
/// Number of attributes of a wide item: more than one request can remove.
const WIDE: usize = 1000;

fn request(id: &str) -> RequestId {
    RequestId::new(id).unwrap()
}

/// The entity in a table of its own, written with these options.
struct Pump {
    store: Store,
    table: String,
    options: WriteOptions,
}

impl Pump {
    /// Returns one for each write mode with each idempotency.
    async fn all(database: &Database) -> Vec<Self> {
        let mut pumps = Vec::new();
        for (number, options) in settings().into_iter().enumerate() {
            let table = format!("T{number}");
            let store = database.store(&table, 1).await;
            pumps.push(Self { store, table, options });
        }
        pumps
    }

    async fn write(&self, mut members: Value) -> Result<WriteOutcome, WriteError> {
        members["ID"] = json!(ID);
        record(&self.store, &update(members), self.options).await
    }

    /// Applies an update that creates this version.
    async fn writes(&self, members: Value, version: u64) {
        let outcome = self.write(members.clone()).await;
        assert_eq!(outcome, Ok(written(version)), "{:?} {members}", self.options);
    }

    async fn put_version(&self) -> PutOutcome {
        put_version(&self.store, &entity(ID)).await
    }

    async fn undelete(&self, id: &str) -> Result<Option<WriteOutcome>, RestoreError> {
        let (change, options) = (ChangeOptions::default(), self.options);
        let undeleted = revision::undelete(&self.store, &entity(ID), request(id), change, options).await?;
        if options.mode == WriteMode::Stream && matches!(undeleted, Some(WriteOutcome::Written { .. })) {
            self.put_version().await;
        }
        Ok(undeleted)
    }

    async fn restore(&self, number: u64, id: &str) -> Result<WriteOutcome, RestoreError> {
        let (change, options) = (ChangeOptions::default(), self.options);
        let entity = entity(ID);
        let restored = revision::restore(&self.store, &entity, version(number), request(id), change, options);
        let restored = restored.await?;
        if options.mode == WriteMode::Stream && matches!(restored, WriteOutcome::Written { .. }) {
            self.put_version().await;
        }
        Ok(restored)
    }

    /// Returns the attributes of an item that are state, sorted by name.
    async fn state(&self, key: &str) -> Map<String, Value> {
        let item = item(&self.store, ID, key).await;
        let mut state = item.as_object().unwrap().clone();
        state.retain(|name, _| shared::domain::attribution::is_state(name));
        state.sort_keys();
        state
    }

    /// Checks the state of the latest item, and of its version item.
    async fn is_at(&self, number: u64, state: &Value) {
        for key in [LATEST_KEY, &format!("v{number}")] {
            assert_eq!(Value::from(self.state(key).await), *state, "{:?} {key}", self.options);
        }
    }

    /// Returns the state of a version as readers see it.
    async fn read(&self, number: u64) -> (bool, Value) {
        let view = self.store.version(&entity(ID), version(number), true).await;
        let view = view.unwrap().unwrap();
        (view.deleted, serde_json::to_value(&view.attributes).unwrap())
    }

    async fn latest(&self) -> VersionView {
        self.store.latest(&entity(ID), true).await.unwrap().unwrap()
    }

    /// Checks that an audit finds nothing.
    async fn is_sound(&self) {
        let findings = audit(&self.store, &entity(ID), Duration::ZERO).await.unwrap();
        assert_eq!(findings, Some(Vec::new()), "{:?}", self.options);
    }
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
    for pump in Pump::all(&database).await {
        let first = json!({"A": 1, "M": {"N": 1}, "Actor": "amy"});
        pump.writes(first, 1).await;
        pump.writes(json!({"B": 2}), 2).await;
        let deletion = json!({"Deleted": true, "Why": "sold", "B": null, "Reason": "moved"});
        pump.writes(deletion, 3).await;
        assert_eq!(pump.state(LATEST_KEY).await, Map::new(), "{:?}", pump.options);
        assert_eq!(Value::from(pump.state("v3").await), json!({"Why": {"S": "sold"}}));
        let tombstone = (true, json!({"Why": {"S": "sold"}}));
        assert_eq!(pump.read(3).await, tombstone);
        let latest = pump.latest().await;
        assert_eq!(
            (latest.deleted, serde_json::to_value(&latest.attributes).unwrap()),
            tombstone
        );

        // There is no map whose members could be updated, neither before nor by a deletion.
        for members in [
            json!({"M": {"$update": {"N": 2}}}),
            json!({"Deleted": true, "M": {"$update": {"N": 2}}}),
        ] {
            let refused = pump.write(members).await;
            assert!(matches!(refused, Err(WriteError::NoMap { .. })), "{refused:?}");
        }
        // The tombstone is compared as before.
        let conflict = pump.write(json!({"ExpectedVersion": 0})).await;
        assert_eq!(conflict, Ok(WriteOutcome::Conflict { expected: 0, latest: 3 }));

        // Deletions in a row.
        pump.writes(json!({"Deleted": true}), 4).await;
        assert_eq!(pump.read(4).await, (true, json!({})));
        let revived = json!({"C": 3, "ExpectedVersion": 4});
        pump.writes(revived, 5).await;
        pump.is_at(5, &json!({"C": {"N": "3"}})).await;
        let latest = serde_json::to_value(pump.store.get(&entity(ID), LATEST_KEY, true).await.unwrap()).unwrap();
        for name in ["Deleted", "TombstoneState", "TTL", "Actor", "Reason"] {
            assert!(latest.get(name).is_none(), "{name}");
        }
        pump.is_sound().await;
    }
}

#[tokio::test]
async fn only_deletions_and_updates_after_them_need_a_second_request() {
    let database = Database::start().await;
    let pump = Pump::all(&database).await.remove(0);
    let requests = async |members: Value| {
        let mut members = members;
        members["ID"] = json!(ID);
        database.consumed();
        counter::write(&pump.store, &update(members), pump.options)
            .await
            .unwrap();
        let operations = database.consumed();
        pump.put_version().await;
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
    for pump in Pump::all(&database).await {
        let write = async |members: Value, request: &str| {
            let mut members = members;
            members["ID"] = json!(ID);
            let update = Update::parse(members, request, Ordering::Time).unwrap();
            record(&pump.store, &update, pump.options).await
        };
        let stale = WriteOutcome::Stale { version: version(2) };
        for (request, members, expected) in [
            ("r-1", json!({"Timestamp": 1000, "A": 1}), written(1)),
            ("r-2", json!({"Timestamp": 3000, "Deleted": true}), written(2)),
            ("r-3", json!({"Timestamp": 2000, "A": 2}), stale),
            ("r-4", json!({"Timestamp": 4000, "B": 1}), written(3)),
            // An earlier delivery is still detected.
            ("r-2", json!({"Timestamp": 3000, "Deleted": true}), duplicate(2)),
        ] {
            let outcome = write(members, request).await;
            assert_eq!(outcome, Ok(expected), "{request} {:?}", pump.options);
        }
        assert_eq!(Value::from(pump.state(LATEST_KEY).await), json!({"B": {"N": "1"}}));
    }
}

#[tokio::test]
async fn an_undelete_restores_the_newest_version_that_is_no_tombstone() {
    let database = Database::start().await;
    for pump in Pump::all(&database).await {
        pump.write(json!({"A": 1, "Actor": "amy"})).await.unwrap();
        pump.write(json!({"B": 2, "M": {"N": 1}})).await.unwrap();
        for _ in 0..3 {
            pump.write(json!({"Deleted": true, "Why": "sold"})).await.unwrap();
        }
        assert_eq!(pump.undelete("u-1").await, Ok(Some(written(6))), "{:?}", pump.options);
        let expected = json!({"A": {"N": "1"}, "B": {"N": "2"}, "M": {"M": {"N": {"N": "1"}}}});
        assert_eq!(pump.read(6).await, (false, expected.clone()));
        assert_eq!(Value::from(pump.state(LATEST_KEY).await), expected);
        let view = pump.latest().await;
        assert_eq!((view.restored_from, view.actor), (Some(version(2)), None));
        // A repetition is the same undelete, and an entity that is not deleted stays as it is.
        assert_eq!(pump.undelete("u-1").await, Ok(Some(duplicate(6))), "{:?}", pump.options);
        assert_eq!(pump.undelete("u-2").await, Ok(None));
        // An entity that was created with a deletion has nothing to restore.
        let new = entity("New");
        let delete = async |id: &str| {
            let deleted = revision::delete(&pump.store, &new, request(id), ChangeOptions::default(), pump.options);
            deleted.await.unwrap()
        };
        let other = Update::parse(json!({"ID": "New", "Deleted": true}), "n-1", Ordering::Arrival).unwrap();
        counter::write(&pump.store, &other, pump.options).await.unwrap();
        let nothing = revision::undelete(
            &pump.store,
            &new,
            request("n-2"),
            ChangeOptions::default(),
            pump.options,
        )
        .await;
        assert_eq!(nothing, Err(RestoreError::NothingBefore { tombstone: version(1) }));
        // A deletion is applied once, and changes no entity that is deleted.
        assert_eq!(delete("n-3").await, None);
        let revived = Update::parse(json!({"ID": "New"}), "n-4", Ordering::Arrival).unwrap();
        counter::write(&pump.store, &revived, pump.options).await.unwrap();
        assert_eq!(delete("n-5").await, Some(written(3)));
        assert_eq!(delete("n-5").await, Some(duplicate(3)));
        // A restore brings back a tombstone, too.
        let restored = pump.restore(4, "u-3").await;
        assert_eq!(restored, Ok(written(7)));
        let latest = pump.latest().await;
        assert!(latest.deleted);
        assert_eq!(
            serde_json::to_value(&latest.attributes).unwrap(),
            json!({"Why": {"S": "sold"}})
        );
        assert_eq!(pump.state(LATEST_KEY).await, Map::new());
    }
}

#[tokio::test]
async fn an_undelete_waits_for_history() {
    let database = Database::start().await;
    let pump = Pump::all(&database).await.remove(0);
    // The stream has delivered nothing yet.
    let image = async |members: Value| {
        let mut members = members;
        members["ID"] = json!(ID);
        counter::write(&pump.store, &update(members), pump.options)
            .await
            .unwrap();
        let latest = pump.store.get(&entity(ID), LATEST_KEY, true).await.unwrap().unwrap();
        shared::domain::version_item::VersionItem::from_image(latest, pump.store.digits()).unwrap()
    };
    let first = image(json!({"A": 1})).await;
    let second = image(json!({"Deleted": true})).await;
    let missing = pump.undelete("u-1").await;
    assert_eq!(missing, Err(RestoreError::NotInHistory { version: version(1) }));
    let missing = pump.restore(1, "u-2").await;
    assert_eq!(missing, Err(RestoreError::NotInHistory { version: version(1) }));
    let never = pump.restore(9, "u-3").await;
    assert_eq!(never, Err(RestoreError::NotFound));
    let late = async {
        // After the undelete has missed it.
        let mut requests = database.requests.take().0;
        while requests < 4 {
            tokio::task::yield_now().await;
            requests += database.requests.take().0;
        }
        for version in [&second, &first] {
            assert_eq!(pump.store.put_version(version).await.unwrap(), PutOutcome::Recorded);
        }
    };
    database.requests.take();
    let (undeleted, ()) = tokio::join!(pump.undelete("u-1"), late);
    assert_eq!(undeleted, Ok(Some(written(3))));
    assert_eq!(Value::from(pump.state(LATEST_KEY).await), json!({"A": {"N": "1"}}));
}

/// Returns wide state: names and values of some length.
fn wide(from: usize, to: usize) -> Map<String, Value> {
    (from..to)
        .map(|number| (format!("Attribute-{number:04}-{}", "x".repeat(40)), json!(number)))
        .collect()
}

/// Writes an item with more attributes than one request can remove. Returns its version.
async fn write_wide(pump: &Pump) -> u64 {
    let step = 250;
    for from in (0..WIDE).step_by(step) {
        pump.write(Value::Object(wide(from, from + step))).await.unwrap();
    }
    (WIDE / step) as u64
}

#[tokio::test]
async fn an_item_with_more_attributes_than_one_request_can_remove_is_deleted() {
    let database = Database::start().await;
    for pump in Pump::all(&database).await {
        let before = write_wide(&pump).await;
        assert_eq!(pump.state(LATEST_KEY).await.len(), WIDE);
        let deletion = json!({"Deleted": true, "Why": "sold"});
        pump.writes(deletion, before + 1).await;
        assert_eq!(pump.state(LATEST_KEY).await, Map::new(), "{:?}", pump.options);
        let tombstone = (true, json!({"Why": {"S": "sold"}}));
        assert_eq!(pump.read(before + 1).await, tombstone);
        // A record of the stream from the removal is the same version.
        assert_eq!(pump.put_version().await, PutOutcome::AlreadyRecorded);
        pump.is_sound().await;
        // An undelete sets them all again, in one version.
        assert_eq!(
            pump.undelete("u-1").await,
            Ok(Some(written(before + 2))),
            "{:?}",
            pump.options
        );
        for key in [LATEST_KEY, &format!("v{}", before + 2)] {
            let names: Vec<_> = pump.state(key).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, wide(0, WIDE).keys().cloned().collect::<Vec<_>>(), "{key}");
        }
        let latest = pump.store.get(&entity(ID), LATEST_KEY, true).await.unwrap().unwrap();
        assert!(!latest.contains_key("TombstoneStaged") && !latest.contains_key("TombstoneState"));
        // A restore sets only what differs, and an entity that is not deleted needs one request.
        assert_eq!(pump.restore(before - 1, "u-2").await, Ok(written(before + 3)));
        assert_eq!(pump.state(LATEST_KEY).await.len(), WIDE - 250);
        pump.writes(json!({"Deleted": true}), before + 4).await;
        pump.writes(json!({"A": 1}), before + 5).await;
        assert_eq!(
            pump.restore(before, "u-3").await,
            Err(RestoreError::TooManyAttributes { count: WIDE })
        );
        pump.writes(json!({"Deleted": true}), before + 6).await;
        assert_eq!(pump.restore(before, "u-3").await, Ok(written(before + 7)));
        assert_eq!(pump.state(LATEST_KEY).await.len(), WIDE);
        pump.is_sound().await;
    }
}

#[tokio::test]
async fn attributes_that_an_interrupted_deletion_left_do_not_come_back() {
    let database = Database::start().await;
    for pump in Pump::all(&database).await {
        pump.write(json!({"A": 1})).await.unwrap();
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
                change(&database, &pump.table, &expression, &pairs, json!({":x": {"S": "x"}})).await;
            }
        };
        assert_eq!(record(&pump.store, &deletion, pump.options).await, Ok(written(2)));
        interrupt().await;
        // Readers and history do not see it.
        let latest = pump.latest().await;
        assert_eq!(
            serde_json::to_value(&latest.attributes).unwrap(),
            json!({"Why": {"S": "sold"}})
        );
        assert_eq!(pump.put_version().await, PutOutcome::AlreadyRecorded);
        pump.is_sound().await;
        // The next delivery of the deletion removes it.
        let repeated = duplicate(2);
        assert_eq!(record(&pump.store, &deletion, pump.options).await, Ok(repeated));
        assert_eq!(pump.state(LATEST_KEY).await, Map::new(), "{:?}", pump.options);
        // So does the next update, which has as many attributes as an update can have.
        interrupt().await;
        let next: Map<_, _> = wide(500, 750);
        pump.writes(Value::Object(next.clone()), 3).await;
        for key in [LATEST_KEY, "v3"] {
            let names: Vec<_> = pump.state(key).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, next.keys().cloned().collect::<Vec<_>>(), "{key}");
        }
    }
}

#[tokio::test]
async fn a_deletion_by_another_program_ends_the_state_for_the_next_update() {
    let database = Database::start().await;
    for pump in Pump::all(&database).await {
        pump.write(json!({"A": 1})).await.unwrap();
        let delete = "SET Deleted = :true, Note = :note ADD Latest :one";
        let values = json!({":true": {"BOOL": true}, ":note": {"S": "n"}, ":one": {"N": "1"}});
        change(&database, &pump.table, delete, &[], values).await;
        pump.put_version().await;
        // Its version has what the program left.
        assert_eq!(pump.read(2).await, (true, json!({"A": {"N": "1"}, "Note": {"S": "n"}})));
        pump.writes(json!({"B": 1}), 3).await;
        pump.is_at(3, &json!({"B": {"N": "1"}})).await;
        pump.writes(json!({"Deleted": true}), 4).await;
        assert_eq!(pump.undelete("u-1").await, Ok(Some(written(5))));
        assert_eq!(Value::from(pump.state(LATEST_KEY).await), json!({"B": {"N": "1"}}));
    }
}
