#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod examples;

use std::collections::BTreeSet;

use serde_json::json;

use self::examples::{Example, examples};
use super::*;

const PAGE: &str = include_str!("../../../../docs/reliability.md");

/// Reads the operation and the request of a snapshot.
fn snapshot(name: &str) -> (String, Value) {
    if name == "counted_versions" {
        // The same request, strongly consistent.
        let (operation, mut body) = snapshot("latest_versions");
        body["RequestItems"]["Table"]["ConsistentRead"] = json!(true);
        return (operation, body);
    }
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let of_library = ["snapshots", "test_requests/snapshots"].map(|folder| format!("shared/src/dynamodb/{folder}"));
    let path = of_library
        .into_iter()
        .chain(["writer-fn/src/counter/snapshots", "tools/operations/src/snapshots"].map(str::to_owned))
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(&format!("__{name}.snap")))
        .unwrap_or_else(|| panic!("no snapshot {name}"));
    let text = std::fs::read_to_string(path).unwrap();
    let json = text.splitn(3, "---\n").nth(2).unwrap();
    let requests: serde_json::Map<String, Value> = serde_json::from_str(json).unwrap();
    let (target, body) = requests.into_iter().next().unwrap();
    (target.split_once('.').unwrap().1.to_owned(), body)
}

#[test]
fn each_mutation_changes_the_requests_of_the_product() {
    for mutation in Mutation::value_variants().iter().copied() {
        let name = mutation.name();
        let examples = examples(mutation);
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            let before = mutation.changes();
            match example {
                Example::Request(file, after) => assert_request(mutation, file, after),
                Example::DelayedRequest(file, after) => {
                    let (operation, original) = snapshot(file);
                    let mut body = original.clone();
                    mutation.delayed(&operation, &mut body);
                    assert_contains_only_after(&name, &original, &body, after);
                }
                Example::Response(sender, file, original) => {
                    let (operation, request) = snapshot(file);
                    let mut response = original.clone();
                    mutation.response(&operation, Some(&sender.caller()), &request, &mut response);
                    assert_ne!(response, original, "{name}: {file}");
                }
                Example::Body(operation, original) => {
                    let mut body = original.clone();
                    mutation.request(operation, &mut body);
                    assert_ne!(body, original, "{name}");
                }
                Example::Event(original) => {
                    let mut event = original.clone();
                    mutation.event(&mut event);
                    assert_ne!(event, original, "{name}");
                }
                Example::Record(original) => {
                    let mut record = original.clone();
                    mutation.record(&mut record);
                    assert_ne!(record, original, "{name}");
                }
                Example::Failures(change) => {
                    let mut response = json!({"batchItemFailures": [{"itemIdentifier": "1"}]});
                    change(mutation, &mut response);
                    assert_eq!(response, json!({"batchItemFailures": []}), "{name}");
                }
                Example::Batch(payload) => assert!(!mutation.accepts_batch(&payload), "{name}"),
                Example::Time => {
                    let time = Duration::from_secs(60);
                    let times = [mutation.deadline(time), mutation.purge_wait(time), mutation.lag(time)];
                    let changed = times.iter().filter(|changed| **changed != time).count();
                    let switches = [
                        mutation.checks_layout(Mutation::StreamLayout),
                        mutation.checks_layout(Mutation::WriterLayout),
                    ];
                    let disabled = switches.iter().filter(|is_enabled| !**is_enabled).count();
                    assert_eq!(changed + disabled, 1, "{name}");
                }
            }
            assert!(mutation.changes() > before, "{name} does not count its change");
        }
    }
}

fn assert_request(mutation: Mutation, file: &str, after: &str) {
    let (operation, original) = snapshot(file);
    let mut body = original.clone();
    mutation.request(&operation, &mut body);
    match mutation.puts(&operation, &body) {
        Some(puts) => assert!(json!(puts).to_string().contains(after)),
        None if ["v0", "v00", "v7", "PurgedAt", "request#request-1"].contains(&after) => {
            // The condition is removed.
            assert_ne!(body, original, "{}: {file}", mutation.name());
            assert!(body.to_string().contains(after));
        }
        None => assert_contains_only_after(&format!("{}: {file}", mutation.name()), &original, &body, after),
    }
}

fn assert_contains_only_after(name: &str, before: &Value, after: &Value, text: &str) {
    assert_ne!(before, after, "{name}");
    // A part that is longer afterwards can be there before.
    assert!(after.to_string().contains(text), "{name}: {after}");
}

#[test]
fn a_mutation_leaves_other_requests_as_they_are() {
    for (mutation, file) in [
        (Mutation::Guard, "put_version"),
        (Mutation::RetryGuard, "guard_sent"),
        (Mutation::Condition, "revive_latest"),
        (Mutation::Revive, "put_version"),
        (Mutation::Raise, "write_version"),
        (Mutation::Adopt, "write_version"),
        (Mutation::Mark, "write_version_first"),
        (Mutation::PurgeCondition, "purge_batch"),
        (Mutation::ExpectedVersion, "write_version"),
    ] {
        let (operation, original) = snapshot(file);
        let mut body = original.clone();
        mutation.request(&operation, &mut body);
        assert_eq!(body, original, "{}: {file}", mutation.name());
    }
}

#[test]
fn a_removed_entry_is_the_newest_one_too() {
    let (operation, mut body) = snapshot("recent_requests_replace");
    Mutation::Eviction.request(&operation, &mut body);
    assert!(!body["UpdateExpression"].as_str().unwrap().contains(":entry"));
    // DynamoDB rejects a value that no expression uses.
    assert!(body["ExpressionAttributeValues"].get(":entry").is_none());
}

#[test]
fn a_statement_becomes_the_put_of_its_item() {
    let statement = json!({
        "Statement": "INSERT INTO \"T\" VALUE {'PK': ?, 'it''s': ?, 'SK': ?}",
        "Parameters": [{"S": "E"}, {"N": "1"}, {"S": "v1"}],
    });
    let item = json!({"PK": {"S": "E"}, "it's": {"N": "1"}, "SK": {"S": "v1"}});
    let body = json!({"Statements": [statement]});
    let puts = Mutation::Condition.puts("BatchExecuteStatement", &body);
    assert_eq!(puts, Some(vec![json!({"TableName": "T", "Item": item})]));
    assert_eq!(Mutation::Compare.puts("BatchExecuteStatement", &body), None);
}

#[test]
fn a_later_attempt_looks_like_the_first() {
    assert_eq!(Mutation::Redelivery.first_attempt(Some(1)), None);
    assert_eq!(Mutation::Guard.first_attempt(Some(1)), Some(1));
}

#[test]
fn every_mutation_has_a_counter() {
    assert!(Mutation::value_variants().len() <= CHANGES.len());
}

#[test]
fn the_page_lists_every_mutation() {
    let table = PAGE.split_once("| `--mutate` |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let documented: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    let listed: Vec<_> = Mutation::value_variants()
        .iter()
        .map(|mutation| mutation.name())
        .collect();
    let (documented, listed): (BTreeSet<_>, BTreeSet<_>) =
        (documented.into_iter().collect(), listed.into_iter().collect());
    assert_eq!(documented, listed);
}
