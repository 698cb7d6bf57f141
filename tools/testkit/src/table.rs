//! A versioned table, and the command `vzero` on it.

use std::{collections::BTreeMap, ops::Deref};

use aws_sdk_dynamodb::Client;
pub use local::mapping::{failure::Document, record::Record};
use local::{dynamodb::table, error::LocalError, template};
use operations::{read::items::scan_items, table::settings::TableSettings};
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::is_reserved, keys::VersionDigits, number::Decimal, quarantine::QuarantinedRecord,
        recorded_at::RecordedAt, sequence::SequenceNumber, version::Version,
    },
    dynamodb::{Store, put::put_version::PutOutcome},
};

use crate::{
    database,
    endpoint::has_own_history,
    updates::{self, WriteMode, WriteOutcome, mode},
    vzero::Vzero,
};

pub struct Table {
    vzero: Vzero,
    pub name: String,
    pub store: Store,
}

impl Deref for Table {
    type Target = Vzero;

    fn deref(&self) -> &Vzero {
        &self.vzero
    }
}

impl Table {
    /// Creates a table. `vzero` is the path of the command: `env!("CARGO_BIN_EXE_vzero")`.
    pub fn new(vzero: &'static str) -> Self {
        let table = Self::without_layout(vzero, VersionDigits::default());
        if has_own_history() {
            table.claim();
        }
        table
    }

    /// Creates a table, and claims this width of version keys for it.
    pub fn with_digits(vzero: &'static str, digits: u8) -> Self {
        let table = Self::without_layout(vzero, VersionDigits::new(digits).unwrap());
        table.claim();
        table
    }

    fn without_layout(vzero: &'static str, digits: VersionDigits) -> Self {
        let (mut name, mut history) = (String::new(), None);
        let vzero = Vzero::new(vzero, async |client, endpoint| {
            name = endpoint.table("VersionControl");
            if has_own_history() {
                let table = endpoint.table("VersionControl-history");
                create_history(client, &table).await?;
                history = Some(table);
            }
            create(client, &name).await
        });
        Self {
            store: Store::new(vzero.client.clone(), &name, digits).with_history(history),
            vzero: vzero.with_environment("TABLE_NAME", &name),
            name,
        }
    }

    /// Returns the table with history in its own table, which it gets unless it has one.
    #[must_use]
    pub fn with_own_history(mut self) -> Self {
        if !self.store.has_own_history() {
            let history = self.endpoint.table("History");
            self.block_on(create_history(&self.client, &history)).unwrap();
            self.store = self.store.clone().with_history(Some(history));
        }
        self
    }

    fn claim(&self) {
        self.block_on(self.store.claim_layout()).unwrap();
    }

    /// Writes this many versions of an entity with the command, and leaves their version items to the stream.
    pub fn write_versions(&self, id: &str, versions: usize) {
        for n in 0..versions {
            self.json(&["put", id, "--set-json", &format!("N={n}.10")], 0);
        }
    }

    /// Writes an update and its version item with the library, and returns the version.
    pub fn write(&self, update: Value) -> u64 {
        self.block_on(write(&self.store, update))
    }

    pub fn put_version(&self, id: &str) -> PutOutcome {
        self.block_on(database::put_version(&self.store, &database::entity(id)))
    }

    pub fn put(&self, item: Value) {
        self.block_on(database::put_item(&self.client, &self.name, item));
    }

    pub fn delete(&self, pk: &str, sk: &str) {
        self.block_on(database::delete_item(&self.client, &self.name, pk, sk));
    }

    /// Puts a record of this image into quarantine, as stream-fn does, and returns the record.
    pub fn quarantine(&self, id: &str, number: &str, kind: &str, image: &Value) -> Value {
        let keys = json!({"PK": {"S": id}, "SK": {"S": "v0"}});
        let record = json!({
            "eventName": "MODIFY", "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/Restored/stream/1",
            "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": number},
        });
        let latest = image["Latest"]["N"].as_str();
        let quarantined = QuarantinedRecord {
            entity: database::entity(id),
            number: SequenceNumber::new(number).unwrap(),
            kind: kind.to_owned(),
            reason: "a reason".to_owned(),
            version: latest.and_then(|latest| Version::new(latest.parse().unwrap())),
            at: RecordedAt::parse("2026-11-22T06:24:48Z").ok(),
            record: record.to_string(),
        };
        assert!(self.block_on(self.store.quarantine(&quarantined)).unwrap());
        // An earlier delivery of the same record.
        assert!(!self.block_on(self.store.quarantine(&quarantined)).unwrap());
        record
    }

    fn scan(&self) -> Vec<(String, String, Value)> {
        let items = self.block_on(scan_items(&self.store));
        let items = items.unwrap().into_iter().map(|item| {
            let item = serde_json::to_value(item).unwrap();
            let key = |name: &str| item[name]["S"].as_str().unwrap().to_owned();
            (key("PK"), key("SK"), item)
        });
        items.collect()
    }

    /// Returns the partition keys of items that belong to no entity: the table's settings and purge markers.
    pub fn reserved_items(&self) -> Vec<String> {
        let keys = self.scan().into_iter().map(|(pk, ..)| pk);
        keys.filter(|pk| is_reserved(pk)).collect()
    }

    /// Returns the items of entities in DynamoDB JSON, by `"{PK} {SK}"`.
    pub fn items(&self) -> BTreeMap<String, Value> {
        let items = self.scan().into_iter().filter(|(pk, ..)| !is_reserved(pk));
        items.map(|(pk, sk, item)| (format!("{pk} {sk}"), item)).collect()
    }

    /// Returns the items of an entity in DynamoDB JSON, by sort key.
    pub fn items_of(&self, id: &str) -> BTreeMap<String, Value> {
        let items = self.scan().into_iter().filter(|(pk, ..)| pk == id);
        items.map(|(_, sk, item)| (sk, item)).collect()
    }

    pub fn versions(&self) -> usize {
        self.items().keys().filter(|key| !key.ends_with(" v0")).count()
    }

    /// Returns the stream records of latest items, oldest first, as the filter of the mapping selects them.
    pub fn records(&self) -> Vec<Record> {
        self.selected(|record| record["dynamodb"]["NewImage"]["SK"]["S"] == "v0")
    }
}

/// Returns a failure document whose payload is an object instead of a string. Both forms are valid; this one can be edited.
pub fn with_open_payload(mut body: Value) -> Value {
    let payload = body["payload"].as_str().unwrap();
    body["payload"] = serde_json::from_str(payload).unwrap();
    body
}

/// Creates a table with the keys and the stream of `template.yaml`, and returns the ARN of the stream.
pub async fn create(client: &Client, name: &str) -> Result<String, LocalError> {
    table::ensure_with_stream(client, &settings(name, TableSettings::default())).await
}

/// Creates a history table.
pub async fn create_history(client: &Client, name: &str) -> Result<(), LocalError> {
    table::ensure(client, &settings(name, TableSettings::of_history()))
        .await
        .map(drop)
}

fn settings(name: &str, settings: TableSettings) -> template::Table {
    template::Table {
        name: name.to_owned(),
        settings: TableSettings { ttl: None, ..settings },
    }
}

pub async fn write(store: &Store, update: Value) -> u64 {
    let written = updates::apply(store, &updates::update(update), mode(WriteMode::Inline)).await;
    match written.unwrap() {
        WriteOutcome::Written { version } => version.get(),
        outcome => panic!("{outcome:?}"),
    }
}

/// Returns a number of DynamoDB JSON in its canonical form: engines return numbers in different forms.
pub fn number(value: &Value) -> String {
    Decimal::parse(value["N"].as_str().unwrap()).unwrap().canonical()
}
