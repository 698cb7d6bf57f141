//! Equipment states keyed by time, and the metadata of the equipment.
//!
//! `cargo run -p patterns --example time_series`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use operations::metadata;
use patterns::time_series::{State, StateQuery, StateTime, TimePrefix, TimeSeries};
use playground::{Failure, Playground, STATES, item};
use serde_json::json;
use shared::{
    domain::{AttributeValue, change::Change, entity::EntityId, keys::VersionDigits, plain},
    dynamodb::Store,
};

const TABLE: &str = "TimeSeries";

fn state(time: &str, name: &str) -> Result<State, Failure> {
    Ok(State {
        time: StateTime::parse(time)?,
        attributes: item(json!({"State": {"S": name}}))?,
    })
}

fn shown(state: &State) -> String {
    format!("{} {}", state.time, plain::attribute(&state.attributes["State"]))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table(TABLE, &[("PK", S), ("SK", S)]).await?;
    let series = TimeSeries::new(playground.client.clone(), TABLE);
    let store = Store::new(playground.client.clone(), TABLE, VersionDigits::default());
    let text = |text: &str| Change::Set(AttributeValue::S(text.to_owned()));
    for (id, name, factory) in [
        ("Equipment#1", "Equipment-001", "F#88546"),
        ("Equipment#6", "Equipment-006", "F#56658"),
        ("Equipment#118", "Equipment-118", "F#88985"),
    ] {
        let facts = [("Name".to_owned(), text(name)), ("FactoryId".to_owned(), text(factory))];
        metadata::update(&store, &EntityId::new(id)?, &facts.into()).await?;
        playground.report(&format!("metadata of {id}"));
    }
    let equipment = EntityId::new("Equipment#1")?;
    // Another state at the same time is not stored.
    for name in ["WARNING1", "ERROR"] {
        let State { time, attributes } = state("2020-11-12T20:04:00", name)?;
        let outcome = series.put(&equipment, &time, attributes, false).await?;
        playground.report(&format!("{name} at {time}: {outcome:?}"));
    }
    let newest = series.latest(&equipment, true).await?;
    playground.report(&format!(
        "newest state: {}",
        newest.as_ref().map(shown).unwrap_or_default()
    ));
    let loaded = STATES.map(|(id, time, name)| Ok::<_, Failure>((EntityId::new(id)?, state(time, name)?)));
    let loaded = loaded.into_iter().collect::<Result<Vec<_>, _>>()?;
    let stored = series.load(&loaded, |_| ()).await?;
    playground.report(&format!("{stored} states loaded in one request"));
    let month = StateQuery {
        prefix: Some(TimePrefix::parse("2023-12")?),
        newest_first: true,
        ..StateQuery::default()
    };
    let found = series.between(&EntityId::new("Equipment#118")?, &month).await?;
    playground.report(&format!("{} states of Equipment#118 in 2023-12", found.len()));
    for state in &found {
        println!("  {}", shown(state));
    }
    playground.show(TABLE, &["PK", "SK"]).await
}
