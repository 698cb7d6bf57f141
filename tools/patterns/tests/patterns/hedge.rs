//! A hedged write on a real table: the second request, or a first one that arrives late, changes nothing.

use std::{cell::Cell, time::Duration};

use futures::future::{self, Either};
use patterns::{
    hedge::hedged,
    ratchet::{Key, Outcome, Ratchet},
};
use serde_json::json;
use shared::domain::Item;
use testkit::database::{Database, KEYS, rows};
use tokio::sync::oneshot;

/// Delay after which the second request is sent. The first request never answers before.
const DELAY: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_hedged_put_does_not_overwrite_a_newer_item() {
    if testkit::endpoint::is_about_one_table() {
        return;
    }
    let database = Database::start().await;
    database.table("Ratings", &KEYS).await;
    let ratings = Ratchet::new(database.client.clone(), database.table_name("Ratings"));
    let rating = |number: u8| -> Item { serde_json::from_value(json!({"Rating": {"N": number.to_string()}})).unwrap() };
    let key = Key::new("User#1", "Movie#A");
    let (first_attempt, newer) = (1_721_770_090_000, 1_721_770_090_001);
    let stale = Ok(Outcome::Stale { stored: Some(newer) });

    // The first request is delayed on its way: a task sends it when the test lets it, although the caller drops it.
    let (arrive, delayed) = oneshot::channel::<()>();
    let (late_ratings, late_key, late_rating) = (ratings.clone(), key.clone(), rating(3));
    let late = tokio::spawn(async move {
        delayed.await.unwrap();
        late_ratings.put(&late_key, first_attempt, late_rating).await
    });
    let sent = Cell::new(0);
    let answer = hedged(DELAY, || {
        sent.set(sent.get() + 1);
        match sent.get() {
            1 => Either::Left(future::pending()),
            _ => Either::Right(async {
                // In the meantime, another client rates the movie.
                let other = ratings.put(&key, newer, rating(5)).await;
                assert_eq!(other, Ok(Outcome::Applied));
                ratings.put(&key, first_attempt, rating(3)).await
            }),
        }
    });
    assert_eq!((answer.await, sent.get()), (stale.clone(), 2));
    let expected = json!({
        "PK": {"S": "User#1"}, "SK": {"S": "Movie#A"}, "Rating": {"N": "5"}, "Timestamp": {"N": newer.to_string()},
    });
    assert_eq!(rows(&database, "Ratings").await, std::slice::from_ref(&expected));
    arrive.send(()).unwrap();
    assert_eq!(late.await.unwrap(), stale);
    assert_eq!(rows(&database, "Ratings").await, [expected]);
}
