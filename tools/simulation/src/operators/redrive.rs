//! `vzero admin redrive`.

use operations::{
    error::OperationError,
    failures::{document::Document, source::Source},
    redrive::{Dropped, Feed, Replay, Resend, Sink, Tally},
};
use serde_json::Value;

use super::{
    Author, Operators,
    result::{OperatorResult, Printed},
    services::{DOCUMENTS, ExternalServices},
};

/// A replay that prints the counts of each document.
struct Reported<'a> {
    replay: Replay,
    printed: &'a Printed,
}

impl Sink for Reported<'_> {
    async fn document(&self, name: &str, document: Document) -> Result<Tally, OperationError> {
        let tally = self.replay.document(name, document).await?;
        let mut line = tally.summary(false);
        line["Source"] = name.into();
        self.printed.line(line);
        Ok(tally)
    }

    fn may_delete(&self, tally: &Tally) -> bool {
        self.replay.may_delete(tally)
    }
}

impl Operators {
    /// Redrives failure documents. Each document has a line, whose counts and lists tell which of its records are in history: all
    /// but the listed ones, unless `Purged` or `Skipped` is greater than 0.
    pub(crate) async fn redrive(&self, documents: &[Value]) -> OperatorResult {
        self.services.set_documents(documents);
        self.redrive_from(&[DOCUMENTS.source()], Dropped::default()).await
    }

    /// Redrives the records in quarantine, of one partition key or of the table.
    pub(crate) async fn redrive_quarantine(&self, entity: Option<&str>, drop: Dropped) -> OperatorResult {
        self.redrive_from(&[Source::Quarantine(entity.map(str::to_owned))], drop)
            .await
    }

    /// Redrives the messages of a dead-letter queue: updates are sent to their queue again, failure documents are replayed.
    pub(crate) async fn redrive_queue(&self, url: &str) -> OperatorResult {
        self.redrive_from(&[Source::Queue(url.to_owned())], Dropped::default())
            .await
    }

    async fn redrive_from(&self, sources: &[Source], drop: Dropped) -> OperatorResult {
        self.run_as(Author::Redrive, async |printed| {
            let services = ExternalServices::of_library();
            let mut feed = Feed::new(self.connection(), &services, printed);
            feed.resend = Some(Resend::default());
            let mut replay = Replay::new(self.connection(), &services, false);
            replay.drop = drop;
            let (sink, mut tally) = (Reported { replay, printed }, Tally::default());
            let fed = feed.all(sources, &sink, &mut tally).await;
            printed.summary(tally.summary(false));
            fed.and(tally.verdict())
        })
        .await
    }
}
