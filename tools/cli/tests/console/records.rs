//! Time, author, reason and request of each version: apart from its attributes, and never those of another version.

use serde_json::{Value, json};
use testkit::{
    database::{at_second, mode, update, write},
    table::Table,
};

use crate::{http::encoded, new_table, served::Console};

/// Creates an entity with three versions, all recorded in second 7.
fn table() -> Table {
    let table = new_table();
    let store = at_second(&table.store, 7);
    for (number, actor) in [(1, "amy"), (2, "bob"), (3, "eve")] {
        let update = update(json!({
            "ID": "E", "RequestId": format!("request {number}"), "N": number, "Actor": actor,
            "Reason": format!("reason {number}"), "Time": format!("2020-01-0{number}"),
        }));
        let written = write(&store, &update, mode(shared::config::WriteMode::Inline));
        table.runtime.block_on(written).unwrap();
    }
    table
}

fn writing(table: &Table) -> Console {
    Console::with(table, "--allow-write --mode inline")
}

/// Sends the form of a page, with more fields.
fn send_form(console: &Console, path: &str, more: &[(&str, &str)]) {
    let form = console.json(path)["Form"].clone();
    let fields: Vec<_> = form
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "Action")
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .chain(more.iter().copied())
        .collect();
    let answer = console.post(form["Action"].as_str().unwrap(), &fields);
    assert_eq!(answer.status, 303, "{answer:?}");
}

#[test]
fn each_page_shows_the_record_apart_from_the_attributes() {
    let table = table();
    let console = Console::of(&table);
    let record = |number: u64, actor: &str| {
        json!({
            "RecordedAt": format!("1970-01-01T00:00:07.00000000{}Z", number - 1), "RequestId": format!("request {number}"),
            "Actor": actor, "Reason": format!("reason {number}"), "Time": format!("2020-01-0{number}T00:00:00Z"),
        })
    };
    let (second, third) = (record(2, "bob"), record(3, "eve"));
    for (path, place, expected) in [
        ("/entity?id=E", "/Latest", &third),
        ("/entity?id=E", "/Versions/0", &third),
        ("/entity?id=E", "/Versions/1", &second),
        ("/compare?id=E&from=2&to=3", "/From", &second),
        ("/compare?id=E&from=2&to=3", "/To", &third),
        ("/version?id=E&version=2", "", &second),
        ("/as-of?id=E&version=2", "", &second),
    ] {
        let json = console.json(path);
        let shown = json.pointer(place).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&shown[name], value, "{name}: {shown}");
        }
        assert!(shown.get("Sender").is_none() && shown.get("RestoredFrom").is_none());
    }
    let shown = "~ 1970-01-01 00:00:07.000000001 => ~ bob => ~ reason 2 => ~ request 2 => ~ 2020-01-02 00:00:00";
    // Each dot of the time line has a title.
    console.check(&format!(
        r#"
        /entity?id=E => {shown}
        /entity?id=E => ~ Version 2, live, 1970-01-01T00:00:07.000000001Z, actor bob, reason reason 2, request request 2
        /version?id=E&version=2 => {{"Attributes": {{"N": 2, "Time": "2020-01-02"}}}} => {shown}
        /compare?id=E&from=2&to=3 => /Changed/0/Path ["N"] => /Changed/1/Path ["Time"] => /Changed/2 null => {shown}
        /as-of?id=E&version=2 => {shown}
        / => /Entities/0/RecordedAt {}
        "#,
        third["RecordedAt"]
    ));
}

#[test]
fn a_restored_version_names_its_origin_and_inherits_no_author() {
    let table = table();
    let console = writing(&table);
    console.check(
        r#"
        /restore?id=E&version=1 => {"Changed": [{"Path": ["N"], "From": 3, "To": 1}]} => ~ describe version 1 only. They are not copied
        /restore?id=E&version=1 => {"NotCopied": {"Actor": "amy", "Reason": "reason 1", "Time": "2020-01-01"}}
        "#,
    );
    send_form(&console, "/restore?id=E&version=1", &[]);
    console.check(
        r#"
        /version?id=E&version=4 => {"RestoredFrom": 1, "Attributes": {"N": 1}, "Actor": null, "Reason": null, "Time": null}
        "#,
    );
    for path in ["/version?id=E&version=4", "/entity?id=E", "/compare?id=E&from=3&to=4"] {
        let page = console.page(path);
        let is_linked = page.links().contains(&"/version?id=E&version=1");
        assert!(
            is_linked && page.text.to_lowercase().contains("restored from"),
            "{path}"
        );
    }
    assert!(!console.page("/version?id=E&version=4").text.contains("amy"));
    // Author and reason of the form belong to the new version.
    let fields = [("actor", "zoe"), ("reason", "undo")];
    send_form(&console, "/restore?id=E&version=2", &fields);
    console.check(r#"/version?id=E&version=5 => {"RestoredFrom": 2, "Actor": "zoe", "Reason": "undo"}"#);
}

#[test]
fn an_undeleted_version_inherits_no_author() {
    let table = table();
    table.write(json!({"ID": "E", "Deleted": true, "Actor": "eve", "Reason": "gone", "Time": "2020-01-04"}));
    let console = writing(&table);
    console.check(r#"/undelete?id=E => {"NotCopied": {"Actor": "eve", "Reason": "reason 3", "Time": "2020-01-03"}}"#);
    send_form(&console, "/undelete?id=E", &[("reason", "a mistake")]);
    console.check(
        r#"/version?id=E&version=5 => {"Reason": "a mistake", "Attributes": {"N": 3}, "Actor": null, "Time": null}"#,
    );
}

#[test]
fn the_exact_time_of_a_version_selects_it() {
    let table = table();
    let console = writing(&table);
    send_form(&console, "/restore?id=E&version=1", &[]);
    for number in 1..=4 {
        let time = console.json(&format!("/version?id=E&version={number}"))["RecordedAt"].clone();
        let mut path = format!("/as-of?id=E&at={}", encoded(time.as_str().unwrap()));
        // The form of the page selects the same version.
        for _ in 0..2 {
            let json = console.json(&path);
            assert_eq!((&json["Version"], &json["At"]), (&json!(number), &time), "{path}");
            let page = console.page(&path);
            path = format!("/as-of?id=E&at={}", encoded(page.text_field("at").unwrap()));
        }
    }
    console.check(
        r#"
        /as-of?id=E&at=1970-01-01T00:00:06.999999999Z => {"Version": null, "Why": "The entity did not exist at this time."}
        /as-of?id=E&at=1970-01-01T01:00:07.000000001%2B01:00 => {"Version": 2}
        "#,
    );
}

const UNDETERMINED: &str = r#"{"Version": null} => ~ Cannot determine the version: "#;

#[test]
fn a_time_of_the_client_selects_the_version_in_effect() {
    let table = table();
    let console = Console::of(&table);
    for (time, version) in [
        ("2020-01-01", json!(1)),
        ("2020-01-02T12:00:00.5", json!(2)),
        ("2020-01-03T01:00:00%2B01:00", json!(3)),
        ("2019-12-31T23:59:59.999", Value::Null),
    ] {
        let path = format!("/as-of?id=E&effective={time}");
        let json = console.json(&path);
        assert_eq!(json["Version"], version, "{path}: {json}");
        let field = console.page(&path).field("effective").unwrap().to_owned();
        let again = console.json(&format!("/as-of?id=E&effective={field}"));
        assert_eq!(again, json);
    }
    // Without version 2, the version in effect is unknown.
    table.delete("E", "v2");
    for query in ["effective=2020-01-02", "at=1970-01-01T00:00:07.000000001"] {
        console.check(&format!("/as-of?id=E&{query} => {UNDETERMINED}"));
    }
}

/// Puts an item of the entity with these members.
fn put(table: &Table, key: &str, more: Value) {
    let mut item = json!({"PK": {"S": "E"}, "SK": {"S": key}, "N": {"N": "1"}});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table.put(item);
}

#[test]
fn a_version_of_another_program_has_the_time_of_the_stream() {
    let table = new_table();
    let record =
        json!({"RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "Actor": {"S": "amy"}, "Sender": {"S": "AIDA"}});
    put(&table, "v1", record.clone());
    // The other program changed neither the author nor the time of version 1.
    let mut stale = record;
    (stale["Latest"], stale["RecordedVersion"]) = (json!({"N": "2"}), json!({"N": "1"}));
    put(&table, "v0", stale);
    let console = Console::of(&table);
    console.check(
        r#"
        /version?id=E&version=2 => ~ Unknown
        /entity?id=E => ~ Unknown
        /version?id=E => {"RecordedAt": null, "Actor": null, "Sender": null}
        / => /Entities/0/RecordedAt null => ~ Unknown
        "#,
    );
    let time = json!({"S": "2026-11-22T06:24:50.000002000Z"});
    put(&table, "v2", json!({"RecordedAt": time, "RecordedBy": {"S": "stream"}}));
    let shown = "~ (from the stream) => ~ 2026-11-22 06:24:50.000002";
    console.check(&format!(
        r#"
        /version?id=E&version=2 => {shown}
        /version?id=E => {shown}
        /entity?id=E => {shown} => ~ SenderAIDA
        /entity?id=E&to=1 => {shown} => /Latest/RecordedAt {} => /Versions/0/Sender "AIDA"
        /compare?id=E&from=1&to=2 => {shown}
        /as-of?id=E&version=2 => {shown}
        "#,
        time["S"]
    ));
}

#[test]
fn a_version_of_an_older_release_has_no_known_time() {
    let table = new_table();
    let time = json!({"Time": {"S": "2020-01-01"}});
    put(&table, "v1", time.clone());
    put(&table, "v2", time);
    put(&table, "v0", json!({"Time": {"S": "2020-01-01"}, "Latest": {"N": "2"}}));
    Console::of(&table).check(&format!(
        r#"
        /version?id=E&version=1 => ~ Unknown => ~ Time (client)
        /entity?id=E => ~ Unknown => ~ Time (client)
        /as-of?id=E&version=1 => ~ Unknown => ~ Time (client)
        /as-of?id=E&at=2020-06-01 => {UNDETERMINED}
        /as-of?id=E&effective=2020-06-01 => {{"Version": 2}}
        "#
    ));
}
