//! The records of all sources, passed to a function, and the updates of dead-letter queues, sent again.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
};

use aws_sdk_sqs::types::{self, MessageSystemAttributeName};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{domain::quarantine::QuarantinedRecord, json};
use stream_fn::response::{Outcome, ProcessedRecord};

use super::{
    Options, Services,
    origin::Origin,
    places::{self, Place, Places},
    queue::{Drain, attribute, name},
    stream::TableStream,
    tally::{Count, Tally},
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::{
        document::Document,
        message::{self, Message},
        source::Source,
    },
    progress::Progress,
    quarantine::{delete_quarantined, each_quarantined},
    rate_limit::RateLimiter,
};

/// Maximum number of documents that are processed concurrently. Each has many records.
const CONCURRENCY: usize = 4;

/// Sources, and the function that processes the records of this table in each of their documents, in their order.
pub(crate) struct Feed<'a, P> {
    connection: &'a Connection,
    services: &'a Services,
    /// `None` if messages, their updates and records in quarantine stay where they are.
    options: Option<&'a Options>,
    progress: &'a dyn Progress,
    process: P,
    places: Places,
    /// Source of records that a document only refers to.
    stream: TableStream,
    origin: Origin<'a>,
}

impl<'a, P: AsyncFn(&str, Vec<&str>) -> Vec<ProcessedRecord>> Feed<'a, P> {
    /// Returns a feed that reports the number of documents and updates. `process` gets the name of a document and its records.
    pub(crate) fn new(
        connection: &'a Connection,
        services: &'a Services,
        options: Option<&'a Options>,
        progress: &'a dyn Progress,
        process: P,
    ) -> Self {
        let from_table = options.and_then(|options| options.from_table.as_deref());
        Self {
            connection,
            services,
            options,
            progress,
            process,
            places: Places::new(connection, services),
            stream: TableStream::new(connection),
            origin: Origin::new(connection, from_table),
        }
    }

    /// Processes all records of the sources, one source after the other. Adds to the tally, also before an error.
    pub(crate) async fn all(&self, sources: &[Source], tally: &mut Tally) -> Result<(), OperationError> {
        // Before anything is changed: a path that does not exist can be a typing error.
        for source in sources {
            if let Source::Path(path) = source {
                places::files(path)?;
            }
        }
        for source in sources {
            match source {
                Source::Path(path) => self.documents(&places::files(path)?, tally).await?,
                Source::Bucket { bucket, prefix } => {
                    let objects = self.places.objects(bucket, prefix).await?;
                    if objects.is_empty() {
                        self.progress.note(&format!(
                            "no object of {bucket} has a key that begins with \"{prefix}\""
                        ));
                    }
                    self.documents(&objects, tally).await?;
                }
                Source::Queue(url) => {
                    let drain = Drain::new(self.connection, self.services, url, self.options);
                    let drained = self.drain(&drain, tally).await;
                    // Only at the end: a kept message that is visible would be received again and again.
                    tally.count(Count::MessagesKept, drain.release().await?);
                    drained?;
                }
                Source::Quarantine(id) => self.quarantine(id.as_deref(), tally).await?,
                Source::Stream => {
                    let take = async |records: Vec<String>| {
                        self.add(self.own_document("the stream", &records).await, tally);
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

    /// Returns `true` if the message or the record in quarantine with this tally may be deleted.
    fn may_delete(&self, tally: &Tally) -> bool {
        self.options
            .is_some_and(|options| !options.is_dry && tally.is_in(&options.drop))
    }

    /// Documents of an attached table are processed in the order of their names, which begin with the shard and the time: the records of
    /// an item must be processed in their order.
    fn is_attached(&self) -> bool {
        self.connection.store.attached_table().is_some()
    }

    async fn documents(&self, places: &[Place], tally: &mut Tally) -> Result<(), OperationError> {
        let concurrency = if self.is_attached() { 1 } else { CONCURRENCY };
        let taken = stream::iter(places).map(|place| self.place(place));
        let mut taken = taken.buffer_unordered(concurrency);
        while let Some(one) = taken.try_next().await? {
            self.add(one, tally);
        }
        Ok(())
    }

    /// Processes the content of a file or an object, if it is a document.
    async fn place(&self, place: &Place) -> Result<Tally, OperationError> {
        match self.places.read(place).await? {
            Ok(document) => self.document(&place.to_string(), document).await,
            Err(why) => Ok(Tally::open(Count::NotDocuments, &place.to_string(), &why)),
        }
    }

    /// Processes the records of a document, those of this table. Returns the counts of all.
    async fn document(&self, name: &str, document: Document) -> Result<Tally, OperationError> {
        let mut tally = Tally::of(Count::Documents);
        match (document.batch, document.records) {
            (Some(batch), None) if self.origin.is_own(&batch.stream_arn).await? => {
                let fetched = self.stream.fetch(&batch).await?;
                let mut done = self.process(name, &fetched.records).await;
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
                for record in records.into_iter().flatten() {
                    match self.origin.other(&record, document.stream_arn.as_deref()).await? {
                        None => own.push(record),
                        Some(other) => *others.entry(other).or_default() += 1,
                    }
                }
                tally.processed(name, self.process(name, &own).await);
                for (arn, records) in others {
                    tally.other_table(name, &arn, records);
                }
            }
        }
        Ok(tally)
    }

    /// Processes records that come from the table itself, whatever stream they name: the table can be a restored one.
    async fn own_document(&self, name: &str, records: &[String]) -> Tally {
        let mut tally = Tally::of(Count::Documents);
        tally.processed(name, self.process(name, records).await);
        tally
    }

    async fn process(&self, name: &str, records: &[String]) -> Vec<ProcessedRecord> {
        (self.process)(name, records.iter().map(String::as_str).collect()).await
    }

    /// Processes the records in quarantine, each as a document, and deletes those that are in history.
    async fn quarantine(&self, id: Option<&str>, tally: &mut Tally) -> Result<(), OperationError> {
        let store = &self.connection.store;
        let entities = id.map(|id| Ok::<_, OperationError>(vec![self.connection.entity(id)?]));
        let take = async |_: u64, records: Vec<QuarantinedRecord>| {
            for record in records {
                let name = format!("{} {}", record.entity.as_str(), record.number);
                let mut one = match json::check(&record.record) {
                    Ok(raw) => self.own_document(&name, &[raw.to_owned()]).await,
                    Err(_) => Tally::open(Count::NotDocuments, &name, "its record is not JSON"),
                };
                let count = match self.may_delete(&one) {
                    true => {
                        delete_quarantined(store, &record).await?;
                        Count::QuarantineDeleted
                    }
                    false => Count::QuarantineKept,
                };
                one.count(count, 1);
                self.add(one, tally);
            }
            Ok(())
        };
        each_quarantined(store, entities.transpose()?, &RateLimiter::unlimited(), take).await
    }

    async fn drain(&self, drain: &Drain<'_>, tally: &mut Tally) -> Result<(), OperationError> {
        while let Some(messages) = drain.next().await? {
            let is_of_fifo = |message| attribute(message, MessageSystemAttributeName::MessageDeduplicationId).is_some();
            let is_fifo = messages.iter().any(is_of_fifo);
            let in_order = is_fifo || self.is_attached();
            let stopped = RefCell::new(HashSet::new());
            let take = async |message: &types::Message| {
                let group = attribute(message, MessageSystemAttributeName::MessageGroupId);
                if is_fifo && stopped.borrow().contains(&group) {
                    let reason = "an earlier message of its message group was not sent";
                    return Ok(Tally::open(Count::NotResent, &name(message), reason));
                }
                let one = self.message(message, drain).await?;
                if one.has(Count::NotResent) {
                    stopped.borrow_mut().insert(group);
                }
                Ok::<_, OperationError>(one)
            };
            let taken = stream::iter(&messages).map(take);
            let mut taken = taken.buffered(if in_order { 1 } else { messages.len() });
            let mut first_error = None;
            while let Some(one) = taken.next().await {
                match one {
                    Ok(one) => self.add(one, tally),
                    Err(error) if in_order => return Err(error),
                    // The other messages are under way.
                    Err(error) => _ = first_error.get_or_insert(error),
                }
            }
            if let Some(error) = first_error {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Processes a message, and deletes it if nothing of it is left.
    async fn message(&self, message: &types::Message, drain: &Drain<'_>) -> Result<Tally, OperationError> {
        let name = name(message);
        let mut tally = match message::parse(message.body().unwrap_or_default()) {
            Ok(Message::Update(update)) => drain.resend(message, update).await?,
            Ok(Message::TestEvent) => Tally::default(),
            Ok(Message::Document(document)) => self.document(&name, *document).await?,
            Ok(Message::Objects(objects)) => {
                let mut tally = Tally::default();
                for object in objects {
                    tally.add(self.place(&Place::Object(object)).await?);
                }
                tally
            }
            Err(error) => Tally::open(Count::NotDocuments, &name, &error.to_string()),
        };
        if self.may_delete(&tally) {
            drain.delete(message).await?;
            tally.count(Count::MessagesDeleted, 1);
        }
        Ok(tally)
    }
}
