//! HTML and JSON forms of each page, invalid requests, and forms: they need permission, and each is executed once.

use serde_json::json;
use testkit::table::Table;

use crate::{http, new_table, served::Console};

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
            let accept = "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8";
            let answer = console.plain("GET", path, &[("Cookie", &console.cookie), ("Accept", accept)]);
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
    let invalid = "\
        /entity /entity?id= /entity?id=E&to=0 /entity?id=E&to=x /entity?id=E&scale=x /version /version?id=E&version=0 \
        /version?id=E&version=-1 /version?id=E&version=1.5 /version?id=E&version=9223372036854775808 /compare?id=E&from=x \
        /as-of?id=E&at=junk /as-of?id=E&at=2020-01-01T00:00[Europe/Paris] /as-of?id=E&effective=junk \
        /as-of?id=E&effective=2020-01-01T00:00[Europe/Paris] /as-of?id=E&at=2020-01-01&effective=2020-01-01 \
        /as-of?id=E&version=x /?state=x /?page=x /restore?id=E";
    let missing = "\
        /none /entity/ /entity?id=None /entity?id=%ff /version?id=E&version=4 /version?id=E&version=9223372036854775807 \
        /compare?id=E&from=1&to=9 /as-of?id=None /restore?id=E&version=9 /restore?id=None&version=1 /undelete?id=None";
    let invalid = invalid.split(' ').chain([long.as_str()]).map(|path| (path, 400));
    let missing = missing.split(' ').map(|path| (path, 404));
    for (path, status) in invalid.chain(missing).chain([("/undelete?id=E", 409)]) {
        let answer = console.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.starts_with("<!DOCTYPE html>"), "{path}: {answer:?}");
        let answer = console.ask(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["Error"].is_string(), "{path}: {answer:?}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        let bearer = format!("Bearer {}", console.token);
        for path in ["/entity?id=E", "/restore", "/none"] {
            let answer = console.plain(method, path, &[("Authorization", &bearer)]);
            assert!([404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
}

/// Returns the action of the form of a page, and its fields as the body of a request.
fn form(console: &Console, path: &str) -> (String, String) {
    let form = console.json(path)["Form"].clone();
    let fields = form.as_object().unwrap_or_else(|| panic!("{path} has no form")).iter();
    let fields = fields.filter(|(name, _)| *name != "Action");
    let fields: Vec<_> = fields
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    (form["Action"].as_str().unwrap().to_owned(), http::form(&fields))
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
        // The CSRF token of another console is not accepted, and the token of a read-only console does not suffice.
        let (action, fields) = form(&writing, path);
        let fields: Vec<_> = fields.split('&').filter(|field| !field.starts_with("csrf=")).collect();
        let fields = format!("{}&{}", fields.join("&"), http::form(&[("csrf", &csrf)]));
        for (console, why) in [(&reading, "--allow-write"), (&writing, "belongs to another console")] {
            let answer = console.post_text(&action, &fields);
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
            assert!(answer.body.contains(why), "{path}: {answer:?}");
        }
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
        let (action, fields) = form(&console, path);
        let (_, late) = form(&console, path);
        let send = |fields: &str, expected: Option<&str>| {
            let answer = console.post_text(&action, fields);
            let to = expected.map(|outcome| format!("{version}&done={outcome}"));
            assert_eq!(
                (answer.status, answer.header("location")),
                (if to.is_some() { 303 } else { 409 }, to.as_deref())
            );
        };
        send(&fields, Some("Written"));
        assert_eq!(console.get(version).status, 200);
        send(&fields, Some("Duplicate"));
        // A form of the earlier state: an entity that is no longer deleted is not changed.
        send(&late, path.starts_with("/undelete").then_some("Unchanged"));
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
    let (action, fields) = form(&console, "/restore?id=E&version=2");
    let bearer = format!("Bearer {}", console.token);
    let headers = [
        ("Host", console.address.as_str()),
        ("Authorization", &bearer),
        ("Accept", "application/json"),
    ];
    let answer = console.raw("POST", &action, &headers, &fields);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), json!({"ID": "E", "Version": 4, "Outcome": "Written"}));
}
