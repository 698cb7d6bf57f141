//! The on-failure destination of the stack: a folder with the layout of the bucket that AWS writes to.

use std::{io, path::PathBuf};

use shared::logging::chain;

use crate::{
    files,
    mapping::{Destination, failure::Document},
};

#[derive(Debug)]
pub struct Documents(pub PathBuf);

impl Destination for Documents {
    /// Stores a document. If this fails, prints the shard, the number of the dropped records, and the reason: no attribute values.
    async fn put(&self, document: Document) -> io::Result<()> {
        let path = self.0.join(&document.key);
        let body = &document.body;
        let created = files::create_folder(path.parent().unwrap_or(&self.0));
        let stored = created.and_then(|()| files::write_whole(&path, body.to_string().as_bytes()));
        stored.inspect_err(|error| {
            let batch = body.get("DDBStreamBatchInfo").unwrap_or(&body["KinesisBatchInfo"]);
            let (records, shard) = (batch["batchSize"].as_u64(), batch["shardId"].as_str());
            let line = format!(
                "error: {} record(s) of {} were dropped, because their failure document cannot be stored: {}",
                records.unwrap_or_default(),
                shard.unwrap_or("an unknown shard"),
                chain(error)
            );
            let _ = terminal::write_line(&mut io::stderr(), &line);
        })
    }
}
