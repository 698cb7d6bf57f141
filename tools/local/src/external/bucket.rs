//! A bucket for failure documents on another S3 than AWS's, and word of each of them.

use std::{io, time::Duration};

use aws_sdk_s3::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata as _},
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

/// How long word of an object is waited for, to see whether the S3 at hand sends any.
const TRIAL_SECONDS: i32 = 2;

/// Where failure documents go.
#[derive(Debug, Clone)]
pub enum Failures {
    /// Into a folder.
    Folder(Folder),
    /// Into a bucket.
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

/// A bucket that is there.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    /// Its name.
    pub name: String,
    /// The queue that gets word of each document, where S3 itself sends none.
    word: Option<(aws_sdk_sqs::Client, Queue)>,
}

impl Bucket {
    /// Makes the bucket unless it is there, and has word of its objects sent to this queue.
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
        let word = match queue {
            Some((sqs, queue)) if sends_word(&client, &sqs).await? => {
                tell(&client, &name, &queue.arn).await.map_err(BucketError::of)?;
                None
            }
            other => other,
        };
        Ok(Self { client, name, word })
    }

    async fn store(&self, document: &Document) -> Result<(), BucketError> {
        let body = document.body.to_string();
        let size = body.len();
        let request = self.client.put_object().bucket(&self.name).key(&document.key);
        request
            .body(ByteStream::from(body.into_bytes()))
            .send()
            .await
            .map_err(BucketError::of)?;
        if let Some((sqs, queue)) = &self.word {
            let word = notification(&self.name, &document.key, size).to_string();
            let request = sqs.send_message().queue_url(&queue.url).message_body(word);
            request.send().await.map_err(BucketError::of)?;
        }
        Ok(())
    }
}

impl Destination for Bucket {
    async fn put(&self, document: Document) -> io::Result<()> {
        // Where the word fails, the document is put again: its key is the same.
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

/// Has S3 send word of each object of this bucket to this queue.
async fn tell(
    client: &Client,
    bucket: &str,
    arn: &str,
) -> Result<
    (),
    aws_sdk_s3::error::SdkError<
        aws_sdk_s3::operation::put_bucket_notification_configuration::PutBucketNotificationConfigurationError,
    >,
> {
    let to = QueueConfiguration::builder()
        .queue_arn(arn)
        .events(Event::from("s3:ObjectCreated:*"))
        .build()?;
    let configuration = NotificationConfiguration::builder().queue_configurations(to).build();
    let request = client.put_bucket_notification_configuration().bucket(bucket);
    request.notification_configuration(configuration).send().await.map(drop)
}

/// Whether this S3 sends word to this SQS: tried with a bucket and a queue that are gone afterwards.
async fn sends_word(s3: &Client, sqs: &aws_sdk_sqs::Client) -> Result<bool, BucketError> {
    let name = format!("trial-{}", Uuid::new_v4());
    let trial = template::queues::Queue {
        name: name.clone(),
        attributes: std::collections::BTreeMap::new(),
        dead_letters: None,
    };
    let (queue, _) = crate::queue::ensure(sqs, &trial).await?;
    create(s3, &name).await?;
    let sent = tried(s3, sqs, &name, &queue).await;
    // What stays of a trial hurts nobody.
    let _ = s3.delete_object().bucket(&name).key(TRIAL).send().await;
    let _ = s3.delete_bucket().bucket(&name).send().await;
    let _ = sqs.delete_queue().queue_url(&queue.url).send().await;
    Ok(sent)
}

/// The key of the object that is put to see whether word of it comes.
const TRIAL: &str = "trial";

async fn tried(s3: &Client, sqs: &aws_sdk_sqs::Client, bucket: &str, queue: &Queue) -> bool {
    if tell(s3, bucket, &queue.arn).await.is_err() {
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
        let Ok(answer) = request.max_number_of_messages(10).send().await else {
            return false;
        };
        let messages = answer.messages.unwrap_or_default();
        // S3 also sends word of the configuration itself.
        let is_it = |body: &str| body.contains("ObjectCreated") && body.contains(TRIAL);
        if messages.iter().filter_map(|message| message.body.as_deref()).any(is_it) {
            return true;
        }
        if tokio::time::Instant::now() >= until {
            return false;
        }
    }
}

/// Word of an object, as S3 sends it. The keys of documents need no escaping.
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

/// Why there is no bucket.
#[derive(Debug, Error)]
pub enum BucketError {
    /// S3 refused it.
    #[error("the bucket cannot be used: {0}")]
    Refused(String),
    /// The queue that gets word.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl BucketError {
    fn of(error: impl std::error::Error) -> Self {
        Self::Refused(DisplayErrorContext(error).to_string())
    }
}
