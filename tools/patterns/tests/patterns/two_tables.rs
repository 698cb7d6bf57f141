//! Two tables: the published example, old versions, rollbacks, crashes, and the capacity units of each call.

use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use futures::future::join_all;
use patterns::two_tables::{
    Outcome::{Conflict, Refused, UnknownVersion, Written},
    TwoTables,
};
use serde_json::{Value, json};
use shared::domain::{Item, version::Version};
use testkit::database::{Database, rows, sorted};

const HASH: &str = "1c5815b2";

async fn create_tables(database: &Database) -> TwoTables {
    database.table("resource", &[("hash", S)]).await;
    database.table("resource-history", &[("hash", S), ("version", N)]).await;
    TwoTables::new(
        database.client.clone(),
        database.table_name("resource"),
        database.table_name("resource-history"),
    )
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn row(version: &str, value: &str) -> Value {
    json!({"hash": {"S": HASH}, "version": {"N": version}, "attr1": {"S": value}})
}

fn attr(value: &str) -> Item {
    serde_json::from_value(json!({"attr1": {"S": value}})).unwrap()
}

/// A resource in one table, and each of its versions in another.
#[tokio::test]
async fn client_side_row_versioning() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    assert_eq!(tables.update(HASH, attr("x"), "w0").await, Ok(Refused));
    assert_eq!(
        tables.create(HASH, attr("some old values"), "w1").await,
        Ok(Written(version(1)))
    );
    assert_eq!(tables.create(HASH, attr("x"), "w2").await, Ok(Refused));
    assert_eq!(
        tables.update(HASH, attr("some values"), "w3").await,
        Ok(Written(version(2)))
    );
    let (old, new) = (row("1", "some old values"), row("2", "some values"));
    assert_eq!(rows(&database, "resource").await, std::slice::from_ref(&new));
    assert_eq!(rows(&database, "resource-history").await, sorted(vec![old, new]));
    let read = tables.read(HASH).await.unwrap().unwrap();
    assert!(read.version == version(2) && read.attributes == attr("some values"));

    // Deletes only the resource; the next version number is kept.
    tables.delete(HASH).await.unwrap();
    assert!(tables.read(HASH).await.unwrap().is_none());
    assert_eq!(tables.history(HASH).await.unwrap().len(), 2);
    assert_eq!(tables.create(HASH, attr("again"), "w4").await, Ok(Written(version(3))));
}

#[tokio::test]
async fn the_next_update_repairs_a_crash_between_the_two_writes() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    tables.create(HASH, attr("one"), "w1").await.unwrap();
    // The writer stops after the history row of version 2.
    tables
        .write_history(HASH, version(2), attr("lost"), "crashed")
        .await
        .unwrap();
    assert_eq!(tables.read(HASH).await.unwrap().unwrap().version, version(1));
    assert_eq!(
        tables.history(HASH).await.unwrap().len(),
        1,
        "the extra row is not returned"
    );
    assert_eq!(tables.update(HASH, attr("two"), "w2").await, Ok(Written(version(2))));
    assert_eq!(
        rows(&database, "resource-history").await,
        sorted(vec![row("1", "one"), row("2", "two")])
    );
    // A history row of an existing version is never replaced.
    let again = tables.write_history(HASH, version(2), attr("late"), "w3").await;
    assert_eq!(again, Ok(Conflict));
}

#[tokio::test]
async fn concurrent_writers_cannot_write_the_same_version() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    tables.create(HASH, attr("0"), "w").await.unwrap();
    for round in 0..10 {
        let ids: Vec<_> = (0..6).map(|writer| format!("{round}-{writer}")).collect();
        let outcomes = join_all(ids.iter().map(|id| tables.update(HASH, attr(id), id))).await;
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Ok(Written(_) | Conflict))),
            "{outcomes:?}"
        );
    }
    let read = tables.read(HASH).await.unwrap().unwrap();
    let history = tables.history(HASH).await.unwrap();
    assert_eq!(history.len() as u64, read.version.get());
    assert!(history[0] == read);
    let numbers: Vec<_> = history.iter().map(|row| row.version.get()).collect();
    assert_eq!(numbers, (1..=read.version.get()).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn an_old_version_is_read_by_its_key() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    tables.create(HASH, attr("one"), "w1").await.unwrap();
    tables.update(HASH, attr("two"), "w2").await.unwrap();
    // A writer that stops leaves a row that is not a version.
    tables
        .write_history(HASH, version(3), attr("lost"), "crashed")
        .await
        .unwrap();
    let read = async |number| {
        let row = tables.version(HASH, version(number)).await.unwrap();
        row.map(|row| (row.version, row.attributes))
    };
    for _ in 0..2 {
        database.consumed();
        assert!(read(1).await == Some((version(1), attr("one"))));
        assert_eq!(database.consumed(), [("GetItem", 1.0)]);
        assert!(read(2).await == Some((version(2), attr("two"))));
        assert!(read(3).await.is_none(), "a pending row is not a version");
        assert!(read(4).await.is_none());
        // Old versions are kept after the deletion.
        tables.delete(HASH).await.unwrap();
    }
    assert!(tables.version("another", version(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_rollback_is_a_new_version() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    assert_eq!(tables.rollback(HASH, version(1), "w0").await, Ok(Refused));
    tables.create(HASH, attr("one"), "w1").await.unwrap();
    tables.update(HASH, attr("two"), "w2").await.unwrap();
    assert_eq!(tables.rollback(HASH, version(3), "w3").await, Ok(UnknownVersion));
    assert_eq!(tables.rollback(HASH, version(1), "w4").await, Ok(Written(version(3))));
    assert_eq!(rows(&database, "resource").await, [row("3", "one")]);
    let versions = vec![row("1", "one"), row("2", "two"), row("3", "one")];
    assert_eq!(rows(&database, "resource-history").await, sorted(versions.clone()));

    // A pending row is no version to return to, and the rollback replaces it.
    tables
        .write_history(HASH, version(4), attr("lost"), "crashed")
        .await
        .unwrap();
    assert_eq!(tables.rollback(HASH, version(4), "w5").await, Ok(UnknownVersion));
    assert_eq!(tables.rollback(HASH, version(2), "w6").await, Ok(Written(version(4))));
    let versions = [versions, vec![row("4", "two")]].concat();
    assert_eq!(rows(&database, "resource-history").await, sorted(versions.clone()));

    // A deleted resource is refused. It is created again with the attributes of its old version.
    tables.delete(HASH).await.unwrap();
    assert_eq!(tables.rollback(HASH, version(1), "w7").await, Ok(Refused));
    let old = tables.version(HASH, version(1)).await.unwrap().unwrap();
    assert_eq!(tables.create(HASH, old.attributes, "w8").await, Ok(Written(version(5))));
    assert_eq!(rows(&database, "resource").await, [row("5", "one")]);
}

#[tokio::test]
async fn concurrent_rollbacks_and_updates_cannot_write_the_same_version() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    tables.create(HASH, attr("0"), "w").await.unwrap();
    let mut written = 1;
    for round in 0..10 {
        let ids: Vec<_> = (0..6).map(|writer| format!("{round}-{writer}")).collect();
        let outcomes = join_all(ids.iter().enumerate().map(async |(writer, id)| {
            if writer % 2 == 0 {
                tables.rollback(HASH, version(1), id).await
            } else {
                tables.update(HASH, attr(id), id).await
            }
        }));
        for outcome in outcomes.await {
            match outcome.unwrap() {
                Written(_) => written += 1,
                Conflict => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let history = tables.history(HASH).await.unwrap();
    let numbers: Vec<_> = history.iter().map(|row| row.version.get()).collect();
    assert_eq!(numbers, (1..=written).rev().collect::<Vec<_>>());
    assert!(tables.read(HASH).await.unwrap().unwrap() == history[0]);
}

#[tokio::test]
async fn a_create_reads_one_row_of_the_history() {
    let database = Database::start().await;
    let tables = create_tables(&database).await;
    let large = "x".repeat(3_000);
    tables.create(HASH, attr(&large), "w1").await.unwrap();
    for number in 2..=10 {
        tables.update(HASH, attr(&large), &format!("w{number}")).await.unwrap();
    }
    for pending in [false, true] {
        let last = tables.history(HASH).await.unwrap()[0].version.get();
        tables.delete(HASH).await.unwrap();
        let next = version(last + 1);
        if pending {
            tables.write_history(HASH, next, attr("lost"), "crashed").await.unwrap();
        }
        database.consumed();
        let id = format!("created {pending}");
        assert_eq!(tables.create(HASH, attr("again"), &id).await, Ok(Written(next)));
        let consumed = database.consumed();
        assert_eq!(consumed[..2], [("GetItem", 1.0), ("Query", 1.0)], "{consumed:?}");
    }
}

/// Returns the rows of the table in `docs/library.md`: call, write units, read units.
fn documented() -> Vec<(String, f64, f64)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/library.md")).unwrap();
    let section = text.split("\n## Two tables\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        (
            cells[0].trim_matches('`').to_owned(),
            cells[2].parse().unwrap(),
            cells[3].parse().unwrap(),
        )
    })
    .collect()
}

#[tokio::test]
async fn measured_units_of_each_call_match_the_documentation() {
    let database = Database::start().await;
    // Some engines report other units for a transaction.
    if database
        .endpoint
        .differs("the units of two tables", &["transaction-units"])
    {
        return;
    }
    let tables = create_tables(&database).await;
    // Rows of just under 1 KB, with the mark of a pending row.
    let large = attr(&"x".repeat(930));
    let mut measured = Vec::new();
    let mut measure = |call: &str| {
        let units = |is_read: bool| {
            move |(operation, units): &(&str, f64)| {
                (matches!(*operation, "GetItem" | "Query") == is_read).then_some(*units)
            }
        };
        let consumed = database.consumed();
        let sum = |is_read| consumed.iter().filter_map(units(is_read)).sum::<f64>();
        measured.push((call.to_owned(), sum(false), sum(true)));
    };
    database.consumed();
    tables.create(HASH, large.clone(), "write-1").await.unwrap();
    measure("create");
    tables.read(HASH).await.unwrap().unwrap();
    measure("read");
    tables.update(HASH, large.clone(), "write-2").await.unwrap();
    measure("update");
    tables.rollback(HASH, version(1), "write-3").await.unwrap();
    measure("rollback");
    tables.version(HASH, version(1)).await.unwrap().unwrap();
    measure("version");
    tables.update(HASH, large, "write-4").await.unwrap();
    database.meter.take();
    assert_eq!(tables.history(HASH).await.unwrap().len(), 4);
    measure("history");
    tables.delete(HASH).await.unwrap();
    measure("delete");
    assert_eq!(measured, documented());
}
