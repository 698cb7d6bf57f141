//! A shard: which of its records are done, and the failure documents of those that were given up.

use std::{sync::Mutex, time::Duration};

use super::{
    environment::{Clock as _, Destination as _, Environment, Mapping},
    failure::Failure,
    position::{Positions as _, Tracker},
    record::Record,
};
use crate::lock;

/// Time from giving up records to their document. On AWS, the next part starts 3 to 12 ms before the document's timestamp.
const DOCUMENT_DELAY: Duration = Duration::from_millis(5);

/// A shard, and which of its records are done.
pub(super) struct Shard<'a, E: Environment> {
    pub(super) mapping: &'a Mapping<E>,
    pub(super) id: &'a str,
    pub(super) tracker: Mutex<Tracker>,
}

impl<'a, E: Environment> Shard<'a, E> {
    pub(super) fn new(mapping: &'a Mapping<E>, id: &'a str) -> Self {
        let tracker = Mutex::default();
        Self { mapping, id, tracker }
    }

    /// Writes a failure document, and marks its records as done. If the destination refuses it, the records are dropped.
    pub(super) async fn write(&self, failure: Failure) {
        tokio::time::sleep(DOCUMENT_DELAY).await;
        let Mapping { identity, counters, .. } = self.mapping;
        let document = failure.document(identity, self.id, self.mapping.clock.now());
        let (is_stored, records) = (
            self.mapping.destination.put(document).await.is_ok(),
            failure.records.len(),
        );
        counters.update(|counts| match is_stored {
            true => (counts.documents, counts.failed) = (counts.documents + 1, counts.failed + records),
            false => counts.dropped += records,
        });
        self.finish(&failure.records);
    }

    /// Marks records as done, and saves the position.
    pub(super) fn finish(&self, records: &[Record]) {
        if let Some(position) = lock(&self.tracker).done(records) {
            // If the position cannot be saved, records may be delivered again, which is allowed.
            let _ = self.mapping.positions.save(self.id, &position);
        }
    }
}
