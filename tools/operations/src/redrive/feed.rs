//! The records of all sources, passed to a sink, and the updates of dead-letter queues, sent again.

use std::collections::{BTreeMap, HashSet};

use futures::{
    StreamExt as _, TryStreamExt as _,
    future::{join_all, ready},
    stream,
};
use shared::json;
use stream_fn::response::{Outcome, ProcessedRecord};

use super::{
    Options, Services,
    origin::Origin,
    places::{self, Place, Places},
    queue::{Drain, Received},
    stream::TableStream,
    tally::{Count, Tally},
};
use crate::{
    connection::{Connection, entity_of},
    error::OperationError,
    failures::{
        document::Document,
        message::{self, Message},
        source::Source,
    },
    progress::Progress,
    quarantine::{Quarantine, delete_quarantined},
    rate_limit::RateLimiter,
};

/// Maximum number of documents that are processed concurrently. Each has many records. Those of an attached table are processed in
/// the order of their names, which begin with the shard and the time: the records of an item must be processed in their order.
const CONCURRENCY: usize = 4;

pub(crate) trait Sink {
    /// Processes records of the table, in their order. `name` is that of their document.
    fn records(&self, name: &str, records: Vec<&str>) -> impl Future<Output = Vec<ProcessedRecord>>;

    /// Returns `true` if the message with these records may be deleted.
    fn may_delete(&self, tally: &Tally) -> bool;
}

pub(crate) struct Feed<'a> {
    connection: &'a Connection,
    services: &'a Services,
    places: Places,
    /// Source of records that a document only refers to.
    stream: TableStream,
    origin: Origin,
    /// `None` if updates stay in their dead-letter queue.
    resend: Option<&'a Options>,
    progress: &'a dyn Progress,
}

type Processed = Result<(Tally, bool), OperationError>;

impl<'a> Feed<'a> {
    /// Returns a feed that reports the number of documents and updates. Without options, updates stay in their dead-letter queue.
    pub(crate) fn new(
        connection: &'a Connection,
        services: &'a Services,
        options: Option<&'a Options>,
        progress: &'a dyn Progress,
    ) -> Self {
        let from_table = options.and_then(|options| options.from_table.as_deref());
        Self {
            connection,
            services,
            places: Places::new(connection, services),
            stream: TableStream::new(connection),
            origin: Origin::new(connection, from_table),
            resend: options,
            progress,
        }
    }

    /// Passes all records of the sources to the sink, one source after the other. Adds to the tally, also before an error.
    pub(crate) async fn all(
        &self,
        sources: &[Source],
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        // Before anything is changed: a path that does not exist can be a typing error.
        for source in sources {
            if let Source::Path(path) = source {
                places::files(path)?;
            }
        }
        for source in sources {
            match source {
                Source::Path(path) => self.documents(places::files(path)?, sink, tally).await?,
                Source::Bucket { bucket, prefix } => {
                    let objects = self.places.objects(bucket, prefix).await?;
                    if objects.is_empty() {
                        self.progress.note(&format!(
                            "no object of {bucket} has a key that begins with \"{prefix}\""
                        ));
                    }
                    self.documents(objects, sink, tally).await?;
                }
                Source::Queue(url) => self.queue(url, sink, tally).await?,
                Source::Quarantine(id) => self.quarantine(id.as_deref(), sink, tally).await?,
                Source::Stream => {
                    let take = async |records: Vec<String>| {
                        let records = records.iter().map(String::as_str).collect();
                        self.add(own_document("the stream", records, sink).await, tally);
                        Ok(())
                    };
                    self.stream.all(&self.connection.table, take).await?;
                }
            }
        }
        Ok(())
    }

    fn add(&self, one: Tally, tally: &mut Tally) {
        tally.add(one);
        self.progress.at(tally.documents_and_updates());
    }

    fn is_attached(&self) -> bool {
        self.connection.store.attached_table().is_some()
    }

    /// Passes the documents at these places to the sink.
    async fn documents(&self, places: Vec<Place>, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        let concurrency = if self.is_attached() { 1 } else { CONCURRENCY };
        let taken = stream::iter(places).map(async |place| self.place(&place, sink).await);
        let add = |one| {
            self.add(one, tally);
            ready(Ok(()))
        };
        taken.buffer_unordered(concurrency).try_for_each(add).await
    }

    /// Passes the content of a file or an object to the sink, if it is a document.
    async fn place(&self, place: &Place, sink: &impl Sink) -> Result<Tally, OperationError> {
        match self.places.read(place).await? {
            Ok(document) => self.document(&place.to_string(), document, sink).await,
            Err(why) => Ok(Tally::open(Count::NotDocuments, &place.to_string(), &why)),
        }
    }

    /// Passes the records of a document to the sink, those of this table. Returns the counts of all.
    async fn document(&self, name: &str, document: Document, sink: &impl Sink) -> Result<Tally, OperationError> {
        let mut tally = Tally::of(Count::Documents);
        match (document.batch, document.records) {
            (Some(batch), None) if self.origin.is_own(&batch.stream_arn).await? => {
                let fetched = self.stream.fetch(&batch).await?;
                let records = fetched.records.iter().map(String::as_str).collect();
                let mut done = sink.records(name, records).await;
                // The stream also contains records that the mapping filters out. Those of an attached table are not read.
                if !self.is_attached() {
                    done.retain(|done| !matches!(done.outcome, Outcome::Skipped));
                }
                if !fetched.is_whole {
                    let lost = batch.size.saturating_sub(done.len() as u64).max(1);
                    tally.lose(&batch, fetched.first.as_ref(), lost);
                }
                tally.processed(name, done);
            }
            (Some(batch), None) => tally.other_table(name, &batch.stream_arn, batch.size),
            (_, records) => {
                let (mut own, mut others) = (Vec::new(), BTreeMap::<String, u64>::new());
                for record in records.iter().flatten() {
                    match self.origin.other(record, document.stream_arn.as_deref()).await? {
                        None => own.push(record.as_str()),
                        Some(other) => *others.entry(other).or_default() += 1,
                    }
                }
                tally.processed(name, sink.records(name, own).await);
                for (arn, records) in others {
                    tally.other_table(name, &arn, records);
                }
            }
        }
        Ok(tally)
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
                let name = format!("{} {}", record.entity.as_str(), record.number);
                let mut one = match json::check(&record.record) {
                    Ok(raw) => own_document(&name, vec![raw], sink).await,
                    Err(_) => Tally::open(Count::NotDocuments, &name, "its record is not JSON"),
                };
                if sink.may_delete(&one) {
                    delete_quarantined(&self.connection.store, &record).await?;
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
        let mut drain = Drain::new(self.connection, self.services, url, self.resend);
        let drained = self.drain(&mut drain, sink, tally).await;
        // Only at the end: a kept message that is visible would be received again and again.
        tally.count(Count::MessagesKept, drain.release().await?);
        drained
    }

    async fn drain(&self, drain: &mut Drain<'_>, sink: &impl Sink, tally: &mut Tally) -> Result<(), OperationError> {
        while let Some(messages) = drain.next().await? {
            let has_order = messages.iter().any(|message| message.deduplication_id.is_some());
            let processed = match has_order || self.is_attached() {
                true => self.in_order(&messages, drain, sink).await,
                false => join_all(messages.iter().map(|message| self.message(message, drain, sink))).await,
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
    async fn in_order(&self, messages: &[Received], drain: &Drain<'_>, sink: &impl Sink) -> Vec<Processed> {
        let (mut processed, mut stopped) = (Vec::new(), HashSet::new());
        for message in messages {
            if stopped.contains(&message.group) {
                let reason = "an earlier message of its message group was not sent";
                processed.push(Ok((Tally::open(Count::NotResent, &message.name(), reason), false)));
                continue;
            }
            let one = self.message(message, drain, sink).await;
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
    async fn message(&self, message: &Received, drain: &Drain<'_>, sink: &impl Sink) -> Processed {
        let name = message.name();
        let tally = match message::parse(&message.body) {
            Ok(Message::Update(update)) => return drain.resend(message, update).await,
            Ok(Message::TestEvent) => Tally::default(),
            Ok(Message::Document(document)) => self.document(&name, *document, sink).await?,
            Ok(Message::Objects(objects)) => {
                let mut tally = Tally::default();
                for object in objects {
                    tally.add(self.place(&Place::Object(object), sink).await?);
                }
                tally
            }
            Err(error) => Tally::open(Count::NotDocuments, &name, &error.to_string()),
        };
        let may_delete = sink.may_delete(&tally);
        Ok((tally, may_delete))
    }
}

/// Passes records that come from the table itself to the sink, whatever stream they name: the table can be a restored one.
async fn own_document(name: &str, records: Vec<&str>, sink: &impl Sink) -> Tally {
    let mut tally = Tally::of(Count::Documents);
    tally.processed(name, sink.records(name, records).await);
    tally
}
