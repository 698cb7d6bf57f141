//! The stack with queues and a bucket, on SQS and S3 of moto, and `vzero admin redrive` of what failed.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    path::Path,
    process::{Command, Output},
};

use aws_sdk_sqs::types::QueueAttributeName;
use local::{
    dynamodb::sdk_config,
    external::bucket::Bucket,
    mapping::{destination::Destination as _, failure::Document},
    queue,
    stack::Options,
    template::Template,
};
use serde_json::{Value, json};
use uuid::Uuid;

use testkit::{
    server::Server,
    stack::{RunningStack, invoke, item, options, settled, table, template},
    wait::eventually,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_local");

#[allow(clippy::disallowed_methods, reason = "the endpoint is a parameter of the tests")]
fn moto() -> String {
    let endpoint = std::env::var("VZERO_TEST_MOTO");
    endpoint.unwrap_or_else(|_| panic!("run the tests with tools/cli/tests/with-moto"))
}

/// Returns the template with unique names, without retries, and with a short visibility timeout.
fn unique_template() -> Template {
    let mut template = template(&[]);
    template.mapping.maximum_retry_attempts = Some(0);
    let id = Uuid::new_v4();
    let event = template.queue.as_mut().unwrap();
    event.queue.name = format!("{}-{id}", event.queue.name);
    event
        .queue
        .attributes
        .insert("VisibilityTimeout".to_owned(), "1".to_owned());
    let letters = &mut event.queue.dead_letter_queue.as_mut().unwrap().1;
    letters.name = format!("{}-{id}", letters.name);
    let bucket = template.bucket.as_mut().unwrap();
    bucket.name = format!("failed-{id}");
    let notifies = bucket.notifies.as_mut().unwrap();
    notifies.name = format!("{}-{id}", notifies.name);
    template
}

async fn start() -> RunningStack {
    Box::pin(start_with(unique_template())).await
}

async fn start_with(template: Template) -> RunningStack {
    Box::pin(start_options(options(template, Some(PROGRAM)))).await
}

async fn start_options(mut options: Options) -> RunningStack {
    (options.sqs_endpoint, options.s3_endpoint) = (Some(moto()), Some(moto()));
    RunningStack::start(options).await
}

fn url<'a>(stack: &'a RunningStack, name: &str) -> &'a str {
    let mut queues = stack.queues.iter();
    let found = queues.find(|(found, _)| found.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')));
    &found.unwrap().1.url
}

async fn send(stack: &RunningStack, body: &str) -> String {
    send_to(stack, "Updates", body).await
}

async fn send_to(stack: &RunningStack, name: &str, body: &str) -> String {
    let sqs = queue::client(&moto()).await;
    let sent = sqs
        .send_message()
        .queue_url(url(stack, name))
        .message_body(body)
        .send()
        .await;
    sent.unwrap().message_id.unwrap()
}

async fn waiting(stack: &RunningStack, name: &str) -> (u32, u32) {
    let sqs = queue::client(&moto()).await;
    let request = sqs.get_queue_attributes().queue_url(url(stack, name));
    let told = request
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .unwrap()
        .attributes
        .unwrap();
    let count = |name: QueueAttributeName| told[&name].parse().unwrap();
    (
        count(QueueAttributeName::ApproximateNumberOfMessages),
        count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
    )
}

async fn s3() -> aws_sdk_s3::Client {
    let config = sdk_config(&moto()).await;
    let config = aws_sdk_s3::config::Builder::from(&config).force_path_style(true);
    aws_sdk_s3::Client::from_conf(config.build())
}

async fn objects(bucket: &str) -> Vec<String> {
    let listed = s3().await.list_objects_v2().bucket(bucket).send().await.unwrap();
    let keys = listed
        .contents
        .unwrap_or_default()
        .into_iter()
        .filter_map(|object| object.key);
    keys.collect()
}

/// Runs `vzero admin redrive`. `--workspace` builds the command.
async fn redrive(stack: &RunningStack, source: &str) -> Output {
    let vzero = Path::new(PROGRAM).with_file_name("vzero");
    assert!(vzero.exists(), "{} is not built", vzero.display());
    let moto = moto();
    let mut command = Command::new(vzero);
    command
        .env_clear()
        .env("TABLE_NAME", &stack.table)
        .args([
            "--endpoint-url",
            stack.dynamodb_endpoint(),
            "redrive",
            "--s3-endpoint-url",
            &moto,
        ])
        .args(["--sqs-endpoint-url", &moto, source]);
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn messages_become_versions_and_are_deleted() {
    let stack = start().await;
    let id = send(&stack, r#"{"ID": "E", "State": "OK"}"#).await;
    for number in 1..=40 {
        send(
            &stack,
            &json!({"ID": format!("Many#{}", number % 4), "n": number}).to_string(),
        )
        .await;
    }
    eventually("every version", async || {
        let table = table(&stack).await;
        let versions = table
            .values()
            .map(|collection| collection.items().len() - 1)
            .sum::<usize>();
        (versions == 41).then_some(())
    })
    .await;
    settled(&stack).await;
    // The message id is the request id of the update.
    assert_eq!(item(&stack, "E", "v1").await["RequestId"], json!({"S": id}));
    eventually("an empty queue", async || {
        (waiting(&stack, "Updates").await == (0, 0)).then_some(())
    })
    .await;
    assert_eq!(waiting(&stack, "UpdatesDeadLetterQueue").await, (0, 0));
}

#[tokio::test]
async fn a_poison_message_alone_goes_to_the_dead_letter_queue() {
    let stack = start().await;
    send(&stack, "no update").await;
    send(&stack, r#"{"ID": "Good", "State": "OK"}"#).await;
    eventually("the dead letter", async || {
        (waiting(&stack, "UpdatesDeadLetterQueue").await.0 == 1).then_some(())
    })
    .await;
    settled(&stack).await;
    assert_eq!(waiting(&stack, "Updates").await, (0, 0));
    assert_eq!(item(&stack, "Good", "v0").await["Latest"], json!({"N": "1"}));
    let sqs = queue::client(&moto()).await;
    let dead = sqs
        .receive_message()
        .queue_url(url(&stack, "UpdatesDeadLetterQueue"))
        .send()
        .await
        .unwrap();
    assert_eq!(dead.messages.unwrap()[0].body.as_deref(), Some("no update"));
}

#[tokio::test]
async fn a_redriven_update_keeps_its_request_id() {
    let stack = start().await;
    // As long as the counter is no number, DynamoDB rejects every update.
    stack
        .put(json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"S": "odd"}}))
        .await;
    let id = send(&stack, r#"{"ID": "E", "State": "OK"}"#).await;
    eventually("the dead letter", async || {
        (waiting(&stack, "UpdatesDeadLetterQueue").await.0 == 1).then_some(())
    })
    .await;
    stack.delete("E", "v0").await;
    let dead = url(&stack, "UpdatesDeadLetterQueue").to_owned();
    let output = redrive(&stack, &dead).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["Resent"], &summary["MessagesDeleted"]),
        (&json!(1), &json!(1)),
        "{summary}"
    );
    eventually("the update", async || {
        (!item(&stack, "E", "v1").await.is_null()).then_some(())
    })
    .await;
    settled(&stack).await;
    assert_eq!(item(&stack, "E", "v1").await["RequestId"], json!({"S": id}));
    assert_eq!(waiting(&stack, "UpdatesDeadLetterQueue").await, (0, 0));
}

/// An asynchronous invocation applied its update, but Lambda did not receive the response, and all later attempts failed.
#[tokio::test]
async fn an_asynchronous_update_that_was_applied_is_a_duplicate_after_its_redrive() {
    let stack = start().await;
    let update = json!({"ID": "E", "State": "OK"});
    assert_eq!(invoke(&stack, "writer-fn", &update).await["Version"], 1);
    let request = item(&stack, "E", "v0").await["RequestId"]["S"].clone();
    // The recent requests of `v0` do not reach back to the first attempt.
    for number in 2..=31 {
        invoke(&stack, "writer-fn", &json!({"ID": "E", "State": "OK", "N": number})).await;
    }
    settled(&stack).await;
    let bridge = json!({
        "version": "0", "id": "11111111-0000-4000-8000-000000000000", "detail-type": "State", "source": "plant",
        "time": "2026-11-22T12:00:00Z", "detail": {"ID": "F", "State": "OK"},
    });
    assert_eq!(invoke(&stack, "writer-fn", &bridge).await["Version"], 1);
    // The last attempt failed hours after the first.
    let now = i64::try_from(shared::clock::since_epoch().as_secs()).unwrap();
    let recorded_at = jiff::Timestamp::from_second(now).unwrap() + jiff::SignedDuration::from_hours(5);
    for (request, event) in [(&request, &update), (&json!("another"), &bridge)] {
        let record = json!({
            "version": "1.0", "timestamp": recorded_at.to_string(),
            "requestContext": {"requestId": request, "condition": "RetriesExhausted", "approximateInvokeCount": 3},
            "requestPayload": event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": {"errorType": "Throttled"},
        });
        send_to(&stack, "UpdatesDeadLetterQueue", &record.to_string()).await;
    }
    let dead = url(&stack, "UpdatesDeadLetterQueue").to_owned();
    let output = redrive(&stack, &dead).await;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["Resent"], &summary["MessagesDeleted"]),
        (&json!(2), &json!(2)),
        "{summary}"
    );
    eventually("an empty queue", async || {
        (waiting(&stack, "Updates").await == (0, 0)).then_some(())
    })
    .await;
    settled(&stack).await;
    assert_eq!(waiting(&stack, "UpdatesDeadLetterQueue").await, (0, 0));
    assert_eq!(item(&stack, "E", "v0").await["Latest"], json!({"N": "31"}));
    assert_eq!(item(&stack, "F", "v0").await["Latest"], json!({"N": "1"}));
}

#[tokio::test]
async fn a_failed_record_is_in_the_bucket_with_one_notification_and_can_be_redriven() {
    // A stream-fn that does not start.
    let mut options = options(unique_template(), Some(PROGRAM));
    options.bootstraps.insert("stream-fn".to_owned(), "/bin/false".into());
    let stack = Box::pin(start_options(options)).await;
    let bucket = stack.failures().strip_prefix("s3://").unwrap().to_owned();
    send(&stack, r#"{"ID": "Taken", "State": "OK"}"#).await;
    let keys = eventually("a document", async || {
        Some(objects(&bucket).await).filter(|keys| !keys.is_empty())
    })
    .await;
    assert_eq!(keys.len(), 1);
    let layout: Vec<_> = keys[0].split('/').collect();
    assert!(keys[0].starts_with("aws/lambda/") && layout.len() == 8, "{keys:?}");
    assert!(!stack.failed.exists(), "nothing goes to the folder");
    // As recorded on AWS: the content type, and the event as a string.
    let object = s3()
        .await
        .get_object()
        .bucket(&bucket)
        .key(&keys[0])
        .send()
        .await
        .unwrap();
    assert_eq!(object.content_type(), Some("application/octet-stream"));
    let document: Value = serde_json::from_slice(&object.body.collect().await.unwrap().into_bytes()).unwrap();
    let payload: Value = serde_json::from_str(document["payload"].as_str().unwrap()).unwrap();
    assert_eq!(payload["Records"].as_array().unwrap().len(), 1);
    // While another version item is in the way, the notification stays.
    let taken = json!({"PK": {"S": "Taken"}, "SK": {"S": "v1"}, "State": {"S": "manual"}});
    stack.put(taken).await;
    let dead = url(&stack, "StreamDeadLetterQueue").to_owned();
    assert_eq!(redrive(&stack, &dead).await.status.code(), Some(4));
    stack.delete("Taken", "v1").await;
    let output = redrive(&stack, &dead).await;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // There was exactly one notification.
    assert_eq!(
        (&summary["Documents"], &summary["Recorded"]),
        (&json!(1), &json!(1)),
        "{summary}"
    );
    assert_eq!(item(&stack, "Taken", "v1").await["State"], json!({"S": "OK"}));
    settled(&stack).await;
    // The queue is empty, and the document still exists.
    assert_eq!(waiting(&stack, "StreamDeadLetterQueue").await, (0, 0));
    let again = redrive(&stack, &format!("s3://{bucket}")).await;
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(
        (&again["Documents"], &again["AlreadyRecorded"]),
        (&json!(1), &json!(1)),
        "{again}"
    );
}

#[tokio::test]
async fn existing_queues_and_buckets_are_reused() {
    let template = unique_template();
    let first = start_with(template.clone()).await;
    let (queues, failures) = (first.queues.clone(), first.failures());
    drop(first);
    let second = start_with(template).await;
    let urls =
        |queues: &[(String, queue::Queue)]| queues.iter().map(|(_, queue)| queue.url.clone()).collect::<Vec<_>>();
    assert_eq!((urls(&second.queues), second.failures()), (urls(&queues), failures));
}

/// If S3 cannot notify the queue, because another server has it, the stack does.
#[tokio::test]
async fn the_stack_sends_the_notification_if_s3_does_not() {
    let template = unique_template();
    // The S3 of the first server does not know the SQS of the second.
    let other = Server::moto().unwrap();
    let sqs = queue::client(other.endpoint()).await;
    let bucket = template.bucket.unwrap();
    let (letters, _) = queue::ensure(&sqs, bucket.notifies.as_ref().unwrap()).await.unwrap();
    let made = Bucket::ensure(&moto(), &bucket, Some((sqs.clone(), letters.clone())))
        .await
        .unwrap();
    let document = Document {
        key: "aws/lambda/x/shard/2026/01/01/2026-01-01T00.00.00-1".to_owned(),
        body: json!({"payload": 7}),
    };
    made.put(document.clone()).await.unwrap();
    assert_eq!(objects(&made.name).await, [document.key.as_str()]);
    let got = sqs
        .receive_message()
        .queue_url(&letters.url)
        .max_number_of_messages(10)
        .send()
        .await
        .unwrap();
    let got = got.messages.unwrap();
    assert_eq!(got.len(), 1);
    let word: Value = serde_json::from_str(got[0].body.as_deref().unwrap()).unwrap();
    let s3 = &word["Records"][0]["s3"];
    assert_eq!(
        (&s3["bucket"]["name"], &s3["object"]["key"], &s3["object"]["size"]),
        (&json!(made.name), &json!(document.key), &json!(13))
    );
}
