//! Records in quarantine, on the page of their entity.

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
        console.check(&format!(
            r#"{path} => ~ a reason => ~ POISON => ~ --drop-conflicts => /Quarantined/0/SequenceNumber "{number}""#
        ));
    }
    assert_eq!(console.json("/entity?id=E%231")["Latest"]["Version"], 1);
    table.write(json!({"ID": "clean", "State": "OK"}));
    assert!(!console.page("/entity?id=clean").text.contains("uarantine"));
    assert_eq!(console.json("/entity?id=clean")["Quarantined"], json!([]));
}
