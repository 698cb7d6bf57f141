//! Messages of a dead-letter queue, and sending them to another one.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_sqs::{
    Client,
    types::{ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue, MessageSystemAttributeName},
};

use super::services::{Services, timeouts};
use crate::{connection::Connection, error::OperationError, request_error::RequestError};

const MAX_MESSAGES: usize = 10;
/// Wait time of a receive request. Long polling queries all servers, so that no message is missed.
const WAIT_SECONDS: i32 = 1;
const NO_QUEUE: [&str; 2] = ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"];
/// Errors of a request to send that are caused by the message, such as its size.
const REJECTED: [&str; 2] = ["InvalidMessageContents", "InvalidParameterValue"];

#[derive(Debug, Clone)]
pub(super) struct Queue {
    client: Client,
    pub(super) url: String,
    visibility_timeout: i32,
}

/// A received message. It is hidden from other consumers until its visibility timeout.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) id: String,
    receipt: String,
    pub(super) body: String,
    /// Time at which it was sent, in milliseconds since 1970.
    pub(super) sent_millis: Option<i64>,
    attributes: Option<HashMap<String, MessageAttributeValue>>,
    pub(super) group: Option<String>,
    /// Only in a FIFO queue. In a dead-letter queue, it is [the id of the original
    /// message](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html),
    /// so the source queue does not take the message for a duplicate of the first one.
    pub(super) deduplication_id: Option<String>,
}

pub(super) enum Sent {
    Accepted,
    /// SQS never accepts this message.
    Rejected(RequestError),
}

impl Received {
    fn new(message: aws_sdk_sqs::types::Message) -> Option<Self> {
        let attribute = |name| message.attributes.as_ref()?.get(&name).cloned();
        Some(Self {
            sent_millis: attribute(MessageSystemAttributeName::SentTimestamp).and_then(|millis| millis.parse().ok()),
            group: attribute(MessageSystemAttributeName::MessageGroupId),
            deduplication_id: attribute(MessageSystemAttributeName::MessageDeduplicationId),
            id: message.message_id?,
            receipt: message.receipt_handle?,
            body: message.body?,
            attributes: message.message_attributes,
        })
    }

    pub(super) fn name(&self) -> String {
        format!("message {}", self.id)
    }
}

impl Queue {
    pub(super) fn new(connection: &Connection, services: &Services, url: &str) -> Self {
        let mut config = aws_sdk_sqs::config::Builder::from(&connection.sdk).timeout_config(timeouts());
        if let Some(url) = &services.sqs_endpoint_url {
            config = config.endpoint_url(url);
        }
        Self {
            client: Client::from_conf(config.build()),
            url: url.to_owned(),
            visibility_timeout: services.visibility_timeout.into(),
        }
    }

    /// Returns another queue of the same account and Region.
    pub(super) fn with_url(&self, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..self.clone()
        }
    }

    async fn receive(&self) -> Result<Vec<Received>, OperationError> {
        let request = self.client.receive_message().queue_url(&self.url);
        let request = request.message_system_attribute_names(MessageSystemAttributeName::All);
        let request = request.message_attribute_names("All");
        let request = request.max_number_of_messages(MAX_MESSAGES.try_into().unwrap_or(1));
        let request = request.visibility_timeout(self.visibility_timeout);
        let output = request.wait_time_seconds(WAIT_SECONDS).send().await.map_err(|error| {
            let error = RequestError::new("ReceiveMessage", &error);
            self.error(error)
        })?;
        let messages = output.messages.unwrap_or_default().into_iter();
        Ok(messages.filter_map(Received::new).collect())
    }

    fn error(&self, error: RequestError) -> OperationError {
        match error.is(&NO_QUEUE) {
            true => OperationError::NoQueue(self.url.clone()),
            false => error.into(),
        }
    }

    /// Returns the URLs of the queues whose dead-letter queue this is.
    pub(super) async fn sources(&self) -> Result<Vec<String>, OperationError> {
        let request = self.client.list_dead_letter_source_queues().queue_url(&self.url);
        let output = request.send().await;
        let output = output.map_err(|error| RequestError::new("ListDeadLetterSourceQueues", &error))?;
        Ok(output.queue_urls)
    }

    /// Sends a message with another body, but the same attributes.
    pub(super) async fn send(&self, message: &Received, body: String) -> Result<Sent, OperationError> {
        let request = self.client.send_message().queue_url(&self.url).message_body(body);
        let request = request
            .set_message_attributes(message.attributes.clone())
            .set_message_group_id(message.group.clone())
            .set_message_deduplication_id(message.deduplication_id.clone());
        let Err(error) = request.send().await else {
            return Ok(Sent::Accepted);
        };
        let error = RequestError::new("SendMessage", &error);
        match error.is(&REJECTED) {
            true => Ok(Sent::Rejected(error)),
            false => Err(self.error(error)),
        }
    }

    pub(super) async fn delete(&self, message: &Received) -> Result<(), OperationError> {
        let request = self
            .client
            .delete_message()
            .queue_url(&self.url)
            .receipt_handle(&message.receipt);
        let deleted = request.send().await;
        deleted.map_err(|error| RequestError::new("DeleteMessage", &error))?;
        Ok(())
    }
}

/// A pass over a queue that returns each message once, even if SQS delivers it again.
pub(super) struct Drain<'a> {
    queue: &'a Queue,
    /// Messages that stay in the queue, with the newest receipt of each.
    kept: BTreeMap<String, String>,
    /// Number of messages that were delivered again since the last new one.
    repeated: usize,
}

impl<'a> Drain<'a> {
    pub(super) fn new(queue: &'a Queue) -> Self {
        Self {
            queue,
            kept: BTreeMap::new(),
            repeated: 0,
        }
    }

    /// Returns the next messages that were not returned before, or `None` if there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Received>>, OperationError> {
        loop {
            let received = self.queue.receive().await?;
            let mut new = Vec::new();
            let is_empty = received.is_empty();
            for message in received {
                // Unless it is deleted, `release` makes it visible again.
                let receipt = message.receipt.clone();
                if self.kept.insert(message.id.clone(), receipt).is_none() {
                    new.push(message);
                } else {
                    self.repeated += 1;
                }
            }
            if !new.is_empty() {
                self.repeated = 0;
                return Ok(Some(new));
            }
            // All kept messages were delivered again, and no new one.
            if is_empty || self.repeated > self.kept.len() {
                return Ok(None);
            }
        }
    }

    pub(super) async fn delete(&mut self, message: &Received) -> Result<(), OperationError> {
        self.queue.delete(message).await?;
        self.kept.remove(&message.id);
        Ok(())
    }

    /// Makes the kept messages visible at once, and returns their number.
    pub(super) async fn release(self) -> Result<u64, OperationError> {
        let receipts: Vec<_> = self.kept.into_values().collect();
        for batch in receipts.chunks(MAX_MESSAGES) {
            let entry = |(index, receipt): (usize, &String)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(receipt)
                    .visibility_timeout(0)
                    .build()
            };
            let entries = batch.iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(|_| RequestError::unreadable("ChangeMessageVisibilityBatch"))?;
            let request = self
                .queue
                .client
                .change_message_visibility_batch()
                .queue_url(&self.queue.url);
            // An entry that fails becomes visible after its visibility timeout.
            let released = request.set_entries(Some(entries)).send().await;
            released.map_err(|error| RequestError::new("ChangeMessageVisibilityBatch", &error))?;
        }
        Ok(receipts.len() as u64)
    }
}
