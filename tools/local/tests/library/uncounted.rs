//! Entities whose latest item is missing or has no `Latest`, although there are versions.

use serde_json::{Value, json};
use shared::dynamodb::read::layout_error::LayoutError;
use testkit::{
    database::Database,
    endpoint::is_about_one_table,
    updates::{WriteError, WriteMode, WriteOutcome, settings, update, version, written},
    world::World,
};

fn item(key: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": key}, "State": {"S": "NORMAL"}})
}

/// Returns numbered versions, as another program loaded them, with an item of this key beside them.
fn loaded(beside: Option<&str>) -> Vec<Value> {
    let versions = ["v01", "v02", "v03", "Metadata"].into_iter();
    versions.chain(beside).map(item).collect()
}

/// Checks that no update of the entity is applied in a table with these items, because it reached a version.
async fn check_rejected(world: &World<'_>, reached: u64) {
    let before = world.rows().await;
    for json in [json!({"State": "OK"}), json!({"State": "OK", "ExpectedVersion": 0})] {
        let error = world.apply(json).await.unwrap_err();
        let version = version(reached);
        assert_eq!(
            error,
            WriteError::CounterMissing { version },
            "{} {:?}",
            world.table,
            world.options
        );
        let text = format!(
            "the entity reached version {reached} or a later one, but no latest item counts it: run `vzero admin repair ID --revive`"
        );
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(world.rows().await, before, "{} {:?}", world.table, world.options);
}

/// A floor shows that there were versions, also if none of them exists any more. The vectors test reads of such entities.
#[tokio::test]
async fn an_update_never_counts_from_1_beside_versions_or_a_floor() {
    let database = Database::start().await;
    let mut floor = item("floor");
    floor["Floor"] = json!({"N": "10"});
    let mut pinned = item("v3");
    pinned["Pinned"] = json!({"BOOL": true});
    // Only its counter was lost.
    let mut lost = item("v0");
    lost["RecentRequests"] = json!({"M": {"hash": {"N": "2"}}});
    let padded = json!({"PK": {"S": "E"}, "SK": {"S": "v00"}, "Latest": {"N": "1"}});
    let notes = (0..9).map(|number| item(&format!("note#{number}")));
    for (name, digits, items, reached) in [
        ("uncounted", 2, loaded(Some("v0")), 3),
        ("padded", 2, loaded(Some("v00")), 3),
        ("none", 2, loaded(None), 3),
        ("floor", 1, vec![floor.clone()], 10),
        ("pinned", 1, vec![pinned, floor.clone()], 10),
        ("notes", 1, notes.chain([floor.clone()]).collect(), 10),
        ("uncounted-floor", 1, vec![item("v0"), floor], 10),
        ("lost", 1, vec![item("v1"), item("v2"), lost], 2),
        // A padded latest item without versions.
        ("padded-alone", 2, vec![padded], 1),
    ] {
        if reached == 1 && is_about_one_table() {
            continue;
        }
        for (number, options) in settings().into_iter().enumerate() {
            let world = World::new(&database, &format!("{name}{number}"), digits)
                .await
                .with(options);
            for item in &items {
                world.put(item.clone()).await;
            }
            check_rejected(&world, reached).await;
        }
    }
    // A latest item without a counter and without versions is counted from 1.
    let world = World::new(&database, "NoVersions", 1).await;
    world
        .put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "RecentRequests": {"M": {"hash": {"N": "4"}}}}))
        .await;
    assert_eq!(world.write(json!({})).await, Ok(written(1)));
}

/// Also if another program counts them, and in every mode: the next version would have another key than its own next one.
#[tokio::test]
async fn an_update_never_begins_a_second_history_beside_keys_of_another_width() {
    if is_about_one_table() {
        return;
    }
    let database = Database::start().await;
    let keys = |numbers: std::ops::RangeInclusive<u8>| numbers.map(|number| format!("v{number:02}"));
    let named = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    for (name, digits, keys, expected) in [
        ("from0", 1, keys(0..=3).collect(), 2),
        ("from1", 1, keys(1..=3).collect(), 2),
        ("long", 1, keys(1..=12).collect(), 2),
        ("latest", 1, named(&["v0", "v01", "v02"]), 2),
        ("only-latest", 1, named(&["v00"]), 2),
        ("wide", 2, named(&["v000000007", "v000000008"]), 9),
        ("narrow", 2, named(&["v1", "v10", "v11", "v2"]), 1),
        ("counted", 1, named(&["v0 counted", "v01", "v02"]), 2),
        ("counted-narrow", 2, named(&["v0 counted", "v1", "v2"]), 1),
    ] {
        let world = World::new(&database, name, digits).await;
        for key in &keys {
            let mut row = item(key.split(' ').next().unwrap());
            if key.ends_with("counted") {
                row["Latest"] = json!({"N": "2"});
            }
            world.put(row).await;
        }
        let before = world.rows().await;
        for options in settings() {
            let world = world.clone().with(options);
            for expected_version in [json!(null), json!(0), json!(2)] {
                let mut update = json!({"State": "OK", "ExpectedVersion": expected_version});
                if expected_version.is_null() {
                    update.as_object_mut().unwrap().remove("ExpectedVersion");
                }
                let refused = world.apply(update).await;
                let Err(WriteError::Layout(error)) = &refused else {
                    panic!("{name} {expected_version} {options:?}: {refused:?}");
                };
                let LayoutError::OtherWidth { found, .. } = &**error else {
                    panic!("{error}");
                };
                assert_eq!(*found, expected, "{name}");
            }
        }
        assert_eq!(world.rows().await, before, "{name}");
    }
    // A latest item that another program counts, with keys of this width, is read once.
    let world = World::new(&database, "same-width", 1).await;
    world
        .put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}}))
        .await;
    world.put(item("v1")).await;
    for expected in [&["Query", "UpdateItem"][..], &["UpdateItem"]] {
        let (outcome, operations) = world.operations(world.apply(json!({"A": 1}))).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Written { .. })), "{outcome:?}");
        assert_eq!(operations, expected);
    }
}

#[tokio::test]
async fn the_check_costs_one_read_before_the_first_version_only() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await.in_mode(WriteMode::Stream);
    // Only the first update, deletions, and updates after them need a second request. `failed` is the number of failed conditions.
    for (json, expected, failed) in [
        (json!({"A": 1}), &["Query", "UpdateItem"][..], 1),
        (json!({"A": 2}), &["UpdateItem"], 0),
        (json!({"Deleted": true}), &["GetItem", "UpdateItem"], 0),
        (json!({"B": 1}), &["UpdateItem"], 1),
        (json!({"B": 2}), &["UpdateItem"], 0),
        (json!({"ID": "F", "ExpectedVersion": 0}), &["Query", "UpdateItem"], 0),
    ] {
        database.requests.take();
        let (outcome, operations) = world.operations(world.apply(json)).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Written { .. })), "{outcome:?}");
        let counts = database.requests.take();
        assert_eq!((&operations[..], counts.failed_conditions), (expected, failed));
        world.put_version().await;
    }
    // A first update of an existing entity does not read its history.
    let inline = world.in_mode(WriteMode::Inline);
    for number in 1..=20 {
        let large = json!({"ID": "Large", "Text": "x".repeat(3_000)});
        inline.writes(large, number).await;
    }
    database.consumed();
    let first = inline.apply(json!({"ID": "Large", "ExpectedVersion": 0})).await;
    let (expected, latest) = (0, 20);
    assert_eq!(first, Ok(WriteOutcome::Conflict { expected, latest }));
    let units = database.units();
    assert!(units <= 4.0, "{units}");
    if is_about_one_table() {
        return;
    }
    // Items of other programs between the floor and the versions are not read.
    for number in 0..30 {
        let note = json!({"PK": {"S": "N"}, "SK": {"S": format!("note#{number}")}, "Text": {"S": "x".repeat(8_000)}});
        world.put(note).await;
    }
    database.consumed();
    let first = world.record(&update(json!({"ID": "N"}))).await;
    assert_eq!(first, Ok(written(1)));
    let consumed = database.consumed();
    let operations: Vec<_> = consumed.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(operations[..3], ["Query", "Query", "UpdateItem"]);
    // Four of the notes, and an empty range.
    assert!(consumed[0].1 <= 8.5 && consumed[1].1 <= 1.0, "{consumed:?}");
}
