//! S3 and SQS as an operator reaches them: failure documents in a bucket, and queues. Requests to DynamoDB go to the connector.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::config::RuntimeComponents;
use aws_smithy_runtime_api::{
    client::{
        http::{HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use operations::{failures::source::Source, redrive::Services};
use serde_json::{Value, json};

use super::queues::{Letter, Queues};
use crate::caller::lock;

const S3_ENDPOINT: &str = "http://s3.simulated";
const SQS_ENDPOINT: &str = "http://sqs.simulated";

/// The bucket of the failure documents.
pub(super) struct Bucket(&'static str);

pub(super) const DOCUMENTS: Bucket = Bucket("failed-records");

impl Bucket {
    pub(super) fn source(&self) -> Source {
        Source::Bucket {
            bucket: self.0.to_owned(),
            prefix: String::new(),
        }
    }
}

/// Content of the bucket, and the queues.
#[derive(Debug, Clone)]
pub(crate) struct ExternalServices {
    documents: Arc<Mutex<BTreeMap<String, String>>>,
    queues: Arc<dyn Queues>,
}

impl ExternalServices {
    pub(crate) fn new(queues: impl Queues + 'static) -> Self {
        Self {
            documents: Arc::default(),
            queues: Arc::new(queues),
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
    fn s3(&self, path: &str) -> (u16, String) {
        let documents = lock(&self.documents);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = path.trim_matches('/');
        if query.contains("list-type=2") {
            let contents = documents
                .keys()
                .map(|key| format!("<Contents><Key>{key}</Key></Contents>"));
            let contents: String = contents.collect();
            let list = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>");
            return (200, list);
        }
        let key = path.split_once('/').map_or("", |(_, key)| key);
        match documents.get(key) {
            Some(document) => (200, document.clone()),
            None => (404, "<Error><Code>NoSuchKey</Code></Error>".to_owned()),
        }
    }

    fn sqs(&self, operation: &str, body: &Value) -> (u16, String) {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let optional = |name: &str| body[name].as_str().map(str::to_owned);
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
                let (group, deduplication_id) = (optional("MessageGroupId"), optional("MessageDeduplicationId"));
                let id = self
                    .queues
                    .send(queue, text("MessageBody").to_owned(), group, deduplication_id);
                json!({"MessageId": id})
            }
            "ChangeMessageVisibilityBatch" => {
                for entry in body["Entries"].as_array().into_iter().flatten() {
                    let id = entry["ReceiptHandle"].as_str().unwrap_or_default();
                    self.queues.show_after(queue, id, seconds(&entry["VisibilityTimeout"]));
                }
                json!({"Successful": [], "Failed": []})
            }
            "ListDeadLetterSourceQueues" => json!({"queueUrls": self.queues.sources(queue)}),
            _ => {
                return (
                    400,
                    json!({"__type": "com.amazonaws.sqs#UnsupportedOperation"}).to_string(),
                );
            }
        };
        (200, output.to_string())
    }

    fn respond(&self, request: &HttpRequest) -> (u16, String) {
        let Some(target) = request.headers().get("x-amz-target") else {
            let path = request.uri().strip_prefix(S3_ENDPOINT).unwrap_or(request.uri());
            return self.s3(path);
        };
        let body = request.body().bytes().unwrap_or_default();
        let body = serde_json::from_slice(body).unwrap_or_default();
        self.sqs(target.rsplit('.').next().unwrap_or_default(), &body)
    }
}

fn message(letter: &Letter) -> Value {
    let mut attributes = json!({"SentTimestamp": letter.sent_millis.to_string()});
    for (name, value) in [
        ("MessageGroupId", &letter.group),
        ("MessageDeduplicationId", &letter.deduplication_id),
    ] {
        if let Some(value) = value {
            attributes[name] = json!(value);
        }
    }
    json!({"MessageId": letter.id, "ReceiptHandle": letter.id, "Body": letter.body, "Attributes": attributes})
}

/// The HTTP connector of an operator.
#[derive(Debug, Clone)]
pub(super) struct ServiceConnector {
    dynamodb: SharedHttpConnector,
    services: ExternalServices,
}

impl ServiceConnector {
    pub(super) fn new(dynamodb: impl HttpConnector + 'static, services: ExternalServices) -> Self {
        Self {
            dynamodb: SharedHttpConnector::new(dynamodb),
            services,
        }
    }
}

impl HttpConnector for ServiceConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if target.starts_with("DynamoDB") {
            return self.dynamodb.call(request);
        }
        let (status, body) = self.services.respond(&request);
        let status = StatusCode::try_from(status).map_err(|error| ConnectorError::user(error.into()));
        HttpConnectorFuture::ready(status.map(|status| HttpResponse::new(status, body.into())))
    }
}

impl HttpClient for ServiceConnector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
