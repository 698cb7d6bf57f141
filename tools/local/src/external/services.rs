//! What stands on an SQS and an S3 that the stack does not bring along.

use thiserror::Error;

use super::bucket::{Bucket, BucketError};
use crate::{
    queue::{self, Queue, QueueError},
    template::{Template, queues::QueueEvent},
};

/// What stands on an SQS and an S3 that the stack does not bring along.
#[derive(Default)]
pub(crate) struct ExternalServices {
    pub(crate) queues: Vec<(String, Queue)>,
    pub(crate) feed: Option<(aws_sdk_sqs::Client, Queue, QueueEvent)>,
    pub(crate) bucket: Option<Bucket>,
}

impl ExternalServices {
    /// Makes what the template says, where it is not there yet.
    pub(crate) async fn ensure(
        template: &Template,
        sqs: Option<String>,
        s3: Option<String>,
    ) -> Result<Self, ExternalServicesError> {
        let mut external = Self::default();
        let mut word = None;
        if let Some(endpoint) = sqs {
            let client = queue::client(&endpoint).await;
            let event = template.queue.clone().ok_or(ExternalServicesError::NoQueue)?;
            let (updates, dead) = queue::ensure(&client, &event.queue).await?;
            external.queues.push((event.queue.name.clone(), updates.clone()));
            let dead_name = event.queue.dead_letters.as_ref().map(|(_, queue)| queue.name.clone());
            external.queues.extend(dead_name.zip(dead));
            if let Some(failed) = template.bucket.as_ref().and_then(|bucket| bucket.word_to.as_ref()) {
                let (made, _) = queue::ensure(&client, failed).await?;
                external.queues.push((failed.name.clone(), made.clone()));
                word = Some((client.clone(), made));
            }
            external.feed = Some((client, updates, event));
        }
        if let Some(endpoint) = s3 {
            let bucket = template.bucket.as_ref().ok_or(ExternalServicesError::NoBucket)?;
            external.bucket = Some(Bucket::ensure(&endpoint, bucket, word).await?);
        }
        Ok(external)
    }
}

/// Why something is not there.
#[derive(Debug, Error)]
pub enum ExternalServicesError {
    /// Nothing to make on the SQS at hand.
    #[error("the template has no queue that feeds a function")]
    NoQueue,
    /// Nothing to make on the S3 at hand.
    #[error("the template has no bucket for failed records")]
    NoBucket,
    /// A queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The bucket.
    #[error(transparent)]
    Bucket(#[from] BucketError),
}
