//! Replay of records by stream-fn's own code.

use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use shared::{clock::Deadline, domain::attributes::same_item, dynamodb::Store};
use stream_fn::{
    HistoryWriter, Purpose,
    error::RecordFailure,
    record::{self, Content},
    response::{Outcome, ProcessedRecord},
};

use super::{Options, Services};

/// Returns the function that processes the records of a document.
///
/// A dry run counts a version that is in two documents as the run would, which puts it once. Only versions of an attached table count in
/// both.
pub(super) fn replay(
    store: &Store,
    services: &Services,
    options: &Options,
) -> impl AsyncFn(&str, Vec<&str>) -> Vec<ProcessedRecord> {
    let purpose = match options.is_dry {
        true => Purpose::Preview,
        false => Purpose::Redrive,
    };
    let writer = HistoryWriter::from_store(store.clone(), purpose);
    // Shorter than the visibility timeout, so that the message is still hidden.
    let timeout = Duration::from_secs(services.visibility_timeout.into()) * 2 / 3;
    let digits = (options.is_dry && store.attached_table().is_none()).then(|| store.digits());
    let planned = RefCell::new(HashMap::new());
    async move |_: &str, records: Vec<&str>| {
        let mut processed = writer.process(records.clone(), Deadline::after(timeout)).await;
        for (done, record) in processed.iter_mut().zip(records) {
            if let (Some(digits), Outcome::Recorded) = (digits, &done.outcome)
                && let Ok(Content::Version(version)) = record::parse(record, digits).content
            {
                let key = (version.entity().clone(), version.version());
                match planned.borrow_mut().entry(key) {
                    Entry::Vacant(entry) => _ = entry.insert(version),
                    Entry::Occupied(entry) if same_item(entry.get().item(), version.item()) => {
                        done.outcome = Outcome::AlreadyRecorded;
                    }
                    Entry::Occupied(_) => done.outcome = Outcome::from(RecordFailure::Conflict).with_version(version),
                }
            }
        }
        processed
    }
}
