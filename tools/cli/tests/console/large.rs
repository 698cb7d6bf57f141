//! Pages of long keys, large and deep items, and many versions.

use std::{collections::BTreeSet, io::Write as _, time::Instant};

use serde_json::{Value, json};
use testkit::{endpoint::Engine, table::Table};

use crate::{changes::run, html::Page, http::encoded, new_table, served::Console};

const MAX_BYTES: usize = 120_000;

fn item(id: &str, key: &str, attributes: Value) -> Value {
    let mut item = json!({"PK": {"S": id}, "SK": {"S": key}, "Time": {"S": "2020-11-01T20:04:00"}});
    item.as_object_mut()
        .unwrap()
        .extend(attributes.as_object().unwrap().clone());
    item
}

fn put(table: &Table, id: &str, attributes: &Value) {
    let mut latest = item(id, "v0", attributes.clone());
    latest["Latest"] = json!({"N": "1"});
    table.put(latest);
    table.put(item(id, "v1", attributes.clone()));
}

/// Returns a page that is not too large.
fn shown(console: &Console, path: &str) -> String {
    let answer = console.get(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert!(answer.body.len() < MAX_BYTES, "{path}: {}", answer.body.len());
    answer.body
}

#[test]
fn long_keys_are_distinguished_and_found() {
    let table = new_table();
    let console = Console::of(&table);
    for id in ["k".repeat(2048), "ü".repeat(1024), "😀".repeat(512), "#".repeat(2048)] {
        put(&table, &id, &json!({"A": {"S": "here"}}));
        let address = encoded(&id);
        for path in [
            "/entity?id=",
            "/version?version=1&id=",
            "/compare?from=1&to=1&id=",
            "/as-of?version=1&id=",
            "/?find=",
        ] {
            let path = format!("{path}{address}");
            shown(&console, &path);
            console.json(&path);
        }
        let page = console.page(&format!("/?find={address}"));
        let mut links = page.links().into_iter();
        let to = links.find(|link| link.starts_with("/entity?")).unwrap();
        assert_eq!(console.json(to)["ID"], json!(id));
    }
    for id in ["k".repeat(2049), "ü".repeat(1025)] {
        assert_eq!(console.get(&format!("/entity?id={}", encoded(&id))).status, 400);
    }
}

#[test]
fn large_items_are_truncated_in_lists_and_complete_on_their_page() {
    let table = new_table();
    let console = Console::of(&table);
    let deep = |open: &dyn Fn(Value) -> Value| (0..31).fold(json!({"S": "the bottom"}), |inner, _| open(inner));
    // DynamoDB Local responds with InternalFailure to names above 32,767 bytes; the limit is 65,535.
    let name_bytes = match table.endpoint.engine {
        Engine::DynamodbLocal => 30_000,
        _ => 60_000,
    };
    let many: serde_json::Map<_, _> = (0..10_000)
        .map(|n| (format!("A{n:04}"), json!({"N": n.to_string()})))
        .collect();
    let text = |text: &str, count: usize| json!({"A": {"S": format!("{}the end", text.repeat(count))}});
    let numbers: Vec<_> = (0..10_000).map(|n| json!({"N": n.to_string()})).collect();
    let members: Vec<_> = (0..8_000).map(|n| format!("member {n}")).collect();
    let binary = json!({"A": {"B": "AAAA".repeat(130_000)}, "B": {"S": "the end"}});
    let deep_map = json!({"A": deep(&|inner| json!({"M": {"m": inner}}))});
    let deep_list = json!({"A": deep(&|inner| json!({"L": [inner]}))});
    for (id, attributes, whole) in [
        ("text", text("x", 399_000), "the end"),
        ("marks", text("<", 399_000), "the end"),
        ("wide", text("ü", 199_000), "the end"),
        ("binary", binary, "the end"),
        ("deep map", deep_map, "the bottom"),
        ("deep list", deep_list, "the bottom"),
        ("many", Value::Object(many), "A9999"),
        ("list", json!({"A": {"L": numbers}}), "9999"),
        ("set", json!({"A": {"SS": members}}), "member 7999"),
        ("name", json!({"n".repeat(name_bytes): {"S": "the value"}}), "the value"),
    ] {
        put(&table, id, &attributes);
        let id = encoded(id);
        for path in ["/entity?", "/compare?from=1&to=1&", "/as-of?version=1&", "/?find=x&"] {
            shown(&console, &format!("{path}id={id}"));
        }
        // The page of the version and its JSON form are complete.
        let path = format!("/version?id={id}&version=1");
        assert!(console.page(&path).text.contains(whole), "{id}");
        assert!(console.json(&path).to_string().contains(whole), "{id}");
        let (path, plan) = run(&console, &format!("/changes/undo?id={id}&version=1"), &[]);
        assert_eq!(plan["List"][0]["Action"], "delete", "{id}");
        shown(&console, &path);
    }
    assert_eq!(run(&console, "/changes", &[]).1["List"].as_array().unwrap().len(), 10);
    shown(&console, "/changes");
}

#[test]
fn the_pages_of_a_thousand_versions_are_complete() {
    const VERSIONS: u64 = 1000;
    let table = new_table();
    let attributes = |version: u64| {
        json!({
            "N": {"N": version.to_string()}, "Text": {"S": "x".repeat(500)},
            "Time": {"S": format!("2020-11-01T20:{:02}:{:02}", version / 60, version % 60)},
            "Actor": {"S": format!("actor {version}")}, "Reason": {"S": "r".repeat(300)},
            "RequestId": {"S": format!("{version:036}")}, "Sender": {"S": "AIDAIENQZJOLO23YVJ4VO:amy"}, "RestoredFrom": {"N": "1"},
            "RecordedAt": {"S": format!("2026-11-22T06:{:02}:{:02}.123456003Z", version / 60, version % 60)},
        })
    };
    for version in 1..=VERSIONS {
        table.put(item("E", &format!("v{version}"), attributes(version)));
    }
    let mut latest = item("E", "v0", attributes(VERSIONS));
    latest["Latest"] = json!({"N": VERSIONS.to_string()});
    table.put(latest);
    let console = Console::of(&table);
    let (mut seen, mut next) = (BTreeSet::new(), Some("/entity?id=E".to_owned()));
    while let Some(path) = next {
        let page = Page::parse(&shown(&console, &path));
        for row in console.json(&path)["Versions"].as_array().unwrap() {
            let version = row["Version"].as_u64().unwrap();
            assert!(seen.insert(version), "{path}: {version} twice");
            assert_eq!(
                (&row["State"], &row["Actor"]),
                (&json!("live"), &json!(format!("actor {version}")))
            );
            let link = format!("/version?id=E&version={version}");
            assert!(page.links().contains(&link.as_str()), "{path}: {version}");
        }
        next = page.link_to("prev").map(str::to_owned);
    }
    assert_eq!(seen, (1..=VERSIONS).collect());
}

/// The pages of 10,000 versions, of which the newest have 400 KB and a list of 10,000 elements.
#[test]
fn pages_of_many_versions_and_long_lists_are_fast_and_small() {
    const VERSIONS: u64 = 10_000;
    let table = new_table();
    let list = |element: fn(u64) -> u64| {
        let elements = (0..VERSIONS).map(element);
        let elements = elements.map(|n| json!({"M": {"id": {"N": n.to_string()}, "t": {"S": format!("text {n:06}")}}}));
        json!({"List": {"L": elements.collect::<Vec<_>>()}, "Old": {"S": "x"}})
    };
    let small = (1..=VERSIONS - 3).map(|version| json!({"Old": {"S": "x"}, "N": {"N": version.to_string()}}));
    let large = [list(|n| n), list(|n| n + 1), list(|n| n * 7919 % VERSIONS)];
    let mut latest = large[2].clone();
    latest["Latest"] = json!({"N": VERSIONS.to_string()});
    for (number, attributes) in (1..).zip(small.chain(large)).chain([(0, latest)]) {
        table.put(item("E", &format!("v{number}"), attributes));
    }
    let console = Console::of(&table);
    for (path, expected) in [
        ("/entity?id=E", "versions 9951 to 10000 of 10000"),
        ("/compare?id=E&from=9998&to=9999", "9999 unchanged elements"),
        (
            "/compare?id=E&from=9999&to=10000",
            "more than necessary is shown as changed",
        ),
        (
            "/compare?id=E&from=10000&to=9999",
            "more than necessary is shown as changed",
        ),
        ("/blame?id=E", "to 400 of 20002"),
        ("/blame?id=E&version=9999", "to 400 of 20002"),
        ("/blame?id=E&version=9997", "2 values of this page: set in version"),
        ("/entity?id=E&path=List[3].id", "1 version selected"),
    ] {
        let start = Instant::now();
        let body = shown(&console, path);
        let _ = writeln!(std::io::stderr(), "{path}: {:?}, {} bytes", start.elapsed(), body.len());
        let text = Page::parse(&body).text;
        assert!(text.contains(expected), "{path}: {text}");
    }
}
