//! Compares the policies of `docs/access.md`, for readers and for operators of a history table, and those of `docs/security.md` with
//! the actions that the commands need.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use sealing::{
    sealer::Sealed,
    settings::{LogPlace, Settings},
};
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId, keys::VersionDigits, quarantine::QuarantinedRecord, sequence::SequenceNumber,
        time_index::ALWAYS, version::Version,
    },
    dynamodb::Store,
};
use tempfile::TempDir;
use testkit::{
    database::{add_time_index, put_item},
    endpoint::{is_skipped, sdk_config},
    pages::{access_statements, security_statements},
    table,
    tap::{Needed, Tap},
};
use tokio::time::Instant;

const LATEST: &str = "VersionControl";
const HISTORY: &str = "Versions";
const STATE: &str = "SealState";
const KEYS: &str = "SealKeys";

/// A policy, those that it extends, and commands. These run in this order, so that later commands find items.
struct Policy {
    /// Beginning of the `Sid` of its statements.
    sid: &'static str,
    extended: Vec<&'static str>,
    commands: Vec<&'static str>,
}

/// Reads policies: a line with the names of the policy and of those that it extends, then its commands in indented lines.
fn policies(text: &'static str) -> Vec<Policy> {
    let mut found = Vec::<Policy>::new();
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        if let (Some(command), Some(policy)) = (line.strip_prefix("    "), found.last_mut()) {
            policy.commands.push(command);
            continue;
        }
        let mut names = line.split(' ');
        found.push(Policy {
            sid: names.next().unwrap(),
            extended: names.collect(),
            commands: Vec::new(),
        });
    }
    found
}

/// A database whose requests are listed, its table, and the files that commands read.
struct World {
    tap: Tap,
    client: Client,
    store: Store,
    digits: u8,
    folder: TempDir,
}

impl World {
    async fn new(digits: u8, has_own_history: bool) -> Self {
        let tap = Tap::embedded();
        let client = Client::new(&sdk_config(&tap.endpoint).await);
        let stream_arn = table::create(&client, LATEST).await.unwrap();
        let mut store = Store::new(client.clone(), LATEST, VersionDigits::new(digits).unwrap());
        if has_own_history {
            table::create_history(&client, HISTORY).await.unwrap();
            store = store.with_history(Some(HISTORY.to_owned()));
            store.claim_layout().await.unwrap();
        }
        add_time_index(&client, store.history_table()).await;
        store.store_time_index_since(Some(ALWAYS)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("DOCUMENT"), document(&stream_arn).to_string()).unwrap();
        fs::write(
            folder.path().join("STATES"),
            r#"{"ID": "S", "Time": "2020-11-12T20:04:00"}"#,
        )
        .unwrap();
        Self {
            tap,
            client,
            store,
            digits,
            folder,
        }
    }

    /// Runs the commands, and returns the actions that those of each policy need.
    async fn needed(&self, policies: &[Policy]) -> BTreeMap<&'static str, BTreeSet<Needed>> {
        let mut found = BTreeMap::new();
        for Policy { sid, commands, .. } in policies {
            self.prepare(sid).await;
            self.tap.clear();
            for command in commands {
                let mut vzero = tokio::process::Command::new(crate::VZERO);
                vzero.env_clear().current_dir(self.folder.path());
                vzero.args(["--endpoint-url", &self.tap.endpoint]);
                if self.store.own_history().is_none() {
                    vzero.args(["--version-digits", &self.digits.to_string()]);
                }
                let output = vzero.args(command.split(' ')).output().await.unwrap();
                // Version items that stream-fn would put are missing, or are not sealed, and an audit reports them.
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(
                    matches!(output.status.code(), Some(0 | 1 | 3 | 4)),
                    "{command}: {stderr}"
                );
            }
            found.insert(*sid, self.tap.needed());
        }
        found
    }

    /// Puts what the commands of a policy need.
    async fn prepare(&self, sid: &str) {
        match sid {
            "Adopt" => leave_history_behind(&self.client, self.digits).await,
            "Prove" => self.seal().await,
            "Maintain" => assert!(self.store.quarantine(&quarantined()).await.unwrap()),
            "RedriveTable" => {
                // It counts the versions of the document.
                let counted = json!({"PK": {"S": "R"}, "SK": {"S": "v0"}, "Latest": {"N": "26"}});
                put_item(&self.client, LATEST, counted).await;
            }
            _ => {}
        }
    }

    /// Writes versions of an entity, which the code of seal-fn seals.
    async fn seal(&self) {
        for name in [STATE, KEYS] {
            table::create_history(&self.client, name).await.unwrap();
        }
        let indexed = self.store.clone().with_time_index(None);
        for number in 1..=3 {
            table::write(&indexed, json!({"ID": "S", "A": number})).await;
        }
        let settings = Settings {
            tables: vec![(LATEST.to_owned(), None)],
            state: STATE.to_owned(),
            keys: KEYS.to_owned(),
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: self.folder.path().join("log"),
                key: self.folder.path().join("key"),
            },
        };
        let sdk = sdk_config(&self.tap.endpoint).await;
        let sealer = settings.sealer(&sdk, &self.client).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        sealer.run(deadline, &mut Sealed::default()).await.unwrap();
    }
}

/// Makes the layout one with history beside the latest items, where a version is.
async fn leave_history_behind(client: &Client, digits: u8) {
    client
        .update_item()
        .table_name(LATEST)
        .key("PK", AttributeValue::S("#vzero".to_owned()))
        .key("SK", AttributeValue::S("config".to_owned()))
        .update_expression("REMOVE HistoryTable")
        .send()
        .await
        .unwrap();
    let key = VersionDigits::new(digits).unwrap().version_key(Version::FIRST);
    let item = json!({"PK": {"S": "M"}, "SK": {"S": key}, "Pinned": {"BOOL": true}});
    put_item(client, LATEST, item).await;
}

/// Returns a failure document with more records than one batch.
fn document(stream_arn: &str) -> Value {
    let record = |latest: usize| {
        let keys = json!({"PK": {"S": "R"}, "SK": {"S": "v0"}});
        let mut image = keys.clone();
        image["Latest"] = json!({"N": latest.to_string()});
        let change = json!({"Keys": keys, "NewImage": image, "SequenceNumber": format!("{latest:021}")});
        json!({"eventName": "MODIFY", "dynamodb": change})
    };
    let records: Vec<_> = (1..=26).map(record).collect();
    json!({
        "DDBStreamBatchInfo": {
            "streamArn": stream_arn, "shardId": "shardId-1",
            "startSequenceNumber": format!("{:021}", 1), "endSequenceNumber": format!("{:021}", 26), "batchSize": 26,
        },
        "payload": {"Records": records},
    })
}

/// A record in quarantine whose version is missing.
fn quarantined() -> QuarantinedRecord {
    let record = &document("")["payload"]["Records"][0];
    QuarantinedRecord {
        entity: EntityId::new("R").unwrap(),
        number: SequenceNumber::new("1").unwrap(),
        kind: "Conflict".to_owned(),
        reason: "a reason".to_owned(),
        version: None,
        at: None,
        record: record.to_string(),
    }
}

/// Returns the actions of a policy with these statements.
fn documented(statements: &[Value]) -> BTreeSet<Needed> {
    let texts = |value: &Value| match value {
        Value::Array(texts) => texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
        text => vec![text.as_str().unwrap().to_owned()],
    };
    let table = |resource: &str| match resource
        .split_once('/')
        .map_or((resource, ""), |(table, index)| (table, index))
    {
        ("LATEST" | "TABLE", "") => LATEST.to_owned(),
        ("HISTORY", "") => HISTORY.to_owned(),
        ("STATE", "") => STATE.to_owned(),
        ("KEYS", "") => KEYS.to_owned(),
        ("TABLE", index) => format!("{LATEST}/{index}"),
        ("HISTORY", index) => format!("{HISTORY}/{index}"),
        (other, _) => panic!("{other} is not a table"),
    };
    let mut found = BTreeSet::new();
    for statement in statements {
        for resource in texts(&statement["Resource"]) {
            let actions = texts(&statement["Action"]).into_iter();
            found.extend(actions.map(|action| Needed {
                action,
                table: Some(table(&resource)),
            }));
        }
    }
    found
}

/// Compares what the commands of a policy need beside those that it extends with the documented actions.
fn assert_documented(
    found: &BTreeMap<&str, BTreeSet<Needed>>,
    policies: &[Policy],
    statements: impl Fn(&str) -> Vec<Value>,
) {
    let documented = |sid: &str| documented(&statements(sid));
    for Policy { sid, extended, .. } in policies {
        let allowed: BTreeSet<_> = extended.iter().flat_map(|sid| documented(sid)).collect();
        let besides: BTreeSet<_> = found[sid].difference(&allowed).cloned().collect();
        assert_eq!(besides, documented(sid), "{sid}");
    }
}

#[tokio::test]
async fn operators_need_exactly_the_documented_actions() {
    let policies = policies(include_str!("../scripts/policies_of_operators"));
    let mut found: BTreeMap<&str, BTreeSet<Needed>> = BTreeMap::new();
    for digits in [1, 10] {
        for (sid, needed) in World::new(digits, false).await.needed(&policies).await {
            // The command that creates a table has another one.
            let needed = needed.into_iter();
            // Of a new table, it also looks for a history, which may fail.
            let needed = needed.filter(|needed| needed.table.as_deref() != Some("VersionControl-history"));
            let needed = needed.map(|needed| Needed {
                table: needed.table.map(|table| table.replace("Factory", LATEST)),
                ..needed
            });
            found.entry(sid).or_default().extend(needed);
        }
    }
    assert_documented(&found, &policies, security_statements);
}

#[tokio::test]
async fn readers_auditors_and_operators_need_exactly_the_documented_actions() {
    if is_skipped("it needs a proxy of an embedded DynamoDB") {
        return;
    }
    let policies = policies(include_str!("../scripts/policies_of_readers"));
    let mut found: BTreeMap<&str, BTreeSet<Needed>> = BTreeMap::new();
    for digits in [1, 10] {
        let world = World::new(digits, true).await;
        let metadata = json!({"PK": {"S": "E"}, "SK": {"S": "Metadata"}});
        put_item(&world.client, LATEST, metadata).await;
        for number in 1..=4 {
            let update = json!({"ID": "E", "N": number, "Time": "2020-11-01T20:04:00"});
            table::write(&world.store, update).await;
        }
        for (sid, actions) in world.needed(&policies).await {
            found.entry(sid).or_default().extend(actions);
        }
    }
    assert_documented(&found, &policies, access_statements);
}
