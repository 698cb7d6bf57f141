//! Documents of all sources, passed to a sink, and updates of dead-letter queues, sent again.

use std::{collections::HashSet, path::PathBuf};

use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};
use shared::{domain::quarantine::QuarantinedRecord, json};

use super::{
    bucket::Buckets,
    folder::{self, Content},
    queue::{Drain, Queue, Received},
    resend::{Resend, Resender},
    services::Services,
    stream::TableStream,
    tally::{Count, Tally},
};
use crate::{
    connection::{Connection, entity_of},
    error::OperationError,
    failures::{
        document::{self, Document},
        message::{self, Message, Object},
        source::Source,
    },
    progress::Progress,
    quarantine::Quarantine,
    rate_limit::RateLimiter,
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
    connection: &'a Connection,
    services: &'a Services,
    buckets: Buckets,
    /// `None` if updates stay in their dead-letter queue.
    pub resend: Option<Resend>,
    progress: &'a dyn Progress,
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
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a source cannot be read, or the sink fails.
    pub async fn all(&self, sources: &[Source], sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        // Before anything is changed: a path that does not exist can be a typing error.
        for source in sources {
            if let Source::Path(path) = source {
                folder::files(path)?;
            }
        }
        for source in sources {
            match source {
                Source::Path(path) => {
                    let read = async |file: PathBuf| Ok((file.display().to_string(), folder::read(&file)?));
                    self.documents(folder::files(path)?, read, sink, tally).await?;
                }
                Source::Bucket { bucket, prefix } => {
                    let keys = self.buckets.keys(bucket, prefix).await?;
                    if keys.is_empty() {
                        self.progress.note(&format!(
                            "no object of {bucket} has a key that begins with \"{prefix}\""
                        ));
                    }
                    let read = async |key| {
                        let bucket = bucket.clone();
                        self.object(&Object { bucket, key }).await
                    };
                    self.documents(keys, read, sink, tally).await?;
                }
                Source::Queue(url) => self.queue(url, sink, tally).await?,
                Source::Quarantine(id) => self.quarantine(id.as_deref(), sink, tally).await?,
                Source::Stream => {
                    let take = async |records| {
                        let one = sink.document("the stream", Document::of_table(records)).await?;
                        self.add(one, tally);
                        Ok(())
                    };
                    let stream = TableStream::new(self.connection);
                    stream.all(&self.connection.table, take).await?;
                }
            }
        }
        Ok(())
    }

    fn add(&self, one: Tally, tally: &mut Tally) {
        tally.add(one);
        self.progress.at(tally.documents_and_updates());
    }

    fn concurrency(&self) -> usize {
        match self.connection.store.attached_table() {
            Some(_) => 1,
            None => CONCURRENCY,
        }
    }

    /// Passes the documents at these places to the sink.
    async fn documents<T>(
        &self,
        places: Vec<T>,
        read: impl AsyncFn(T) -> Result<(String, Content), OperationError>,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        let read = &read;
        let taken = stream::iter(places)
            .map(async |place| take(read(place).await?, sink).await)
            .buffer_unordered(self.concurrency());
        let mut taken = std::pin::pin!(taken);
        while let Some(one) = taken.try_next().await? {
            self.add(one, tally);
        }
        Ok(())
    }

    /// Passes the records in quarantine to the sink, each as a document, and deletes those that the sink releases.
    async fn quarantine(&self, id: Option<&str>, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        let store = self.connection.store.clone();
        let mut quarantine = match id {
            Some(id) => Quarantine::named(store.clone(), [entity_of(&store, id)?]),
            None => Quarantine::of_table(store, RateLimiter::unlimited()),
        };
        while let Some(records) = quarantine.next().await? {
            for record in records {
                let mut one = quarantined(&record, sink).await?;
                if sink.may_delete(&one) {
                    self.connection.store.delete_quarantined(&record).await?;
                    one.count(Count::QuarantineDeleted, 1);
                } else {
                    one.count(Count::QuarantineKept, 1);
                }
                self.add(one, tally);
            }
        }
        Ok(())
    }

    async fn queue(&self, url: &str, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        let queue = Queue::new(self.connection, self.services, url);
        let mut drain = Drain::new(&queue);
        let resender = Resender::new(&queue, self.resend.as_ref());
        let drained = self.drain(&mut drain, &resender, sink, tally).await;
        // Only at the end: a kept message that is visible would be received again and again.
        tally.count(Count::MessagesKept, drain.release().await?);
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
                            tally.count(Count::MessagesDeleted, 1);
                        }
                        self.add(one, tally);
                    }
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
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
                    Ok((Tally::open(Count::NotResent, &message.name(), reason), false))
                }
                false => self.message(message, resender, sink).await,
            };
            if one.as_ref().is_ok_and(|(tally, _)| tally.has(Count::NotResent)) {
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
    async fn message(
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
                    tally.add(take(self.object(object).await?, sink).await?);
                }
                tally
            }
            Err(error) => Tally::open(Count::NotDocuments, &name, &error.to_string()),
        };
        let may_delete = sink.may_delete(&tally);
        Ok((tally, may_delete))
    }

    async fn object(&self, object: &Object) -> Result<(String, Content), OperationError> {
        let name = format!("s3://{}/{}", object.bucket, object.key);
        Ok((name, self.buckets.read(&object.bucket, &object.key).await?))
    }
}

/// Passes the content of a file or an object to the sink, if it is a document.
async fn take((name, content): (String, Content), sink: &impl Sink) -> Result<Tally, OperationError> {
    let document = match content {
        Content::Text(text) => document::parse(&text).map_err(|error| error.to_string()),
        Content::Other(why) => Err(why.to_owned()),
    };
    match document {
        Ok(document) => sink.document(&name, document).await,
        Err(why) => Ok(Tally::open(Count::NotDocuments, &name, &why)),
    }
}

async fn quarantined(record: &QuarantinedRecord, sink: &impl Sink) -> Result<Tally, OperationError> {
    let name = format!("{} {}", record.entity.as_str(), record.number);
    match json::check(&record.record) {
        Ok(raw) => sink.document(&name, Document::of_table(vec![raw.to_owned()])).await,
        Err(_) => Ok(Tally::open(Count::NotDocuments, &name, "its record is not JSON")),
    }
}
