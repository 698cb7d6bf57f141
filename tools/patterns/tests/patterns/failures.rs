//! Requests of the patterns to a DynamoDB that fails, does not answer or is written by others, with replayed responses.

use std::sync::Mutex;

use aws_sdk_dynamodb::Client;
use patterns::{
    optimistic_lock::{Check, Locked, SaveError},
    two_tables::{Outcome, TwoTables},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::domain::{Item, version::Version};
use testkit::{
    replay::{self, Replay, rejected},
    scripted::{Reply, Scripted},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Book {
    isbn: String,
    title: String,
    subtitle: Option<String>,
    version: Option<u64>,
}

pub(crate) fn book(title: &str, version: Option<u64>) -> Book {
    Book {
        isbn: "978".to_owned(),
        title: title.to_owned(),
        subtitle: None,
        version,
    }
}

pub(crate) fn books(client: Client) -> Locked<Book> {
    Locked::new(client, "Books", &["isbn"], "version")
}

/// First attempts without a success: an answer with an error, none, and a lost connection.
fn unanswered() -> [Option<Reply>; 3] {
    let error = Reply::now(json!({"__type": "InternalServerError"}));
    [error, Reply::Never, Reply::Reset].map(Some)
}

/// No failed attempt, and one that was answered.
fn answered() -> [Option<Reply>; 2] {
    [None, Some(Reply::now(json!({"__type": "ThrottlingException"})))]
}

/// Returns books whose first request has this reply, unless there is none, and whose next one fails its condition on this stored item.
fn failing(first: Option<&Reply>, stored: Option<Value>) -> Locked<Book> {
    let first = Mutex::new(first.cloned());
    let reply = move || first.lock().unwrap().take();
    let http = Scripted::new(move |_, _| reply().unwrap_or_else(|| Reply::rejected(stored.clone())));
    books(replay::client(http))
}

/// Returns an item with one more attribute.
fn item(title: &str, version: u64, (name, value): (&str, Value)) -> Value {
    json!({"isbn": {"S": "978"}, "title": {"S": title}, "version": {"N": version.to_string()}, name: value})
}

/// Returns the item as a save stores it: with the null of the field without a value.
fn saved(title: &str, version: u64) -> Value {
    item(title, version, ("subtitle", json!({"NULL": true})))
}

fn is_conflict<T>(result: &Result<T, SaveError<Book>>) -> bool {
    matches!(result, Err(SaveError::Conflict { .. }))
}

#[tokio::test(start_paused = true)]
async fn an_identical_item_is_ones_own_only_after_an_unanswered_attempt() {
    for value in [book("New Title", None), book("New Title", Some(6))] {
        let next = value.version.unwrap_or(0) + 1;
        let save = async |first: &Option<Reply>, stored| {
            failing(first.as_ref(), Some(stored)).save(&value, Check::Version).await
        };
        let update = async |first: &Option<Reply>, stored| {
            failing(first.as_ref(), Some(stored))
                .update(&value, Check::Version)
                .await
        };
        // An update keeps attributes that the type does not name.
        let (of_save, of_update) = (
            saved("New Title", next),
            item("New Title", next, ("price", json!({"N": "12.5"}))),
        );
        for first in &answered() {
            assert!(is_conflict(&save(first, of_save.clone()).await), "{first:?}");
            assert!(is_conflict(&update(first, of_update.clone()).await), "{first:?}");
        }
        for first in &unanswered() {
            let expected = book("New Title", Some(next));
            assert_eq!(save(first, of_save.clone()).await.unwrap(), expected, "{first:?}");
            assert_eq!(update(first, of_update.clone()).await.unwrap(), expected, "{first:?}");
            // Any other item is one of another client.
            for other in [saved("Other", next), saved("New Title", next + 1)] {
                assert!(is_conflict(&save(first, other.clone()).await), "{first:?}");
                assert!(is_conflict(&update(first, other).await), "{first:?}");
            }
            // An update removes null fields.
            assert!(is_conflict(&update(first, of_save.clone()).await), "{first:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_item_is_ones_own_deletion_only_after_an_unanswered_attempt() {
    let delete = async |first: &Option<Reply>, stored| {
        let value = book("Title", Some(6));
        failing(first.as_ref(), stored).delete(&value, Check::Version).await
    };
    for first in &answered() {
        assert!(is_conflict(&delete(first, None).await), "{first:?}");
    }
    for first in &unanswered() {
        assert!(delete(first, None).await.is_ok(), "{first:?}");
        assert!(is_conflict(&delete(first, Some(saved("Title", 7))).await), "{first:?}");
    }
}

/// One unanswered attempt does not make a later call of the same client ambiguous.
#[tokio::test(start_paused = true)]
async fn attempts_of_other_calls_do_not_count() {
    let failed = json!({"__type": "InternalServerError"});
    let conflict = rejected(Some(saved("New Title", 2)));
    let books = books(Replay::new([failed, json!({}), conflict]).client());
    let value = book("New Title", Some(1));
    let saved = books.save(&value, Check::Version).await.unwrap();
    assert_eq!(saved, book("New Title", Some(2)));
    assert!(is_conflict(&books.save(&value, Check::Version).await));
}

/// DynamoDB detects the retry of a transaction by its token.
#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_transaction_have_one_token() {
    let failed = || json!({"__type": "InternalServerError"});
    let replay = Replay::new([failed(), failed(), json!({}), json!({})]);
    let books = books(replay.client());
    for _ in 0..2 {
        let saved = books
            .save_all(&[&book("New Title", None)], Check::Version)
            .await
            .unwrap();
        assert_eq!(saved, [book("New Title", Some(1))]);
    }
    let bodies = replay.bodies();
    let [first, second, third, another] = [0, 1, 2, 3].map(|index| bodies[index]["ClientRequestToken"].as_str());
    assert!(first.is_some() && first == second && second == third && another != first);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_loses_a_race_is_a_conflict() {
    let row = |version: &str, value: &str| json!({"Item": {"hash": {"S": "1c5815b2"}, "version": {"N": version}, "attr1": {"S": value}}});
    let rollback = async |then: &[Value]| {
        let reads = [row("2", "some values"), row("1", "some old values")];
        let replay = Replay::new([&reads[..], then].concat());
        let tables = TwoTables::new(replay.client(), "resource", "resource-history");
        let outcome = tables.rollback("1c5815b2", Version::FIRST, "write-3").await;
        (outcome, replay.requests())
    };
    let (outcome, requests) = rollback(&[json!({}), json!({})]).await;
    assert_eq!(outcome, Ok(Outcome::Written(Version::new(3).unwrap())));
    let item = |json: Value| serde_json::from_value::<Item>(json).unwrap();
    let expected = json!({
        "hash": {"S": "1c5815b2"}, "version": {"N": "3"}, "attr1": {"S": "some old values"}, "WriteId": {"S": "write-3"},
    });
    assert!(item(requests[2].1["Item"].clone()) == item(expected));
    // Another writer completed version 3, before the history row of this one or after it.
    let cancelled = |code: &str| {
        let reasons = [json!({"Code": code}), json!({"Code": "None"})];
        json!({"__type": "TransactionCanceledException", "CancellationReasons": reasons})
    };
    for responses in [
        vec![rejected(None)],
        vec![json!({}), cancelled("ConditionalCheckFailed")],
        vec![json!({}), cancelled("TransactionConflict")],
    ] {
        let (outcome, requests) = rollback(&responses).await;
        assert_eq!((outcome, requests.len()), (Ok(Outcome::Conflict), 2 + responses.len()));
    }
}
