//! Compares the actions that `template.yaml` allows each role, on which table, with those that its requests need.

use std::collections::{BTreeMap, BTreeSet};

use local::{
    dynamodb::{endpoint::Dynamodb, sdk_config},
    stack::Stack,
};
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, version::Version};
use testkit::{database, endpoint::is_skipped, policies, stack::options, tap::Tap};

use crate::support::{PROGRAM, eventually, failed, first, insert, invoke, message, root, settled, template};

/// Actions that Lambda itself performs with a role: it writes logs, polls the queue, sends records of failed
/// asynchronous invocations, stores failure documents, lists the table's streams, and sends traces (Lambda developer guide, "Using Lambda with Amazon SQS", "… with DynamoDB",
/// "Capturing records in Amazon S3", and the managed policies named there).
const BY_LAMBDA: [(&str, &str); 2] = [
    (
        "WriterRole",
        "logs:CreateLogStream logs:PutLogEvents sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage sqs:SendMessage \
         xray:PutTelemetryRecords xray:PutTraceSegments",
    ),
    (
        "StreamRole",
        "dynamodb:ListStreams logs:CreateLogStream logs:PutLogEvents s3:ListBucket s3:PutObject xray:PutTelemetryRecords \
         xray:PutTraceSegments",
    ),
];

/// The access keys that stand for a role: that of the function, and that of the mapping, which uses the function's role.
const ACCESS_KEYS: [(&str, &[&str]); 2] = [("WriterRole", &["writerfn"]), ("StreamRole", &["streamfn", "mapping"])];

#[tokio::test]
async fn each_role_is_allowed_exactly_the_actions_it_needs() {
    if is_skipped("it needs a proxy of an embedded DynamoDB") {
        return;
    }
    // Each mode with each idempotency and each layout, with both values of the other parameters in turn.
    let others = [("false", "1"), ("true", "10")];
    for (index, mode) in ["stream", "inline", "transaction"].into_iter().enumerate() {
        for (index, idempotency) in (index..).zip(["recent", "ledger"]) {
            for (index, layout) in (index..).zip(["same", "own"]) {
                let (skip_unchanged, digits) = others[index % 2];
                check(&[
                    ("WriteMode", mode),
                    ("Idempotency", idempotency),
                    ("HistoryTable", layout),
                    ("SkipUnchanged", skip_unchanged),
                    ("VersionDigits", digits),
                ])
                .await;
            }
        }
    }
}

/// Compares what the requests need with what the template allows.
async fn check(parameters: &[(&str, &str)]) {
    let mut asked = needed(parameters).await;
    for (role, actions) in BY_LAMBDA {
        for action in actions.split(' ') {
            let new = asked.entry(role.to_owned()).or_default().insert(action.to_owned());
            assert!(new, "{role} does {action} itself");
        }
    }
    let text = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let allowed = policies::allowed(&policies::statements(&text, parameters));
    assert_eq!(asked, allowed, "needed, and allowed, with {parameters:?}");
}

/// Returns the actions that the requests of a stack need, with their tables, by role.
async fn needed(parameters: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    let tap = Tap::embedded();
    let mut options = options(template(parameters), Some(PROGRAM));
    options.dynamodb = Some(Dynamodb::At(tap.endpoint.clone()));
    let stack = Stack::start(options).await.unwrap();
    // The stack has stored the layout already. On AWS, writer-fn does so.
    let client = aws_sdk_dynamodb::Client::new(&sdk_config(stack.dynamodb_endpoint()).await);
    database::delete_item(&client, &stack.table, "#vzero", "config").await;
    // An earlier deployment had TimeIndex=true.
    let since = json!({"PK": {"S": "#vzero"}, "SK": {"S": "config"}, "TimeIndexSince": {"S": "2026-11-26T13:20:52Z"}});
    database::put_into(&client, stack.store.history_table(), since).await;
    work(&stack, &client).await;
    // If the writer puts the version items, histories are complete before stream-fn reads the stream.
    eventually("put by stream-fn", async || {
        tap.actions_by_access_key().contains_key("streamfn").then_some(())
    })
    .await;
    let by_key = tap.actions_by_access_key();
    let asked = ACCESS_KEYS.map(|(role, keys)| {
        let asked = keys.iter().filter_map(|key| by_key.get(*key)).flatten();
        let asked = asked.map(|needed| match &needed.table {
            Some(table) => format!("{} {table}", needed.action),
            None => needed.action.clone(),
        });
        (role.to_owned(), asked.collect::<BTreeSet<_>>())
    });
    BTreeMap::from(asked)
}

/// Produces every outcome, and redelivers records to stream-fn.
async fn work(stack: &Stack, client: &aws_sdk_dynamodb::Client) {
    let write = async |update: Value| invoke(stack, "writer-fn", &update).await;
    for (update, outcome) in [
        (json!({"ID": "E", "RequestId": "1", "A": 1}), "Written"),
        (json!({"ID": "E", "RequestId": "1", "A": 1}), "Duplicate"),
        (
            json!({"ID": "E", "RequestId": "2", "A": 2, "ExpectedVersion": 1}),
            "Written",
        ),
        (json!({"ID": "E", "RequestId": "3", "Deleted": true}), "Written"),
        (json!({"ID": "E", "RequestId": "4", "A": null}), "Written"),
        (json!({"Updates": [{"ID": "S"}, {"ID": "T"}]}), "Written"),
    ] {
        assert_eq!(write(update).await["Outcome"], outcome);
    }
    let conflict = write(json!({"ID": "E", "ExpectedVersion": 9})).await;
    assert_eq!(conflict["errorType"], "VersionConflict");
    write(json!({"ID": "E", "RequestId": "5"})).await;
    let batch = json!({"Records": [message("m", &json!({"ID": "F"}))]});
    assert_eq!(write(batch).await, failed(&[]));
    // The recent requests of `v0` do not reach back to the first time that this update was sent.
    for number in 1..=30 {
        write(json!({"ID": "G", "N": number})).await;
    }
    let again = json!({"ID": "G", "RequestSentAt": 0, "RequestId": "late", "N": 31});
    assert_eq!(write(again).await["Outcome"], "Written");
    settled(stack).await;
    // Without its latest item, the floor of the history is read.
    database::delete_item(client, &stack.table, "F", LATEST_KEY).await;
    assert_eq!(write(json!({"ID": "F"})).await["errorType"], "Internal");
    // A version item that another client put: its record can only be kept in quarantine.
    let key = stack.store.digits().version_key(Version::FIRST);
    let other = json!({"PK": {"S": "Q"}, "SK": {"S": key}, "Image": {"M": {"N": {"N": "0"}}}});
    database::put_into(client, stack.store.history_table(), other).await;
    // One record, and two in a batch that exist already the second time.
    for entities in [&["1"][..], &["2", "3"], &["2", "3"], &["Q"]] {
        let records: Vec<_> = entities.iter().map(|entity| insert(entity, &first(entity))).collect();
        let response = invoke(stack, "stream-fn", &json!({"Records": records})).await;
        assert_eq!(response, failed(&[]));
    }
}
