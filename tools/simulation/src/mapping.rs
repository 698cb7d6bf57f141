//! The parts that the simulation gives the event source mapping: settings, source, on-failure destination and positions.

use std::{
    io,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use local::{
    dynamodb::stream::TableStream,
    mapping::{
        destination::Destination,
        failure::Document,
        filter::Filters,
        position::{Position, Positions},
        record::Record,
        settings::{self, StartingPosition},
        source::{Page, Shard, Source, SourceError},
    },
    template::Template,
};
use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::Instant;

use crate::{
    caller::lock,
    connector::Connector,
    mutation::Mutation,
    schedule::{MALFORMED, Settings},
};

pub(crate) fn settings(chosen: &Settings, mutation: Option<Mutation>) -> settings::Settings {
    settings::Settings {
        batch_size: chosen.batch_size,
        batching_window: Duration::from_secs(chosen.batching_window),
        parallelization_factor: chosen.parallelization_factor,
        bisect_on_function_error: chosen.bisect,
        report_batch_item_failures: true,
        maximum_retry_attempts: Some(chosen.maximum_retry_attempts),
        maximum_record_age: chosen.maximum_record_age.map(Duration::from_secs),
        filters: match mutation {
            Some(Mutation::Filter) => Filters::default(),
            _ => filters(),
        },
        starting_position: StartingPosition::TrimHorizon,
    }
}

fn filters() -> Filters {
    static FILTERS: LazyLock<Filters> = LazyLock::new(|| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        Template::read(path, &[]).map_or_else(|_| Filters::default(), |template| template.mapping.filters)
    });
    FILTERS.clone()
}

/// The table's stream. Records of malformed latest items get an image that cannot be parsed.
///
/// While nothing writes to the table, no requests are sent: a mapping polls four times per second, and hours can pass between
/// two deliveries of an update.
#[derive(Clone)]
pub(crate) struct FaultySource {
    pub(crate) stream: TableStream,
    pub(crate) connector: Connector,
    pub(crate) listed: Arc<Mutex<Listed>>,
}

/// The last list of shards.
#[derive(Default)]
pub(crate) struct Listed {
    /// Number of writes before it, `None` if there is no list yet.
    writes: Option<u64>,
    shards: Vec<Shard>,
}

impl Source for FaultySource {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let writes = Some(*self.connector.writes().borrow());
        if lock(&self.listed).writes != writes {
            let shards = self.stream.shards().await?;
            *lock(&self.listed) = Listed { writes, shards };
        }
        Ok(lock(&self.listed).shards.clone())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        self.stream.iterator(shard, position).await
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let mut writes = self.connector.writes();
        let mut page = self.stream.read(iterator).await?;
        if page.records.is_empty() && page.next.is_some() {
            // The sender exists as long as the connector.
            let _ = writes.changed().await;
        }
        for record in &mut page.records {
            let mut json = record.json().clone();
            if let Some(mutation) = self.connector.mutation() {
                mutation.record(&mut json);
            }
            let key = json.pointer("/dynamodb/Keys/PK/S").and_then(Value::as_str);
            if key.is_some_and(|key| key.starts_with(MALFORMED)) {
                json["dynamodb"]["NewImage"]["Unknown"] = json!({"Q": "type"});
            }
            *record = Record::new(record.sequence_number().clone(), record.created(), json);
        }
        Ok(page)
    }
}

/// The on-failure destination.
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

/// The positions of the mapping, which a restart reads again.
#[derive(Clone)]
pub(crate) struct KeptPositions(pub(crate) Arc<Mutex<Option<SequenceNumber>>>);

impl Positions for KeptPositions {
    fn load(&self, _: &str) -> Option<Position> {
        lock(&self.0).clone().map(Position::After)
    }

    fn save(&self, _: &str, position: &SequenceNumber) -> io::Result<()> {
        *lock(&self.0) = Some(position.clone());
        Ok(())
    }
}
