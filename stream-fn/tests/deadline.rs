//! Requests of stream-fn to a DynamoDB that fails, by replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use aws_sdk_dynamodb::config::HttpClient;
use serde_json::{Value, json, value::RawValue};
use shared::clock::Deadline;
use stream_fn::HistoryWriter;
use testkit::replay::{self, NeverClient, Replay};

fn recorder(http: impl HttpClient + 'static) -> HistoryWriter {
    HistoryWriter::new(replay::client(http), &replay::settings())
}

fn batch(records: usize) -> Box<RawValue> {
    let record = |n: usize| {
        let keys = json!({"PK": {"S": n.to_string()}, "SK": {"S": "v0"}});
        let mut image = keys.clone();
        image["Latest"] = json!({"N": "1"});
        image["A"] = json!({"S": "secret"});
        json!({"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": n.to_string()}})
    };
    let event = json!({"Records": (1..=records).map(record).collect::<Vec<_>>()});
    RawValue::from_string(event.to_string()).unwrap()
}

async fn failed(recorder: &HistoryWriter, records: usize, left: Duration) -> Vec<String> {
    let answer = recorder
        .handle(&batch(records), "lambda", Deadline::after(left))
        .await
        .unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    failures
        .iter()
        .map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_done_in_time_is_returned_in_order() {
    for (records, left) in [1, 500]
        .into_iter()
        .flat_map(|records| [0, 1, 5, 60].map(|left| (records, left)))
    {
        let expected: Vec<_> = (1..=records).map(|n| n.to_string()).collect();
        let began = tokio::time::Instant::now();
        let left = Duration::from_secs(left);
        let recorder = recorder(NeverClient::new());
        assert_eq!(failed(&recorder, records, left).await, expected);
        assert!(
            began.elapsed() <= left,
            "{records} answered after {:?} of {left:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_that_there_is_no_time_to_start() {
    let deadline = Deadline {
        start_by: tokio::time::Instant::now(),
        finish_by: tokio::time::Instant::now() + LEFT,
    };
    for records in [1, 3] {
        let replay = Replay::new(vec![json!({}), batch_answer(&["", "", ""])]);
        let answer = recorder(replay.http())
            .handle(&batch(records), "lambda", deadline)
            .await
            .unwrap();
        assert_eq!(
            (answer.batch_item_failures.len(), replay.requests().len()),
            (records, 0)
        );
    }
}

fn lost() -> Value {
    json!({"__type": "InternalServerError"})
}

fn own(n: u32) -> Value {
    json!({"PK": {"S": n.to_string()}, "SK": {"S": "v1"}, "A": {"S": "secret"}})
}

fn other(n: u32) -> Value {
    let mut other = own(n);
    other["A"] = json!({"S": "other"});
    other
}

const LEFT: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_was_lost_is_already_recorded() {
    let refused = |stored: Value| {
        let kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        json!({"__type": kind, "message": "refused", "Item": stored})
    };
    let replay = Replay::new(vec![lost(), refused(own(1))]);
    assert!(failed(&recorder(replay.http()), 1, LEFT).await.is_empty());
    let replay = Replay::new(vec![lost(), refused(other(1))]);
    assert_eq!(failed(&recorder(replay.http()), 1, LEFT).await, ["1"]);
}

/// The answer to a batch: a code for each statement that failed, `""` for each that did not.
fn batch_answer(codes: &[&str]) -> Value {
    let response = |code: &&str| match *code {
        "" => json!({"TableName": "Table"}),
        code => json!({"Error": {"Code": code, "Message": "secret"}}),
    };
    let responses: Vec<_> = codes.iter().map(response).collect();
    json!({"Responses": responses})
}

fn found(items: &[Value]) -> Value {
    json!({"Responses": {"Table": items}, "UnprocessedKeys": {}})
}

/// What fails of three records, and what was asked for: operations, and partition keys in their order.
async fn of_three(events: Vec<Value>) -> (Vec<String>, Vec<(String, String)>) {
    of(3, events).await
}

async fn of(records: usize, events: Vec<Value>) -> (Vec<String>, Vec<(String, String)>) {
    let replay = Replay::new(events);
    let failed = failed(&recorder(replay.http()), records, LEFT).await;
    let asked = replay.requests().into_iter().map(|(target, body)| {
        let keys: String = match target.as_str() {
            "BatchExecuteStatement" => body["Statements"]
                .as_array()
                .unwrap()
                .iter()
                .map(|statement| statement["Parameters"][1]["S"].as_str().unwrap())
                .collect(),
            "BatchGetItem" => body["RequestItems"]["Table"]["Keys"]
                .as_array()
                .unwrap()
                .iter()
                .map(|key| key["PK"]["S"].as_str().unwrap())
                .collect(),
            _ => body["Item"]["PK"]["S"].as_str().unwrap().to_owned(),
        };
        (target, keys)
    });
    let asked = asked.collect();
    (failed, asked)
}

fn asked(requests: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(operation, keys): &(&str, &str)| ((*operation).to_owned(), (*keys).to_owned());
    requests.iter().map(owned).collect()
}

const BATCH: &str = "BatchExecuteStatement";
const READ: &str = "BatchGetItem";
const DUPLICATE: &str = "DuplicateItem";

#[tokio::test(start_paused = true)]
async fn a_version_by_itself_is_put() {
    let done = || json!({});
    let (failed, sent) = of(1, vec![done()]).await;
    assert_eq!((failed.len(), sent), (0, asked(&[("PutItem", "1")])));
    let (failed, sent) = of(2, vec![batch_answer(&["", ""])]).await;
    assert_eq!((failed.len(), sent), (0, asked(&[(BATCH, "12")])));
    // What is left over of 25, too.
    let (failed, sent) = of(26, vec![batch_answer(&[""; 25]), done()]).await;
    let operations: Vec<_> = sent.iter().map(|(operation, _)| operation.as_str()).collect();
    assert_eq!((failed.len(), operations), (0, vec![BATCH, "PutItem"]));
    let (failed, sent) = of(52, [(); 3].map(|()| batch_answer(&[""; 25])).into()).await;
    assert_eq!(sent[2], (BATCH.to_owned(), "5152".to_owned()));
    assert_eq!((failed.len(), sent.len()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn so_many_requests_are_under_way_at_once() {
    let one = serde_json::from_str::<Value>(batch(1).get()).unwrap()["Records"][0].clone();
    let same = json!({"Records": vec![one; 1000]}).to_string();
    let same = RawValue::from_string(same).unwrap();
    // Parts of 25 with different keys are a request each. Records with one key are all by themselves.
    for (event, most) in [(batch(1000), 8), (same, 64)] {
        let silent = NeverClient::new();
        let recorder = recorder(silent.clone());
        let answer = recorder
            .handle(&event, "lambda", Deadline::after(Duration::from_millis(500)))
            .await;
        assert_eq!(answer.unwrap().batch_item_failures.len(), 1000);
        assert_eq!(silent.num_calls(), most);
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_there_is_read_back_and_compared() {
    // The answer to the first attempt was lost, and what was written by it is not what stands in the way.
    let events = vec![
        lost(),
        batch_answer(&[DUPLICATE, DUPLICATE, ""]),
        found(&[other(2), own(1)]),
    ];
    let (failed, sent) = of_three(events).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(sent, asked(&[(BATCH, "123"), (BATCH, "123"), (READ, "12")]));
    // What is gone when it is read is put by itself.
    let events = vec![batch_answer(&["", DUPLICATE, DUPLICATE]), found(&[own(3)]), json!({})];
    let (failed, sent) = of_three(events).await;
    assert!(failed.is_empty());
    assert_eq!(sent, asked(&[(BATCH, "123"), (READ, "23"), ("PutItem", "2")]));
    // What cannot be read is not known.
    let denied = json!({"__type": "AccessDeniedException"});
    let (failed, _) = of_three(vec![batch_answer(&["", DUPLICATE, ""]), denied]).await;
    assert_eq!(failed, ["2"]);
}

#[tokio::test(start_paused = true)]
async fn only_for_what_is_sent_again_is_there_a_wait() {
    let refused = || json!({"__type": "ValidationException"});
    let done = || json!({});
    for (events, waits) in [
        (vec![batch_answer(&["", "", ""])], false),
        (vec![batch_answer(&["", DUPLICATE, ""]), found(&[own(2)])], false),
        (vec![batch_answer(&["", "ValidationError", ""]), done()], false),
        (vec![refused(), done(), done(), done()], false),
        (
            vec![batch_answer(&["", "ThrottlingError", ""]), batch_answer(&[""])],
            true,
        ),
    ] {
        let began = tokio::time::Instant::now();
        let (failed, _) = of_three(events).await;
        assert!(failed.is_empty());
        assert_eq!(began.elapsed() > Duration::ZERO, waits);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_may_pass_is_sent_again() {
    for code in [
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "TransactionConflict",
        "InternalServerError",
    ] {
        let events = vec![
            batch_answer(&["", code, code]),
            batch_answer(&[code, DUPLICATE]),
            found(&[own(3)]),
            batch_answer(&[""]),
        ];
        let (failed, sent) = of_three(events).await;
        assert!(failed.is_empty(), "{code}");
        assert_eq!(sent, asked(&[(BATCH, "123"), (BATCH, "23"), (READ, "3"), (BATCH, "2")]));
        // Three times, as the SDK does it.
        let events = vec![
            batch_answer(&["", code, ""]),
            batch_answer(&[code]),
            batch_answer(&[code]),
        ];
        let (failed, sent) = of_three(events).await;
        assert_eq!((failed, sent.len()), (vec!["2".to_owned()], 3), "{code}");
    }
    for code in ["AccessDenied", "ResourceNotFound", "Unheard"] {
        let (failed, sent) = of_three(vec![batch_answer(&["", code, ""])]).await;
        assert_eq!((failed, sent.len()), (vec!["2".to_owned()], 1), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_batch_is_refused_for_fails_nothing_else_of_it() {
    let done = || json!({});
    let refused = || json!({"__type": "ValidationException", "message": "secret"});
    // One statement.
    let (failed, sent) = of_three(vec![batch_answer(&["", "ValidationError", ""]), refused()]).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(sent, asked(&[(BATCH, "123"), ("PutItem", "2")]));
    // The whole request.
    let (failed, sent) = of_three(vec![refused(), done(), refused(), done()]).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(
        sent,
        asked(&[(BATCH, "123"), ("PutItem", "1"), ("PutItem", "2"), ("PutItem", "3")])
    );
}
