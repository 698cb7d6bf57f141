//! HTML and JSON forms of each page, invalid requests, and forms: they need permission, and each is executed once.

use serde_json::{Value, json};
use testkit::table::Table;

use crate::{http::Answer, new_table, served::Console};

/// Creates an entity with three versions, and a deleted entity.
fn table() -> Table {
    let table = new_table();
    for n in 1..=3 {
        let change = format!("N={n}");
        table.json(&format!("put --mode inline E --set {change} --time 2020-01-0{n}"), 0);
    }
    table.json("put --mode inline D --set State=OK", 0);
    table.json("delete --mode inline D", 0);
    table
}

fn console(table: &Table, arguments: &str) -> Console {
    Console::with(table, &format!("--lag 0 {arguments}"))
}

/// Each page, with a pointer into its JSON form.
const PAGES: [(&str, &str); 11] = [
    ("/", "/Entities/0/ID"),
    ("/?find=E&state=live", "/Exact"),
    ("/entity?id=E", "/Versions/2/Version"),
    ("/version?id=E&version=2", "/Attributes/N"),
    ("/compare?id=E&from=1&to=3", "/Changed/0/Path"),
    ("/as-of?id=E&at=2999-01-02T12:00:00", "/RecordedAt"),
    ("/as-of?id=E&effective=2020-01-02T12:00:00", "/Version"),
    ("/as-of?id=E&version=1", "/Version"),
    ("/restore?id=E&version=1", "/Changed/0/To"),
    ("/undelete?id=D", "/Deleted/From"),
    ("/health", "/csrf"),
];

#[test]
fn each_page_has_a_json_form() {
    let table = table();
    for arguments in ["", "--allow-write"] {
        let console = console(&table, arguments);
        for (path, pointer) in PAGES {
            let json = console.json(path);
            assert!(
                json.pointer(pointer).is_some_and(|found| !found.is_null()),
                "{path}: {json}"
            );
            let answer = console.get(path);
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some("text/html; charset=utf-8")),
                "{path}"
            );
            // Browsers accept HTML and JSON, and get HTML.
            let host = ("Host", console.address.as_str());
            let accept = (
                "Accept",
                "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8",
            );
            let answer = console.raw("GET", path, &[host, ("Cookie", &console.cookie), accept], "");
            assert!(answer.body.starts_with("<!DOCTYPE html>"), "{path}");
        }
    }
}

#[test]
fn an_entity_without_a_latest_item_shows_its_history_and_no_way_to_change_it() {
    let table = table();
    let console = console(&table, "--allow-write");
    let is_listed = || console.json("/")["Entities"].to_string().contains("\"D\"");
    let page = || console.get("/entity?id=D").body;
    assert!(is_listed() && page().contains("Undelete"));
    table.delete("D", "v0");
    assert!(!is_listed() && !page().contains("Undelete"));
    assert_eq!(console.json("/entity?id=D")["Versions"][1]["Version"], 1);
    assert_eq!(console.json("/version?id=D&version=1")["Attributes"]["State"], "OK");
    assert_eq!(console.get("/undelete?id=D").status, 404);
}

#[test]
fn invalid_requests_are_rejected() {
    let table = table();
    let console = console(&table, "--allow-write");
    let long = format!("/entity?id={}", "k".repeat(2049));
    for (path, status) in [
        ("/none", 404),
        ("/entity/", 404),
        ("/entity", 400),
        ("/entity?id=", 400),
        (long.as_str(), 400),
        ("/entity?id=None", 404),
        ("/entity?id=E&to=0", 400),
        ("/entity?id=E&to=x", 400),
        ("/entity?id=E&scale=x", 400),
        ("/entity?id=%ff", 404),
        ("/version", 400),
        ("/version?id=E&version=0", 400),
        ("/version?id=E&version=-1", 400),
        ("/version?id=E&version=1.5", 400),
        ("/version?id=E&version=9223372036854775808", 400),
        ("/version?id=E&version=4", 404),
        ("/version?id=E&version=9223372036854775807", 404),
        ("/compare?id=E&from=x", 400),
        ("/compare?id=E&from=1&to=9", 404),
        ("/as-of?id=E&at=junk", 400),
        ("/as-of?id=E&at=2020-01-01T00:00[Europe/Paris]", 400),
        ("/as-of?id=E&effective=junk", 400),
        ("/as-of?id=E&effective=2020-01-01T00:00[Europe/Paris]", 400),
        ("/as-of?id=E&at=2020-01-01&effective=2020-01-01", 400),
        ("/as-of?id=E&version=x", 400),
        ("/as-of?id=None", 404),
        ("/?state=x", 400),
        ("/?page=x", 400),
        ("/restore?id=E", 400),
        ("/restore?id=E&version=9", 404),
        ("/restore?id=None&version=1", 404),
        ("/undelete?id=E", 409),
        ("/undelete?id=None", 404),
    ] {
        let answer = console.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.starts_with("<!DOCTYPE html>"), "{path}: {answer:?}");
        let answer = console.ask(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["Error"].is_string(), "{path}: {answer:?}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        let bearer = format!("Bearer {}", console.token);
        let headers = [("Host", console.address.as_str()), ("Authorization", &bearer)];
        for path in ["/entity?id=E", "/restore", "/none"] {
            let answer = console.raw(method, path, &headers, "");
            assert!([404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
}

fn fields(console: &Console, path: &str) -> (String, Vec<(String, String)>) {
    let Value::Object(mut form) = console.json(path)["Form"].take() else {
        panic!("{path} has no form");
    };
    let action = form.remove("Action").unwrap().as_str().unwrap().to_owned();
    let field = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
    (action, form.into_iter().filter_map(field).collect())
}

fn send(console: &Console, (action, fields): &(String, Vec<(String, String)>)) -> Answer {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    console.post(action, &fields)
}

#[test]
fn a_read_only_console_changes_nothing() {
    let table = table();
    table.delete("E", "v2");
    let writing = console(&table, "--allow-write");
    let reading = console(&table, "");
    let csrf = reading.json("/health")["csrf"].as_str().unwrap().to_owned();
    let before = table.items();
    for path in ["/restore?id=E&version=1", "/undelete?id=D"] {
        assert!(reading.json(path).get("Form").is_none(), "{path}");
        assert_eq!(
            reading.page(path).named("form").len(),
            1,
            "{path}: only the search form"
        );
        let (action, mut form) = fields(&writing, path);
        form.retain(|(name, _)| name != "csrf");
        form.push(("csrf".to_owned(), csrf.clone()));
        let answer = send(&reading, &(action.clone(), form.clone()));
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        assert!(answer.body.contains("--allow-write"), "{path}: {answer:?}");
        // The CSRF token of another console is not accepted.
        let answer = send(&writing, &(action, form));
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.body.contains("belongs to another console"), "{path}: {answer:?}");
    }
    assert_eq!(table.items(), before);
}

#[test]
fn a_form_that_is_sent_twice_is_executed_once() {
    let table = table();
    let console = console(&table, "--allow-write --mode inline");
    for (path, version, before) in [
        (
            "/restore?id=E&version=1",
            "/version?id=E&version=4",
            "/version?id=E&version=3",
        ),
        ("/undelete?id=D", "/version?id=D&version=3", "/version?id=D&version=2"),
    ] {
        let form = fields(&console, path);
        let late = fields(&console, path);
        let answer = send(&console, &form);
        let to = |outcome: &str| format!("{version}&done={outcome}");
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some(to("Written").as_str()))
        );
        assert_eq!(console.get(version).status, 200);
        let again = send(&console, &form);
        assert_eq!(
            (again.status, again.header("location")),
            (303, Some(to("Duplicate").as_str()))
        );
        // A form of the earlier state: an entity that is no longer deleted is not changed.
        let late = send(&console, &late);
        match path.starts_with("/undelete") {
            true => assert_eq!(
                (late.status, late.header("location")),
                (303, Some(to("Unchanged").as_str()))
            ),
            false => assert_eq!(late.status, 409, "{late:?}"),
        }
        let json = console.json(version);
        assert_eq!(json["Deleted"], false);
        assert_eq!(
            console.json(before)["Latest"],
            json["Version"],
            "one version was created"
        );
    }
    assert_eq!(table.items()["E v4"]["N"], json!({"S": "1"}));
}

#[test]
fn programs_submit_the_form_of_a_page() {
    let table = table();
    let console = console(&table, "--allow-write --mode inline");
    let (action, fields) = fields(&console, "/restore?id=E&version=2");
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let bearer = format!("Bearer {}", console.token);
    let headers = [
        ("Host", console.address.as_str()),
        ("Authorization", &bearer),
        ("Accept", "application/json"),
    ];
    let answer = console.raw("POST", &action, &headers, &crate::http::form(&fields));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), json!({"ID": "E", "Version": 4, "Outcome": "Written"}));
}
