//! The least policies that `docs/security.md` gives operators, against what the command asks for.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

#[path = "../../local/tests/stack/wire.rs"]
mod wire;

use std::collections::BTreeSet;

use local::dynamodb::{sdk_config, table};
use serde_json::Value;

use crate::wire::Recorder;

/// The commands of each policy, by its statement's `Sid`. They run in this order, so that there is something to read.
const COMMANDS: [(&str, &[&str]); 2] = [
    (
        "Write",
        &[
            "put E --set A=1 --time 2020-11-01T20:04:00",
            "put E --set A=2 --mode inline",
            "put E --set A=3 --mode transaction",
            "put E --set A=3 --skip-unchanged",
            "restore E 1 --mode inline",
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
            "history E",
            "diff E 2 3",
            "lag E",
            "state latest E",
            "state list E",
        ],
    ),
];

async fn asked(recorder: &Recorder, digits: &str) -> [BTreeSet<String>; 2] {
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    for (index, (_, commands)) in COMMANDS.into_iter().enumerate() {
        recorder.forget();
        for command in commands {
            let mut vzero = tokio::process::Command::new(env!("CARGO_BIN_EXE_vzero"));
            vzero
                .env_clear()
                .args(["--endpoint-url", &recorder.endpoint, "--version-digits", digits]);
            let output = vzero.args(command.split(' ')).output().await.unwrap();
            // With other digits, what was left to the stream is not there to be read.
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{command}: {stderr}");
        }
        found[index] = recorder.asked();
    }
    found
}

/// The actions of a statement in the page.
fn documented(sid: &str) -> BTreeSet<String> {
    let page = include_str!("../../../docs/security.md");
    let blocks = page
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"));
    let mut policies = blocks.map(|(block, _)| serde_json::from_str::<Value>(block).unwrap());
    let policy = policies.find(|policy| policy["Statement"][0]["Sid"] == sid).unwrap();
    let actions = policy["Statement"][0]["Action"].as_array().unwrap();
    actions
        .iter()
        .map(|action| action.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn operators_need_what_the_page_says_and_no_more() {
    let (mut write, mut read) = (BTreeSet::new(), BTreeSet::new());
    for digits in ["1", "10"] {
        let recorder = Recorder::start().await;
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let settings = local::template::Table {
            name: "VersionControl".to_owned(),
            attributes: vec![pair("PK", "S"), pair("SK", "S")],
            keys: vec![pair("PK", "HASH"), pair("SK", "RANGE")],
            stream_view_type: "NEW_IMAGE".to_owned(),
            ttl: None,
        };
        let client = aws_sdk_dynamodb::Client::new(&sdk_config(&recorder.endpoint).await);
        table::ensure(&client, &settings).await.unwrap();
        let [wrote, read_now] = asked(&recorder, digits).await;
        write.extend(wrote);
        read.extend(read_now);
    }
    assert_eq!(read, documented("Read"), "reading");
    let besides: BTreeSet<_> = write.difference(&read).cloned().collect();
    assert_eq!(besides, documented("Write"), "writing, besides reading");
}
