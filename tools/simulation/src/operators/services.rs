//! S3 and SQS as an operator reaches them: failure documents in a bucket, and queues. Requests to DynamoDB go to the connector.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_smithy_runtime_api::client::{
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use operations::{failures::source::Source, redrive::Services};
use serde_json::{Value, json};

use super::{DEAD_LETTERS, UPDATES};
use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    http::{self, Response, Service},
};

const S3_ENDPOINT: &str = "http://s3.simulated";
const SQS_ENDPOINT: &str = "http://sqs.simulated";

/// Content of the bucket, and the queues.
#[derive(Debug, Clone)]
pub(crate) struct ExternalServices {
    documents: Arc<Mutex<BTreeMap<String, String>>>,
    queues: Queues,
}

impl ExternalServices {
    pub(crate) fn new(queues: Queues) -> Self {
        let documents = Arc::default();
        Self { documents, queues }
    }

    /// Returns the bucket of the failure documents.
    pub(super) fn documents() -> Source {
        Source::Bucket {
            bucket: "failed-records".to_owned(),
            prefix: String::new(),
        }
    }

    /// Replaces the documents in the bucket.
    pub(super) fn set_documents(&self, documents: &[Value]) {
        let named = documents.iter().enumerate();
        let named = named.map(|(index, document)| (format!("{index:06}"), document.to_string()));
        *lock(&self.documents) = named.collect();
    }

    pub(super) fn of_library() -> Services {
        Services {
            s3_endpoint_url: Some(S3_ENDPOINT.to_owned()),
            sqs_endpoint_url: Some(SQS_ENDPOINT.to_owned()),
            ..Services::default()
        }
    }

    /// Responds to `ListObjectsV2` or `GetObject`. A key has no characters that a URL or XML escapes.
    fn s3(&self, path: &str) -> Response {
        let documents = lock(&self.documents);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = path.trim_matches('/');
        if query.contains("list-type=2") {
            let contents = documents
                .keys()
                .map(|key| format!("<Contents><Key>{key}</Key></Contents>"));
            let contents: String = contents.collect();
            let body = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>");
            return Response { status: 200, body };
        }
        let key = path.split_once('/').map_or("", |(_, key)| key);
        let (status, body) = match documents.get(key) {
            Some(document) => (200, document.clone()),
            None => (404, "<Error><Code>NoSuchKey</Code></Error>".to_owned()),
        };
        Response { status, body }
    }

    fn sqs(&self, operation: &str, body: &Value) -> Response {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let seconds = |value: &Value| Duration::from_secs(value.as_u64().unwrap_or_default());
        let queue = text("QueueUrl");
        let output = match operation {
            "ReceiveMessage" => {
                let max = body["MaxNumberOfMessages"]
                    .as_u64()
                    .and_then(|max| usize::try_from(max).ok());
                let received = self
                    .queues
                    .receive(queue, max.unwrap_or(1), seconds(&body["VisibilityTimeout"]));
                json!({"Messages": received.iter().map(message).collect::<Vec<_>>()})
            }
            "DeleteMessage" => {
                self.queues.delete(queue, text("ReceiptHandle"));
                json!({})
            }
            "SendMessage" => {
                json!({"MessageId": self.queues.send(queue, text("MessageBody").to_owned())})
            }
            "ChangeMessageVisibilityBatch" => {
                for entry in body["Entries"].as_array().into_iter().flatten() {
                    let id = entry["ReceiptHandle"].as_str().unwrap_or_default();
                    self.queues.show_after(queue, id, seconds(&entry["VisibilityTimeout"]));
                }
                json!({"Successful": [], "Failed": []})
            }
            "ListDeadLetterSourceQueues" if queue == DEAD_LETTERS => json!({"queueUrls": [UPDATES]}),
            "ListDeadLetterSourceQueues" => json!({"queueUrls": []}),
            _ => return Response::error(400, "UnsupportedOperation"),
        };
        Response::ok(&output)
    }

    fn respond(&self, request: &HttpRequest) -> Response {
        if request.headers().get("x-amz-target").is_none() {
            let path = request.uri().strip_prefix(S3_ENDPOINT).unwrap_or(request.uri());
            return self.s3(path);
        }
        let body = request.body().bytes().unwrap_or_default();
        let body = serde_json::from_slice(body).unwrap_or_default();
        self.sqs(http::operation(request), &body)
    }
}

fn message(letter: &Letter) -> Value {
    json!({
        "MessageId": letter.id, "ReceiptHandle": letter.id, "Body": letter.body,
        "Attributes": {"SentTimestamp": letter.sent_millis.to_string()},
    })
}

/// The services that an operator calls.
#[derive(Clone)]
pub(super) struct OperatorService {
    pub(super) dynamodb: Connector,
    pub(super) services: ExternalServices,
}

impl Service for OperatorService {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if target.starts_with("DynamoDB") {
            return self.dynamodb.respond(request).await;
        }
        self.dynamodb.external(|| self.services.respond(&request)).await
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) id: String,
    pub(crate) body: String,
    /// Time at which it was sent, in milliseconds since 1970.
    pub(crate) sent_millis: u64,
}

/// The queues of an account, each with its URL. The id of a message is its receipt.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    sent: u64,
    /// Messages of each queue, with the time from which each is visible, in milliseconds since 1970.
    messages: BTreeMap<String, Vec<(Letter, u64)>>,
}

impl Queues {
    /// Creates empty queues.
    pub(crate) fn new(clock: Clock) -> Self {
        let state = Arc::default();
        Self { clock, state }
    }

    /// Adds a message that has an id.
    pub(crate) fn add(&self, queue: &str, letter: Letter) {
        let now = self.clock.millis();
        lock(&self.state)
            .messages
            .entry(queue.to_owned())
            .or_default()
            .push((letter, now));
    }

    /// Returns the messages of a queue, also the hidden ones.
    pub(crate) fn messages(&self, queue: &str) -> Vec<Letter> {
        let state = lock(&self.state);
        let messages = state.messages.get(queue).into_iter().flatten();
        messages.map(|(letter, _)| letter.clone()).collect()
    }

    /// Returns visible messages, which are then hidden for this duration.
    fn receive(&self, queue: &str, max: usize, hidden_for: Duration) -> Vec<Letter> {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        let messages = state.messages.get_mut(queue).into_iter().flatten();
        let visible = messages.filter(|(_, visible_from)| *visible_from <= now).take(max);
        visible
            .map(|(letter, visible_from)| {
                *visible_from = now + millis(hidden_for);
                letter.clone()
            })
            .collect()
    }

    fn show_after(&self, queue: &str, id: &str, timeout: Duration) {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        for (letter, visible_from) in state.messages.get_mut(queue).into_iter().flatten() {
            if letter.id == id {
                *visible_from = now + millis(timeout);
            }
        }
    }

    fn delete(&self, queue: &str, id: &str) {
        if let Some(messages) = lock(&self.state).messages.get_mut(queue) {
            messages.retain(|(letter, _)| letter.id != id);
        }
    }

    /// Sends a message. Returns its id.
    pub(crate) fn send(&self, queue: &str, body: String) -> String {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        state.sent += 1;
        let letter = Letter {
            id: format!("message-{}", state.sent),
            body,
            sent_millis: now,
        };
        let id = letter.id.clone();
        state.messages.entry(queue.to_owned()).or_default().push((letter, now));
        id
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
