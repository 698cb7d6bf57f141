//! HTML and JSON forms of each page, invalid requests, and forms: they need permission, and each is executed once.

use serde_json::json;
use testkit::{
    database::at_second,
    script_tests,
    table::{self, Table},
};

use crate::{http, new_table, served::Console};

script_tests! {
    crate::Subject;
    fn each_page_has_a_json_form();
    fn an_entity_without_a_latest_item_shows_its_history_and_no_way_to_change_it();
    fn invalid_requests_are_rejected();
    fn the_highest_version_numbers_are_shown();
}

/// Creates an entity with three versions, and a deleted entity.
fn table() -> Table {
    let table = new_table();
    for n in 1..=3 {
        table.write(json!({"ID": "E", "N": n.to_string(), "Time": format!("2020-01-0{n}")}));
    }
    table.write(json!({"ID": "D", "State": "OK"}));
    table.write(json!({"ID": "D", "Deleted": true}));
    table
}

#[test]
fn a_read_only_console_changes_nothing() {
    let table = table();
    table.delete("E", "v2");
    let (writing, reading) = (Console::writing(&table), Console::of(&table));
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
        let (action, mut fields) = writing.form(path);
        fields.retain(|(name, _)| name != "csrf");
        fields.push(("csrf".to_owned(), csrf.clone()));
        for (console, why) in [(&reading, "--write"), (&writing, "belongs to another console")] {
            let answer = console.post(&action, &fields);
            assert!(answer.status == 403 && answer.body.contains(why), "{path}: {answer:?}");
        }
    }
    assert_eq!(table.items(), before);
}

#[test]
fn a_form_that_is_sent_twice_is_executed_once() {
    let table = table();
    let console = Console::writing(&table);
    for (path, version, before, late_outcome) in [
        (
            "/restore?id=E&version=1",
            "/version?id=E&version=4",
            "/version?id=E&version=3",
            None,
        ),
        // An entity that is no longer deleted is not changed.
        (
            "/undelete?id=D",
            "/version?id=D&version=3",
            "/version?id=D&version=2",
            Some("Unchanged"),
        ),
    ] {
        let ((action, fields), (_, late)) = (console.form(path), console.form(path));
        for (fields, outcome) in [
            (&fields, Some("Written")),
            (&fields, Some("Duplicate")),
            (&late, late_outcome),
        ] {
            let answer = console.post(&action, fields);
            let to = outcome.map(|outcome| format!("{version}&done={outcome}"));
            let status = if to.is_some() { 303 } else { 409 };
            assert_eq!(
                (answer.status, answer.header("location")),
                (status, to.as_deref()),
                "{path}"
            );
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
    // Programs submit the form of a page with the token.
    let (action, fields) = console.form("/restore?id=E&version=2");
    console.requests(&format!(
        "POST {action} | Authorization: Bearer {{token}} | Accept: application/json | form: {} => 200 | \
         ~ {{\"ID\":\"E\",\"Version\":5,\"Outcome\":\"Written\"}}",
        http::form(&fields)
    ));
}

/// Of more entities than a page has, each is on one page, and the order continues.
#[test]
fn each_entity_is_on_one_page() {
    let table = new_table();
    let many = (0..70).map(|number| (format!("Many#{number}"), 1000 + number));
    let others = [("Order#1", 30), ("Order#2", 50), ("Reorder#3", 40), ("Other", 60)];
    for (id, second) in others
        .map(|(id, second)| (id.to_owned(), second))
        .into_iter()
        .chain(many)
    {
        let store = at_second(&table.store, second);
        table.runtime.block_on(table::write(&store, json!({"ID": id, "N": 1})));
    }
    let console = Console::of(&table);
    let (mut seen, mut path) = (Vec::new(), "/?find=Many".to_owned());
    loop {
        let entities = console.json(&path)["Entities"].clone();
        seen.extend(entities.as_array().unwrap().iter().map(|entity| entity["ID"].clone()));
        match console.page(&path).link_to("next") {
            Some(next) => next.clone_into(&mut path),
            None => break,
        }
    }
    let expected: Vec<_> = (0..70).rev().map(|number| json!(format!("Many#{number}"))).collect();
    assert_eq!(seen, expected);
}
