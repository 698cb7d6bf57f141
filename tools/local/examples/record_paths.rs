//! The two ways that stream-fn writes version items, against each other on a DynamoDB that listens already:
//!
//! `cargo run --release -p local --example record_paths -- http://127.0.0.1:8000 [invocations] [bytes]`

#![allow(clippy::print_stdout, reason = "this is a command")]

use std::{error::Error, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    config::Builder,
    types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType},
};
use local::dynamodb::sdk_config;
use serde_json::{json, value::RawValue};
use shared::{
    clock::{Deadline, since_epoch},
    config::Config,
    domain::{keys::VersionDigits, update::Ordering},
    dynamodb::{capacity::Meter, record_versions::RecordBy, write::WriteOptions},
};
use stream_fn::Recorder;

const RECORDS: usize = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().ok_or("name an endpoint")?;
    let invocations: usize = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let bytes: usize = arguments.next().map_or(Ok(850), |text| text.parse())?;
    let meter = Meter::default();
    let config = Builder::from(&sdk_config(&endpoint).await)
        .interceptor(meter.clone())
        .build();
    let client = Client::from_conf(config);
    println!("{invocations} invocations of {RECORDS} records of {bytes} bytes");
    println!(
        "round, way, records, ms and CPU ms an invocation, records a second, requests answered, units told, failed"
    );
    for round in 0..3 {
        for (way, by) in [("put", RecordBy::Put), ("partiql", RecordBy::PartiQl)] {
            let table = format!("{way}-{}", since_epoch().as_nanos());
            create(&client, &table).await?;
            let settings = Config {
                table,
                digits: VersionDigits::default(),
                ordering: Ordering::Arrival,
                write: WriteOptions::default(),
                record_by: by,
                log_keys: false,
            };
            let recorder = Recorder::new(client.clone(), &settings);
            // Then the same again, and then one half again and the other half new.
            for (kind, first) in [("new", 0), ("again", 0), ("half", RECORDS / 2)] {
                let events: Result<Vec<_>, _> = (0..invocations).map(|entity| event(entity, first, bytes)).collect();
                let events = events?;
                meter.take();
                let (began, cpu) = (since_epoch(), cpu());
                let mut failed = 0;
                for event in &events {
                    let answer = recorder.handle(event, Deadline::after(Duration::from_secs(60))).await?;
                    failed += answer.batch_item_failures.len();
                }
                let (took, cpu) = (since_epoch() - began, self::cpu() - cpu);
                let charges = meter.take();
                let units: f64 = charges.iter().map(|charge| charge.units).sum();
                let each = |time: Duration| time.as_secs_f64() * 1000.0 / invocations as f64;
                println!(
                    "{round} {way:8} {kind:6} {:8.2} {:8.2} {:8.0} {:6} {units:8} {failed}",
                    each(took),
                    each(cpu),
                    (invocations * RECORDS) as f64 / took.as_secs_f64(),
                    charges.len(),
                );
            }
        }
    }
    Ok(())
}

/// What this process has computed so far.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn event(entity: usize, first: usize, bytes: usize) -> Result<Box<RawValue>, serde_json::Error> {
    let records = (first + 1..=first + RECORDS).map(|latest| {
        let keys = json!({"PK": {"S": format!("Equipment#{entity}")}, "SK": {"S": "v0"}});
        let mut image = keys.clone();
        image["Latest"] = json!({"N": latest.to_string()});
        image["RequestId"] = json!({"S": "3f0f5d2e-5c0e-4d5b-8f1e-1f2e3d4c5b6a"});
        image["State"] = json!({"S": "x".repeat(bytes)});
        for name in ["Time", "Speed", "Line", "Factory"] {
            image[name] = json!({"N": latest.to_string()});
        }
        json!({"eventName": "MODIFY", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": latest.to_string()}})
    });
    let event = json!({"Records": records.collect::<Vec<_>>()});
    RawValue::from_string(event.to_string())
}

async fn create(client: &Client, table: &str) -> Result<(), Box<dyn Error>> {
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest);
    for (name, role) in [("PK", KeyType::Hash), ("SK", KeyType::Range)] {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S);
        let element = KeySchemaElement::builder().attribute_name(name).key_type(role);
        request = request
            .attribute_definitions(definition.build()?)
            .key_schema(element.build()?);
    }
    request.send().await?;
    Ok(())
}
