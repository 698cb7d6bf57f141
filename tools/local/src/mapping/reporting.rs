//! An on-failure destination that reports documents that cannot be stored.

use std::{fmt, io};

use shared::logging::chain;
use tokio::sync::{Mutex, mpsc};

use super::{destination::Destination, failure::Document};

/// Maximum number of lines that are kept until they are printed. Later ones are only counted, by the mapping.
const MAX_LINES: usize = 64;

pub struct Reporting<D> {
    pub destination: D,
    lines: mpsc::Sender<String>,
    received: Mutex<mpsc::Receiver<String>>,
}

impl<D> Reporting<D> {
    pub fn new(destination: D) -> Self {
        let (lines, received) = mpsc::channel(MAX_LINES);
        Self {
            destination,
            lines,
            received: Mutex::new(received),
        }
    }

    /// Waits for the next document that cannot be stored: the shard, the number of its records, which are dropped, and the
    /// reason. The line contains no attribute values.
    pub async fn failed(&self) -> String {
        match self.received.lock().await.recv().await {
            Some(line) => line,
            // The sender exists as long as `self`.
            None => std::future::pending().await,
        }
    }
}

impl<D: Destination> Destination for Reporting<D> {
    async fn put(&self, document: Document) -> io::Result<()> {
        let batch = document.body.get("DDBStreamBatchInfo");
        let batch = batch.or_else(|| document.body.get("KinesisBatchInfo"));
        let shard = batch.and_then(|batch| Some(batch.get("shardId")?.as_str()?.to_owned()));
        let records = batch.and_then(|batch| batch.get("batchSize")?.as_u64());
        self.destination.put(document).await.inspect_err(|error| {
            let line = format!(
                "{} record(s) of {} were dropped, because their failure document cannot be stored: {}",
                records.unwrap_or_default(),
                shard.as_deref().unwrap_or("an unknown shard"),
                chain(error)
            );
            // Nothing has to read the lines.
            let _ = self.lines.try_send(line);
        })
    }
}

impl<D: fmt::Debug> fmt::Debug for Reporting<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporting")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}
