//! Ratings that only move forward in time, in whatever order they arrive.
//!
//! `cargo run -p patterns --example ratchet`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use std::time::Duration;

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use patterns::{
    hedge::hedged,
    ratchet::{Key, Ratchet},
};
use playground::{Failure, Playground, item};
use serde_json::json;

const TABLE: &str = "Ratings";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table(TABLE, &[("PK", S), ("SK", S)]).await?;
    let ratings = Ratchet::new(playground.client.clone(), TABLE);
    for (user, movie, rating, timestamp) in [
        ("User#1", "Movie#A", "3", 1_721_769_060_000),
        ("User#1", "Movie#B", "4", 1_721_768_150_000),
        ("User#2", "Movie#A", "1", 1_721_767_220_000),
        ("User#2", "Movie#Z", "5", 1_721_757_100_000),
        ("User#1", "Movie#A", "5", 1_721_770_090_000),
        ("User#1", "Movie#A", "2", 1_721_769_500_000),
    ] {
        let item = item(json!({"Rating": {"N": rating}}))?;
        let outcome = ratings.put(&Key::new(user, movie), timestamp, item).await?;
        playground.report(&format!("{user} {movie} {rating} at {timestamp}: {outcome:?}"));
    }
    let removed = Key::new("User#2", "Movie#Z");
    let outcome = ratings.delete(&removed, 1_721_757_900_000).await?;
    playground.report(&format!("User#2 removes Movie#Z: {outcome:?}"));
    let late = ratings
        .put(&removed, 1_721_757_500_000, item(json!({"Rating": {"N": "4"}}))?)
        .await?;
    playground.report(&format!("an older rating arrives late: {late:?}"));
    // A second request is sent if the first has no answer after 20 ms. Both have the same timestamp.
    let rating = item(json!({"Rating": {"N": "3"}}))?;
    let newer = hedged(Duration::from_millis(20), || {
        ratings.put(&removed, 1_721_757_950_000, rating.clone())
    });
    let newer = newer.await?;
    playground.report(&format!("a newer rating, hedged: {newer:?}"));
    let found = ratings.query("User#2", true).await?;
    playground.report(&format!("{} ratings of User#2", found.len()));
    playground.show(TABLE, &["PK", "SK"]).await
}
