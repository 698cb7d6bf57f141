//! Messages of a dead-letter queue, each received once, and its updates, sent to their queue again.
//!
//! A message that is sent gets a new id, so the update is sent with the original one, see [`crate::failures::update`]. It is
//! sent first and deleted from the dead-letter queue afterwards: after an interruption in between, writer-fn receives the same
//! request twice and applies it once.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_sqs::{
    Client,
    types::{ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue, MessageSystemAttributeName},
};
use jiff::Timestamp;
use shared::logging::chain;
use tokio::sync::OnceCell;

use super::{
    Options, Services,
    tally::{Count, Tally},
    timeouts,
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::update::{Origin, UpdateMessage},
    request_error::RequestError,
};

const MAX_MESSAGES: usize = 10;
/// Wait time of a receive request. Long polling queries all servers, so that no message is missed.
const WAIT_SECONDS: i32 = 1;
const NO_QUEUE: [&str; 2] = ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"];
/// Errors of a request to send that are caused by the message, such as its size.
const REJECTED: [&str; 2] = ["InvalidMessageContents", "InvalidParameterValue"];

/// A received message. It is hidden from other consumers until its visibility timeout.
#[derive(Debug, Clone)]
pub(super) struct Received {
    id: String,
    receipt: String,
    pub(super) body: String,
    /// Time at which it was sent, in ISO 8601.
    sent_at: Option<String>,
    attributes: Option<HashMap<String, MessageAttributeValue>>,
    pub(super) group: Option<String>,
    /// Only in a FIFO queue. In a dead-letter queue, it is [the id of the original
    /// message](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html),
    /// so the source queue does not take the message for a duplicate of the first one.
    pub(super) deduplication_id: Option<String>,
}

impl Received {
    fn new(message: aws_sdk_sqs::types::Message) -> Option<Self> {
        let attribute = |name| message.attributes.as_ref()?.get(&name).cloned();
        let sent_at = |millis: String| {
            let time = Timestamp::from_millisecond(millis.parse().ok()?).ok()?;
            Some(format!("{time:.3}"))
        };
        Some(Self {
            sent_at: attribute(MessageSystemAttributeName::SentTimestamp).and_then(sent_at),
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

/// A pass over a dead-letter queue that returns each message once, even if SQS delivers it again.
pub(super) struct Drain<'a> {
    client: Client,
    url: &'a str,
    visibility_timeout: i32,
    /// `None` if updates stay in the queue.
    resend: Option<&'a Options>,
    /// URL of the queue that updates are sent to, once it is known.
    destination: OnceCell<String>,
    /// Messages that stay in the queue, with the newest receipt of each.
    kept: BTreeMap<String, String>,
    /// Number of messages that were delivered again since the last new one.
    repeated: usize,
}

impl<'a> Drain<'a> {
    pub(super) fn new(connection: &Connection, services: &Services, url: &'a str, resend: Option<&'a Options>) -> Self {
        let mut config = aws_sdk_sqs::config::Builder::from(&connection.sdk).timeout_config(timeouts());
        if let Some(url) = &services.sqs_endpoint_url {
            config = config.endpoint_url(url);
        }
        Self {
            client: Client::from_conf(config.build()),
            url,
            visibility_timeout: services.visibility_timeout.into(),
            resend,
            destination: OnceCell::new(),
            kept: BTreeMap::new(),
            repeated: 0,
        }
    }

    /// Returns the next messages that were not returned before, or `None` if there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Received>>, OperationError> {
        loop {
            let received = self.receive().await?;
            let (mut new, is_empty) = (Vec::new(), received.is_empty());
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

    async fn receive(&self) -> Result<Vec<Received>, OperationError> {
        let request = self.client.receive_message().queue_url(self.url);
        let request = request
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .max_number_of_messages(MAX_MESSAGES.try_into().unwrap_or(1))
            .visibility_timeout(self.visibility_timeout)
            .wait_time_seconds(WAIT_SECONDS);
        let output = request.send().await;
        let output = output.map_err(|error| queue_error(RequestError::new("ReceiveMessage", &error), self.url))?;
        let messages = output.messages.unwrap_or_default().into_iter();
        Ok(messages.filter_map(Received::new).collect())
    }

    pub(super) async fn delete(&mut self, message: &Received) -> Result<(), OperationError> {
        let request = self.client.delete_message().queue_url(self.url);
        let deleted = request.receipt_handle(&message.receipt).send().await;
        deleted.map_err(|error| RequestError::new("DeleteMessage", &error))?;
        self.kept.remove(&message.id);
        Ok(())
    }

    /// Makes the kept messages visible at once, and returns their number.
    pub(super) async fn release(self) -> Result<u64, OperationError> {
        const OPERATION: &str = "ChangeMessageVisibilityBatch";
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
            let entries = entries.map_err(|_| RequestError::unreadable(OPERATION))?;
            let request = self.client.change_message_visibility_batch().queue_url(self.url);
            // An entry that fails becomes visible after its visibility timeout.
            let released = request.set_entries(Some(entries)).send().await;
            released.map_err(|error| RequestError::new(OPERATION, &error))?;
        }
        Ok(receipts.len() as u64)
    }

    /// Sends an update to its queue. Returns the counts of the message, and `true` if it may be deleted.
    pub(super) async fn resend(
        &self,
        message: &Received,
        update: UpdateMessage,
    ) -> Result<(Tally, bool), OperationError> {
        let stays = |reason: &str| Ok((Tally::open(Count::NotResent, &message.name(), reason), false));
        let Some(resend) = self.resend else {
            return stays("it is an update, which only `vzero admin redrive` sends again");
        };
        let origin = Origin {
            message_id: &message.id,
            sent_at: message.sent_at.as_deref(),
        };
        let body = match update.identified(origin) {
            Ok(body) => body.unwrap_or_else(|| message.body.clone()),
            Err(error) => return stays(&chain(&error)),
        };
        let find = async || self.find_destination(resend).await;
        let to = self.destination.get_or_try_init(find).await?;
        if !resend.is_dry
            && let Some(rejection) = self.send(to, message, body).await?
        {
            return stays(&rejection.to_string());
        }
        Ok((Tally::resent(to), !resend.is_dry))
    }

    /// Sends a message with another body, but the same attributes. Returns the error of a message that SQS never accepts.
    async fn send(&self, to: &str, message: &Received, body: String) -> Result<Option<RequestError>, OperationError> {
        let request = self.client.send_message().queue_url(to).message_body(body);
        let request = request
            .set_message_attributes(message.attributes.clone())
            .set_message_group_id(message.group.clone())
            .set_message_deduplication_id(message.deduplication_id.clone());
        match request.send().await {
            Ok(_) => Ok(None),
            Err(error) => match RequestError::new("SendMessage", &error) {
                error if error.is(&REJECTED) => Ok(Some(error)),
                error => Err(queue_error(error, to)),
            },
        }
    }

    /// Returns the URL of the only queue whose dead-letter queue this is, unless another one is named.
    async fn find_destination(&self, resend: &Options) -> Result<String, OperationError> {
        let to = if let Some(to) = &resend.to {
            to.clone()
        } else {
            let output = self
                .client
                .list_dead_letter_source_queues()
                .queue_url(self.url)
                .send()
                .await;
            let output = output.map_err(|error| RequestError::new("ListDeadLetterSourceQueues", &error))?;
            let only = <[String; 1]>::try_from(output.queue_urls).map(|[only]| only);
            only.map_err(|sources| OperationError::SourceQueues {
                queue: self.url.to_owned(),
                sources: sources.len(),
            })?
        };
        match path(&to) == path(self.url) {
            true => Err(OperationError::SameQueue(to)),
            false => Ok(to),
        }
    }
}

fn queue_error(error: RequestError, url: &str) -> OperationError {
    match error.is(&NO_QUEUE) {
        true => OperationError::NoQueue(url.to_owned()),
        false => error.into(),
    }
}

/// Returns account and name of a queue: SQS has several host names in a Region.
fn path(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + "://".len());
    url[host..].find('/').map_or(url, |path| &url[host + path..])
}

#[cfg(test)]
mod tests;
