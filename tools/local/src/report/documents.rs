//! The on-failure destination of the stack: a folder, with a line on standard error for each document that cannot be stored.

use std::io;

use shared::logging::chain;

use crate::mapping::{
    destination::{Destination, Folder},
    failure::Document,
};

#[derive(Debug)]
pub struct Documents(pub Folder);

impl Destination for Documents {
    /// Stores a document. If this fails, prints the shard, the number of the dropped records, and the reason: no attribute values.
    async fn put(&self, document: Document) -> io::Result<()> {
        let body = &document.body;
        let batch = body.get("DDBStreamBatchInfo").or_else(|| body.get("KinesisBatchInfo"));
        let shard = batch.and_then(|batch| Some(batch.get("shardId")?.as_str()?.to_owned()));
        let records = batch.and_then(|batch| batch.get("batchSize")?.as_u64());
        self.0.put(document).await.inspect_err(|error| {
            let line = format!(
                "error: {} record(s) of {} were dropped, because their failure document cannot be stored: {}",
                records.unwrap_or_default(),
                shard.as_deref().unwrap_or("an unknown shard"),
                chain(error)
            );
            let _ = terminal::write_line(&mut io::stderr(), &line);
        })
    }
}
