//! The bucket for failure documents on an S3 endpoint outside of AWS, and the S3 event notification of each document.
//!
//! Not every S3 implementation sends event notifications. A trial with a temporary bucket and queue decides: if the endpoint
//! sends none, the stack sends the notification itself.

use std::{io, time::Duration};

use aws_sdk_s3::{
    Client,
    error::{ProvideErrorMetadata as _, SdkError},
    operation::put_bucket_notification_configuration::PutBucketNotificationConfigurationError,
    primitives::ByteStream,
    types::{BucketVersioningStatus, Event, NotificationConfiguration, QueueConfiguration, VersioningConfiguration},
};
use serde_json::{Value, json};
use thiserror::Error;
use uuid::Uuid;

use crate::{
    dynamodb::sdk_config,
    mapping::{
        destination::{Destination, Folder},
        failure::Document,
    },
    queue::{Queue, QueueError},
    template::{self, resolve::REGION},
};

/// Time to wait for the event notification of the trial object.
const TRIAL_SECONDS: i32 = 2;

/// The on-failure destination.
#[derive(Debug, Clone)]
pub enum Failures {
    Folder(Folder),
    Bucket(Bucket),
}

impl Destination for Failures {
    async fn put(&self, document: Document) -> io::Result<()> {
        match self {
            Self::Folder(folder) => folder.put(document).await,
            Self::Bucket(bucket) => bucket.put(document).await,
        }
    }
}

/// An existing bucket.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    pub name: String,
    /// The queue for event notifications, if the S3 endpoint sends none itself.
    notifies: Option<(aws_sdk_sqs::Client, Queue)>,
}

impl Bucket {
    /// Creates the bucket if it does not exist, and configures event notifications to this queue.
    pub async fn ensure(
        endpoint: &str,
        bucket: &template::queues::Bucket,
        queue: Option<(aws_sdk_sqs::Client, Queue)>,
    ) -> Result<Self, BucketError> {
        let config = sdk_config(endpoint).await;
        let config = aws_sdk_s3::config::Builder::from(&config).force_path_style(true);
        let client = Client::from_conf(config.build());
        let name = bucket.name.clone();
        if client.head_bucket().bucket(&name).send().await.is_err() {
            create(&client, &name).await?;
            if bucket.versioned {
                let versioning = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled);
                let request = client.put_bucket_versioning().bucket(&name);
                let request = request.versioning_configuration(versioning.build());
                request.send().await.map_err(BucketError::of)?;
            }
        }
        let notifies = match queue {
            Some((sqs, queue)) if sends_notifications(&client, &sqs).await? => {
                configure(&client, &name, &queue.arn).await.map_err(BucketError::of)?;
                None
            }
            other => other,
        };
        Ok(Self { client, name, notifies })
    }

    async fn store(&self, document: &Document) -> Result<(), BucketError> {
        let body = document.body.to_string();
        let size = body.len();
        let request = self.client.put_object().bucket(&self.name).key(&document.key);
        // As recorded on AWS, although the content is JSON.
        request
            .content_type("application/octet-stream")
            .body(ByteStream::from(body.into_bytes()))
            .send()
            .await
            .map_err(BucketError::of)?;
        if let Some((sqs, queue)) = &self.notifies {
            let notification = notification(&self.name, &document.key, size).to_string();
            let request = sqs.send_message().queue_url(&queue.url).message_body(notification);
            let sent = request.send().await;
            sent.map_err(|error| BucketError::Notification(Box::new(error.into())))?;
        }
        Ok(())
    }
}

impl Destination for Bucket {
    async fn put(&self, document: Document) -> io::Result<()> {
        // If only the notification fails, the document exists, and its records are reported as dropped.
        self.store(&document).await.map_err(io::Error::other)
    }
}

async fn create(client: &Client, name: &str) -> Result<(), BucketError> {
    match client.create_bucket().bucket(name).send().await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some("BucketAlreadyOwnedByYou") => Ok(()),
        Err(error) => Err(BucketError::of(error)),
    }
}

/// Configures S3 event notifications for each new object of the bucket.
async fn configure(
    client: &Client,
    bucket: &str,
    arn: &str,
) -> Result<(), SdkError<PutBucketNotificationConfigurationError>> {
    let to = QueueConfiguration::builder()
        .queue_arn(arn)
        .events(Event::from("s3:ObjectCreated:*"))
        .build()?;
    let configuration = NotificationConfiguration::builder().queue_configurations(to).build();
    let request = client.put_bucket_notification_configuration().bucket(bucket);
    request.notification_configuration(configuration).send().await.map(drop)
}

/// Returns `true` if S3 sends event notifications to SQS. The trial uses a temporary bucket and queue.
async fn sends_notifications(s3: &Client, sqs: &aws_sdk_sqs::Client) -> Result<bool, BucketError> {
    let name = format!("trial-{}", Uuid::new_v4());
    let trial = template::queues::Queue {
        name: name.clone(),
        attributes: std::collections::BTreeMap::new(),
        dead_letter_queue: None,
    };
    let (queue, _) = crate::queue::ensure(sqs, &trial).await?;
    create(s3, &name).await?;
    let sent = trial_sends(s3, sqs, &name, &queue).await;
    // Errors of the cleanup are ignored.
    let _ = s3.delete_object().bucket(&name).key(TRIAL).send().await;
    let _ = s3.delete_bucket().bucket(&name).send().await;
    let _ = sqs.delete_queue().queue_url(&queue.url).send().await;
    Ok(sent)
}

const TRIAL: &str = "trial";

async fn trial_sends(s3: &Client, sqs: &aws_sdk_sqs::Client, bucket: &str, queue: &Queue) -> bool {
    if configure(s3, bucket, &queue.arn).await.is_err() {
        return false;
    }
    let put = s3
        .put_object()
        .bucket(bucket)
        .key(TRIAL)
        .body(ByteStream::from_static(b"{}"));
    if put.send().await.is_err() {
        return false;
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(TRIAL_SECONDS.unsigned_abs().into());
    loop {
        let request = sqs
            .receive_message()
            .queue_url(&queue.url)
            .wait_time_seconds(TRIAL_SECONDS);
        let Ok(output) = request.max_number_of_messages(10).send().await else {
            return false;
        };
        let messages = output.messages.unwrap_or_default();
        // S3 also sends a test event when notifications are configured.
        let is_trial = |body: &str| body.contains("ObjectCreated") && body.contains(TRIAL);
        if messages
            .iter()
            .filter_map(|message| message.body.as_deref())
            .any(is_trial)
        {
            return true;
        }
        if tokio::time::Instant::now() >= until {
            return false;
        }
    }
}

/// Returns the S3 event notification of an object. Keys of documents need no escaping.
/// See <https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html>.
fn notification(bucket: &str, key: &str, size: usize) -> Value {
    let now = shared::clock::since_epoch();
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)).unwrap_or_default();
    json!({"Records": [{
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": REGION,
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        "eventName": "ObjectCreated:Put",
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "local",
            "bucket": {"name": bucket, "arn": format!("arn:aws:s3:::{bucket}")},
            "object": {"key": key, "size": size},
        },
    }]})
}

#[derive(Debug, Error)]
pub enum BucketError {
    #[error("cannot use the bucket")]
    S3(#[source] Box<aws_sdk_s3::Error>),
    #[error("cannot send the event notification")]
    Notification(#[source] Box<aws_sdk_sqs::Error>),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl BucketError {
    fn of(error: impl Into<aws_sdk_s3::Error>) -> Self {
        Self::S3(Box::new(error.into()))
    }
}
