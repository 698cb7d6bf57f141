//! Queues of the template on an SQS endpoint.

use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{
    Client,
    error::{DisplayErrorContext, ProvideErrorMetadata as _},
    types::QueueAttributeName,
};
use serde_json::json;
use thiserror::Error;

use crate::{dynamodb::sdk_config, template};

/// Maximum duration of a request. Long polling for messages takes longer than other requests.
pub(super) const MAX_REQUEST_TIME: Duration = Duration::from_secs(30);

/// A queue that is there.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Where it is.
    pub url: String,
    /// Its name among all of AWS's.
    pub arn: String,
}

/// A client of this SQS.
pub async fn client(endpoint: &str) -> Client {
    let config = sdk_config(endpoint).await;
    // To wait for messages takes longer than any other request.
    let patient = aws_config::timeout::TimeoutConfig::builder()
        .read_timeout(MAX_REQUEST_TIME)
        .operation_attempt_timeout(MAX_REQUEST_TIME)
        .operation_timeout(2 * MAX_REQUEST_TIME);
    let config = aws_sdk_sqs::config::Builder::from(&config).timeout_config(patient.build());
    Client::from_conf(config.build())
}

/// Makes a queue unless it is there, and the queue for its dead letters first.
pub async fn ensure(client: &Client, queue: &template::queues::Queue) -> Result<(Queue, Option<Queue>), QueueError> {
    let mut attributes: HashMap<_, _> = queue
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut dead = None;
    if let Some((most, letters)) = &queue.dead_letters {
        let made = Box::pin(ensure(client, letters)).await?.0;
        let policy = json!({"deadLetterTargetArn": made.arn, "maxReceiveCount": most});
        attributes.insert("RedrivePolicy".to_owned(), policy.to_string());
        dead = Some(made);
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
    let url = url.ok_or_else(|| QueueError("it has no URL".to_owned()))?;
    let request = client.get_queue_attributes().queue_url(&url);
    let request = request.attribute_names(QueueAttributeName::QueueArn);
    let told = request
        .send()
        .await
        .map_err(QueueError::of)?
        .attributes
        .unwrap_or_default();
    let arn = told.get(&QueueAttributeName::QueueArn).cloned();
    let arn = arn.ok_or_else(|| QueueError("it has no ARN".to_owned()))?;
    Ok((Queue { url, arn }, dead))
}

/// Why there is no queue.
#[derive(Debug, Error)]
#[error("a queue cannot be made: {0}")]
pub struct QueueError(String);

impl QueueError {
    pub(crate) fn of(error: impl std::error::Error) -> Self {
        Self(DisplayErrorContext(error).to_string())
    }
}
