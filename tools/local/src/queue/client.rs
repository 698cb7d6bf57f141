//! Queues of the template on an SQS endpoint.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{Client, error::ProvideErrorMetadata as _, types::QueueAttributeName};
use serde_json::json;
use thiserror::Error;

use crate::{dynamodb::sdk_config, template};

/// Maximum duration of a request. Long polling for messages takes longer than other requests.
pub(super) const MAX_REQUEST_TIME: Duration = Duration::from_secs(30);

/// An existing queue.
#[derive(Debug, Clone)]
pub struct Queue {
    pub url: String,
    pub arn: String,
}

pub async fn client(endpoint: &str) -> Client {
    let config = sdk_config(endpoint).await;
    let timeouts = aws_config::timeout::TimeoutConfig::builder()
        .read_timeout(MAX_REQUEST_TIME)
        .operation_attempt_timeout(MAX_REQUEST_TIME)
        .operation_timeout(2 * MAX_REQUEST_TIME);
    let config = aws_sdk_sqs::config::Builder::from(&config).timeout_config(timeouts.build());
    Client::from_conf(config.build())
}

/// Creates a queue and its dead-letter queue, if they do not exist. Returns both.
pub async fn ensure(client: &Client, queue: &template::queues::Queue) -> Result<(Queue, Option<Queue>), QueueError> {
    let mut attributes: HashMap<_, _> = queue
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut dead_letter_queue = None;
    if let Some((max_receive_count, target)) = &queue.dead_letter_queue {
        let created = Box::pin(ensure(client, target)).await?.0;
        let policy = json!({"deadLetterTargetArn": created.arn, "maxReceiveCount": max_receive_count});
        attributes.insert("RedrivePolicy".to_owned(), policy.to_string());
        dead_letter_queue = Some(created);
    }
    let found = client.get_queue_url().queue_name(&queue.name).send().await;
    let url = match found {
        Ok(found) => found.queue_url,
        Err(error)
            if matches!(
                error.code(),
                Some("AWS.SimpleQueueService.NonExistentQueue" | "QueueDoesNotExist")
            ) =>
        {
            let request = client.create_queue().queue_name(&queue.name);
            let attributes = attributes
                .into_iter()
                .map(|(name, value)| (QueueAttributeName::from(name.as_str()), value));
            let request = request.set_attributes(Some(attributes.collect()));
            request.send().await.map_err(QueueError::of)?.queue_url
        }
        Err(error) => return Err(QueueError::of(error)),
    };
    let url = url.ok_or_else(|| QueueError::NoUrl)?;
    let request = client.get_queue_attributes().queue_url(&url);
    let request = request.attribute_names(QueueAttributeName::QueueArn);
    let output = request
        .send()
        .await
        .map_err(QueueError::of)?
        .attributes
        .unwrap_or_default();
    let arn = output.get(&QueueAttributeName::QueueArn).cloned();
    let arn = arn.ok_or_else(|| QueueError::NoArn)?;
    Ok((Queue { url, arn }, dead_letter_queue))
}

#[derive(Debug, Error)]
pub enum QueueError {
    #[error("cannot create a queue")]
    Sqs(#[from] Box<aws_sdk_sqs::Error>),
    #[error("cannot create a queue: SQS returned no URL")]
    NoUrl,
    #[error("cannot create a queue: SQS returned no ARN")]
    NoArn,
}

impl QueueError {
    fn of(error: impl Into<aws_sdk_sqs::Error>) -> Self {
        Self::Sqs(Box::new(error.into()))
    }
}
