//! Equipment states keyed by time, and the metadata of the equipment.
//!
//! `cargo run -p patterns --example time_series`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use operations::metadata;
use patterns::time_series::{State, StateQuery, StateTime, TimePrefix, TimeSeries};
use playground::{Failure, Playground, item};
use serde_json::json;
use shared::{
    domain::{AttributeValue, change::Change, entity::EntityId, keys::VersionDigits},
    dynamodb::Store,
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
    metadata::update(&store, &equipment, &metadata.into()).await?;
    playground.report("metadata of Equipment#1");

    let state = |time: &str, state: &str| {
        Ok::<_, Failure>(State {
            time: StateTime::parse(time)?,
            attributes: item(json!({"State": {"S": state}}))?,
        })
    };
    for (time, name) in [
        ("2020-11-12T20:00:00", "OK"),
        ("2020-11-12T20:02:00", "OK"),
        ("2020-11-12T20:04:00", "WARNING1"),
        // Another state at the same time.
        ("2020-11-12T20:04:00", "ERROR"),
    ] {
        let State { time, attributes } = state(time, name)?;
        let outcome = series.put(&equipment, &time, attributes, false).await?;
        playground.report(&format!("{name} at {time}: {outcome:?}"));
    }
    let newest = series.latest(&equipment, true).await?;
    let newest = newest.map(|state| state.time.to_string()).unwrap_or_default();
    playground.report(&format!("newest state: {newest}"));
    let loaded = [
        (equipment.clone(), state("2020-11-13T08:00:00", "OK")?),
        (equipment.clone(), state("2020-11-13T08:02:00", "OK")?),
    ];
    let stored = series.load(&loaded, |_| ()).await?;
    playground.report(&format!("{stored} states loaded in one request"));
    let day = StateQuery {
        prefix: Some(TimePrefix::parse("2020-11-12")?),
        newest_first: true,
        consistent: true,
        ..StateQuery::default()
    };
    let day = series.between(&equipment, &day).await?;
    playground.report(&format!("{} states on 2020-11-12", day.len()));
    playground.show(TABLE, &["PK", "SK"]).await
}
