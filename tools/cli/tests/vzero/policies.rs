//! Compares the minimal policies of `docs/security.md` for operators with the actions that the commands need.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, quarantine::QuarantinedRecord, sequence::SequenceNumber},
    dynamodb::Store,
};
use testkit::{database::put_item, endpoint::sdk_config, pages::policy_actions, table, tap::Tap};

/// The commands of each policy, by the `Sid` of its statement. They run in this order, so that later commands find items.
const COMMANDS: [(&str, &[&str]); 7] = [
    (
        "Write",
        &[
            "put E --set A=1 --time 2020-11-01T20:04:00",
            "put E --set A=2 --mode inline",
            "put E --set A=3 --mode transaction",
            "put E --set A=3 --mode inline --idempotency ledger",
            "put E --set A=3 --skip-unchanged",
            "restore E 2 --mode inline",
            "delete E --mode inline",
            "undelete E --mode inline",
            "metadata E --set Name=x",
            "state put E --time 2020-11-12T20:04:00 --set State=OK",
            "state put E --time 2020-11-12T20:04:00 --set State=BAD --replace",
        ],
    ),
    (
        "Read",
        &[
            "get E",
            "get E --version 2",
            "get E --at 2020-11-01T20:04:00",
            "get E --effective-at 2020-11-01T20:04:00",
            "history E",
            "history E --changes --since 2020-11-01",
            "diff E 2 3",
            "lag E",
            "state latest E",
            "state list E",
            "state list E --prefix 2020-11 --newest-first --limit 1",
            "items E",
        ],
    ),
    // The first one creates the table, the second one finds it.
    (
        "CreateTable",
        &["--table Factory table create", "--table Factory table create"],
    ),
    ("Load", &["state load STATES"]),
    (
        "Audit",
        &["audit E --lag 0", "audit --all --lag 0", "quarantine E", "quarantine"],
    ),
    // Single versions and batches, new and existing ones.
    (
        "RedriveTable",
        &["redrive DOCUMENT --dry-run", "redrive DOCUMENT", "redrive DOCUMENT"],
    ),
    (
        "Maintain",
        &[
            "redrive quarantine:",
            "repair --all --lag 0 --yes",
            "repair --all --lag 0 --from DOCUMENT --yes",
            "pin E 2",
            "prune E --keep 2",
            "prune --all --keep 1",
            "pin E 2 --unpin",
            "backfill --mode transaction --yes",
            "purge E --yes --wait 0s",
        ],
    ),
];

/// The statements that a policy extends.
const EXTENDS: [(&str, &[&str]); 7] = [
    ("Read", &[]),
    ("Write", &["Read"]),
    ("CreateTable", &["Read", "Write"]),
    ("Load", &[]),
    ("Audit", &["Read"]),
    ("Maintain", &["Read", "Write", "Audit"]),
    ("RedriveTable", &["Read", "Write"]),
];

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

async fn needed(
    tap: &Tap,
    (client, store): (&Client, &Store),
    stream_arn: &str,
    digits: &str,
) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document.json");
    std::fs::write(&path, document(stream_arn).to_string()).unwrap();
    let states = folder.path().join("states.jsonl");
    std::fs::write(&states, r#"{"ID": "S", "Time": "2020-11-12T20:04:00"}"#).unwrap();
    for (sid, commands) in COMMANDS {
        if sid == "Maintain" {
            store.quarantine(&quarantined()).await.unwrap();
        }
        if sid == "RedriveTable" {
            // It counts the versions of the document.
            let counted = json!({"PK": {"S": "R"}, "SK": {"S": "v0"}, "Latest": {"N": "26"}});
            put_item(client, "VersionControl", counted).await;
        }
        tap.clear();
        for command in commands {
            let mut vzero = tokio::process::Command::new(crate::VZERO);
            vzero
                .env_clear()
                .args(["--endpoint-url", &tap.endpoint, "--version-digits", digits]);
            let words = command.split(' ').map(|word| match word {
                "DOCUMENT" => path.to_str().unwrap(),
                "STATES" => states.to_str().unwrap(),
                word => word,
            });
            let output = vzero.args(words).output().await.unwrap();
            // Version items that stream-fn would put are missing, and an audit reports them.
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{command}: {stderr}");
        }
        found.insert(sid, tap.actions());
    }
    found
}

#[tokio::test]
async fn operators_need_exactly_the_documented_actions() {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for digits in ["1", "10"] {
        let tap = Tap::embedded();
        let client = Client::new(&sdk_config(&tap.endpoint).await);
        let stream_arn = table::create(&client, "VersionControl").await.unwrap();
        let store = Store::new(client.clone(), "VersionControl", digits.parse().unwrap());
        for (sid, actions) in needed(&tap, (&client, &store), &stream_arn, digits).await {
            found.entry(sid).or_default().extend(actions);
        }
    }
    for (sid, before) in EXTENDS {
        let allowed: BTreeSet<_> = before
            .iter()
            .flat_map(|sid| policy_actions(sid, &["dynamodb:"]))
            .collect();
        let besides: BTreeSet<_> = found[sid].difference(&allowed).cloned().collect();
        assert_eq!(besides, policy_actions(sid, &["dynamodb:"]), "{sid}");
    }
}
