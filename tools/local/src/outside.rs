//! What stands on an SQS and an S3 that the stack does not bring along.

use thiserror::Error;

use crate::{
    bucket::{Bucket, BucketError},
    queue::{self, Queue, QueueError},
    template::{Template, queues::QueueEvent},
};

/// What stands on an SQS and an S3 that the stack does not bring along.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) queues: Vec<(String, Queue)>,
    pub(crate) feed: Option<(aws_sdk_sqs::Client, Queue, QueueEvent)>,
    pub(crate) bucket: Option<Bucket>,
}

impl Outside {
    /// Makes what the template says, where it is not there yet.
    pub(crate) async fn reach(
        template: &Template,
        sqs: Option<String>,
        s3: Option<String>,
    ) -> Result<Self, OutsideError> {
        let mut outside = Self::default();
        let mut word = None;
        if let Some(endpoint) = sqs {
            let client = queue::client(&endpoint).await;
            let event = template.queue.clone().ok_or(OutsideError::NoQueue)?;
            let (updates, dead) = queue::ensure(&client, &event.queue).await?;
            outside.queues.push((event.queue.name.clone(), updates.clone()));
            let dead_name = event.queue.dead_letters.as_ref().map(|(_, queue)| queue.name.clone());
            outside.queues.extend(dead_name.zip(dead));
            if let Some(failed) = template.bucket.as_ref().and_then(|bucket| bucket.word_to.as_ref()) {
                let (made, _) = queue::ensure(&client, failed).await?;
                outside.queues.push((failed.name.clone(), made.clone()));
                word = Some((client.clone(), made));
            }
            outside.feed = Some((client, updates, event));
        }
        if let Some(endpoint) = s3 {
            let bucket = template.bucket.as_ref().ok_or(OutsideError::NoBucket)?;
            outside.bucket = Some(Bucket::ensure(&endpoint, bucket, word).await?);
        }
        Ok(outside)
    }
}

/// Why something is not there.
#[derive(Debug, Error)]
pub enum OutsideError {
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
