//! Requests of the patterns to a DynamoDB that fails, does not answer or is written by others, with replayed responses.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::{Client, config::http::HttpRequest, error::ConnectorError};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use patterns::{
    optimistic_lock::{Check, Locked, SaveError},
    two_tables::{Outcome, TwoTables},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::domain::{Item, version::Version};
use testkit::replay::{self, Replay};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Book {
    isbn: String,
    title: String,
    subtitle: Option<String>,
    version: Option<u64>,
}

fn book(title: &str, version: Option<u64>) -> Book {
    Book {
        isbn: "978".to_owned(),
        title: title.to_owned(),
        subtitle: None,
        version,
    }
}

fn books(client: Client) -> Locked<Book> {
    Locked::new(client, "Books", &["isbn"], "version")
}

/// A first attempt without a success.
#[derive(Debug, Clone, Copy, PartialEq)]
enum First {
    ServerError,
    NoResponse,
    ConnectionReset,
    Throttled,
}

impl First {
    const ALL: [Self; 4] = [
        Self::ServerError,
        Self::NoResponse,
        Self::ConnectionReset,
        Self::Throttled,
    ];
}

/// Fails the first request, then replays responses.
#[derive(Debug, Clone)]
struct FailsFirst {
    first: Arc<Mutex<Option<First>>>,
    then: Replay,
}

impl HttpConnector for FailsFirst {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let replayed = |body: Value, request| Replay::new([body]).http().call(request);
        match self.first.lock().unwrap().take() {
            None => self.then.http().call(request),
            Some(First::ServerError) => replayed(json!({"__type": "InternalServerError"}), request),
            Some(First::Throttled) => replayed(json!({"__type": "ThrottlingException"}), request),
            Some(First::NoResponse) => HttpConnectorFuture::new(std::future::pending()),
            Some(First::ConnectionReset) => {
                HttpConnectorFuture::ready(Err(ConnectorError::io("connection reset".into())))
            }
        }
    }
}

/// Returns a client whose first request fails, and whose second request gets this response.
fn failing(first: First, then: Value) -> Client {
    let connector = FailsFirst {
        first: Arc::new(Mutex::new(Some(first))),
        then: Replay::new([then]),
    };
    replay::client(http_client_fn(move |_, _| SharedHttpConnector::new(connector.clone())))
}

/// Returns a failed condition with the stored item.
fn rejected(stored: Option<Value>) -> Value {
    let mut failure = json!({"__type": "ConditionalCheckFailedException"});
    if let Some(item) = stored {
        failure["Item"] = item;
    }
    failure
}

fn item(title: &str, version: u64) -> Value {
    json!({"isbn": {"S": "978"}, "title": {"S": title}, "version": {"N": version.to_string()}})
}

/// Returns the item as a save stores it: with the null of the field without a value.
fn saved(title: &str, version: u64) -> Value {
    let mut item = item(title, version);
    item["subtitle"] = json!({"NULL": true});
    item
}

fn is_conflict<T>(result: &Result<T, SaveError<Book>>) -> bool {
    matches!(result, Err(SaveError::Conflict { .. }))
}

#[tokio::test(start_paused = true)]
async fn an_identical_item_is_ones_own_only_after_an_unanswered_attempt() {
    for value in [book("New Title", None), book("New Title", Some(6))] {
        let next = value.version.unwrap_or(0) + 1;
        let expected = book("New Title", Some(next));
        let mut with_unknown = item("New Title", next);
        with_unknown["price"] = json!({"N": "12.5"});
        // Without an earlier attempt.
        let client = || Replay::new([rejected(Some(saved("New Title", next)))]).client();
        assert!(is_conflict(&books(client()).save(&value, Check::Version).await));
        let client = Replay::new([rejected(Some(with_unknown.clone()))]).client();
        assert!(is_conflict(&books(client).update(&value, Check::Version).await));
        for first in First::ALL {
            let save = async |stored: Value| {
                let client = failing(first, rejected(Some(stored)));
                books(client).save(&value, Check::Version).await
            };
            let update = async |stored: Value| {
                let client = failing(first, rejected(Some(stored)));
                books(client).update(&value, Check::Version).await
            };
            let (saved_again, updated_again) =
                (save(saved("New Title", next)).await, update(with_unknown.clone()).await);
            if first == First::Throttled {
                assert!(is_conflict(&saved_again) && is_conflict(&updated_again));
            } else {
                assert_eq!(
                    (saved_again.unwrap(), updated_again.unwrap()),
                    (expected.clone(), expected.clone()),
                    "{first:?}"
                );
            }
            // Any other item is one of another client.
            for other in [saved("Other", next), saved("New Title", next + 1)] {
                assert!(is_conflict(&save(other.clone()).await), "{first:?}");
                assert!(is_conflict(&update(other).await), "{first:?}");
            }
            // An update removes null fields.
            assert!(is_conflict(&update(saved("New Title", next)).await), "{first:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_item_is_ones_own_deletion_only_after_an_unanswered_attempt() {
    let value = book("Title", Some(6));
    let client = Replay::new([rejected(None)]).client();
    assert!(is_conflict(&books(client).delete(&value, Check::Version).await));
    for first in First::ALL {
        let deleted = books(failing(first, rejected(None)))
            .delete(&value, Check::Version)
            .await;
        assert_eq!(is_conflict(&deleted), first == First::Throttled, "{first:?}");
        let client = failing(first, rejected(Some(saved("Title", 7))));
        assert!(
            is_conflict(&books(client).delete(&value, Check::Version).await),
            "{first:?}"
        );
    }
}

/// One unanswered attempt does not make a later call of the same client ambiguous.
#[tokio::test(start_paused = true)]
async fn attempts_of_other_calls_do_not_count() {
    let failed = json!({"__type": "InternalServerError"});
    let conflict = rejected(Some(saved("New Title", 2)));
    let books = books(Replay::new([failed, json!({}), conflict]).client());
    let value = book("New Title", Some(1));
    assert_eq!(
        books.save(&value, Check::Version).await.unwrap(),
        book("New Title", Some(2))
    );
    assert!(is_conflict(&books.save(&value, Check::Version).await));
}

/// DynamoDB detects the retry of a transaction by its token.
#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_transaction_have_one_token() {
    let failed = || json!({"__type": "InternalServerError"});
    let replay = Replay::new([failed(), failed(), json!({}), json!({})]);
    let books = books(replay.client());
    let value = book("New Title", None);
    for _ in 0..2 {
        let saved = books.save_all(&[&value], Check::Version).await.unwrap();
        assert_eq!(saved, [book("New Title", Some(1))]);
    }
    let tokens: Vec<_> = replay
        .bodies()
        .iter()
        .map(|body| body["ClientRequestToken"].as_str().unwrap().to_owned())
        .collect();
    assert!(!tokens[0].is_empty());
    assert_eq!((tokens.len(), &tokens[0], &tokens[1]), (4, &tokens[1], &tokens[2]));
    assert_ne!(tokens[3], tokens[0], "another call");
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
    let put = &requests[2].1["Item"];
    let expected: Item = serde_json::from_value(json!({
        "hash": {"S": "1c5815b2"}, "version": {"N": "3"}, "attr1": {"S": "some old values"}, "WriteId": {"S": "write-3"},
    }))
    .unwrap();
    assert!(serde_json::from_value::<Item>(put.clone()).unwrap() == expected);

    // Another writer completed version 3, before the history row of this one or after it.
    let (outcome, requests) = rollback(&[rejected(None)]).await;
    assert_eq!((outcome, requests.len()), (Ok(Outcome::Conflict), 3));
    for code in ["ConditionalCheckFailed", "TransactionConflict"] {
        let reasons = [json!({"Code": code}), json!({"Code": "None"})];
        let cancelled = json!({"__type": "TransactionCanceledException", "CancellationReasons": reasons});
        let (outcome, requests) = rollback(&[json!({}), cancelled]).await;
        assert_eq!((outcome, requests.len()), (Ok(Outcome::Conflict), 4));
    }
}
