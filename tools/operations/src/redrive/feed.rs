//! Documents of all sources, passed to a sink, and updates of dead-letter queues, sent again.

use std::{collections::HashSet, path::Path};

use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};

use super::{
    bucket::Buckets,
    folder::{self, Content},
    queue::{Drain, Queue, Received},
    resend::{Resend, Resender},
    services::Services,
    tally::Tally,
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::{
        document::{self, Document},
        message::{self, Message, Object},
        source::Source,
    },
    progress::Progress,
};

/// Maximum number of documents that are processed concurrently. Each has many records. Those of an attached table are processed in
/// the order of their names, which begin with the shard and the time: the records of an item must be processed in their order.
const CONCURRENCY: usize = 4;

pub trait Sink {
    /// Processes a document. Returns the counts of its records.
    fn document(&self, name: &str, document: Document) -> impl Future<Output = Result<Tally, OperationError>>;

    /// Returns `true` if the message with these records may be deleted.
    fn may_delete(&self, tally: &Tally) -> bool;
}

pub struct Feed<'a> {
    pub(super) connection: &'a Connection,
    pub(super) services: &'a Services,
    pub(super) buckets: Buckets,
    /// `None` if updates stay in their dead-letter queue.
    pub resend: Option<Resend>,
    pub(super) progress: &'a dyn Progress,
}

impl<'a> Feed<'a> {
    /// Returns a feed that reports the number of documents and updates. Updates stay in their dead-letter queue.
    pub fn new(connection: &'a Connection, services: &'a Services, progress: &'a dyn Progress) -> Self {
        Self {
            connection,
            services,
            buckets: Buckets::new(connection, services),
            resend: None,
            progress,
        }
    }

    /// Passes all documents of the sources to the sink, one source after the other. Adds to the tally, also before an error.
    pub async fn all(&self, sources: &[Source], sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        // Before anything is changed: a path that does not exist can be a typing error.
        for source in sources {
            if let Source::Path(path) = source {
                folder::files(path)?;
            }
        }
        for source in sources {
            match source {
                Source::Path(path) => self.path(path, sink, tally).await?,
                Source::Bucket { bucket, prefix } => self.bucket(bucket, prefix, sink, tally).await?,
                Source::Queue(url) => self.queue(url, sink, tally).await?,
                Source::Quarantine(id) => self.quarantine(id.as_deref(), sink, tally).await?,
            }
        }
        Ok(())
    }

    fn concurrency(&self) -> usize {
        match self.connection.store.attached_table() {
            Some(_) => 1,
            None => CONCURRENCY,
        }
    }

    async fn path(&self, path: &Path, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        let taken = stream::iter(folder::files(path)?)
            .map(async |file| {
                let name = file.display().to_string();
                content(&name, folder::read(&file)?, sink).await
            })
            .buffer_unordered(self.concurrency());
        self.count(taken, tally).await
    }

    async fn bucket(
        &self,
        bucket: &str,
        prefix: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        let keys = self.buckets.page(bucket, prefix, None, usize::MAX).await?;
        if keys.is_empty() {
            self.progress.note(&format!(
                "no object of {bucket} has a key that begins with \"{prefix}\""
            ));
        }
        let taken = stream::iter(keys)
            .map(async |key| {
                let bucket = bucket.to_owned();
                self.object(&Object { bucket, key }, sink).await
            })
            .buffer_unordered(self.concurrency());
        self.count(taken, tally).await
    }

    async fn count(
        &self,
        taken: impl futures::Stream<Item = Result<Tally, OperationError>>,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        let mut taken = std::pin::pin!(taken);
        while let Some(one) = taken.try_next().await? {
            tally.add(one);
            self.progress.at(tally.processed());
        }
        Ok(())
    }

    async fn queue(&self, url: &str, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        let queue = Queue::new(self.connection, self.services, url);
        let mut drain = Drain::new(&queue);
        let resender = Resender::new(&queue, self.resend.as_ref());
        let drained = self.drain(&mut drain, &resender, sink, tally).await;
        // Only at the end: a kept message that is visible would be received again and again.
        tally.messages_kept += drain.release().await?;
        drained
    }

    async fn drain(
        &self,
        drain: &mut Drain<'_>,
        resender: &Resender<'_>,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        while let Some(messages) = drain.next().await? {
            let has_order = messages.iter().any(|message| message.deduplication_id.is_some());
            let processed = match has_order || self.concurrency() == 1 {
                true => self.in_order(&messages, resender, sink).await,
                false => join_all(messages.iter().map(|message| self.message(message, resender, sink))).await,
            };
            let mut first_error = None;
            for (message, processed) in messages.iter().zip(processed) {
                match processed {
                    Ok((one, may_delete)) => {
                        if may_delete {
                            drain.delete(message).await?;
                            tally.messages_deleted += 1;
                        }
                        tally.add(one);
                    }
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
            self.progress.at(tally.processed());
            if let Some(error) = first_error {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Processes messages of a FIFO queue until the first error. If an update stays, so do the later ones of its group.
    async fn in_order(
        &self,
        messages: &[Received],
        resender: &Resender<'_>,
        sink: &impl Sink,
    ) -> Vec<Result<(Tally, bool), OperationError>> {
        let (mut processed, mut stopped) = (Vec::new(), HashSet::new());
        for message in messages {
            let one = match stopped.contains(&message.group) {
                true => {
                    let reason = "an earlier message of its message group was not sent";
                    Ok((Tally::not_resent(&message.name(), reason), false))
                }
                false => self.message(message, resender, sink).await,
            };
            if one.as_ref().is_ok_and(|(tally, _)| tally.has_unsent()) {
                stopped.insert(&message.group);
            }
            let is_error = one.is_err();
            processed.push(one);
            if is_error {
                break;
            }
        }
        processed
    }

    /// Processes a message. Returns its counts, and `true` if it may be deleted.
    pub(super) async fn message(
        &self,
        message: &Received,
        resender: &Resender<'_>,
        sink: &impl Sink,
    ) -> Result<(Tally, bool), OperationError> {
        let name = message.name();
        let tally = match message::parse(&message.body) {
            Ok(Message::Update(update)) => return resender.resend(message, update).await,
            Ok(Message::TestEvent) => Tally::default(),
            Ok(Message::Document(document)) => sink.document(&name, *document).await?,
            Ok(Message::Objects(objects)) => {
                let mut tally = Tally::default();
                for object in &objects {
                    tally.add(self.object(object, sink).await?);
                }
                tally
            }
            Err(error) => Tally::left(&name, &error.to_string()),
        };
        let may_delete = sink.may_delete(&tally);
        Ok((tally, may_delete))
    }

    pub(super) async fn object(&self, object: &Object, sink: &impl Sink) -> Result<Tally, OperationError> {
        let name = format!("s3://{}/{}", object.bucket, object.key);
        content(&name, self.buckets.read(&object.bucket, &object.key).await?, sink).await
    }
}

async fn content(name: &str, content: Content, sink: &impl Sink) -> Result<Tally, OperationError> {
    match content {
        Content::Text(text) => take(name, &text, sink).await,
        Content::Other(why) => Ok(Tally::left(name, why)),
    }
}

async fn take(name: &str, text: &str, sink: &impl Sink) -> Result<Tally, OperationError> {
    match document::parse(text) {
        Ok(document) => sink.document(name, document).await,
        Err(error) => Ok(Tally::left(name, &error.to_string())),
    }
}
