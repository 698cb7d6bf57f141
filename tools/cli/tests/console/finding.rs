//! Finding entities, versions and changes: search, order, filters, and what is read for it.

use serde_json::{Value, json};
use testkit::{
    database::{at_second, mode, update, write},
    table::Table,
};

use crate::{http::encoded, new_table, served::Console};

/// Writes updates of an entity, one each second from the given one.
fn put(table: &Table, id: &str, second: u64, updates: &[Value]) {
    for (at, changes) in (second..).zip(updates) {
        let mut json = changes.clone();
        json["ID"] = json!(id);
        json["RequestId"] = json!(format!("{id} at {at}"));
        let (store, update) = (at_second(&table.store, at), update(json));
        let written = write(&store, &update, mode(shared::config::WriteMode::Inline));
        table.runtime.block_on(written).unwrap();
    }
}

fn order() -> Table {
    let table = new_table();
    put(
        &table,
        "Order#1",
        100,
        &[
            json!({"Status": "placed", "Total": 10, "Actor": "shop", "Time": "2020-01-05"}),
            json!({"Status": "paid", "Actor": "Alice", "Reason": "card", "Time": "2020-01-04"}),
            json!({"Status": "paid", "Total": 8, "Actor": "bob", "Time": "2020-01-03"}),
        ],
    );
    table
}

/// Returns a member of each row.
fn column(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().unwrap().iter().map(|row| row[name].clone()).collect()
}

fn numbers(json: &Value) -> Vec<Value> {
    column(&json["Versions"], "Version")
}

#[test]
fn each_version_shows_what_it_changed() {
    let table = order();
    let console = Console::of(&table);
    let changes = ["Total: 10 → 8", "Status: placed → paid", "+Status: placed, +Total: 10"];
    assert_eq!(
        column(&console.json("/entity?id=Order%231")["Versions"], "Changes"),
        changes
    );
    // The text of `vzero history --changes`. The page of the oldest versions reads one more, and does not show it.
    console.check(
        r#"
        /entity?id=Order%231 => ~ Status: placed → paid => ~ card
        /entity?id=Order%231&to=2 => /Versions/0/Changes "Status: placed → paid" => /Versions/2 null
        "#,
    );
    table.delete("Order#1", "v1");
    console.check(
        r#"
        /entity?id=Order%231 => /Versions/1/Changes null => /Versions/2/State "missing" => ~ version 1 is missing
        "#,
    );
}

#[test]
fn versions_are_filtered() {
    let table = order();
    let console = Console::of(&table);
    for (filter, expected) in [
        ("actor=ALI", &[2][..]),
        ("actor=carol", &[]),
        ("attribute=Status", &[2, 1]),
        ("attribute=status", &[]),
        ("attribute=Total&actor=bob", &[3]),
        ("since=1970-01-01T00:01:41", &[3, 2]),
        ("until=1970-01-01T00:01:41Z", &[2, 1]),
        ("since=1970-01-01T00:01:41&until=1970-01-01T00:01:41", &[2]),
        ("since=1970-01-01T00:02", &[]),
    ] {
        let path = format!("/entity?id=Order%231&{filter}");
        assert_eq!(numbers(&console.json(&path)), expected, "{filter}");
        let text = console.page(&path).text;
        assert!(
            text.contains(&format!("{} version", expected.len())),
            "{filter}: {text}"
        );
    }
    assert_eq!(console.get("/entity?id=Order%231&since=x").status, 400);
    // In the browser, JSON is a parameter.
    let answer = console.get("/entity?id=Order%231&actor=bob&format=json");
    assert_eq!(numbers(&answer.json()), [3]);
}

#[test]
fn a_filter_reads_more_pages() {
    let table = new_table();
    let updates: Vec<_> = (0..120)
        .map(|n| json!({"N": n, "Actor": if n == 3 { "alice" } else { "bob" }}))
        .collect();
    put(&table, "E", 1000, &updates);
    let console = Console::of(&table);
    let json = console.json("/entity?id=E&actor=alice");
    assert_eq!((numbers(&json), &json["From"]), (vec![json!(4)], &json!(1)));
    // The page has enough versions before it reaches the first one, and the next page continues.
    let json = console.json("/entity?id=E&actor=bob");
    assert_eq!((numbers(&json).len(), &json["From"]), (50, &json!(71)));
    let page = console.page("/entity?id=E&actor=bob");
    assert_eq!(page.link_to("prev"), Some("/entity?id=E&to=70&actor=bob"));
    // It stops at the first time.
    let json = console.json("/entity?id=E&since=1970-01-01T00:18:00");
    assert_eq!((numbers(&json).len(), &json["From"]), (40, &json!(71)));
}

#[test]
fn entities_are_found_by_part_of_the_key_and_the_last_change_comes_first() {
    let table = new_table();
    for (id, second) in [("Order#1", 30), ("Order#2", 50), ("Reorder#3", 40), ("Other", 60)] {
        put(&table, id, second, &[json!({"N": 1})]);
    }
    let console = Console::of(&table);
    let ids = |path: &str| column(&console.json(path)["Entities"], "ID");
    assert_eq!(ids("/"), ["Other", "Order#2", "Reorder#3", "Order#1"]);
    assert_eq!(ids("/?find=rder%23"), ["Order#2", "Reorder#3", "Order#1"]);
    assert!(console.page("/").text.contains("the whole table"));
    // Of more entities than a page has, each is on one page, and the order continues.
    for number in 0..70 {
        put(&table, &format!("Many#{number}"), 1000 + number, &[json!({"N": 1})]);
    }
    let (mut seen, mut path) = (Vec::new(), "/?find=Many".to_owned());
    loop {
        seen.extend(ids(&path));
        let page = console.page(&path);
        match page.link_to("next") {
            Some(next) => next.clone_into(&mut path),
            None => break,
        }
    }
    let expected: Vec<_> = (0..70).rev().map(|number| format!("Many#{number}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn versions_are_found_by_request_id() {
    let table = order();
    let console = Console::of(&table);
    for (request, expected) in [
        ("Order#1 at 100", json!([{"ID": "Order#1", "Version": 1}])),
        ("Order#1 at 102", json!([{"ID": "Order#1", "Version": 3}])),
        ("Order#1", json!([])),
    ] {
        let path = format!("/?by=request&find={}", encoded(request));
        assert_eq!(console.json(&path)["Entities"], expected, "{request}");
        let has_link = console
            .page(&path)
            .links()
            .iter()
            .any(|link| link.starts_with("/version?id=Order%231&version="));
        assert_eq!(has_link, expected != json!([]), "{request}");
    }
    assert_eq!(console.get("/?by=x").status, 400);
}
