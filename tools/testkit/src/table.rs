//! A versioned table, and the command `vzero` on it.

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use local::{
    dynamodb::{
        stream::TableStream,
        table::{self, TableError},
    },
    mapping::{
        Identity,
        failure::{Failure, LastTry, Reason},
        position::Position,
        source::Source as _,
    },
    template,
};
use operations::table::settings::TableSettings;
use serde_json::{Value, json};
use shared::{
    config::WriteMode,
    domain::{
        entity::is_reserved, keys::VersionDigits, number::Decimal, quarantine::QuarantinedRecord,
        recorded_at::RecordedAt, sequence::SequenceNumber, version::Version,
    },
    dynamodb::{Store, put::put_version::PutOutcome},
};
use writer_fn::counter::{self, WriteError, WriteOutcome};

use crate::{
    command::{self, Arguments, Run},
    database,
    endpoint::{Endpoint, has_own_history},
};

pub use local::mapping::{failure::Document, record::Record};

pub struct Table {
    pub endpoint: Endpoint,
    pub name: String,
    pub client: Client,
    pub store: Store,
    pub stream_arn: String,
    /// Runtime for requests of the test itself.
    pub runtime: tokio::runtime::Runtime,
    stream: TableStream,
    vzero: &'static str,
}

impl Table {
    /// Creates a table. `vzero` is the path of the command: `env!("CARGO_BIN_EXE_vzero")`.
    pub fn new(vzero: &'static str) -> Self {
        let table = Self::without_layout(vzero);
        if has_own_history() {
            table.claim();
        }
        table
    }

    fn without_layout(vzero: &'static str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let endpoint = runtime.block_on(Endpoint::open());
        let name = endpoint.table("VersionControl");
        let client = Client::new(&endpoint.config);
        let stream_arn = runtime.block_on(create(&client, &name)).unwrap();
        let streams = aws_sdk_dynamodbstreams::Client::new(&endpoint.config);
        let mut store = Store::new(client.clone(), &name, VersionDigits::default());
        if has_own_history() {
            let history = endpoint.table("VersionControl-history");
            runtime.block_on(create_history(&client, &history)).unwrap();
            store = store.with_history(Some(history));
        }
        Self {
            store,
            stream: TableStream::new(streams, stream_arn.clone()),
            endpoint,
            name,
            client,
            stream_arn,
            runtime,
            vzero,
        }
    }

    /// Creates a table, and claims this width of version keys for it.
    pub fn with_digits(vzero: &'static str, digits: u8) -> Self {
        let mut table = Self::without_layout(vzero);
        let history = table.store.own_history().map(str::to_owned);
        let store = Store::new(table.client.clone(), &table.name, VersionDigits::new(digits).unwrap());
        table.store = store.with_history(history);
        table.claim();
        table
    }

    fn claim(&self) {
        self.runtime.block_on(self.store.claim_layout()).unwrap();
    }

    /// Returns the command with these arguments, without standard input and with piped output.
    pub fn command(&self, arguments: &(impl Arguments + ?Sized)) -> Command {
        let (environment, options) = self.runtime.block_on(self.endpoint.command_options());
        let mut command = Command::new(self.vzero);
        command
            .env_clear()
            .envs(environment)
            .env("TABLE_NAME", &self.name)
            .args(options)
            .args(arguments.words())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn start(&self, arguments: &(impl Arguments + ?Sized)) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Starts the command with more environment variables.
    pub fn start_with(&self, environment: &[(&str, &str)], arguments: &(impl Arguments + ?Sized)) -> Child {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied()).spawn().unwrap()
    }

    pub fn run(&self, arguments: &(impl Arguments + ?Sized)) -> Run {
        Run::wait(self.start(arguments))
    }

    /// Runs the command with at most this much memory, in kilobytes of address space.
    pub fn run_limited(&self, kilobytes: u32, arguments: &(impl Arguments + ?Sized)) -> Run {
        let command = self.command(arguments);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\"")])
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Run::wait(limited.spawn().unwrap())
    }

    pub fn run_with_input(&self, arguments: &(impl Arguments + ?Sized), input: &str) -> Run {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Run::wait(child)
    }

    /// Runs the commands of a text, and checks their expectations.
    pub fn check(&self, text: &str) {
        command::check(|arguments| self.run(arguments), text);
    }

    /// Runs the command, expects this exit code, and returns the lines.
    pub fn lines(&self, arguments: &(impl Arguments + ?Sized), code: i32) -> Vec<Value> {
        let arguments = arguments.words();
        let run = self.run(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {} {}", run.stdout, run.stderr);
        assert_eq!(run.lines.len(), run.stdout.lines().count(), "{}", run.stdout);
        run.lines
    }

    /// Runs the command, expects this exit code, and returns the only line.
    pub fn json(&self, arguments: &(impl Arguments + ?Sized), code: i32) -> Value {
        let arguments = arguments.words();
        let mut lines = self.lines(&arguments, code);
        assert_eq!(lines.len(), 1, "{arguments:?}: {lines:?}");
        lines.remove(0)
    }

    /// Writes this many versions of an entity with the command, and leaves their version items to the stream.
    pub fn write_versions(&self, id: &str, versions: usize) {
        for n in 0..versions {
            self.json(&["put", id, "--set-json", &format!("N={n}.10")], 0);
        }
    }

    /// Writes an update and its version item with the library, and returns the version.
    pub fn write(&self, update: Value) -> u64 {
        self.runtime.block_on(write(&self.store, update))
    }

    /// Writes an update beside a purge. The update is rejected if the purge deleted only `v0` so far.
    pub fn write_beside_purge(&self, update: Value) {
        let update = database::update(update);
        let written = self
            .runtime
            .block_on(counter::write(&self.store, &update, database::mode(WriteMode::Inline)));
        assert!(
            matches!(
                written,
                Ok(WriteOutcome::Written { .. }) | Err(WriteError::Uncounted { .. })
            ),
            "{written:?}"
        );
    }

    pub fn put_version(&self, id: &str) -> PutOutcome {
        self.runtime
            .block_on(database::put_version(&self.store, &database::entity(id)))
    }

    pub fn put(&self, item: Value) {
        self.runtime
            .block_on(database::put_item(&self.client, &self.name, item));
    }

    pub fn delete(&self, pk: &str, sk: &str) {
        self.runtime
            .block_on(database::delete_item(&self.client, &self.name, pk, sk));
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
        assert!(self.runtime.block_on(self.store.quarantine(&quarantined)).unwrap());
        // An earlier delivery of the same record.
        assert!(!self.runtime.block_on(self.store.quarantine(&quarantined)).unwrap());
        record
    }

    fn scan(&self) -> Vec<(String, String, Value)> {
        let items = self.runtime.block_on(self.store.scan_items());
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
        let read = async {
            let mut records = Vec::new();
            let shard = self.shard().await;
            let mut iterator = self.stream.iterator(&shard, &Position::TrimHorizon).await.unwrap();
            loop {
                let page = self.stream.read(&iterator).await.unwrap();
                if page.records.is_empty() {
                    return records;
                }
                records.extend(page.records);
                iterator = page.next.unwrap();
            }
        };
        let mut records = self.runtime.block_on(read);
        records.retain(|record| record.json()["dynamodb"]["NewImage"]["SK"]["S"] == "v0");
        records
    }

    async fn shard(&self) -> String {
        self.stream.shards().await.unwrap()[0].id.clone()
    }

    /// Returns the failure document that the mapping writes for these records, with a unique key.
    pub fn document(&self, records: &[Record]) -> Document {
        document(&self.stream_arn, &self.runtime.block_on(self.shard()), records)
    }
}

/// Returns the failure document that the mapping of a stream writes for these records of a shard, with a unique key.
pub fn document(stream_arn: &str, shard: &str, records: &[Record]) -> Document {
    let failure = Failure {
        identity: &Identity {
            uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
            function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
            stream_arn: stream_arn.to_owned(),
        },
        shard,
        records,
        request_id: "r".to_owned(),
        invoke_count: 11,
        reason: Reason::RetryAttemptsExhausted(LastTry::Response),
        now: Duration::from_secs(1_700_000_000),
        id: uuid::Uuid::new_v4().to_string(),
    };
    failure.document()
}

/// Returns a failure document whose payload is an object instead of a string. Both forms are valid; this one can be edited.
pub fn with_open_payload(mut body: Value) -> Value {
    let payload = body["payload"].as_str().unwrap();
    body["payload"] = serde_json::from_str(payload).unwrap();
    body
}

/// Creates a table with the keys and the stream of `template.yaml`, and returns the ARN of the stream.
pub async fn create(client: &Client, name: &str) -> Result<String, TableError> {
    let settings = template::Table {
        name: name.to_owned(),
        settings: TableSettings {
            ttl: None,
            ..TableSettings::default()
        },
    };
    table::ensure_with_stream(client, &settings).await
}

/// Creates a history table.
pub async fn create_history(client: &Client, name: &str) -> Result<(), TableError> {
    let settings = template::Table {
        name: name.to_owned(),
        settings: TableSettings {
            ttl: None,
            ..TableSettings::of_history()
        },
    };
    table::ensure(client, &settings).await
}

pub async fn write(store: &Store, update: Value) -> u64 {
    let update = database::update(update);
    match counter::write(store, &update, database::mode(WriteMode::Inline))
        .await
        .unwrap()
    {
        WriteOutcome::Written { version } => version.get(),
        outcome => panic!("{outcome:?}"),
    }
}

/// Returns a number of DynamoDB JSON in its canonical form: engines return numbers in different forms.
pub fn number(value: &Value) -> String {
    Decimal::parse(value["N"].as_str().unwrap()).unwrap().canonical()
}
