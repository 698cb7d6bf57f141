//! Equipment states keyed by time, and the metadata of the equipment.
//!
//! `cargo run -p local --example time_series`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use playground::{Failure, Playground, item};
use serde_json::json;
use shared::{
    domain::{AttributeValue, entity::EntityId, keys::VersionDigits, update::Change},
    dynamodb::Store,
    time_series::{StateTime, TimeSeries},
};

const TABLE: &str = "TimeSeries";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table(TABLE, &[("PK", S), ("SK", S)]).await?;
    let series = TimeSeries::new(playground.client.clone(), TABLE);
    let equipment = EntityId::new("Equipment#1")?;

    let store = Store::new(playground.client.clone(), TABLE, VersionDigits::default());
    let text = |text: &str| Change::Set(AttributeValue::S(text.to_owned()));
    let metadata = [("Name", "Equipment-001"), ("FactoryID", "F#88546"), ("LineID", "L#7")];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), text(value)));
    store.update_metadata(&equipment, &metadata.into()).await?;
    playground.report("metadata of Equipment#1");

    for (time, state) in [
        ("2020-11-12T20:00:00", "OK"),
        ("2020-11-12T20:02:00", "OK"),
        ("2020-11-12T20:04:00", "WARNING1"),
    ] {
        let outcome = series
            .put(
                &equipment,
                &StateTime::parse(time)?,
                item(json!({"State": {"S": state}}))?,
                false,
            )
            .await?;
        playground.report(&format!("{state} at {time}: {outcome:?}"));
    }
    let again = StateTime::parse("2020-11-12T20:04:00")?;
    let outcome = series
        .put(&equipment, &again, item(json!({"State": {"S": "ERROR"}}))?, false)
        .await?;
    playground.report(&format!("another state at the same time: {outcome:?}"));
    let newest = series.latest(&equipment, true).await?;
    playground.report(&format!(
        "the time of the newest state is {}",
        newest.map(|state| state.time.to_string()).unwrap_or_default()
    ));
    let between = series
        .between(&equipment, Some(&StateTime::parse("2020-11-12T20:01:00")?), None, true)
        .await?;
    playground.report(&format!("{} states since 20:01", between.len()));
    playground.show(TABLE, &["PK", "SK"]).await
}
