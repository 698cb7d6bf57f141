//! Two tables: the published example, old versions, rollbacks, crashes, and the capacity units of each call.

use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use futures::future::join_all;
use patterns::two_tables::{
    Outcome::{self, Conflict, Refused, UnknownVersion, Written},
    TwoTables,
};
use serde_json::{Value, json};
use shared::domain::Item;
use testkit::{
    database::{Database, rows, sorted, version},
    pages,
};

const HASH: &str = "1c5815b2";

struct Tables {
    database: Database,
    tables: TwoTables,
}

impl Tables {
    async fn new() -> Self {
        let database = Database::start().await;
        database.table("resource", &[("hash", S)]).await;
        database.table("resource-history", &[("hash", S), ("version", N)]).await;
        let names = ["resource", "resource-history"].map(|name| database.table_name(name));
        let tables = TwoTables::new(database.client.clone(), &names[0], &names[1]);
        Self { database, tables }
    }

    async fn create(&self, value: &str, id: &str) -> Outcome {
        self.tables.create(HASH, attr(value), id).await.unwrap()
    }

    async fn update(&self, value: &str, id: &str) -> Outcome {
        self.tables.update(HASH, attr(value), id).await.unwrap()
    }

    async fn rollback(&self, to: u64, id: &str) -> Outcome {
        self.tables.rollback(HASH, version(to), id).await.unwrap()
    }

    /// The writer stops after the history row of this version.
    async fn crash(&self, number: u64) -> Outcome {
        let written = self
            .tables
            .write_history(HASH, version(number), attr("lost"), "crashed")
            .await;
        written.unwrap()
    }

    async fn delete(&self) {
        self.tables.delete(HASH).await.unwrap();
    }

    async fn read(&self) -> Option<(u64, Item)> {
        let row = self.tables.read(HASH).await.unwrap()?;
        Some((row.version.get(), row.attributes))
    }

    async fn version(&self, number: u64) -> Option<(u64, Item)> {
        let row = self.tables.version(HASH, version(number)).await.unwrap()?;
        Some((row.version.get(), row.attributes))
    }

    /// Returns the versions of the history, newest first.
    async fn history(&self) -> Vec<u64> {
        let history = self.tables.history(HASH).await.unwrap();
        history.iter().map(|row| row.version.get()).collect()
    }

    /// Checks the values of versions 1 to n, and that the resource has the last one, or does not exist.
    async fn check(&self, values: &[&str], exists: bool) {
        let rows_of = async |table| rows(&self.database, table).await;
        let row = |(number, value): (u64, &&str)| json!({"hash": {"S": HASH}, "version": {"N": number.to_string()}, "attr1": {"S": value}});
        let versions: Vec<Value> = (1..).zip(values).map(row).collect();
        let resource = versions.last().filter(|_| exists).cloned();
        assert_eq!(rows_of("resource").await, Vec::from_iter(resource));
        assert_eq!(rows_of("resource-history").await, sorted(versions));
    }
}

fn attr(value: &str) -> Item {
    serde_json::from_value(json!({"attr1": {"S": value}})).unwrap()
}

/// A resource in one table, and each of its versions in another.
#[tokio::test]
async fn client_side_row_versioning() {
    let tables = Tables::new().await;
    assert_eq!(tables.update("x", "w0").await, Refused);
    assert_eq!(tables.create("some old values", "w1").await, Written(version(1)));
    assert_eq!(tables.create("x", "w2").await, Refused);
    assert_eq!(tables.update("some values", "w3").await, Written(version(2)));
    tables.check(&["some old values", "some values"], true).await;
    assert!(tables.read().await == Some((2, attr("some values"))));
    // Deletes only the resource; the next version number is kept.
    tables.delete().await;
    tables.check(&["some old values", "some values"], false).await;
    assert!(tables.read().await.is_none());
    assert_eq!(tables.create("again", "w4").await, Written(version(3)));
}

#[tokio::test]
async fn the_next_update_repairs_a_crash_between_the_two_writes() {
    let tables = Tables::new().await;
    tables.crash(1).await;
    // No user sees the row of a failed create.
    assert!(tables.read().await.is_none() && tables.version(1).await.is_none() && tables.history().await.is_empty());
    assert_eq!(tables.create("one", "w1").await, Written(version(1)));
    tables.check(&["one"], true).await;
    tables.crash(2).await;
    // The extra row is not returned.
    assert_eq!((tables.read().await.unwrap().0, tables.history().await), (1, vec![1]));
    assert_eq!(tables.update("two", "w2").await, Written(version(2)));
    tables.check(&["one", "two"], true).await;
    // A history row of an existing version is never replaced.
    assert_eq!(tables.crash(2).await, Conflict);
}

#[tokio::test]
async fn concurrent_writers_cannot_write_the_same_version() {
    for has_rollbacks in [false, true] {
        let tables = Tables::new().await;
        tables.create("0", "w").await;
        let mut written = 1;
        for round in 0..10 {
            let outcomes = join_all((0..6).map(async |writer| {
                let id = format!("{round}-{writer}");
                match has_rollbacks && writer % 2 == 0 {
                    true => tables.rollback(1, &id).await,
                    false => tables.update(&id, &id).await,
                }
            }));
            for outcome in outcomes.await {
                match outcome {
                    Written(_) => written += 1,
                    Conflict => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(tables.history().await, (1..=written).rev().collect::<Vec<_>>());
        assert!(tables.read().await == tables.version(written).await);
    }
}

#[tokio::test]
async fn an_old_version_is_read_by_its_key() {
    let tables = Tables::new().await;
    tables.create("one", "w1").await;
    tables.update("two", "w2").await;
    tables.crash(3).await;
    for _ in 0..2 {
        tables.database.consumed();
        assert!(tables.version(1).await == Some((1, attr("one"))));
        assert_eq!(tables.database.consumed(), [("GetItem", 1.0)]);
        assert!(tables.version(2).await == Some((2, attr("two"))));
        // A pending row is not a version.
        assert!(tables.version(3).await.is_none() && tables.version(4).await.is_none());
        // Old versions are kept after the deletion.
        tables.delete().await;
    }
    assert!(tables.tables.version("another", version(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_rollback_is_a_new_version() {
    let tables = Tables::new().await;
    assert_eq!(tables.rollback(1, "w0").await, Refused);
    tables.create("one", "w1").await;
    tables.update("two", "w2").await;
    assert_eq!(tables.rollback(3, "w3").await, UnknownVersion);
    assert_eq!(tables.rollback(1, "w4").await, Written(version(3)));
    tables.check(&["one", "two", "one"], true).await;
    // A pending row is no version to return to, and the rollback replaces it.
    tables.crash(4).await;
    assert_eq!(tables.rollback(4, "w5").await, UnknownVersion);
    assert_eq!(tables.rollback(2, "w6").await, Written(version(4)));
    tables.check(&["one", "two", "one", "two"], true).await;
    // A deleted resource is refused. It is created again with the attributes of its old version.
    tables.delete().await;
    assert_eq!(tables.rollback(1, "w7").await, Refused);
    let (_, old) = tables.version(1).await.unwrap();
    assert_eq!(tables.tables.create(HASH, old, "w8").await, Ok(Written(version(5))));
    tables.check(&["one", "two", "one", "two", "one"], true).await;
}

#[tokio::test]
async fn a_create_reads_one_row_of_the_history() {
    let tables = Tables::new().await;
    let large = "x".repeat(3_000);
    tables.create(&large, "w1").await;
    for number in 2..=10 {
        tables.update(&large, &format!("w{number}")).await;
    }
    for (next, is_pending) in [(11, false), (12, true)] {
        tables.delete().await;
        if is_pending {
            tables.crash(next).await;
        }
        tables.database.consumed();
        let created = tables.create("again", &format!("created {next}")).await;
        assert_eq!(created, Written(version(next)));
        let consumed = tables.database.consumed();
        assert_eq!(consumed[..2], [("GetItem", 1.0), ("Query", 1.0)], "{consumed:?}");
    }
}

#[tokio::test]
async fn measured_units_of_each_call_match_the_documentation() {
    let tables = Tables::new().await;
    let endpoint = &tables.database.endpoint;
    // Some engines report other units for a transaction.
    if endpoint.differs(&["transaction-units"]) {
        return;
    }
    // Rows of just under 1 KB, with the mark of a pending row.
    let large = "x".repeat(930);
    let rows = pages::rows("docs/library.md").into_iter();
    let rows: Vec<_> = rows.skip_while(|row| row[0] != "`create`").take(7).collect();
    tables.database.consumed();
    for row in &rows {
        match row[0].trim_matches('`') {
            "create" => drop(tables.create(&large, "write-1").await),
            "read" => drop(tables.read().await.unwrap()),
            "update" => drop(tables.update(&large, "write-2").await),
            "rollback" => drop(tables.rollback(1, "write-3").await),
            "version" => drop(tables.version(1).await.unwrap()),
            "history" => {
                // A fourth version.
                tables.update(&large, "write-4").await;
                tables.database.consumed();
                assert_eq!(tables.history().await.len(), 4);
            }
            "delete" => tables.delete().await,
            other => panic!("no call is named {other}"),
        }
        let (mut written, mut read) = (0.0_f64, 0.0_f64);
        for (operation, units) in tables.database.consumed() {
            let is_read = matches!(operation, "GetItem" | "Query");
            *(if is_read { &mut read } else { &mut written }) += units;
        }
        assert_eq!([written, read].map(|units| units.to_string()), row[2..], "{row:?}");
    }
}
