//! `vzero admin redrive` from buckets and queues, and of updates, on S3 and SQS of moto.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::collections::HashMap;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_sqs::types::{Message, MessageAttributeValue, QueueAttributeName};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use testkit::{
    command::{Run, members},
    endpoint::sdk_config,
    pages,
    table::{Document, Record, Table},
    tap::Tap,
};

const COUNTS: [&str; 6] = [
    "Documents",
    "Records",
    "Recorded",
    "AlreadyRecorded",
    "MessagesDeleted",
    "MessagesKept",
];

struct Failures {
    table: Table,
    moto: String,
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
    bucket: String,
    queue: String,
}

impl Failures {
    fn new() -> Self {
        let moto = shared_endpoint();
        let table = Table::new(env!("CARGO_BIN_EXE_vzero"));
        let name = format!("failures-{}", uuid::Uuid::new_v4());
        let (s3, sqs, queue) = table.runtime.block_on(async {
            let config = sdk_config(&moto).await;
            let s3 = aws_sdk_s3::config::Builder::from(&config)
                .force_path_style(true)
                .build();
            let s3 = aws_sdk_s3::Client::from_conf(s3);
            s3.create_bucket().bucket(&name).send().await.unwrap();
            let sqs = aws_sdk_sqs::Client::new(&config);
            let queue = sqs.create_queue().queue_name(&name).send().await.unwrap();
            (s3, sqs, queue.queue_url.unwrap())
        });
        Self {
            table,
            moto,
            s3,
            sqs,
            bucket: name,
            queue,
        }
    }

    fn object(&self, key: &str, body: &str) {
        let request = self.s3.put_object().bucket(&self.bucket).key(key);
        let request = request.body(ByteStream::from(body.to_owned().into_bytes()));
        self.table.runtime.block_on(request.send()).unwrap();
    }

    /// Stores a document of these records in the bucket, and returns its key.
    fn document(&self, records: &[Record]) -> String {
        let Document { key, body } = self.table.document(records);
        self.object(&key, &body.to_string());
        key
    }

    /// Sends a message to the dead-letter queue, and returns its id.
    fn message(&self, body: &Value) -> String {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let attribute = MessageAttributeValue::builder()
            .data_type("String")
            .string_value("kept");
        let request = self.sqs.send_message().queue_url(&self.queue).message_body(text);
        let request = request.message_attributes("Sender", attribute.build().unwrap());
        let sent = self.table.runtime.block_on(request.send()).unwrap();
        sent.message_id.unwrap()
    }

    fn notification(&self, keys: &[&str]) -> Value {
        let record = |key: &&str| {
            let key = utf8_percent_encode(key, NON_ALPHANUMERIC)
                .to_string()
                .replace("%20", "+");
            json!({
                "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventName": "ObjectCreated:Put",
                "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": self.bucket}, "object": {"key": key, "size": 1}},
            })
        };
        json!({"Records": keys.iter().map(record).collect::<Vec<_>>()})
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let endpoints = [
            "redrive",
            "--s3-endpoint-url",
            &self.moto,
            "--sqs-endpoint-url",
            &self.moto,
        ];
        [&endpoints[..], arguments].concat()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.table.run(&self.arguments(arguments))
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        self.table.json(&self.arguments(arguments), code)
    }

    /// Creates a queue whose dead-letter queue is the queue of failures, and returns its URL.
    fn source_queue(&self) -> String {
        let arn = &self.attributes()[&QueueAttributeName::QueueArn];
        let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 5}).to_string();
        let request = self
            .sqs
            .create_queue()
            .queue_name(format!("updates-{}", uuid::Uuid::new_v4()));
        let request = request.attributes(QueueAttributeName::RedrivePolicy, policy);
        let created = self.table.runtime.block_on(request.send()).unwrap();
        created.queue_url.unwrap()
    }

    /// Receives the messages of a queue.
    fn take(&self, queue: &str) -> Vec<Message> {
        let request = self.sqs.receive_message().queue_url(queue).max_number_of_messages(10);
        let received = request.message_attribute_names("All").send();
        let received = self.table.runtime.block_on(received).unwrap();
        received.messages.unwrap_or_default()
    }

    fn attributes(&self) -> HashMap<QueueAttributeName, String> {
        let request = self.sqs.get_queue_attributes().queue_url(&self.queue);
        let request = request.attribute_names(QueueAttributeName::All).send();
        self.table.runtime.block_on(request).unwrap().attributes.unwrap()
    }

    /// Returns the number of visible messages, and of messages in flight.
    fn waiting(&self) -> (u32, u32) {
        let attributes = self.attributes();
        let count = |name| attributes[&name].parse().unwrap();
        (
            count(QueueAttributeName::ApproximateNumberOfMessages),
            count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        )
    }
}

#[allow(clippy::disallowed_methods, reason = "the endpoint is a parameter of the tests")]
fn shared_endpoint() -> String {
    let endpoint = std::env::var("VZERO_TEST_MOTO");
    endpoint.unwrap_or_else(|_| panic!("run the tests with tools/cli/tests/with-moto"))
}

#[test]
fn a_prefix_selects_all_its_objects_and_a_key_selects_one() {
    let failures = Failures::new();
    failures.table.write_versions("E", 2);
    let records = failures.table.records();
    failures.document(&records[..1]);
    let second = failures.document(&records[1..]);
    let odd = "odd/a plus+and é %";
    failures.object(odd, &failures.table.document(&records).body.to_string());
    failures.object(&format!("{odd}2"), "no document");
    failures.object("folder/", "");
    let source = |prefix: &str| format!("s3://{}/{prefix}", failures.bucket);
    let dry = failures.json(&[&source("aws/"), "--dry-run"], 0);
    assert_eq!(members(&dry, &COUNTS[..4]), json!([2, 2, 2, 0]));
    assert_eq!(failures.table.versions(), 0);
    let one = failures.json(&[&source(&second)], 0);
    assert_eq!(members(&one, &COUNTS[..4]), json!([1, 1, 1, 0]));
    let both = failures.json(&[&source("aws/lambda/")], 0);
    assert_eq!(members(&both, &COUNTS[..4]), json!([2, 2, 1, 1]));
    assert_eq!(
        members(&failures.json(&[&source(odd)], 0), &COUNTS[..4]),
        json!([1, 2, 0, 2])
    );
    // Objects stay.
    let all = failures.json(&[&format!("s3://{}", failures.bucket)], 4);
    assert_eq!(members(&all, &COUNTS[..4]), json!([3, 4, 0, 4]));
    let left = json!([{"Source": source(&format!("{odd}2")), "Reason": "it is not a failure document of a table's stream with at most 10000 records"}]);
    assert_eq!(all["Left"], left);
    assert_eq!(
        members(&failures.json(&[&source("nothing")], 0), &COUNTS[..4]),
        json!([0, 0, 0, 0])
    );
    let missing = failures.run(&["s3://there-is-no-such-bucket/x"]);
    assert_eq!(
        (missing.code, missing.stderr.as_str()),
        (3, "error: there is no bucket there-is-no-such-bucket\n")
    );
}

#[test]
fn a_message_is_deleted_only_if_all_its_records_are_in_history() {
    let failures = Failures::new();
    failures.table.write_versions("E", 6);
    let records = failures.table.records();
    let taken = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "A": {"S": "something else"}});
    failures.table.put(taken.clone());
    let documents: Vec<_> = (0..4).map(|n| failures.document(&records[n..=n])).collect();
    // Deleted: one document; two documents; a test event; a document itself; a pointer into the stream; from a topic.
    failures.message(&failures.notification(&[&documents[0]]));
    failures.message(&failures.notification(&[&documents[2], &documents[3]]));
    failures.message(&json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": failures.bucket}));
    failures.message(&failures.table.document(&records[4..5]).body);
    let mut pointer = failures.table.document(&records[5..]).body;
    pointer.as_object_mut().unwrap().remove("payload");
    failures.message(&json!({"Type": "Notification", "Message": pointer.to_string()}));
    // Not deleted: a conflict beside a good record, a record of another table, lost records, no such object, no document, no message.
    failures.message(&failures.notification(&[&documents[2], &documents[1]]));
    let other = pointer
        .to_string()
        .replace(&format!("table/{}/", failures.table.name), "table/Other/");
    failures.message(&json!(other));
    pointer["DDBStreamBatchInfo"]["shardId"] = json!("shardId-gone");
    failures.message(&pointer);
    failures.message(&failures.notification(&["no such key"]));
    failures.object("a b+c", "no document");
    failures.message(&failures.notification(&["a b+c"]));
    failures.message(&json!("no message"));

    let dry = failures.json(&[&failures.queue, "--dry-run"], 4);
    assert_eq!(members(&dry, &COUNTS), json!([9, 9, 5, 1, 0, 11]), "{dry}");
    assert_eq!((failures.waiting(), failures.table.versions()), ((11, 0), 1));

    let first = failures.json(&[&failures.queue], 4);
    assert_eq!(members(&first, &COUNTS), json!([9, 9, 5, 1, 5, 6]), "{first}");
    assert_eq!(
        members(&first, &["Conflict", "Lost", "OtherTable", "Malformed", "NotDocuments"]),
        json!([1, 1, 1, 0, 3])
    );
    assert_eq!(members(&first["Conflicts"][0], &["ID", "Version"]), json!(["E", 2]));
    let left = first["Left"].as_array().unwrap();
    let reasons: Vec<_> = left.iter().map(|left| &left["Reason"]).collect();
    for reason in [
        "there is no such object",
        "it is not a failure document of a table's stream with at most 10000 records",
    ] {
        assert!(reasons.contains(&&json!(reason)), "{reasons:?}");
    }
    let named = format!("s3://{}/a b+c", failures.bucket);
    assert!(left.iter().any(|left| left["Source"] == named), "{first}");
    // The other messages are visible at once.
    assert_eq!((failures.waiting(), failures.table.versions()), ((6, 0), 6));
    assert_eq!(failures.table.items()["E v2"], taken);

    let second = failures.json(&[&failures.queue], 4);
    assert_eq!(members(&second, &COUNTS), json!([4, 4, 0, 1, 0, 6]), "{second}");
    let third = failures.json(&[&failures.queue, "--drop-conflicts"], 4);
    assert_eq!(members(&third, &COUNTS), json!([4, 4, 0, 1, 1, 5]), "{third}");
    assert_eq!(failures.waiting(), (5, 0));
    // The conflicting item is unchanged, and the document is still in the bucket.
    assert_eq!(failures.table.items()["E v2"], taken);
    failures.json(&[&format!("s3://{}/{}", failures.bucket, documents[1])], 4);
}

#[test]
fn a_repair_reads_the_queue_and_deletes_no_message() {
    let failures = Failures::new();
    failures.table.write_versions("E", 4);
    let records = failures.table.records();
    let documents: Vec<_> = (0..2).map(|n| failures.document(&records[n..=n])).collect();
    failures.message(&failures.notification(&[&documents[0], &documents[1]]));
    let mut pointer = failures.table.document(&records[2..3]).body;
    pointer.as_object_mut().unwrap().remove("payload");
    failures.message(&pointer);
    let endpoints = format!("--s3-endpoint-url {0} --sqs-endpoint-url {0}", failures.moto);
    let repair = format!("repair E --lag 0 --yes --from {} {endpoints}", failures.queue);
    let lines = failures.table.lines(&repair, 0);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(members(&lines[4], &["Recorded", "Left"]), json!([4, 0]));
    assert_eq!((failures.waiting(), failures.table.versions()), ((2, 0), 4));
    failures.table.lines(&["audit", "E", "--lag", "0"], 0);
    let redriven = failures.json(&[&failures.queue], 0);
    assert_eq!(members(&redriven, &COUNTS), json!([3, 3, 0, 3, 2, 0]));
    assert_eq!(failures.waiting(), (0, 0));
}

#[test]
fn a_missing_queue_and_a_failure_in_the_middle() {
    let failures = Failures::new();
    let missing = failures.run(&[&format!("{}/123456789012/no-such-queue", failures.moto)]);
    assert!(
        missing.code == 3 && missing.stderr.starts_with("error: there is no queue http"),
        "{missing:?}"
    );
    // The bucket is unreachable: the first message is processed and deleted, the second is visible again.
    failures.table.write_versions("E", 1);
    failures.message(&failures.table.document(&failures.table.records()).body);
    failures.message(&failures.notification(&["key"]));
    let nowhere = "--s3-endpoint-url http://127.0.0.1:1";
    let redrive = format!(
        "redrive {} {nowhere} --sqs-endpoint-url {}",
        failures.queue, failures.moto
    );
    let ran = failures.table.run(&redrive);
    assert!(
        ran.code == 5 && ran.stderr.starts_with("error: GetObject could not be sent"),
        "{ran:?}"
    );
    assert_eq!(members(&ran.json(), &COUNTS), json!([1, 1, 1, 0, 1, 1]));
    assert_eq!((failures.waiting(), failures.table.versions()), ((1, 0), 1));
}

/// A backfill, a redrive, a repair, an audit and a prune, and the policy that they need.
#[test]
fn all_maintenance_commands_together() {
    let failures = Failures::new();
    let table = &failures.table;
    // Items without versions, and a writer.
    for n in 0..3 {
        table.put(json!({"PK": {"S": format!("old{n}")}, "SK": {"S": "v0"}, "State": {"S": "old"}}));
    }
    let backfilled = table.lines(&["backfill", "--yes", "--mode", "transaction"], 0);
    assert_eq!(backfilled.last().unwrap()["Written"], 3);
    table.write_versions("E", 6);
    // No version of E is in history. The records are in documents, one in a message, one below a prefix.
    let records: Vec<_> = (table.records().into_iter())
        .filter(|record| record.json()["dynamodb"]["Keys"]["PK"]["S"] == "E")
        .collect();
    let (in_queue, in_bucket) = (failures.document(&records[..2]), failures.document(&records[2..5]));
    failures.message(&failures.notification(&[&in_queue]));
    assert_eq!(table.lines(&["audit", "--all", "--lag", "0"], 4).len(), 2);

    let tap = Tap::of(&failures.moto);
    let endpoints = ["--s3-endpoint-url", &tap.endpoint, "--sqs-endpoint-url", &tap.endpoint];
    let redrive = [&["redrive", &failures.queue][..], &endpoints].concat();
    assert_eq!(members(&table.json(&redrive, 0), &COUNTS), json!([1, 2, 2, 0, 1, 0]));
    // An update is sent to its only queue, with its id and its attributes. A message that is not deleted becomes visible again.
    let id = failures.message(&json!({"ID": "E"}));
    failures.message(&json!("no message"));
    let unknown = table.run(&redrive);
    let reason = "it is the dead-letter queue of 0 queues; name the queue with --to URL\n";
    assert!(unknown.code == 2 && unknown.stderr.ends_with(reason), "{unknown:?}");
    let updates = failures.source_queue();
    assert_eq!(table.json(&redrive, 4)["Resent"], 1);
    let sent = failures.take(&updates).remove(0);
    assert_eq!(sent.message_attributes.unwrap()["Sender"].string_value(), Some("kept"));
    assert!(sent.body.unwrap().contains(&id));
    // Three versions are in the bucket only, the newest one in v0 only.
    let bucket = format!("s3://{}/{in_bucket}", failures.bucket);
    let repair = ["repair", "--all", "--lag", "0", "--yes", "--from", &bucket];
    let repaired = table.lines(&[&repair[..], &endpoints].concat(), 0);
    assert_eq!(repaired.last().unwrap()["Recorded"], 4);
    assert_eq!(table.lines(&["audit", "--all", "--lag", "0"], 0).len(), 1);
    table.json(&["pin", "E", "2"], 0);
    let pruned = table.json(&["prune", "E", "--keep", "2"], 0);
    assert_eq!(members(&pruned, &["Floor", "Marked", "Left"]), json!([5, 3, 1]));
    assert_eq!(table.lines(&["audit", "--all", "--lag", "0"], 0).len(), 1);
    assert_eq!(table.lines(&["history", "E"], 0).len(), 3);

    assert_eq!(tap.actions(), pages::policy_actions("Redrive", &["s3:", "sqs:"]));
}
