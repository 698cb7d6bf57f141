//! Messages of the dead-letter queue.

use std::collections::HashMap;

use aws_sdk_sqs::{Client, types::ChangeMessageVisibilityBatchRequestEntry};

use super::services::{Services, timeouts};
use crate::{connection::Connection, error::OperationError, request_error::RequestError};

const MAX_MESSAGES: usize = 10;
/// Wait time of a receive request. Long polling queries all servers, so that no message is missed.
const WAIT_SECONDS: i32 = 1;

#[derive(Debug, Clone)]
pub(super) struct Queue {
    client: Client,
    url: String,
    visibility_timeout: i32,
}

/// A received message. It is hidden from other consumers until its visibility timeout.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) id: String,
    receipt: String,
    pub(super) body: String,
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

    async fn receive(&self) -> Result<Vec<Received>, OperationError> {
        let request = self.client.receive_message().queue_url(&self.url);
        let request = request.max_number_of_messages(MAX_MESSAGES.try_into().unwrap_or(1));
        let request = request.visibility_timeout(self.visibility_timeout);
        let output = request.wait_time_seconds(WAIT_SECONDS).send().await.map_err(|error| {
            let error = RequestError::new("ReceiveMessage", &error);
            match error.is(&["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"]) {
                true => OperationError::NoQueue(self.url.clone()),
                false => error.into(),
            }
        })?;
        let received = output.messages.unwrap_or_default().into_iter().filter_map(|message| {
            Some(Received {
                id: message.message_id?,
                receipt: message.receipt_handle?,
                body: message.body?,
            })
        });
        Ok(received.collect())
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
    kept: HashMap<String, String>,
    /// Number of messages that were delivered again since the last new one.
    repeated: usize,
}

impl<'a> Drain<'a> {
    pub(super) fn new(queue: &'a Queue) -> Self {
        Self {
            queue,
            kept: HashMap::new(),
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
