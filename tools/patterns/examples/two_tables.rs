//! The latest version of a resource in one table, all its versions in another.
//!
//! `cargo run -p patterns --example two_tables`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use patterns::two_tables::TwoTables;
use playground::{Failure, Playground, item};
use serde_json::json;
use shared::domain::version::Version;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table("resource", &[("hash", S)]).await?;
    playground
        .table("resource-history", &[("hash", S), ("version", N)])
        .await?;
    let tables = TwoTables::new(playground.client.clone(), "resource", "resource-history");
    let row = |value: &str| item(json!({"attr1": {"S": value}}));
    let hash = "1c5815b2";
    // Each write has a unique id.
    let outcome = tables.create(hash, row("some old values")?, "write-1").await?;
    playground.report(&format!("create: {outcome:?}"));
    let outcome = tables.update(hash, row("some values")?, "write-2").await?;
    playground.report(&format!("update: {outcome:?}"));
    playground.show("resource", &["hash", "version"]).await?;
    playground.show("resource-history", &["hash", "version"]).await?;
    let outcome = tables.rollback(hash, Version::FIRST, "write-3").await?;
    playground.report(&format!("rollback to version 1: {outcome:?}"));
    let old = tables.version(hash, Version::FIRST).await?;
    let count = old.map_or(0, |row| row.attributes.len());
    playground.report(&format!("version 1 has {count} attributes"));

    let next = Version::new(4).unwrap_or(Version::FIRST);
    tables
        .write_history(hash, next, row("never finished")?, "write-4")
        .await?;
    playground.report(&format!("a writer stops between its two writes of version {next}"));
    playground.show("resource-history", &["hash", "version"]).await?;
    let outcome = tables.update(hash, row("newer values")?, "write-5").await?;
    playground.report(&format!("the next update repairs it: {outcome:?}"));
    playground.show("resource", &["hash", "version"]).await?;
    playground.show("resource-history", &["hash", "version"]).await
}
