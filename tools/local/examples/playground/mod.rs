//! What the examples stand on: a database, its cost meter, and tables to look at.

use std::net::TcpListener;

use aws_sdk_dynamodb::{Client, types::ScalarAttributeType};
use clap::Parser;
use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use local::dynamodb::{Embedded, sdk_config};
use shared::{
    domain::{AttributeValue, Item, plain},
    dynamodb::client::{capacity::Meter, sdk_defaults},
};
use testkit::database;

/// What goes wrong in an example is shown as it is.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Acts a pattern out, and shows the tables it makes, which stay in place.
#[derive(Debug, Parser)]
struct Args {
    /// Where DynamoDB is [default: an embedded one, as long-lived as this program]
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,
}

/// A database to try a pattern on.
pub(crate) struct Playground {
    /// A client of it, whose requests are metered.
    pub(crate) client: Client,
    meter: Meter,
    _embedded: Option<Embedded>,
}

impl Playground {
    /// The database that the command line names, or an embedded one.
    pub(crate) async fn open() -> Result<Self, Failure> {
        let args = Args::parse();
        let meter = Meter::default();
        let (config, embedded) = if let Some(url) = args.endpoint_url {
            // A database on this machine takes any credentials and Region.
            let local = url.contains("://127.0.0.1") || url.contains("://localhost");
            let config = if local {
                sdk_config(&url).await
            } else {
                sdk_defaults().endpoint_url(url).load().await
            };
            (config, None)
        } else {
            let embedded = Embedded::serve(TcpListener::bind("127.0.0.1:0")?, None)?;
            (sdk_config(embedded.endpoint()).await, Some(embedded))
        };
        let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(meter.clone());
        Ok(Self {
            client: Client::from_conf(config.build()),
            meter,
            _embedded: embedded,
        })
    }

    /// Makes a table with these keys, each a name and a type, unless it is there.
    pub(crate) async fn table(&self, name: &str, keys: &[(&str, ScalarAttributeType)]) -> Result<(), Failure> {
        if self.client.describe_table().table_name(name).send().await.is_ok() {
            return Ok(());
        }
        database::create_table(&self.client, name, keys).await?;
        Ok(())
    }

    /// Says what was done, and what each request of it consumed.
    pub(crate) fn did(&self, what: &str) {
        let charges: Vec<_> = self
            .meter
            .take()
            .iter()
            .map(|charge| format!("{} {}", charge.operation, charge.units))
            .collect();
        // A request whose condition fails consumes as well, and does not say what.
        let consumed = if charges.is_empty() {
            "-".to_owned()
        } else {
            charges.join(", ")
        };
        println!("{what:<58} {consumed}");
    }

    /// Shows a table: its keys first, then all other attributes.
    pub(crate) async fn show(&self, name: &str, keys: &[&str]) -> Result<(), Failure> {
        let scanned = self.client.scan().table_name(name).consistent_read(true).send().await?;
        self.meter.take();
        let mut items: Vec<_> = scanned.items.unwrap_or_default().into_iter().map(Item::from).collect();
        items.sort_by_key(|item| keys.iter().map(|key| sortable(item.get(*key))).collect::<Vec<_>>());
        let mut names: Vec<_> = items.iter().flat_map(|item| item.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| !keys.contains(&name.as_str()));
        let columns: Vec<_> = keys.iter().map(|key| (*key).to_owned()).chain(names).collect();
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(&columns);
        for item in &items {
            table.add_row(columns.iter().map(|name| item.get(name).map(shown).unwrap_or_default()));
        }
        println!("\n{name}\n{table}\n");
        Ok(())
    }
}

/// Numbers sort as numbers.
fn sortable(value: Option<&AttributeValue>) -> String {
    match value {
        Some(AttributeValue::N(number)) => format!("{number:0>40}"),
        Some(AttributeValue::S(text)) => text.clone(),
        _ => String::new(),
    }
}

fn shown(value: &AttributeValue) -> String {
    match plain::attribute(value) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

/// An item of these attributes, in DynamoDB JSON.
#[allow(dead_code, reason = "not every example makes items this way")]
pub(crate) fn item(json: serde_json::Value) -> Result<Item, Failure> {
    Ok(serde_json::from_value(json)?)
}
