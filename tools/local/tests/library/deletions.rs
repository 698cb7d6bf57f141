//! Deleted entities: their state ends, and an undelete brings it back from history.

use std::time::Duration;

use operations::{audit::auditor::Auditor, error::OperationError, rate_limit::RateLimiter};
use serde_json::{Map, Value, json};
use shared::{
    domain::{attribution::is_state, request_id::RequestId, version_item::VersionItem, view::VersionView},
    dynamodb::put::put_version::PutOutcome,
};
use testkit::{
    database::{Database, entity},
    updates::{ChangeOptions, WriteError, WriteMode, WriteOutcome, duplicate, revision, version, written},
    world::World,
};

/// Number of attributes of a wide item: more than one request can remove.
const WIDE: usize = 1000;
/// Number of attributes of an update.
const STEP: usize = 250;

fn request(id: &str) -> RequestId {
    RequestId::new(id).unwrap()
}

/// Puts the version item that stream-fn puts after a change of the latest item.
async fn recorded(world: &World<'_>, changed: Option<WriteOutcome>) -> Option<WriteOutcome> {
    if world.options.mode == WriteMode::Stream && matches!(changed, Some(WriteOutcome::Written { .. })) {
        world.put_version().await;
    }
    changed
}

fn why(error: OperationError) -> String {
    error.to_string()
}

async fn undelete(world: &World<'_>, id: &str) -> Result<Option<WriteOutcome>, String> {
    let (entity, change) = (world.entity(), ChangeOptions::default());
    let undeleted = revision::undelete(&world.store, &entity, request(id), change, world.options).await;
    Ok(recorded(world, undeleted.map_err(why)?).await)
}

async fn check_undelete(world: &World<'_>, expected: WriteOutcome) {
    assert_eq!(undelete(world, "u-1").await, Ok(Some(expected)), "{:?}", world.options);
}

async fn restore(world: &World<'_>, number: u64, id: &str) -> Result<Option<WriteOutcome>, String> {
    let (entity, number, change) = (world.entity(), version(number), ChangeOptions::default());
    let restored = revision::restore(&world.store, &entity, number, request(id), change, world.options).await;
    Ok(recorded(world, Some(restored.map_err(why)?)).await)
}

/// Returns the attributes of an item that are state, sorted by name.
async fn state(world: &World<'_>, key: &str) -> Map<String, Value> {
    let mut state = world.item(key).await.as_object().unwrap().clone();
    state.retain(|name, _| is_state(name));
    state.sort_keys();
    state
}

/// Checks the state of the latest item, and of its version item: numbers by name.
async fn check_state(world: &World<'_>, number: u64, expected: &Map<String, Value>) {
    let expected = expected
        .iter()
        .map(|(name, value)| (name.clone(), json!({"N": value.to_string()})));
    let expected: Map<_, _> = expected.collect();
    for key in ["v0", &format!("v{number}")] {
        assert!(state(world, key).await == expected, "{:?} {key}", world.options);
    }
}

fn one(name: &str, number: u64) -> Map<String, Value> {
    [(name.to_owned(), json!(number))].into_iter().collect()
}

fn shown(view: &VersionView) -> (bool, Value) {
    (view.deleted, serde_json::to_value(&view.attributes).unwrap())
}

/// Returns the state of a version as readers see it.
async fn read(world: &World<'_>, number: u64) -> (bool, Value) {
    shown(&world.version(number).await.unwrap())
}

/// Returns the state of the latest version as readers see it.
async fn latest(world: &World<'_>) -> (bool, Value) {
    shown(&world.latest().await)
}

/// Checks that an audit finds nothing.
async fn check_audit(world: &World<'_>) {
    let mut auditor = Auditor::new(
        world.store.clone(),
        RateLimiter::unlimited(),
        Duration::ZERO,
        Vec::new(),
    );
    let (_, findings) = auditor.entity(&world.entity(), None).await.unwrap().unwrap();
    assert!(findings.is_empty(), "{findings:?} {:?}", world.options);
}

/// Deletes the entity as another program does.
async fn delete_otherwise(world: &World<'_>, version: u64) {
    let mut v0 = world.v0().await;
    (v0["Deleted"], v0["Note"]) = (json!({"BOOL": true}), json!({"S": "n"}));
    v0["Latest"] = json!({"N": version.to_string()});
    world.put(v0).await;
}

#[tokio::test]
async fn a_deletion_removes_the_state_and_the_next_update_starts_from_an_empty_item() {
    let database = Database::start().await;
    let tombstone = (true, json!({"Why": {"S": "sold"}}));
    for world in World::each(&database, "T").await {
        world.writes(json!({"A": 1, "M": {"N": 1}, "Actor": "amy"}), 1).await;
        world.writes(json!({"B": 2}), 2).await;
        world
            .writes(json!({"Deleted": true, "Why": "sold", "B": null, "Reason": "moved"}), 3)
            .await;
        assert_eq!(state(&world, "v0").await, Map::new(), "{:?}", world.options);
        assert_eq!(Value::from(state(&world, "v3").await), tombstone.1);
        assert_eq!(read(&world, 3).await, tombstone);
        assert_eq!(latest(&world).await, tombstone);
        // There is no map whose members could be updated, neither before nor by a deletion.
        for deleted in [false, true] {
            let refused = world
                .write(json!({"M": {"$update": {"N": 2}}, "Deleted": deleted}))
                .await;
            assert!(matches!(refused, Err(WriteError::NoMap { .. })), "{refused:?}");
        }
        // The tombstone is compared as before.
        let conflict = WriteOutcome::Conflict { expected: 0, latest: 3 };
        assert_eq!(world.write(json!({"ExpectedVersion": 0})).await, Ok(conflict));
        // Deletions in a row.
        world.writes(json!({"Deleted": true}), 4).await;
        assert_eq!(read(&world, 4).await, (true, json!({})));
        world.writes(json!({"C": 3, "ExpectedVersion": 4}), 5).await;
        check_state(&world, 5, &one("C", 3)).await;
        let v0 = world.v0().await;
        for name in ["Deleted", "TombstoneState", "TTL", "Actor", "Reason"] {
            assert!(v0.get(name).is_none(), "{name}");
        }
        check_audit(&world).await;
        // A deletion by another program ends the state for the next update. Its version has what the program left.
        delete_otherwise(&world, 6).await;
        world.put_version().await;
        let left = json!({"C": {"N": "3"}, "Note": {"S": "n"}});
        assert_eq!(read(&world, 6).await, (true, left));
        world.writes(json!({"B": 1}), 7).await;
        check_state(&world, 7, &one("B", 1)).await;
        world.writes(json!({"Deleted": true}), 8).await;
        check_undelete(&world, written(9)).await;
        check_state(&world, 9, &one("B", 1)).await;
    }
}

#[tokio::test]
async fn an_undelete_restores_the_newest_version_that_is_no_tombstone() {
    let database = Database::start().await;
    for world in World::each(&database, "T").await {
        world.writes(json!({"A": 1, "Actor": "amy"}), 1).await;
        world.writes(json!({"B": 2, "M": {"N": 1}}), 2).await;
        for number in 3..=5 {
            world.writes(json!({"Deleted": true, "Why": "sold"}), number).await;
        }
        check_undelete(&world, written(6)).await;
        let expected = json!({"A": {"N": "1"}, "B": {"N": "2"}, "M": {"M": {"N": {"N": "1"}}}});
        assert_eq!(read(&world, 6).await, (false, expected.clone()));
        assert_eq!(Value::from(state(&world, "v0").await), expected);
        let view = world.latest().await;
        assert_eq!((view.restored_from, view.actor), (Some(version(2)), None));
        // A repetition is the same undelete, and an entity that is not deleted stays as it is.
        check_undelete(&world, duplicate(6)).await;
        assert_eq!(undelete(&world, "u-2").await, Ok(None));
        // A restore brings back a tombstone, too.
        assert_eq!(restore(&world, 4, "u-3").await, Ok(Some(written(7))));
        assert_eq!(latest(&world).await, (true, json!({"Why": {"S": "sold"}})));
        assert_eq!(state(&world, "v0").await, Map::new());
        // An entity that was created with a deletion has nothing to restore.
        let (new, options, store) = (entity("New"), world.options, &world.store);
        world.apply(json!({"ID": "New", "Deleted": true})).await.unwrap();
        let nothing = revision::undelete(store, &new, request("n-2"), ChangeOptions::default(), options).await;
        let before = OperationError::NothingBefore { tombstone: version(1) };
        assert_eq!(nothing.map_err(why), Err(why(before)));
        // A deletion is applied once, and changes no entity that is deleted.
        let delete = async |id: &str| {
            let deleted = revision::delete(store, &new, request(id), ChangeOptions::default(), options);
            deleted.await.unwrap()
        };
        assert_eq!(delete("n-3").await, None);
        world.apply(json!({"ID": "New"})).await.unwrap();
        assert_eq!(delete("n-5").await, Some(written(3)));
        assert_eq!(delete("n-5").await, Some(duplicate(3)));
    }
}

#[tokio::test]
async fn an_undelete_waits_for_history() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await.in_mode(WriteMode::Stream);
    // The stream has delivered nothing yet.
    let image = async |members: Value| {
        world.apply(members).await.unwrap();
        let latest = serde_json::from_value(world.v0().await).unwrap();
        VersionItem::from_image(latest, world.store.digits()).unwrap()
    };
    let first = image(json!({"A": 1})).await;
    let second = image(json!({"Deleted": true})).await;
    let missing = || why(OperationError::NotInHistory { version: version(1) });
    assert_eq!(undelete(&world, "u-1").await, Err(missing()));
    assert_eq!(restore(&world, 1, "u-2").await, Err(missing()));
    assert_eq!(restore(&world, 9, "u-3").await, Err(why(OperationError::NoVersion)));
    let late = async {
        // After the undelete has missed it.
        let mut requests = database.requests.take().started;
        while requests < 4 {
            tokio::task::yield_now().await;
            requests += database.requests.take().started;
        }
        for version in [&second, &first] {
            assert_eq!(world.store.put_version(version).await.unwrap(), PutOutcome::Recorded);
        }
    };
    database.requests.take();
    let (undeleted, ()) = tokio::join!(undelete(&world, "u-1"), late);
    assert_eq!(undeleted, Ok(Some(written(3))));
    check_state(&world, 3, &one("A", 1)).await;
}

/// Returns wide state: names and values of some length.
fn wide(from: usize, to: usize) -> Map<String, Value> {
    let name = |number: usize| format!("Attribute_{number:04}_{}", "x".repeat(40));
    (from..to).map(|number| (name(number), json!(number))).collect()
}

#[tokio::test]
async fn an_item_with_more_attributes_than_one_request_can_remove_is_deleted() {
    let database = Database::start().await;
    let tombstone = (true, json!({"Why": {"S": "sold"}}));
    // The modes without a ledger, and one with it.
    for world in World::each(&database, "T").await.into_iter().take(4) {
        for number in 0..WIDE / STEP {
            let members = Value::Object(wide(number * STEP, (number + 1) * STEP));
            world.writes(members, number as u64 + 1).await;
        }
        check_state(&world, 4, &wide(0, WIDE)).await;
        world.writes(json!({"Deleted": true, "Why": "sold"}), 5).await;
        assert_eq!(state(&world, "v0").await, Map::new(), "{:?}", world.options);
        assert_eq!(read(&world, 5).await, tombstone);
        // A record of the stream from the removal is the same version.
        assert_eq!(world.put_version().await, PutOutcome::AlreadyRecorded);
        check_audit(&world).await;
        // An undelete sets them all again, in one version.
        check_undelete(&world, written(6)).await;
        check_state(&world, 6, &wide(0, WIDE)).await;
        let v0 = world.v0().await;
        assert!(v0.get("TombstoneStaged").is_none() && v0.get("TombstoneState").is_none());
        // A restore sets only what differs, and an entity that is not deleted needs one request.
        assert_eq!(restore(&world, 3, "u-2").await, Ok(Some(written(7))));
        check_state(&world, 7, &wide(0, WIDE - STEP)).await;
        world.writes(json!({"Deleted": true}), 8).await;
        world.writes(json!({"A": 1}), 9).await;
        let too_many = why(OperationError::TooManyAttributes { count: WIDE });
        assert_eq!(restore(&world, 4, "u-3").await, Err(too_many));
        world.writes(json!({"Deleted": true}), 10).await;
        assert_eq!(restore(&world, 4, "u-3").await, Ok(Some(written(11))));
        check_state(&world, 11, &wide(0, WIDE)).await;
        check_audit(&world).await;
    }
}
