//! Every document of every source, handed to whoever wants them.

use std::{path::Path, time::Duration};

use aws_config::timeout::TimeoutConfig;
use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};

use super::{
    Services, Tally,
    bucket::Buckets,
    folder::{self, Content},
    queue::{Drain, Queue, Received},
};
use crate::{
    connection::Connection,
    error::CliError,
    failures::{
        document::{self, Document},
        message::{self, Message, Object},
        source::Source,
    },
    output,
    progress::Count,
};

/// How many documents are worked on at once. Each has many records.
const CONCURRENCY: usize = 4;

/// Who takes documents.
pub(crate) trait Sink {
    /// Takes a document, and says what became of its records.
    async fn document(&self, name: &str, document: Document) -> Result<Tally, CliError>;

    /// Whether the message that brought these records may be deleted.
    fn lets_go(&self, tally: &Tally) -> bool;
}

/// The way to the documents.
pub(crate) struct Feed<'a> {
    pub(super) connection: &'a Connection,
    pub(super) services: &'a Services,
    pub(super) buckets: Buckets,
    progress: Count,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(connection: &'a Connection, services: &'a Services, progress: Count) -> Self {
        Self {
            connection,
            services,
            buckets: Buckets::new(connection, services),
            progress,
        }
    }

    /// Goes through all sources, one after the other. What was done before an error is in the tally.
    pub(crate) async fn all(&self, sources: &[Source], sink: &impl Sink, tally: &mut Tally) -> Result<(), CliError> {
        for source in sources {
            match source {
                Source::Path(path) => self.path(path, sink, tally).await?,
                Source::Bucket { bucket, prefix } => self.bucket(bucket, prefix, sink, tally).await?,
                Source::Queue(url) => self.queue(url, sink, tally).await?,
            }
        }
        Ok(())
    }

    async fn path(&self, path: &Path, sink: &impl Sink, tally: &mut Tally) -> Result<(), CliError> {
        let taken = stream::iter(folder::files(path)?)
            .map(async |file| {
                let name = file.display().to_string();
                content(&name, folder::read(&file)?, sink).await
            })
            .buffer_unordered(CONCURRENCY);
        self.count(taken, tally).await
    }

    async fn bucket(&self, bucket: &str, prefix: &str, sink: &impl Sink, tally: &mut Tally) -> Result<(), CliError> {
        let keys = self.buckets.keys(bucket, prefix).await?;
        if keys.is_empty() && !self.progress.is_silent() {
            output::say_note(&format!(
                "no object of {bucket} has a key that begins with \"{prefix}\""
            ));
        }
        let taken = stream::iter(keys)
            .map(async |key| {
                let bucket = bucket.to_owned();
                self.object(&Object { bucket, key }, sink).await
            })
            .buffer_unordered(CONCURRENCY);
        self.count(taken, tally).await
    }

    async fn count(
        &self,
        taken: impl futures::Stream<Item = Result<Tally, CliError>>,
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let mut taken = std::pin::pin!(taken);
        while let Some(one) = taken.try_next().await? {
            tally.add(one);
            self.progress.at(tally.documents());
        }
        Ok(())
    }

    async fn queue(&self, url: &str, sink: &impl Sink, tally: &mut Tally) -> Result<(), CliError> {
        let queue = Queue::new(self.connection, self.services, url);
        let mut drain = Drain::new(&queue);
        let drained = self.drain(&mut drain, sink, tally).await;
        // Not before the end: shown at once, a message that is kept would come again for ever.
        tally.messages_kept += drain.release().await?;
        drained
    }

    async fn drain(&self, drain: &mut Drain<'_>, sink: &impl Sink, tally: &mut Tally) -> Result<(), CliError> {
        while let Some(messages) = drain.next().await? {
            let taken = join_all(messages.iter().map(|message| self.message(message, sink))).await;
            let mut first_error = None;
            for (message, taken) in messages.iter().zip(taken) {
                match taken {
                    Ok(one) => {
                        if sink.lets_go(&one) {
                            drain.delete(message).await?;
                            tally.messages_deleted += 1;
                        }
                        tally.add(one);
                    }
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
            self.progress.at(tally.documents());
            if let Some(error) = first_error {
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) async fn message(&self, message: &Received, sink: &impl Sink) -> Result<Tally, CliError> {
        let name = format!("message {}", message.id);
        match message::parse(&message.body) {
            Ok(Message::Trial) => Ok(Tally::default()),
            Ok(Message::Document(document)) => sink.document(&name, *document).await,
            Ok(Message::Objects(objects)) => {
                let mut tally = Tally::default();
                for object in &objects {
                    tally.add(self.object(object, sink).await?);
                }
                Ok(tally)
            }
            Err(error) => Ok(Tally::left(&name, &error.to_string())),
        }
    }

    pub(super) async fn object(&self, object: &Object, sink: &impl Sink) -> Result<Tally, CliError> {
        let name = format!("s3://{}/{}", object.bucket, object.key);
        content(&name, self.buckets.read(&object.bucket, &object.key).await?, sink).await
    }
}

async fn content(name: &str, content: Content, sink: &impl Sink) -> Result<Tally, CliError> {
    match content {
        Content::Text(text) => take(name, &text, sink).await,
        Content::Other(why) => Ok(Tally::left(name, why)),
    }
}

async fn take(name: &str, text: &str, sink: &impl Sink) -> Result<Tally, CliError> {
    match document::parse(text) {
        Ok(document) => sink.document(name, document).await,
        Err(error) => Ok(Tally::left(name, &error.to_string())),
    }
}

/// A document can have 6 MB, and a queue is listened to for a while.
pub(crate) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_secs(10))
        .operation_attempt_timeout(Duration::from_secs(20))
        .operation_timeout(Duration::from_secs(60))
        .build()
}
