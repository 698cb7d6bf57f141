//! `vzero admin redrive` from buckets and queues, and of updates, on S3 and SQS of moto.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use testkit::{
    endpoint::sdk_config,
    pages,
    script::{Script, Subject},
    script_tests,
    table::{Document, Table},
    tap::Tap,
};

/// A table, a bucket of failure documents, and a dead-letter queue.
struct Failures {
    table: Table,
    tap: Tap,
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
    bucket: String,
    queue: String,
}

impl Failures {
    fn object(&self, key: &str, body: String) {
        let request = self.s3.put_object().bucket(&self.bucket).key(key);
        let request = request.body(ByteStream::from(body.into_bytes()));
        self.table.block_on(request.send()).unwrap();
    }

    /// Sends a message to the dead-letter queue, and returns its id.
    fn message(&self, body: &str) -> String {
        let attribute = MessageAttributeValue::builder()
            .data_type("String")
            .string_value("kept");
        let request = self.sqs.send_message().queue_url(&self.queue).message_body(body);
        let request = request.message_attributes("Sender", attribute.build().unwrap());
        self.table.block_on(request.send()).unwrap().message_id.unwrap()
    }

    fn notification(&self, keys: &str) -> Value {
        let record = |key: &str| {
            let key = utf8_percent_encode(key, NON_ALPHANUMERIC).to_string();
            json!({
                "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventName": "ObjectCreated:Put",
                "s3": {
                    "s3SchemaVersion": "1.0", "bucket": {"name": self.bucket},
                    "object": {"key": key.replace("%20", "+"), "size": 1},
                },
            })
        };
        json!({"Records": keys.split("; ").map(record).collect::<Vec<_>>()})
    }

    fn attribute(&self, name: QueueAttributeName) -> String {
        let request = self.sqs.get_queue_attributes().queue_url(&self.queue);
        let request = request.attribute_names(QueueAttributeName::All).send();
        self.table
            .block_on(request)
            .unwrap()
            .attributes
            .unwrap()
            .remove(&name)
            .unwrap()
    }
}

/// `$BUCKET` and `$QUEUE` are the bucket and the queue, `$SQS` and `$ENDPOINTS` are the options of a command for their endpoints.
///
/// | action | of |
/// |---|---|
/// | `@failed 0,2-3` | the function, whose failure document of these records is stored in the bucket: the output is its `Key` |
/// | `@object FILE KEY` | another client, which stores a file in the bucket |
/// | `@notify KEY; KEY` | the bucket, which sends a notification of objects to the queue |
/// | `@message FILE` | another client, which sends a file to the queue: the output is the `Id` of the message |
/// | `@topic FILE` | the same, by a topic |
/// | `@source_queue` | an operator, who creates a queue whose dead-letter queue is the queue: the output is its `URL` |
/// | `@received URL` | none: the output is the text of a message of a queue, and its attribute `Sender` |
/// | `@waiting` | none: the output is the numbers of visible messages and of messages in flight |
/// | `@only_documented_actions` | none: the commands so far needed exactly the actions of the documented policy |
impl Subject for Failures {
    fn create(vzero: &'static str, digits: Option<u8>, definition: &Value) -> Self {
        let (moto, table) = (shared_endpoint(), Table::create(vzero, digits, definition));
        let bucket = format!("failures-{}", uuid::Uuid::new_v4());
        let (s3, sqs, queue) = table.block_on(async {
            let config = sdk_config(&moto).await;
            let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true);
            let s3 = aws_sdk_s3::Client::from_conf(s3.build());
            s3.create_bucket().bucket(&bucket).send().await.unwrap();
            let sqs = aws_sdk_sqs::Client::new(&config);
            let queue = sqs.create_queue().queue_name(&bucket).send().await.unwrap();
            (s3, sqs, queue.queue_url.unwrap())
        });
        let tap = Tap::of(&moto);
        Self {
            table,
            tap,
            s3,
            sqs,
            bucket,
            queue,
        }
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn variables(&self) -> Vec<(String, String)> {
        let sqs = format!("--sqs-endpoint-url {}", self.tap.endpoint);
        let endpoints = format!("--s3-endpoint-url {} {sqs}", self.tap.endpoint);
        let names = [
            ("$BUCKET", &self.bucket),
            ("$QUEUE", &self.queue),
            ("$SQS", &sqs),
            ("$ENDPOINTS", &endpoints),
        ];
        let names = names.map(|(name, value)| (name.to_owned(), value.clone()));
        names.into_iter().chain(self.table.variables()).collect()
    }

    fn act(&self, script: &Script<'_, Self>, kind: &str, words: &[&str]) -> Option<Value> {
        match (kind, words) {
            ("failed", [numbers]) => {
                let Document { key, body } = self.table.document(&script.records(numbers));
                self.object(&key, body.to_string());
                return Some(json!({ "Key": key }));
            }
            ("object", [file, ..]) => self.object(&words[1..].join(" "), script.text(file)),
            ("notify", _) => drop(self.message(&self.notification(&words.join(" ")).to_string())),
            ("message", [file]) => return Some(json!({"Id": self.message(&script.text(file))})),
            ("topic", [file]) => {
                let message = json!({"Type": "Notification", "Message": script.text(file)});
                self.message(&message.to_string());
            }
            ("source_queue", _) => {
                let arn = self.attribute(QueueAttributeName::QueueArn);
                let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 5}).to_string();
                let request = self
                    .sqs
                    .create_queue()
                    .queue_name(format!("updates-{}", uuid::Uuid::new_v4()));
                let request = request.attributes(QueueAttributeName::RedrivePolicy, policy);
                return Some(json!({"URL": self.table.block_on(request.send()).unwrap().queue_url}));
            }
            ("received", [queue]) => {
                let request = self.sqs.receive_message().queue_url(*queue);
                let received = self.table.block_on(request.message_attribute_names("All").send());
                let message = received.unwrap().messages.unwrap().remove(0);
                let sender = message.message_attributes.unwrap()["Sender"].string_value.clone();
                return Some(json!({"Body": message.body, "Sender": sender}));
            }
            ("waiting", _) => {
                let count = |name| self.attribute(name).parse::<u32>().unwrap();
                return Some(json!([
                    count(QueueAttributeName::ApproximateNumberOfMessages),
                    count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
                ]));
            }
            ("only_documented_actions", _) => {
                assert_eq!(self.tap.actions(), pages::policy_actions("Redrive", &["s3:", "sqs:"]));
            }
            _ => return script.act_on_table(kind, words),
        }
        Some(Value::Null)
    }
}

#[allow(clippy::disallowed_methods, reason = "the endpoint is a parameter of the tests")]
fn shared_endpoint() -> String {
    let endpoint = std::env::var("VZERO_TEST_MOTO");
    endpoint.unwrap_or_else(|_| panic!("run the tests with tools/cli/tests/with-moto"))
}

script_tests! {
    Failures;
    fn a_prefix_selects_all_its_objects_and_a_key_selects_one();
    fn a_message_is_deleted_only_if_all_its_records_are_in_history();
    fn a_repair_reads_the_queue_and_deletes_no_message();
    fn a_missing_queue_and_a_failure_in_the_middle();
    fn all_maintenance_commands_together();
}
