//! Equipment states as numbered versions, with keys of two digits.
//!
//! `cargo run -p patterns --example numbered_versions`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use playground::{Failure, Playground, STATES};
use serde_json::json;
use shared::{
    config::{Ordering, WriteMode, WriteOptions},
    domain::{entity::EntityId, keys::VersionDigits, version::Version},
    dynamodb::Store,
};
use writer_fn::{counter, update::Update};

const TABLE: &str = "VersionNumTable";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table(TABLE, &[("PK", S), ("SK", S)]).await?;
    let digits = VersionDigits::new(2).ok_or("2 is a width")?;
    let store = Store::new(playground.client.clone(), TABLE, digits);
    let inline = WriteOptions {
        mode: WriteMode::Inline,
        ..WriteOptions::default()
    };
    for (id, time, state) in STATES {
        let update = json!({"ID": id, "Time": time, "State": state});
        let update = Update::parse(update, &format!("{id} {time}"), Ordering::Arrival)?;
        let outcome = counter::write(&store, &update, inline).await?;
        playground.report(&format!("{id} {state}: {outcome:?}"));
    }
    let equipment = EntityId::new("Equipment#118")?;
    let newest = store.latest(&equipment, false).await?.ok_or("no versions")?;
    playground.report(&format!("the newest version, by v0: {}", newest.version));
    let version = Version::new(5).ok_or("5 is a version")?;
    let fifth = store.version(&equipment, version, false).await?.ok_or("no v05")?;
    playground.report(&format!("v05: {}", fifth.to_json()["Attributes"]));
    playground.show(TABLE, &["PK", "SK"]).await
}
