//! Lambda's event source mapping for a queue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_sqs::{
    Client,
    types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName},
};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{client::Queue, event};
use crate::{mapping::Invoker, template::queues::QueueEvent};

/// How long a request for messages waits for one.
const WAIT_SECONDS: i32 = 20;
/// How long it waits after a request that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often the deletion of messages is tried.
const DELETIONS: usize = 3;

/// A queue that feeds a function.
#[derive(Debug)]
pub struct QueueMapping<I> {
    /// Where messages are.
    pub client: Client,
    /// Which queue.
    pub queue: Queue,
    /// How it is delivered.
    pub settings: QueueEvent,
    /// The function.
    pub invoker: I,
    /// How many messages were handed to the function.
    pub delivered: AtomicU64,
    /// How many were deleted.
    pub deleted: AtomicU64,
}

impl<I: Invoker + 'static> QueueMapping<I> {
    /// A queue that is about to feed a function.
    pub fn new(client: Client, queue: Queue, settings: QueueEvent, invoker: I) -> Arc<Self> {
        Arc::new(Self {
            client,
            queue,
            settings,
            invoker,
            delivered: AtomicU64::default(),
            deleted: AtomicU64::default(),
        })
    }

    /// Works for ever. To drop it is to stop it: what was under way is shown again by the queue.
    pub async fn run(self: Arc<Self>) {
        let slots = Arc::new(Semaphore::new(self.settings.maximum_concurrency));
        let mut working = JoinSet::new();
        loop {
            // Messages are asked for when somebody is free to take them, so that none waits hidden.
            let Ok(slot) = slots.clone().acquire_owned().await else {
                return;
            };
            while working.try_join_next().is_some() {}
            match self.receive().await {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => {
                    let mapping = self.clone();
                    working.spawn(async move {
                        mapping.deliver(&messages).await;
                        drop(slot);
                    });
                }
                Err(()) => tokio::time::sleep(AFTER_FAILURE).await,
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
        let answer = request.send().await.map_err(drop)?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn deliver(&self, messages: &[Message]) {
        self.delivered.fetch_add(messages.len() as u64, Ordering::Relaxed);
        let payload = event::event(messages, &self.queue.arn).to_string();
        let invocation = self.invoker.invoke(payload).await;
        let done = event::done(messages, &invocation.outcome, self.settings.report_batch_item_failures);
        let entry = |(index, message): (usize, &&Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            let entry = entry.set_receipt_handle(message.receipt_handle.clone());
            entry.build().ok()
        };
        let entries: Vec<_> = done.iter().enumerate().filter_map(entry).collect();
        if entries.is_empty() {
            return;
        }
        // What cannot be deleted comes again, and the function knows it.
        for _ in 0..DELETIONS {
            let request = self.client.delete_message_batch().queue_url(&self.queue.url);
            if let Ok(answer) = request.set_entries(Some(entries.clone())).send().await {
                self.deleted
                    .fetch_add(answer.successful.len() as u64, Ordering::Relaxed);
                return;
            }
        }
    }
}
