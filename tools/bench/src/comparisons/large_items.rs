//! Items of 1 to 390 KB through both functions: CPU time, peak memory, and write units, with and without compression of versions.
//!
//! A batch has as many items as an invocation has room for, 6 MB.

mod documents;

use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::{
    config::{Ordering, WriteMode, WriteOptions},
    domain::{compression::Compression, keys::LATEST_KEY, version_item::VersionItem},
    dynamodb::Store,
};
use writer_fn::{counter, update::Update};

use self::documents::Kind;
use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target, median},
    harness::{Bench, Measured},
    stub::{HISTORY_TABLE, Stub, TABLE_WITH_HISTORY},
    subject::{Role, Subject},
    tables::Tables,
};

const KILOBYTES: [usize; 4] = [1, 10, 100, 390];
/// Memory of the functions in `template.yaml`.
const MEMORY: f64 = 512.0;
const MAX_RECORDS: usize = 100;
const MAX_MESSAGES: usize = 10;
const MAX_EVENT: usize = 6_000_000;
/// Maximum share of the write units that remain with compression.
const MAX_UNITS: f64 = 0.67;
const UNCOMPRESSED: &str = "uncompressed";

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    for kilobytes in KILOBYTES {
        figures.extend(stream(bench, kilobytes).await?);
    }
    for kilobytes in KILOBYTES {
        figures.extend(writer(bench, kilobytes).await?);
    }
    if let Some(tables) = Tables::start(&bench.progress).await? {
        figures.extend(Box::pin(write_units(&tables)).await?);
    }
    Ok(figures.into())
}

/// CPU time of an item in microseconds, and peak memory in MB.
#[derive(Clone, Copy)]
struct Load {
    cpu: f64,
    memory: f64,
}

/// Measures stream-fn on orders of this size, with compression, and without as the peer.
async fn stream(bench: &Bench, kilobytes: usize) -> Result<[Figure; 2], BenchError> {
    let record = record(&Kind::Order.document(kilobytes)?)?;
    let records = fitting(&record, MAX_RECORDS, MAX_EVENT);
    let event = json!({"Records": (0..records).map(|index| numbered(&record, index)).collect::<Vec<_>>()}).to_string();
    let (mut plain, mut compressed) = (Vec::new(), Vec::new());
    for _ in 0..bench.size(5, 1) {
        for (compression, loads) in [("none", &mut plain), ("deflate", &mut compressed)] {
            let mut subject = bench.subjects.ours.clone();
            for (name, value) in [
                ("TABLE_NAME", TABLE_WITH_HISTORY),
                ("HISTORY_TABLE_NAME", HISTORY_TABLE),
                ("HISTORY_COMPRESSION", compression),
            ] {
                subject.environment.insert(name.to_owned(), value.to_owned());
            }
            loads.push(load(bench, &subject, Role::Stream, &event, records).await?);
        }
    }
    let (ours, peer) = (medians(&compressed), medians(&plain));
    let of = |unit: &str| format!("{unit}, stream-fn, {kilobytes} KB, {records} in a batch");
    Ok([
        Figure::new(of("µs CPU an item"), ours.cpu).compared_with(UNCOMPRESSED, peer.cpu),
        Figure::new(of("MB resident"), ours.memory)
            .compared_with(UNCOMPRESSED, peer.memory)
            .with_target(Target::AtMost(MEMORY)),
    ])
}

/// Measures writer-fn on orders of this size.
async fn writer(bench: &Bench, kilobytes: usize) -> Result<[Figure; 2], BenchError> {
    let message = message(Kind::Order.document(kilobytes)?);
    let messages = fitting(&message, MAX_MESSAGES, MAX_EVENT);
    let event =
        json!({"Records": (0..messages).map(|index| message_of(&message, index)).collect::<Vec<_>>()}).to_string();
    let mut loads = Vec::new();
    for _ in 0..bench.size(5, 1) {
        loads.push(load(bench, &bench.subjects.ours, Role::Writer, &event, messages).await?);
    }
    let ours = medians(&loads);
    let of = |unit: &str| format!("{unit}, writer-fn, {kilobytes} KB, {messages} in a batch");
    Ok([
        Figure::new(of("µs CPU an item"), ours.cpu),
        Figure::new(of("MB resident"), ours.memory).with_target(Target::AtMost(MEMORY)),
    ])
}

async fn load(bench: &Bench, subject: &Subject, role: Role, event: &str, items: usize) -> Result<Load, BenchError> {
    let stub = Stub::serve(Duration::ZERO, None)?;
    let hosted = bench.host(subject, role, &stub)?;
    let batches = hosted.batches(event, items, bench.size(20, 2)).await?;
    #[allow(clippy::cast_precision_loss, reason = "a few million")]
    let memory = hosted.peak_memory()? as f64 / 1e6;
    Ok(Load {
        cpu: batches.cpu_micros,
        memory,
    })
}

fn medians(loads: &[Load]) -> Load {
    let of = |value: fn(&Load) -> f64| median(&loads.iter().map(value).collect::<Vec<_>>());
    Load {
        cpu: of(|load| load.cpu),
        memory: of(|load| load.memory),
    }
}

/// Returns the number of such items in an event, at least one.
fn fitting(item: &Value, most: usize, bytes: usize) -> usize {
    (bytes / (item.to_string().len() + 1)).clamp(1, most)
}

/// Returns a stream record of an item. `numbered` makes it one of another item.
fn record(document: &Map<String, Value>) -> Result<Value, BenchError> {
    let image = documents::image("Order#000000", document)?;
    let image = serde_json::to_value(image).map_err(cannot("make a record"))?;
    Ok(json!({
        "eventID": "0".repeat(32), "eventName": "MODIFY", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            // In the future: stream-fn reads the purge markers of older records.
            "ApproximateCreationDateTime": 4_102_444_800_u64,
            "Keys": {"PK": {"S": "Order#000000"}, "SK": {"S": "v0"}}, "NewImage": image,
            "SequenceNumber": format!("{:021}", 100), "StreamViewType": "NEW_IMAGE",
        },
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/VersionControl/stream/2020-11-01T00:00:00.000",
    }))
}

fn numbered(record: &Value, index: usize) -> Value {
    let mut record = record.clone();
    let key = json!({"S": format!("Order#{index:06}")});
    record["dynamodb"]["Keys"]["PK"] = key.clone();
    record["dynamodb"]["NewImage"]["PK"] = key;
    record["dynamodb"]["SequenceNumber"] = json!(format!("{:021}", 100 + index));
    record
}

/// Returns an SQS message with an update. `message_of` makes it one of another entity.
fn message(mut document: Map<String, Value>) -> Value {
    document.insert("TypedValues".to_owned(), json!(true));
    json!({
        "receiptHandle": "receipt", "body": Value::Object(document).to_string(),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1604260800000"}, "messageAttributes": {},
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:Updates", "awsRegion": "us-east-1",
    })
}

fn message_of(message: &Value, index: usize) -> Value {
    let mut message = message.clone();
    let body = message["body"].as_str().unwrap_or_default();
    message["body"] = json!(format!(r#"{{"ID":"Order#{index:06}",{}"#, body.trim_start_matches('{')));
    message["messageId"] = json!(format!("00000000-0000-4000-8000-{index:012}"));
    message
}

/// Counts the write units of an update and of its version on DynamoDB Local.
async fn write_units(tables: &Tables) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let store = tables.create_with_history(&format!("Large{index}")).await?;
        for kilobytes in KILOBYTES {
            let [plain, compressed] = [Compression::None, Compression::Deflate].map(async |compression| {
                let store = store.clone().with_compression(compression);
                units(tables, &store, kind, kilobytes).await
            });
            let ((update, plain), (_, compressed)) = (plain.await?, compressed.await?);
            let of = |item: &str| format!("write units of {item}, {}, {kilobytes} KB", kind.name());
            if kind == Kind::Order {
                figures.push(Figure::new(of("an update"), update));
            }
            let figure = Figure::new(of("a version"), compressed).compared_with(UNCOMPRESSED, plain);
            figures.push(match kilobytes {
                // One write unit is the minimum.
                1 => figure,
                _ => figure.with_target(Target::RatioAtMost(MAX_UNITS)),
            });
        }
    }
    Ok(figures)
}

/// Writes an item, and returns the write units of its latest item and of its version.
async fn units(tables: &Tables, store: &Store, kind: Kind, kilobytes: usize) -> Result<(f64, f64), BenchError> {
    let mut update = kind.document(kilobytes)?;
    let entity = format!("{kilobytes}-{:?}", store.compression());
    update.extend([
        ("ID".to_owned(), json!(entity)),
        ("TypedValues".to_owned(), json!(true)),
    ]);
    let update = Update::parse(Value::Object(update), &format!("{:036}", 7), Ordering::Arrival);
    let update = update.map_err(cannot("parse an update"))?;
    let options = WriteOptions {
        mode: WriteMode::Stream,
        ..WriteOptions::default()
    };
    tables.meter.take();
    counter::write(store, &update, options)
        .await
        .map_err(cannot("write an update"))?;
    let image = store.get(&update.entity, LATEST_KEY, true).await;
    let image = image.map_err(cannot("read the latest item"))?.unwrap_or_default();
    let version = VersionItem::from_image(image, store.digits()).map_err(cannot("parse the latest item"))?;
    let written = total(&tables.meter.take());
    store
        .put_version(&version)
        .await
        .map_err(cannot("put the version item"))?;
    let key = store.digits().version_key(version.version());
    let stored = tables.units_of_version(store, &update.entity, &key).await?;
    Ok((written, stored))
}

/// Returns the units of the requests that write.
fn total(charges: &[shared::dynamodb::client::capacity::Charge]) -> f64 {
    let writes = charges.iter().filter(|charge| !charge.operation.starts_with("Get"));
    writes.map(|charge| charge.units).sum()
}
