#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::collections::BTreeSet;

use dynoxide::Database;

use super::*;
use crate::database;

const PAGE: &str = include_str!("../../../../docs/reliability.md");

/// Names of the requests of the product that a mutation must change, or must leave as they are, as the snapshots of its own tests show them.
const REQUESTS: &str = include_str!("requests.txt");

fn requests(verb: &str) -> impl Iterator<Item = (Mutation, &'static str)> {
    REQUESTS
        .lines()
        .filter_map(move |line| line.split_once(&format!(" {verb} ")))
}

/// Reads the operation and the request of a snapshot.
fn snapshot(name: &str) -> (String, Value) {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let path = ["shared/src/dynamodb", "writer-fn/src/counter", "tools/operations/src"]
        .into_iter()
        .map(|folder| format!("{folder}/snapshots"))
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

/// Returns a request of a snapshot, and the same one after a mutation.
fn mutated(mutation: Mutation, name: &str) -> (String, Value, Value) {
    let (operation, original) = snapshot(name);
    let mut body = original.clone();
    Mutations(Some(mutation)).request(&operation, &mut body);
    (operation, original, body)
}

/// Text alone would not show that DynamoDB rejects an expression, for which a guard looks necessary.
#[test]
fn a_mutation_changes_the_requests_of_the_product_to_ones_that_a_database_accepts() {
    let delayed = [("delay", "write_version"), ("delay", "guard_base")];
    for (mutation, names) in requests("changes").chain(delayed) {
        for name in names.split(' ') {
            let (operation, original, mut body) = mutated(mutation, name);
            Mutations(Some(mutation)).delayed(&operation, &mut body);
            assert_ne!(body, original, "{mutation:?}: {name}");
            let database = Database::memory().unwrap();
            database::create_table(&database, "Table", &["PK", "SK"], None, false).unwrap();
            let response = database::respond(&database, &operation, body.to_string().as_bytes());
            let is_condition =
                ["ConditionalCheckFailed", "TransactionCanceled"].map(|kind| response.body.contains(kind));
            let is_accepted = response.status == 200 || is_condition.contains(&true);
            assert!(is_accepted, "{mutation:?}: {name}: {}", response.body);
        }
    }
}

#[test]
fn a_mutation_leaves_other_requests_as_they_are() {
    for (mutation, file) in requests("leaves") {
        let (_, original, body) = mutated(mutation, file);
        assert_eq!(body, original, "{mutation:?}: {file}");
    }
}

#[test]
fn a_statement_becomes_the_put_of_its_item() {
    let statement = json!({
        "Statement": "INSERT INTO \"T\" VALUE {'PK': ?, 'it''s': ?, 'SK': ?}",
        "Parameters": [{"S": "E"}, {"N": "1"}, {"S": "v1"}],
    });
    let item = json!({"PK": {"S": "E"}, "it's": {"N": "1"}, "SK": {"S": "v1"}});
    let body = json!({"Statements": [statement]});
    let puts = |mutation| Mutations(Some(mutation)).puts("BatchExecuteStatement", &body);
    assert_eq!(puts("condition"), Some(vec![json!({"TableName": "T", "Item": item})]));
    assert_eq!(puts("compare"), None);
    let (operation, body) = snapshot("put_versions");
    assert!(Mutations(Some("condition")).puts(&operation, &body).is_some());
}

#[test]
fn the_page_lists_every_mutation() {
    let table = PAGE.split_once("| `--mutate` |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let documented: BTreeSet<_> = names.map(str::to_owned).collect();
    let listed = all().map(|(name, _)| name.to_owned());
    assert_eq!(documented, listed.collect());
}
