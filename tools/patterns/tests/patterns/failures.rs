//! Requests of the patterns to a DynamoDB that fails, does not answer or is written by others, with replayed responses.

use std::sync::Mutex;

use aws_sdk_dynamodb::Client;
use patterns::{
    optimistic_lock::{Action, Check, Locked, SaveError},
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

/// Returns first attempts without a success, each with `true` if it was not answered: no attempt, one that was throttled, an answer with
/// an error, none, and a lost connection.
fn first_attempts() -> [(Option<Reply>, bool); 5] {
    let error = |code: &str| Reply::now(json!({"__type": code}));
    [
        (None, false),
        (Some(error("ThrottlingException")), false),
        (Some(error("InternalServerError")), true),
        (Some(Reply::Never), true),
        (Some(Reply::Reset), true),
    ]
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
    // An update keeps attributes that the type does not name, and removes null fields.
    let updated = |version| item("Title", version, ("price", json!({"N": "12.5"})));
    for (action, version, stored, is_own) in [
        (Action::Save, None, Some(saved("Title", 1)), true),
        (Action::Save, Some(6), Some(saved("Title", 7)), true),
        (Action::Save, Some(6), Some(saved("Other", 7)), false),
        (Action::Save, Some(6), Some(saved("Title", 8)), false),
        (Action::Update, None, Some(updated(1)), true),
        (Action::Update, Some(6), Some(updated(7)), true),
        (Action::Update, Some(6), Some(saved("Title", 7)), false),
        (Action::Update, Some(6), Some(saved("Other", 7)), false),
        (Action::Update, Some(6), Some(updated(8)), false),
        (Action::Delete, Some(6), None, true),
        (Action::Delete, Some(6), Some(saved("Title", 7)), false),
    ] {
        for (first, is_unanswered) in first_attempts() {
            let case = format!("{action:?} {version:?} {stored:?} {first:?}");
            // The condition of the attempt after the first one fails on the stored item.
            let (first, stored) = (Mutex::new(first), stored.clone());
            let reply = move || first.lock().unwrap().take();
            let http = Scripted::new(move |_, _| reply().unwrap_or_else(|| Reply::rejected(stored.clone())));
            let (books, value) = (books(replay::client(http)), book("Title", version));
            let result = match action {
                Action::Save => books.save(&value, Check::Version).await.map(Some),
                Action::Update => books.update(&value, Check::Version).await.map(Some),
                Action::Delete => books.delete(&value, Check::Version).await.map(|()| None),
            };
            if is_own && is_unanswered {
                let next = book("Title", Some(version.unwrap_or(0) + 1));
                assert_eq!(
                    result.unwrap(),
                    Some(next).filter(|_| action != Action::Delete),
                    "{case}"
                );
            } else {
                assert!(is_conflict(&result), "{case}");
            }
        }
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

/// The history row is not written, so neither is the resource. The same create can be sent again.
#[tokio::test(start_paused = true)]
async fn a_create_that_fails_at_its_first_write_writes_nothing() {
    let failed = json!({"__type": "ValidationException"});
    let replay = Replay::new([json!({}), json!({}), failed, json!({})]);
    let tables = TwoTables::new(replay.client(), "resource", "resource-history");
    let row: Item = serde_json::from_value(json!({"attr1": {"S": "some old values"}})).unwrap();
    assert!(tables.create("1c5815b2", row, "write-1").await.is_err());
    assert_eq!(replay.operations(), ["GetItem", "Query", "PutItem"]);
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
