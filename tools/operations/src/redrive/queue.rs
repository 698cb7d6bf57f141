//! Messages of a dead-letter queue, each received once, and its updates, sent to their queue again.
//!
//! A message that is sent gets a new id, so the update is sent with the original one, see [`crate::failures::update`]. It is
//! sent first and deleted from the dead-letter queue afterwards: after an interruption in between, writer-fn receives the same
//! request twice and applies it once.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use aws_sdk_sqs::{
    Client,
    types::{ChangeMessageVisibilityBatchRequestEntry, Message, MessageSystemAttributeName},
};
use jiff::Timestamp;
use shared::logging::chain;
use tokio::sync::OnceCell;

use super::{
    Options, Services,
    places::timeouts,
    tally::{Count, Tally},
};
use crate::{
    connection::Connection, error::OperationError, failures::update::UpdateMessage, request_error::RequestError,
};

const MAX_MESSAGES: usize = 10;
/// Wait time of a receive request. Long polling queries all servers, so that no message is missed.
const WAIT_SECONDS: i32 = 1;
const RELEASE: &str = "ChangeMessageVisibilityBatch";
const NO_QUEUE: [&str; 2] = ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"];
/// Errors of a request to send that are caused by the message, such as its size.
const REJECTED: [&str; 2] = ["InvalidMessageContents", "InvalidParameterValue"];

pub(super) fn name(message: &Message) -> String {
    format!("message {}", message.message_id().unwrap_or_default())
}

pub(super) fn attribute(message: &Message, name: MessageSystemAttributeName) -> Option<String> {
    message.attributes()?.get(&name).cloned()
}

/// A pass over a dead-letter queue that returns each message once, even if SQS delivers it again.
pub(super) struct Drain<'a> {
    client: Client,
    url: &'a str,
    visibility_timeout: i32,
    /// `None` if updates stay in the queue.
    options: Option<&'a Options>,
    /// URL of the queue that updates are sent to, once it is known.
    destination: OnceCell<String>,
    /// Messages that stay in the queue, with the newest receipt of each.
    kept: RefCell<BTreeMap<Option<String>, Option<String>>>,
    /// Number of messages that were delivered again since the last new one.
    repeated: Cell<usize>,
}

impl<'a> Drain<'a> {
    pub(super) fn new(
        connection: &Connection,
        services: &Services,
        url: &'a str,
        options: Option<&'a Options>,
    ) -> Self {
        let mut config = aws_sdk_sqs::config::Builder::from(&connection.sdk).timeout_config(timeouts());
        if let Some(url) = &services.sqs_endpoint_url {
            config = config.endpoint_url(url);
        }
        Self {
            client: Client::from_conf(config.build()),
            url,
            visibility_timeout: services.visibility_timeout.into(),
            options,
            destination: OnceCell::new(),
            kept: RefCell::default(),
            repeated: Cell::new(0),
        }
    }

    /// Returns the next messages that were not returned before, or `None` if there are no more.
    pub(super) async fn next(&self) -> Result<Option<Vec<Message>>, OperationError> {
        loop {
            let request = self.client.receive_message().queue_url(self.url);
            let request = request
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .message_attribute_names("All")
                .max_number_of_messages(MAX_MESSAGES.try_into().unwrap_or(1))
                .visibility_timeout(self.visibility_timeout)
                .wait_time_seconds(WAIT_SECONDS);
            let output = request.send().await.map_err(RequestError::of("ReceiveMessage"));
            let output = output.map_err(|error| queue_error(error, self.url))?;
            let mut messages = output.messages.unwrap_or_default();
            let (received, mut kept) = (messages.len(), self.kept.borrow_mut());
            // Unless it is deleted, `release` makes it visible again.
            messages.retain(|new| {
                kept.insert(new.message_id.clone(), new.receipt_handle.clone())
                    .is_none()
            });
            if !messages.is_empty() {
                self.repeated.set(0);
                return Ok(Some(messages));
            }
            self.repeated.set(self.repeated.get() + received);
            // All kept messages were delivered again, and no new one.
            if received == 0 || self.repeated.get() > kept.len() {
                return Ok(None);
            }
        }
    }

    pub(super) async fn delete(&self, message: &Message) -> Result<(), OperationError> {
        let request = self.client.delete_message().queue_url(self.url);
        let deleted = request.set_receipt_handle(message.receipt_handle.clone()).send().await;
        deleted.map_err(RequestError::of("DeleteMessage"))?;
        self.kept.borrow_mut().remove(&message.message_id);
        Ok(())
    }

    /// Makes the kept messages visible at once, and returns their number.
    pub(super) async fn release(self) -> Result<u64, OperationError> {
        let receipts: Vec<_> = self.kept.into_inner().into_values().collect();
        for batch in receipts.chunks(MAX_MESSAGES) {
            let mut request = self.client.change_message_visibility_batch().queue_url(self.url);
            for (index, receipt) in batch.iter().enumerate() {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
                let entry = entry.set_receipt_handle(receipt.clone()).visibility_timeout(0).build();
                request = request.entries(entry.map_err(|_| RequestError::unreadable(RELEASE))?);
            }
            // An entry that fails becomes visible after its visibility timeout.
            request.send().await.map_err(RequestError::of(RELEASE))?;
        }
        Ok(receipts.len() as u64)
    }

    /// Sends an update to its queue, with the attributes of its message.
    pub(super) async fn resend(&self, message: &Message, update: UpdateMessage) -> Result<Tally, OperationError> {
        let stays = |reason: &str| Ok(Tally::open(Count::NotResent, &name(message), reason));
        let Some(options) = self.options else {
            return stays("it is an update, which only `vzero admin redrive` sends again");
        };
        let sent_at = attribute(message, MessageSystemAttributeName::SentTimestamp);
        let sent_at = sent_at.and_then(|millis| Timestamp::from_millisecond(millis.parse().ok()?).ok());
        let body = match update.identified(message.message_id().unwrap_or_default(), sent_at) {
            Ok(body) => body.or_else(|| message.body.clone()),
            Err(error) => return stays(&chain(&error)),
        };
        let find = || self.find_destination(options);
        let to = self.destination.get_or_try_init(find).await?;
        if !options.is_dry {
            // In a dead-letter queue, the deduplication id is [that of the original
            // message](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html),
            // so the source queue does not take the message for a duplicate of the first one.
            let id = attribute(message, MessageSystemAttributeName::MessageDeduplicationId);
            let group = attribute(message, MessageSystemAttributeName::MessageGroupId);
            let request = self.client.send_message().queue_url(to).set_message_body(body);
            let request = request.set_message_attributes(message.message_attributes.clone());
            let request = request.set_message_group_id(group).set_message_deduplication_id(id);
            match request.send().await.map_err(RequestError::of("SendMessage")) {
                Err(error) if error.is(&REJECTED) => return stays(&error.to_string()),
                sent => _ = sent.map_err(|error| queue_error(error, to))?,
            }
        }
        Ok(Tally::resent(to))
    }

    /// Returns the URL of the only queue whose dead-letter queue this is, unless another one is named.
    async fn find_destination(&self, options: &Options) -> Result<String, OperationError> {
        let sources = if let Some(to) = &options.to {
            vec![to.clone()]
        } else {
            let request = self.client.list_dead_letter_source_queues().queue_url(self.url);
            let output = request.send().await;
            let output = output.map_err(RequestError::of("ListDeadLetterSourceQueues"))?;
            output.queue_urls
        };
        let [to] = <[String; 1]>::try_from(sources).map_err(|sources| OperationError::SourceQueues {
            queue: self.url.to_owned(),
            sources: sources.len(),
        })?;
        match path(&to) == path(self.url) {
            true => Err(OperationError::Invalid(format!(
                "the updates of {to} cannot be sent to the same queue"
            ))),
            false => Ok(to),
        }
    }
}

fn queue_error(error: RequestError, url: &str) -> OperationError {
    match error.is(&NO_QUEUE) {
        true => OperationError::NotFound(format!("queue {url}")),
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
