//! Environment of the examples: an embedded database, a meter of consumed capacity, and printed tables.

use std::net::TcpListener;

use aws_sdk_dynamodb::{Client, types::ScalarAttributeType};
use local::dynamodb::{Embedded, sdk_config};
use shared::{
    domain::{Item, plain},
    dynamodb::client::capacity::Meter,
};
use testkit::database;

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) struct Playground {
    /// Client whose requests are metered.
    pub(crate) client: Client,
    meter: Meter,
    _embedded: Embedded,
}

impl Playground {
    pub(crate) async fn open() -> Result<Self, Failure> {
        let embedded = Embedded::serve(TcpListener::bind("127.0.0.1:0")?, None)?;
        let (config, meter) = (sdk_config(embedded.endpoint()).await, Meter::default());
        let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(meter.clone());
        Ok(Self {
            client: Client::from_conf(config.build()),
            meter,
            _embedded: embedded,
        })
    }

    /// Creates a table with these keys, each a name and a type.
    pub(crate) async fn table(&self, name: &str, keys: &[(&str, ScalarAttributeType)]) -> Result<(), Failure> {
        database::create_table(&self.client, name, keys).await?;
        self.meter.take();
        Ok(())
    }

    /// Prints a step and the capacity that each of its requests consumed.
    pub(crate) fn report(&self, step: &str) {
        let charges = self.meter.take();
        let charges = charges
            .iter()
            .map(|charge| format!("{} {}", charge.operation, charge.units));
        // Empty after a failed condition check: it consumes capacity, but does not return it.
        println!("{step:<58} {}", charges.collect::<Vec<_>>().join(", "));
    }

    /// Prints the items of a table, ordered by these keys.
    pub(crate) async fn show(&self, name: &str, keys: &[&str]) -> Result<(), Failure> {
        let scanned = self.client.scan().table_name(name).consistent_read(true).send().await?;
        self.meter.take();
        let mut items: Vec<_> = scanned.items.unwrap_or_default().into_iter().map(Item::from).collect();
        let key = |item: &Item, name| item.get(name).map(|value| plain::attribute(value).to_string());
        items.sort_by_key(|item| keys.iter().map(|name| key(item, *name)).collect::<Vec<_>>());
        println!("\n{name}");
        for item in &items {
            println!("  {}", serde_json::Value::Object(plain::attributes(item)));
        }
        println!();
        Ok(())
    }
}

/// States of three machines, each with its time.
#[allow(dead_code, reason = "not every example uses it")]
pub(crate) const STATES: [(&str, &str, &str); 10] = [
    ("Equipment#1", "2023-10-03T12:32:00", "NORMAL"),
    ("Equipment#1", "2023-11-05T12:12:00", "WARNING1"),
    ("Equipment#1", "2023-11-06T12:05:00", "NORMAL"),
    ("Equipment#6", "2024-03-07T22:09:29", "ERROR"),
    ("Equipment#6", "2024-03-30T22:09:29", "WARNING2"),
    ("Equipment#118", "2023-12-15T08:30:00", "NORMAL"),
    ("Equipment#118", "2023-12-16T09:45:00", "WARNING1"),
    ("Equipment#118", "2023-12-17T10:20:00", "NORMAL"),
    ("Equipment#118", "2023-12-18T11:05:00", "ERROR"),
    ("Equipment#118", "2023-12-19T12:15:00", "WARNING2"),
];

/// Parses an item from DynamoDB JSON.
#[allow(dead_code, reason = "not every example uses it")]
pub(crate) fn item(json: serde_json::Value) -> Result<Item, Failure> {
    Ok(serde_json::from_value(json)?)
}
