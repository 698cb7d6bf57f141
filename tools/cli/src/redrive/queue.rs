//! Messages of the dead-letter queue.

use std::collections::HashMap;

use aws_sdk_sqs::{Client, types::ChangeMessageVisibilityBatchRequestEntry};

use super::{RequestError, Services};
use crate::{connection::Connection, error::CliError};

/// How many messages a request takes at most.
const BATCH: usize = 10;
/// How long an empty queue is listened to: any time at all asks every server that may hold a message.
const WAIT_SECONDS: i32 = 1;

/// A queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    client: Client,
    url: String,
    visibility_timeout: i32,
}

/// A message that was received, hidden from others for now.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) id: String,
    receipt: String,
    pub(crate) body: String,
}

impl Queue {
    pub(crate) fn new(connection: &Connection, services: &Services, url: &str) -> Self {
        let mut config = aws_sdk_sqs::config::Builder::from(&connection.sdk).timeout_config(super::feed::timeouts());
        if let Some(url) = &services.sqs_endpoint_url {
            config = config.endpoint_url(url);
        }
        Self {
            client: Client::from_conf(config.build()),
            url: url.to_owned(),
            visibility_timeout: services.visibility_timeout.into(),
        }
    }

    /// The next messages. None where there are none that are not hidden.
    async fn receive(&self) -> Result<Vec<Received>, CliError> {
        let request = self.client.receive_message().queue_url(&self.url);
        let request = request.max_number_of_messages(BATCH.try_into().unwrap_or(1));
        let request = request.visibility_timeout(self.visibility_timeout);
        let answer = request.wait_time_seconds(WAIT_SECONDS).send().await.map_err(|error| {
            let error = RequestError::new("ReceiveMessage", &error);
            match error.is(&["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"]) {
                true => CliError::NotFound(format!("there is no queue {}", self.url)),
                false => error.into(),
            }
        })?;
        let received = answer.messages.unwrap_or_default().into_iter().filter_map(|message| {
            Some(Received {
                id: message.message_id?,
                receipt: message.receipt_handle?,
                body: message.body?,
            })
        });
        Ok(received.collect())
    }

    /// Deletes a message: all that it brought is in.
    pub(crate) async fn delete(&self, message: &Received) -> Result<(), CliError> {
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

/// One way through a queue: each message is handed out once, though it may come again.
pub(crate) struct Drain<'a> {
    queue: &'a Queue,
    /// What stays in the queue, and its newest receipt.
    kept: HashMap<String, String>,
    /// How many messages came again since the last new one.
    again: usize,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(queue: &'a Queue) -> Self {
        Self {
            queue,
            kept: HashMap::new(),
            again: 0,
        }
    }

    /// The next messages that were not handed out yet. `None` where there are no more.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Received>>, CliError> {
        loop {
            let received = self.queue.receive().await?;
            let mut new = Vec::new();
            let is_empty = received.is_empty();
            for message in received {
                // Whatever happens to it, it is to be seen again.
                let receipt = message.receipt.clone();
                if self.kept.insert(message.id.clone(), receipt).is_none() {
                    new.push(message);
                } else {
                    self.again += 1;
                }
            }
            if !new.is_empty() {
                self.again = 0;
                return Ok(Some(new));
            }
            // All that is kept came by again, and nothing new with it.
            if is_empty || self.again > self.kept.len() {
                return Ok(None);
            }
        }
    }

    /// Deletes a message.
    pub(crate) async fn delete(&mut self, message: &Received) -> Result<(), CliError> {
        self.queue.delete(message).await?;
        self.kept.remove(&message.id);
        Ok(())
    }

    /// Shows what stays to others at once, and says how many messages those are.
    pub(crate) async fn release(self) -> Result<u64, CliError> {
        let receipts: Vec<_> = self.kept.into_values().collect();
        for batch in receipts.chunks(BATCH) {
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
            // One that fails alone is hidden for its time, and comes back by itself.
            let shown = request.set_entries(Some(entries)).send().await;
            shown.map_err(|error| RequestError::new("ChangeMessageVisibilityBatch", &error))?;
        }
        Ok(receipts.len() as u64)
    }
}
