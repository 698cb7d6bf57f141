//! The queues and the bucket of the template, on SQS and S3 endpoints outside of the stack.

use thiserror::Error;

use super::bucket::{Bucket, BucketError};
use crate::{
    queue::{self, Queue, QueueError},
    template::{Template, queues::QueueEvent},
};

#[derive(Default)]
pub(crate) struct ExternalServices {
    pub(crate) queues: Vec<(String, Queue)>,
    pub(crate) feed: Option<(aws_sdk_sqs::Client, Queue, QueueEvent)>,
    pub(crate) bucket: Option<Bucket>,
}

impl ExternalServices {
    /// Creates the resources of the template that do not exist.
    pub(crate) async fn ensure(
        template: &Template,
        sqs: Option<String>,
        s3: Option<String>,
    ) -> Result<Self, ExternalServicesError> {
        let mut external = Self::default();
        let mut notifications = None;
        if let Some(endpoint) = sqs {
            let client = queue::client(&endpoint).await;
            let event = template.queue.clone().ok_or(ExternalServicesError::NoQueue)?;
            let (updates, dead_letter_queue) = queue::ensure(&client, &event.queue).await?;
            external.queues.push((event.queue.name.clone(), updates.clone()));
            let dead_name = event
                .queue
                .dead_letter_queue
                .as_ref()
                .map(|(_, queue)| queue.name.clone());
            external.queues.extend(dead_name.zip(dead_letter_queue));
            if let Some(target) = template.bucket.as_ref().and_then(|bucket| bucket.notifies.as_ref()) {
                let (queue, _) = queue::ensure(&client, target).await?;
                external.queues.push((target.name.clone(), queue.clone()));
                notifications = Some((client.clone(), queue));
            }
            external.feed = Some((client, updates, event));
        }
        if let Some(endpoint) = s3 {
            let bucket = template.bucket.as_ref().ok_or(ExternalServicesError::NoBucket)?;
            external.bucket = Some(Bucket::ensure(&endpoint, bucket, notifications).await?);
        }
        Ok(external)
    }
}

#[derive(Debug, Error)]
pub enum ExternalServicesError {
    /// `--sqs-endpoint` without a queue in the template.
    #[error("the template has no queue that feeds a function")]
    NoQueue,
    /// `--s3-endpoint` without a bucket in the template.
    #[error("the template has no bucket for failed records")]
    NoBucket,
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Bucket(#[from] BucketError),
}
