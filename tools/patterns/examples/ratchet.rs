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
    let put = async |key: &Key, rating: &str, timestamp| {
        let outcome = ratings
            .put(key, timestamp, item(json!({"Rating": {"N": rating}}))?)
            .await?;
        playground.report(&format!("{} {} {rating} at {timestamp}: {outcome:?}", key.pk, key.sk));
        Ok::<_, Failure>(())
    };
    for (user, movie, rating, timestamp) in [
        ("User#1", "Movie#A", "3", 1_721_769_060_000),
        ("User#1", "Movie#B", "4", 1_721_768_150_000),
        ("User#2", "Movie#A", "1", 1_721_767_220_000),
        ("User#2", "Movie#Z", "5", 1_721_757_100_000),
    ] {
        put(&Key::new(user, movie), rating, timestamp).await?;
    }
    // A second request is sent if the first has no answer after 20 ms. Both have the same timestamp.
    let (changed, removed) = (Key::new("User#1", "Movie#A"), Key::new("User#2", "Movie#Z"));
    hedged(Duration::from_millis(20), || put(&changed, "5", 1_721_770_090_000)).await?;
    let outcome = ratings.delete(&removed, 1_721_757_900_000).await?;
    playground.report(&format!("User#2 removes Movie#Z: {outcome:?}"));
    println!("the first ratings arrive again, late:");
    put(&changed, "3", 1_721_769_060_000).await?;
    put(&removed, "5", 1_721_757_100_000).await?;
    let found = ratings.query("User#2", true).await?;
    playground.report(&format!("{} ratings of User#2", found.len()));
    playground.show(TABLE, &["PK", "SK"]).await
}
