//! Hedged writes on a real table: the second request, or a first one that arrives late, changes nothing.

use std::{cell::Cell, time::Duration};

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use futures::future::{self, Either};
use patterns::{
    hedge::hedged,
    ratchet::{Key, Outcome, Ratchet},
};
use serde_json::json;
use shared::{
    clock::since_epoch,
    config::{Ordering, WriteMode},
    domain::{Item, version::Version},
    dynamodb::read::history::HistoryQuery,
};
use testkit::database::{Database, entity, mode, rows};
use tokio::sync::{Notify, oneshot};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

/// Delay after which the second request is sent. The first request never answers before.
const DELAY: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_hedged_put_does_not_overwrite_a_newer_item() {
    if testkit::endpoint::is_about_one_table("a_hedged_put_does_not_overwrite_a_newer_item") {
        return;
    }
    let database = Database::start().await;
    database.table("Ratings", &[("PK", S), ("SK", S)]).await;
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
    assert_eq!(answer.await, stale);
    assert_eq!(sent.get(), 2);
    let expected = json!({
        "PK": {"S": "User#1"}, "SK": {"S": "Movie#A"}, "Rating": {"N": "5"}, "Timestamp": {"N": newer.to_string()},
    });
    assert_eq!(rows(&database, "Ratings").await, std::slice::from_ref(&expected));
    arrive.send(()).unwrap();
    assert_eq!(late.await.unwrap(), stale);
    assert_eq!(rows(&database, "Ratings").await, [expected]);
}

#[tokio::test]
async fn a_hedged_update_creates_one_version() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = mode(WriteMode::Inline);
    let update = |number: u64| {
        let sent_at = since_epoch().as_millis();
        let json = json!({"ID": "Equipment#1", "Number": number, "RequestSentAt": sent_at});
        Update::parse(json, &format!("order-{number}"), Ordering::Arrival).unwrap()
    };
    let version = |number| Version::new(number).unwrap();
    for (number, applied_first) in [(1, true), (2, false)] {
        let (update, sent, applied) = (update(number), Cell::new(0), Notify::new());
        // The response to the first request never arrives. The second request is applied after it, or instead of it.
        let answer = hedged(DELAY, || {
            sent.set(sent.get() + 1);
            let is_first = sent.get() == 1;
            let (store, update, applied) = (&store, &update, &applied);
            async move {
                if !is_first && applied_first {
                    applied.notified().await;
                }
                if is_first && !applied_first {
                    return future::pending().await;
                }
                let outcome = counter::write(store, update, options).await;
                if is_first {
                    applied.notify_one();
                    return future::pending().await;
                }
                outcome
            }
        });
        let answer = answer.await.unwrap();
        assert_eq!(sent.get(), 2);
        let version = version(number);
        if applied_first {
            assert_eq!(answer, WriteOutcome::Duplicate { version });
        } else {
            assert_eq!(answer, WriteOutcome::Written { version });
            // The first request arrives late.
            let late = counter::write(&store, &update, options).await;
            assert_eq!(late, Ok(WriteOutcome::Duplicate { version }));
        }
    }
    // Both requests at the same time.
    let update = update(3);
    let answer = hedged(Duration::ZERO, || counter::write(&store, &update, options))
        .await
        .unwrap();
    let version = version(3);
    assert!(
        matches!(answer, WriteOutcome::Written { version: at } | WriteOutcome::Duplicate { version: at } if at == version),
        "{answer:?}"
    );
    let history = store
        .history(&entity("Equipment#1"), HistoryQuery::default())
        .await
        .unwrap();
    assert_eq!(history.unwrap().collect().await.unwrap().len(), 3);
}
