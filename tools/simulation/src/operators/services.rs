//! S3 and SQS as an operator reaches them: failure documents in a bucket, and queues. Requests to DynamoDB go to the connector.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use aws_smithy_runtime_api::client::{
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use operations::{failures::source::Source, redrive::Services};
use serde_json::{Value, json};

use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    http::{self, Response, Service},
    queue::{Queue, Queues},
};

pub(crate) const DEAD_LETTERS: &str = "http://sqs.simulated/000000000000/dead-letters";
const UPDATES: &str = "http://sqs.simulated/000000000000/updates";
const S3_ENDPOINT: &str = "http://s3.simulated";
const SQS_ENDPOINT: &str = "http://sqs.simulated";

/// The services that an operator calls. The id of a message is its receipt.
#[derive(Clone)]
pub(super) struct OperatorServices {
    pub(super) connector: Connector,
    /// Content of the bucket, by key.
    documents: Arc<Mutex<BTreeMap<String, String>>>,
    pub(super) queues: Queues,
}

impl OperatorServices {
    pub(super) fn new(connector: Connector, clock: Clock) -> Self {
        Self {
            connector,
            documents: Arc::default(),
            queues: Queues::new(clock),
        }
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
        let key = path.trim_matches('/').split_once('/').map_or("", |(_, key)| key);
        let (status, body) = if query.contains("list-type=2") {
            let content = |key: &String| format!("<Contents><Key>{key}</Key></Contents>");
            let contents: String = documents.keys().map(content).collect();
            let list = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>");
            (200, list)
        } else if let Some(document) = documents.get(key) {
            (200, document.clone())
        } else {
            (404, "<Error><Code>NoSuchKey</Code></Error>".to_owned())
        };
        Response { status, body }
    }

    fn sqs(&self, operation: &str, body: &Value) -> Response {
        let text = |request: &Value, name: &str| request[name].as_str().unwrap_or_default().to_owned();
        let hidden = |request: &Value| 1000 * request["VisibilityTimeout"].as_u64().unwrap_or_default();
        let queue = match text(body, "QueueUrl").as_str() {
            DEAD_LETTERS => Queue::DeadLetters,
            _ => Queue::Resent,
        };
        let output = match operation {
            "ReceiveMessage" => {
                let max = body["MaxNumberOfMessages"].as_u64().unwrap_or(1);
                let received = self
                    .queues
                    .receive(queue, usize::try_from(max).unwrap_or(1), hidden(body));
                let received = received.iter().map(|message| {
                    json!({
                        "MessageId": message.id, "ReceiptHandle": message.id, "Body": message.body,
                        "Attributes": {"SentTimestamp": message.sent.to_string()},
                    })
                });
                json!({"Messages": received.collect::<Vec<_>>()})
            }
            "DeleteMessage" => {
                self.queues.delete(&text(body, "ReceiptHandle"));
                json!({})
            }
            "SendMessage" => {
                let id = self.queues.send(queue, None, None, Some(text(body, "MessageBody")));
                json!({"MessageId": id})
            }
            "ChangeMessageVisibilityBatch" => {
                for entry in body["Entries"].as_array().into_iter().flatten() {
                    self.queues.hide(&text(entry, "ReceiptHandle"), hidden(entry));
                }
                json!({"Successful": [], "Failed": []})
            }
            "ListDeadLetterSourceQueues" if queue == Queue::DeadLetters => json!({"queueUrls": [UPDATES]}),
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

impl Service for OperatorServices {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if target.starts_with("DynamoDB") {
            return self.connector.respond(request).await;
        }
        self.connector.external(|| Self::respond(&self, &request)).await
    }
}
