//! What the mapping works with besides the functions: the table's stream, a bucket and its positions.

use std::{
    io,
    sync::{Arc, Mutex},
};

use local::{
    dynamodb::stream::TableStream,
    mapping::{
        destination::Destination,
        failure::Document,
        position::{Position, Positions},
        record::Record,
        source::{Page, Shard, Source, SourceError},
    },
};
use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::Instant;

use crate::{
    wire::{Wire, lock},
    world::MALFORMED,
};

/// The table's stream, with records that cannot be read.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) stream: TableStream,
    pub(crate) wire: Wire,
    pub(crate) latest_key: String,
}

impl Source for Watched {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.stream.shards().await
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        self.stream.iterator(shard, position).await
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let mut page = self.stream.read(iterator).await?;
        for record in &mut page.records {
            let mut json = record.json().clone();
            if let Some(mutation) = self.wire.mutation() {
                mutation.record(&self.latest_key, &mut json);
            }
            let key = json.pointer("/dynamodb/Keys/PK/S").and_then(Value::as_str);
            if key.is_some_and(|key| key.starts_with(MALFORMED)) {
                json["dynamodb"]["NewImage"]["Unheard"] = json!({"Q": "of"});
            }
            *record = Record::new(record.sequence_number().clone(), record.created(), json);
        }
        Ok(page)
    }
}

/// The failure destination.
#[derive(Clone, Default)]
pub(crate) struct Bucket(pub(crate) Arc<Mutex<Documents>>);

#[derive(Default)]
pub(crate) struct Documents {
    pub(crate) kept: Vec<Value>,
    pub(crate) down_until: Option<Instant>,
}

impl Destination for Bucket {
    async fn put(&self, document: Document) -> io::Result<()> {
        let mut documents = lock(&self.0);
        if documents.down_until.is_some_and(|until| Instant::now() < until) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        documents.kept.push(document.body);
        Ok(())
    }
}

/// The positions of the mapping, which outlive it.
#[derive(Clone)]
pub(crate) struct Kept(pub(crate) Arc<Mutex<Option<SequenceNumber>>>);

impl Positions for Kept {
    fn load(&self, _: &str) -> Option<Position> {
        lock(&self.0).clone().map(Position::After)
    }

    fn save(&self, _: &str, position: &SequenceNumber) -> io::Result<()> {
        *lock(&self.0) = Some(position.clone());
        Ok(())
    }
}
