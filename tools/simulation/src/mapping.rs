//! The parts that the simulation gives the event source mapping: settings, source, on-failure destination and positions.

use std::{
    io,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use local::{
    mapping::{
        Counters, Destination, Environment, Identity, Mapping,
        failure::Document,
        filter::Filters,
        position::Position,
        record::Record,
        settings,
        source::{Page, Shard, Source, SourceError},
    },
    template::Template,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    error::SimulationError,
    functions::StreamFunction,
    mutation::Mutations,
    schedule::{FaultKind, KEY, MALFORMED, Point, Settings},
    stream::Stream,
};

/// The mapping of a run.
pub(crate) struct Simulated;

impl Environment for Simulated {
    type Source = FaultySource;
    type Invoker = StreamFunction;
    type Destination = Bucket;
    type Positions = Stream;
    type Clock = Clock;
}

/// Creates the mapping, which continues at its last position.
pub(crate) fn mapping(
    settings: settings::Settings,
    connector: &Connector,
    function: &StreamFunction,
    bucket: &Bucket,
    clock: Clock,
) -> Mapping<Simulated> {
    Mapping {
        settings,
        identity: identity(connector.stream.arn()),
        source: FaultySource {
            connector: connector.clone(),
            clock,
        },
        invoker: function.clone(),
        destination: bucket.clone(),
        positions: connector.stream.clone(),
        clock,
        counters: Counters::default(),
    }
}

pub(crate) fn identity(stream_arn: String) -> Identity {
    Identity {
        uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
        function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
        stream_arn,
    }
}

pub(crate) fn settings(chosen: &Settings, mutations: Mutations) -> settings::Settings {
    settings::Settings {
        batch_size: chosen.batch_size,
        batching_window: Duration::from_secs(chosen.batching_window),
        parallelization_factor: chosen.parallelization_factor,
        bisect_on_function_error: chosen.bisect,
        report_batch_item_failures: true,
        maximum_retry_attempts: chosen.maximum_retry_attempts,
        maximum_record_age: chosen.maximum_record_age.map(Duration::from_secs),
        filters: match mutations.is("filter") {
            // The records of history are in the stream for the checks only.
            _ if chosen.attached => of_attached(),
            true => Filters::default(),
            false => filters(),
        },
        starting_position: Position::TrimHorizon,
        startup: Duration::from_secs(chosen.startup),
        // Days can pass between two steps.
        list_interval: Duration::from_secs(600),
    }
}

fn of_attached() -> Filters {
    let pattern = json!({"dynamodb": {"Keys": {KEY: {"S": [{"exists": true}]}}}}).to_string();
    Filters::parse([pattern.as_str()]).unwrap_or_default()
}

fn filters() -> Filters {
    static FILTERS: LazyLock<Filters> =
        LazyLock::new(|| template().map_or_else(|_| Filters::default(), |template| template.mapping.filters));
    FILTERS.clone()
}

/// Reads `template.yaml` with the defaults of its parameters.
pub(crate) fn template() -> Result<Template, SimulationError> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
    Template::read(path, &[]).map_err(|_| SimulationError::Template)
}

/// The table's stream, with faults. Records of malformed latest items get an image that cannot be parsed.
///
/// While nothing writes to the table, no page is read: a mapping polls four times per second, and hours can pass between two
/// deliveries of an update.
#[derive(Clone)]
pub(crate) struct FaultySource {
    pub(crate) connector: Connector,
    pub(crate) clock: Clock,
}

impl FaultySource {
    /// Counts a request to the stream, and returns its fault, if any.
    fn request(&self) -> Result<(), SourceError> {
        if lock(&self.connector.plan).is_stream_denied() {
            self.connector.count("stream-denied");
            return Err(SourceError::Unavailable("AccessDeniedException".to_owned()));
        }
        let Some(fault) = self.connector.fault(Point::Poll) else {
            return Ok(());
        };
        Err(match fault {
            FaultKind::IteratorExpired => SourceError::ExpiredIterator,
            _ => SourceError::Unavailable("InternalServerError".to_owned()),
        })
    }

    fn now(&self) -> Duration {
        local::mapping::Clock::now(&self.clock)
    }

    /// Returns the record that the function receives.
    fn delivered(&self, record: &Record) -> Record {
        let mut json = record.json().clone();
        self.connector.mutations.record(&mut json);
        let key = json.pointer("/dynamodb/Keys/PK/S").and_then(Value::as_str);
        if key.is_some_and(|key| key.starts_with(MALFORMED)) {
            json["dynamodb"]["NewImage"]["Unknown"] = json!({"Q": "type"});
        }
        Record::new(record.sequence_number().clone(), record.created(), json)
    }
}

impl Source for FaultySource {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.request()?;
        Ok(self.connector.stream.shards(self.now()))
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        self.request()?;
        self.connector.stream.iterator(shard, position, self.now())
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        loop {
            let next_write = self.connector.writes.notified();
            if let Some(mut page) = self.connector.stream.read(iterator, self.now())? {
                self.request()?;
                page.records = page.records.iter().map(|record| self.delivered(record)).collect();
                return Ok(page);
            }
            next_write.await;
        }
    }
}

/// The on-failure destination. A document that it refuses is lost.
#[derive(Clone, Default)]
pub(crate) struct Bucket(pub(crate) Arc<Mutex<Documents>>);

#[derive(Default)]
pub(crate) struct Documents {
    pub(crate) kept: Vec<Value>,
    pub(crate) dropped: Vec<Value>,
    /// Time until which it refuses documents.
    pub(crate) denied_until: Option<Instant>,
}

impl Destination for Bucket {
    async fn put(&self, document: Document) -> io::Result<()> {
        let mut documents = lock(&self.0);
        if documents.denied_until.is_some_and(|until| Instant::now() < until) {
            documents.dropped.push(document.body);
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        documents.kept.push(document.body);
        Ok(())
    }
}

/// Returns the records in a failure document, with its condition.
pub(crate) fn records_of(document: &Value) -> Vec<Value> {
    let payload: Value = serde_json::from_str(document["payload"].as_str().unwrap_or_default()).unwrap_or_default();
    payload["Records"].as_array().cloned().unwrap_or_default()
}
