//! Records in quarantine: on the page of their entity, and as a source of failures.

use serde_json::json;
use testkit::table::Table;

use crate::{http::encoded, new_table, served::Console};

fn poisoned() -> Table {
    let table = new_table();
    table.write(json!({"ID": "E#1", "State": "OK"}));
    let image = |id: &str, latest: &str| json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "State": {"S": "POISON"}});
    table.quarantine("E#1", "9", "Conflict", &image("E#1", "1"));
    let malformed = json!({"PK": {"S": "F"}, "SK": {"S": "v0"}, "Latest": {"S": "one"}, "State": {"S": "POISON"}});
    table.put(malformed.clone());
    table.quarantine("F", "10", "Malformed", &malformed);
    table.quarantine("G", "11", "Conflict", &image("G", "1"));
    table
}

#[test]
fn the_page_of_an_entity_shows_its_records_in_quarantine() {
    let table = poisoned();
    let console = Console::of(&table);
    // The latest item of F cannot be read, and G has none.
    for (id, number) in [("E#1", "9"), ("F", "10"), ("G", "11")] {
        let path = format!("/entity?id={}", encoded(id));
        let text = console.page(&path).text;
        for shown in [number, "a reason", "POISON", "--drop-conflicts"] {
            assert!(text.contains(shown), "{id}: {text}");
        }
        let json = console.json(&path);
        assert_eq!(json["Quarantined"][0]["SequenceNumber"], number, "{json}");
    }
    assert_eq!(console.json("/entity?id=E%231")["Latest"]["Version"], 1);
    table.write(json!({"ID": "clean", "State": "OK"}));
    assert!(!console.page("/entity?id=clean").text.contains("uarantine"));
    assert_eq!(console.json("/entity?id=clean")["Quarantined"], json!([]));
}

#[test]
fn quarantine_is_a_source_of_failures() {
    let table = poisoned();
    let console = Console::with(&table, &["--from", "quarantine:"]);
    let listed = console.json("/failures?source=0");
    let mut names: Vec<_> = listed["Documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|document| document["Document"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["E#1 9", "F 10", "G 11"]);
    // Page by page, from any record.
    for (after, document) in listed["Documents"].as_array().unwrap().iter().enumerate() {
        let name = document["Document"].as_str().unwrap();
        let rest = console.json(&format!("/failures?source=0&after={}", encoded(name)));
        assert_eq!(
            rest["Documents"].as_array().unwrap()[..],
            listed["Documents"].as_array().unwrap()[after + 1..],
            "{name}"
        );
    }
    let outcome = |name: &str| {
        let document = console.json(&format!("/failures?source=0&document={}", encoded(name)));
        document["Shown"][0]["Outcome"].clone()
    };
    assert_eq!([outcome("E#1 9"), outcome("G 11")], ["Conflict", "AboveLatest"]);
    table.put(json!({"PK": {"S": "G"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "State": {"S": "POISON"}}));
    assert_eq!(outcome("G 11"), "Recorded");
    assert_eq!(outcome("F 10"), "Failed");
}
