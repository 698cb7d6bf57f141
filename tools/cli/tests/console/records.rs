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
        let written = write(&store, &update, mode(shared::dynamodb::write::WriteMode::Inline));
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

/// Returns the text of a page in one line.
fn text(console: &Console, path: &str) -> String {
    let page = console.page(path);
    page.text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    let entity = console.json("/entity?id=E");
    let compared = console.json("/compare?id=E&from=2&to=3");
    let version = console.json("/version?id=E&version=2");
    let as_of = console.json("/as-of?id=E&version=2");
    for (shown, expected) in [
        (&entity["Latest"], &third),
        (&entity["Versions"][0], &third),
        (&entity["Versions"][1], &second),
        (&compared["From"], &second),
        (&compared["To"], &third),
        (&version, &second),
        (&as_of, &second),
    ] {
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&shown[name], value, "{name}: {shown}");
        }
        assert!(shown.get("Sender").is_none() && shown.get("RestoredFrom").is_none());
    }
    assert_eq!(version["Attributes"], json!({"N": 2, "Time": "2020-01-02"}));
    let paths: Vec<_> = compared["Changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["Path"][0])
        .collect();
    assert_eq!(paths, ["N", "Time"]);
    for path in [
        "/entity?id=E",
        "/version?id=E&version=2",
        "/compare?id=E&from=2&to=3",
        "/as-of?id=E&version=2",
    ] {
        let text = text(&console, path);
        for shown in [
            "1970-01-01 00:00:07.000000001",
            "bob",
            "reason 2",
            "request 2",
            "2020-01-02 00:00:00",
        ] {
            assert!(text.contains(shown), "{path}, {shown}: {text}");
        }
    }
    // Each dot of the time line has a title.
    let title = "Version 2, live, 1970-01-01T00:00:07.000000001Z, actor bob, reason reason 2, request request 2";
    assert!(text(&console, "/entity?id=E").contains(title));
    let listed = console.json("/")["Entities"][0].clone();
    assert_eq!(listed["RecordedAt"], third["RecordedAt"]);
}

#[test]
fn a_restored_version_names_its_origin_and_inherits_no_author() {
    let table = table();
    let console = writing(&table);
    let preview = console.json("/restore?id=E&version=1");
    assert_eq!(preview["Changed"], json!([{"Path": ["N"], "From": 3, "To": 1}]));
    let not_copied = json!({"Actor": "amy", "Reason": "reason 1", "Time": "2020-01-01"});
    assert_eq!(preview["NotCopied"], not_copied);
    let shown = text(&console, "/restore?id=E&version=1");
    assert!(
        shown.contains("These attributes describe version 1 only. They are not copied"),
        "{shown}"
    );
    send_form(&console, "/restore?id=E&version=1", &[]);
    let json = console.json("/version?id=E&version=4");
    assert_eq!(
        (&json["RestoredFrom"], &json["Attributes"]),
        (&json!(1), &json!({"N": 1}))
    );
    for name in ["Actor", "Reason", "Time"] {
        assert_eq!(json[name], Value::Null, "{name}: {json}");
    }
    for path in ["/version?id=E&version=4", "/entity?id=E", "/compare?id=E&from=3&to=4"] {
        let page = console.page(path);
        let links: Vec<_> = page
            .links()
            .into_iter()
            .filter(|link| *link == "/version?id=E&version=1")
            .collect();
        assert!(
            !links.is_empty() && page.text.to_lowercase().contains("restored from"),
            "{path}"
        );
    }
    assert!(!text(&console, "/version?id=E&version=4").contains("amy"));
    // Author and reason of the form belong to the new version.
    send_form(
        &console,
        "/restore?id=E&version=2",
        &[("actor", "zoe"), ("reason", "undo")],
    );
    let json = console.json("/version?id=E&version=5");
    assert_eq!(
        (&json["RestoredFrom"], &json["Actor"], &json["Reason"]),
        (&json!(2), &json!("zoe"), &json!("undo"))
    );
}

#[test]
fn an_undeleted_version_inherits_no_author() {
    let table = table();
    table.write(json!({"ID": "E", "Deleted": true, "Actor": "eve", "Reason": "gone", "Time": "2020-01-04"}));
    let console = writing(&table);
    let preview = console.json("/undelete?id=E");
    assert_eq!(
        preview["NotCopied"],
        json!({"Actor": "eve", "Reason": "reason 3", "Time": "2020-01-03"})
    );
    send_form(&console, "/undelete?id=E", &[("reason", "a mistake")]);
    let json = console.json("/version?id=E&version=5");
    assert_eq!(
        (&json["Reason"], &json["Attributes"]),
        (&json!("a mistake"), &json!({"N": 3}))
    );
    assert_eq!((&json["Actor"], &json["Time"]), (&Value::Null, &Value::Null));
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
    let json = console.json("/as-of?id=E&at=1970-01-01T00:00:06.999999999Z");
    assert_eq!(json["Version"], Value::Null);
    assert_eq!(json["Why"], "The entity did not exist at this time.");
    let json = console.json("/as-of?id=E&at=1970-01-01T01:00:07.000000001%2B01:00");
    assert_eq!(json["Version"], 2);
}

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
    for path in [
        "/as-of?id=E&effective=2020-01-02",
        "/as-of?id=E&at=1970-01-01T00:00:07.000000001",
    ] {
        let json = console.json(path);
        assert_eq!(json["Version"], Value::Null, "{path}: {json}");
        assert!(
            json["Why"]
                .as_str()
                .unwrap()
                .starts_with("Cannot determine the version: "),
            "{json}"
        );
    }
}

#[test]
fn a_version_of_another_program_has_the_time_of_the_stream() {
    let table = new_table();
    let item = |key: &str, more: Value| {
        let mut item = json!({"PK": {"S": "E"}, "SK": {"S": key}, "N": {"N": "1"}});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        table.put(item);
    };
    item(
        "v1",
        json!({"RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "Actor": {"S": "amy"}, "Sender": {"S": "AIDA"}}),
    );
    // The other program changed neither the author nor the time of version 1.
    let stale = json!({
        "Latest": {"N": "2"}, "RecordedVersion": {"N": "1"}, "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"},
        "Actor": {"S": "amy"}, "Sender": {"S": "AIDA"},
    });
    item("v0", stale);
    let console = Console::of(&table);
    for path in ["/version?id=E&version=2", "/entity?id=E"] {
        assert!(text(&console, path).contains("Unknown"), "{path}");
    }
    let json = console.json("/version?id=E");
    assert!(
        json.get("RecordedAt").is_none() && json.get("Actor").is_none() && json.get("Sender").is_none(),
        "{json}"
    );
    assert_eq!(console.json("/")["Entities"][0]["RecordedAt"], Value::Null);
    assert!(text(&console, "/").contains("Unknown"));
    item(
        "v2",
        json!({"RecordedAt": {"S": "2026-11-22T06:24:50.000002000Z"}, "RecordedBy": {"S": "stream"}}),
    );
    for path in [
        "/version?id=E&version=2",
        "/version?id=E",
        "/entity?id=E",
        "/entity?id=E&to=1",
        "/compare?id=E&from=1&to=2",
        "/as-of?id=E&version=2",
    ] {
        let text = text(&console, path);
        let from_stream = text.matches("(from the stream)").count();
        assert!(
            from_stream > 0 && text.contains("2026-11-22 06:24:50.000002"),
            "{path}: {text}"
        );
    }
    let json = console.json("/entity?id=E&to=1");
    assert_eq!(json["Latest"]["RecordedAt"], "2026-11-22T06:24:50.000002000Z");
    assert_eq!(json["Versions"][0]["Sender"], "AIDA");
    assert!(text(&console, "/entity?id=E").contains("SenderAIDA"));
}

#[test]
fn a_version_of_an_older_release_has_no_known_time() {
    let table = new_table();
    for (key, latest) in [
        ("v1", json!({})),
        ("v2", json!({})),
        ("v0", json!({"Latest": {"N": "2"}})),
    ] {
        let mut item = json!({"PK": {"S": "E"}, "SK": {"S": key}, "Time": {"S": "2020-01-01"}});
        item.as_object_mut()
            .unwrap()
            .extend(latest.as_object().unwrap().clone());
        table.put(item);
    }
    let console = Console::of(&table);
    for path in ["/version?id=E&version=1", "/entity?id=E", "/as-of?id=E&version=1"] {
        let text = text(&console, path);
        assert!(
            text.contains("Unknown") && text.contains("Time (client)"),
            "{path}: {text}"
        );
    }
    let json = console.json("/as-of?id=E&at=2020-06-01");
    assert_eq!(json["Version"], Value::Null, "{json}");
    assert!(
        json["Why"]
            .as_str()
            .unwrap()
            .starts_with("Cannot determine the version: "),
        "{json}"
    );
    assert_eq!(console.json("/as-of?id=E&effective=2020-06-01")["Version"], 2);
}
