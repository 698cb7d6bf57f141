//! Lambda's event source mapping for a queue: receives messages, invokes the function, and deletes the messages that succeeded.

use std::{sync::Arc, time::Duration};

use aws_sdk_sqs::{
    Client,
    types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName},
};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{client::Queue, event};
use crate::{
    mapping::{InvocationOutcome, Invoker},
    template::queues::QueueEvent,
};

/// Long polling time of a request for messages.
const WAIT_SECONDS: i32 = 20;
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_DELETE_ATTEMPTS: usize = 3;
/// Maximum number of tries of a batch that is throttled, before its visibility timeout. On AWS, some throttled batches are tried
/// again within the same receive, others after the visibility timeout (recorded); the number and the delay are chosen.
const MAX_TRIES: usize = 4;

#[derive(Debug)]
pub struct QueueMapping<I> {
    client: Client,
    queue: Queue,
    settings: QueueEvent,
    invoker: I,
}

impl<I: Invoker + 'static> QueueMapping<I> {
    pub fn new(client: Client, queue: Queue, settings: QueueEvent, invoker: I) -> Arc<Self> {
        Arc::new(Self {
            client,
            queue,
            settings,
            invoker,
        })
    }

    /// Runs until it is dropped. Messages in flight at that time become visible again after the visibility timeout.
    pub async fn run(self: Arc<Self>) {
        let slots = Arc::new(Semaphore::new(self.settings.maximum_concurrency));
        let mut running = JoinSet::new();
        loop {
            // Messages are received only when an invocation can start, so that none waits invisibly.
            let Ok(slot) = slots.clone().acquire_owned().await else {
                return;
            };
            while running.try_join_next().is_some() {}
            match self.receive().await {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => {
                    let mapping = self.clone();
                    running.spawn(async move {
                        mapping.deliver(&messages).await;
                        drop(slot);
                    });
                }
                Err(()) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    async fn receive(&self) -> Result<Vec<Message>, ()> {
        let request = self.client.receive_message().queue_url(&self.queue.url);
        let request = request
            .max_number_of_messages(self.settings.batch_size.try_into().unwrap_or(10))
            .wait_time_seconds(WAIT_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        let output = request.send().await.map_err(drop)?;
        Ok(output.messages.unwrap_or_default())
    }

    async fn deliver(&self, messages: &[Message]) {
        let payload = event::event(messages, &self.queue.arn).to_string();
        let outcome = invoke(&self.invoker, &payload).await;
        let done = event::done(messages, &outcome, self.settings.report_batch_item_failures);
        let entry = |(index, message): (usize, &&Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            let entry = entry.set_receipt_handle(message.receipt_handle.clone());
            entry.build().ok()
        };
        let entries: Vec<_> = done.iter().enumerate().filter_map(entry).collect();
        if entries.is_empty() {
            return;
        }
        // A message that cannot be deleted is delivered again; the function detects the duplicate.
        for _ in 0..MAX_DELETE_ATTEMPTS {
            let request = self.client.delete_message_batch().queue_url(&self.queue.url);
            if request.set_entries(Some(entries.clone())).send().await.is_ok() {
                return;
            }
        }
    }
}

/// Invokes the function, again while it is throttled: the messages stay in the same receive.
pub(super) async fn invoke(invoker: &impl Invoker, payload: &str) -> InvocationOutcome {
    let request_id = invoker.request_id();
    let mut outcome = InvocationOutcome::NotInvoked;
    for attempt in 0..MAX_TRIES {
        if attempt > 0 {
            tokio::time::sleep(RETRY_DELAY).await;
        }
        outcome = invoker.invoke(&request_id, payload.to_owned()).await;
        if outcome != InvocationOutcome::NotInvoked {
            break;
        }
    }
    outcome
}
