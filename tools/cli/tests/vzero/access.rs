//! Compares the policies of `docs/access.md` with the actions that the commands need, on which table, with a history table.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use serde_json::{Value, json};
use shared::{
    domain::{keys::VersionDigits, version::Version},
    dynamodb::Store,
};
use testkit::{
    database,
    endpoint::{is_skipped, sdk_config},
    pages::access_statements,
    table,
    tap::{Needed, Tap},
};

const LATEST: &str = "Latest";
const HISTORY: &str = "Versions";

/// The commands of each policy, by the `Sid` of its statements. They run in this order.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("ReadLatest", &["get E"]),
    (
        "ReadHistory",
        &[
            "get E --version 2",
            "get E --at 2020-11-01T20:04:00",
            "get E --effective-at 2020-11-01T20:04:00",
            "history E",
            "history E --changes --since 2020-11-01",
            "diff E 2 3",
            "lag E",
            "items E",
        ],
    ),
    (
        "Audit",
        &["audit E --lag 0", "audit --all --lag 0", "quarantine E", "quarantine"],
    ),
    (
        "Prune",
        &["pin E 2", "prune E --keep 2", "prune --all --keep 1", "pin E 2 --unpin"],
    ),
    ("Adopt", &["table adopt --history-table Versions"]),
    ("Purge", &["purge E --yes --wait 0s"]),
];

/// The statements that a policy extends.
const EXTENDS: [(&str, &[&str]); 6] = [
    ("ReadLatest", &[]),
    ("ReadHistory", &["ReadLatest"]),
    ("Audit", &["ReadLatest", "ReadHistory"]),
    ("Prune", &["ReadLatest", "ReadHistory", "Audit"]),
    ("Adopt", &["ReadLatest"]),
    ("Purge", &["ReadLatest", "ReadHistory", "Audit"]),
];

async fn needed(digits: u8) -> BTreeMap<&'static str, BTreeSet<Needed>> {
    let tap = Tap::embedded();
    let client = Client::new(&sdk_config(&tap.endpoint).await);
    table::create(&client, LATEST).await.unwrap();
    table::create_history(&client, HISTORY).await.unwrap();
    let store = Store::new(client.clone(), LATEST, VersionDigits::new(digits).unwrap());
    let store = store.with_history(Some(HISTORY.to_owned()));
    store.claim_layout().await.unwrap();
    let metadata = json!({"PK": {"S": "E"}, "SK": {"S": "Metadata"}});
    database::put_item(&client, LATEST, metadata).await;
    for number in 1..=4 {
        table::write(&store, json!({"ID": "E", "N": number, "Time": "2020-11-01T20:04:00"})).await;
    }
    let mut found = BTreeMap::new();
    for (sid, commands) in COMMANDS {
        if sid == "Adopt" {
            leave_history_behind(&client, digits).await;
        }
        tap.clear();
        for command in commands {
            let mut vzero = tokio::process::Command::new(crate::VZERO);
            vzero
                .env_clear()
                .args(["--endpoint-url", &tap.endpoint, "--table", LATEST]);
            let output = vzero.args(command.split(' ')).output().await.unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{command}: {stderr}");
        }
        found.insert(sid, tap.needed());
    }
    found
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
    database::put_item(client, LATEST, item).await;
}

/// Returns the actions of a documented policy.
fn documented(sid: &str) -> BTreeSet<Needed> {
    let statements = access_statements(sid);
    assert!(!statements.is_empty(), "there is no policy {sid}");
    let texts = |value: &Value| match value {
        Value::Array(texts) => texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
        text => vec![text.as_str().unwrap().to_owned()],
    };
    let table = |resource: &str| match resource {
        "LATEST" => LATEST,
        "HISTORY" => HISTORY,
        other => panic!("{other} is not a table"),
    };
    let mut found = BTreeSet::new();
    for statement in &statements {
        for resource in texts(&statement["Resource"]) {
            let actions = texts(&statement["Action"]).into_iter();
            found.extend(actions.map(|action| Needed {
                action,
                table: Some(table(&resource).to_owned()),
            }));
        }
    }
    found
}

#[tokio::test]
async fn readers_auditors_and_operators_need_exactly_the_documented_actions() {
    if is_skipped(
        "readers_auditors_and_operators_need_exactly_the_documented_actions",
        "it needs a proxy of an embedded DynamoDB",
    ) {
        return;
    }
    let mut found: BTreeMap<&str, BTreeSet<Needed>> = BTreeMap::new();
    for digits in [1, 10] {
        for (sid, actions) in needed(digits).await {
            found.entry(sid).or_default().extend(actions);
        }
    }
    for (sid, before) in EXTENDS {
        let allowed: BTreeSet<_> = before.iter().flat_map(|sid| documented(sid)).collect();
        let besides: BTreeSet<_> = found[sid].difference(&allowed).cloned().collect();
        assert_eq!(besides, documented(sid), "{sid}");
    }
}
