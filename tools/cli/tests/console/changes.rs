//! The versions of a whole table: counts, filters and pages, and the undo of what a filter selects.

use std::time::Instant;

use serde_json::{Value, json};
use shared::domain::time_index::ALWAYS;
use testkit::{
    database::{add_time_index, at_second},
    endpoint::is_skipped,
    table::{self, Table},
};

use crate::{http::encoded, new_table, served::Console, tables::orders};

/// Sends the form of a page with more fields, and waits until the work that it starts has ended.
pub(crate) fn run(console: &Console, path: &str, more: &[(&str, &str)]) -> (String, Value) {
    let (action, mut fields) = console.form(path);
    fields.extend(
        more.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let answer = console.post(&action, &fields);
    let location = answer.header("location");
    let location = location.unwrap_or_else(|| panic!("{path}: {answer:?}")).to_owned();
    let started = Instant::now();
    loop {
        let json = console.json(&location);
        if json["State"] != "Running" {
            return (location, json);
        }
        assert!(started.elapsed().as_secs() < 60, "{path}: {json}");
    }
}

fn write_all(table: &Table, updates: &[(u64, Value)]) {
    for (second, update) in updates {
        let store = at_second(&table.store, *second);
        table.runtime.block_on(table::write(&store, update.clone()));
    }
}

#[test]
fn versions_are_counted_and_a_narrower_filter_needs_no_scan() {
    let table = new_table();
    let job = json!({"ID": "Pump#2", "State": "OK", "Actor": "job", "Reason": "nightly", "ChangeSet": "c"});
    let last = json!({"ID": "Pump#1", "State": "BAD", "M": {"a": 1}, "Actor": "job", "ChangeSet": "c"});
    let first = json!({"ID": "Pump#1", "State": "OK", "Actor": "amy"});
    write_all(&table, &[(10, first), (20, job), (5000, last)]);
    let lamp = (0..60).map(|n| (6000 + n, json!({"ID": "Lamp/1", "N": n})));
    write_all(&table, &lamp.collect::<Vec<_>>());
    let console = Console::of(&table);
    let before = console.json("/changes");
    assert!(
        before["Estimate"]["Items"].is_number() && before["State"].is_null(),
        "{before}"
    );
    let (path, json) = run(&console, "/changes", &[]);
    let counts = &json["Counts"];
    assert_eq!((path.as_str(), &counts["Versions"]), ("/changes", &json!(63)), "{json}");
    for (group, expected) in [
        ("Actor", json!([[null, 60], ["job", 2], ["amy", 1]])),
        ("Reason", json!([[null, 62], ["nightly", 1]])),
        ("ChangeSet", json!([[null, 61], ["c", 2]])),
        ("EntityPrefix", json!([["Lamp", 60], ["Pump", 3]])),
        ("Path", json!([["N", 60], ["State", 3], ["M", 1]])),
    ] {
        let names = counts[group].as_array().unwrap().iter();
        let names: Value = names.map(|one| json!([one["Name"], one["Versions"]])).collect();
        assert_eq!(names, expected, "{group}");
    }
    let versions = |path: &str| -> Vec<_> {
        let list = console.json(path)["List"].clone();
        let line = |line: &Value| format!("{} {}", line["ID"].as_str().unwrap(), line["Version"]);
        list.as_array().unwrap().iter().map(line).collect()
    };
    let (newest, first) = (versions("/changes"), console.page("/changes"));
    assert_eq!((newest.len(), newest[0].as_str()), (50, "Lamp/1 60"));
    assert!(first.find("svg", "class", "timeline").is_some());
    let second = first.link_to("next").unwrap();
    assert_eq!(versions(second)[10..], ["Pump#1 2", "Pump#2 1", "Pump#1 1"]);
    for (text, is_last) in [("Complete until", true), ("State: OK → BAD", true), ("+N: 0", true)] {
        let is_on = [&first, &console.page(second)].map(|page| page.text.contains(text));
        assert_eq!(is_on, [false, is_last], "{text}");
    }
    assert!(
        json["CompleteUntil"].is_string() && json["RestsOn"]["NotKnown"].is_array(),
        "{json}"
    );
    // Each bar and each name leads to its versions, without another scan.
    let bars = counts["TimeLine"].as_array().unwrap();
    assert!(bars.len() > 2 && bars.len() <= 60, "{bars:?}");
    for bar in bars {
        let text = |name: &str| encoded(bar[name].as_str().unwrap());
        let within = console.json(&format!("/changes?since={}&until={}", text("Since"), text("Until")));
        assert_eq!(within["Counts"]["Versions"], bar["Versions"]);
    }
    for (filter, expected) in [
        ("actor=job", Some(2)),
        ("reason=nightly", Some(1)),
        ("change_set=c&prefix=Pump%231", Some(1)),
        ("prefix=Lamp", Some(60)),
        ("path=State", Some(3)),
        ("since=1970-01-01T01:00:00Z&until=1970-01-01T01:30:00Z", Some(1)),
        ("actor=none", Some(0)),
        // The result does not have the changes within attributes.
        ("path=M.a", None),
    ] {
        let found = console.json(&format!("/changes?{filter}"));
        assert_eq!(found["Counts"]["Versions"].as_u64(), expected, "{filter}");
    }
    assert_eq!(run(&console, "/changes?path=M.a", &[]).1["Counts"]["Versions"], 1);
    // The last result is too narrow now.
    assert_eq!(console.json("/changes")["State"], Value::Null);
    assert_eq!(console.get("/changes?since=x").status, 400);
}

#[test]
fn a_period_is_read_by_the_index_as_by_a_scan() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    let mut table = new_table();
    table.block_on(add_time_index(&table.client, table.store.history_table()));
    table.block_on(table.store.claim_layout()).unwrap();
    table.store = table.store.clone().with_time_index(None);
    let store_since = |since| table.block_on(table.store.store_time_index_since(since)).unwrap();
    store_since(Some(ALWAYS));
    let rows = [
        (1200, "A", "job"),
        (1900, "A", "job"),
        (2000, "A", "amy"),
        (2100, "B", "job"),
        (2200, "C", "job"),
    ];
    write_all(
        &table,
        &rows.map(|(second, id, actor)| (second, json!({"ID": id, actor: second, "Actor": actor}))),
    );
    let period = "since=1970-01-01T00:30:00Z&until=1970-01-01T00:36:00Z&actor=job";
    let [index, scan] = [
        (Some(ALWAYS), "index", "The index TimeIndex has"),
        (None, "scan", "is not used: stream-fn has not stored"),
    ]
    .map(|(since, source, why)| {
        store_since(since);
        let console = Console::of(&table);
        [format!("/changes?{period}"), format!("/changes/undo?{period}")].map(|path| {
            assert_eq!(console.json(&path)["Estimate"]["Source"], source, "{path}");
            assert!(console.page(&path).text.contains(why), "{path}");
            let mut list = run(&console, &path, &[]).1["List"].as_array().unwrap().clone();
            list.sort_by_key(Value::to_string);
            list
        })
    });
    assert_eq!((index[0].len(), &index), (2, &scan));
}

/// Creates a table in which a job changed `A`, `B` and `D`, created `C`, and others changed `A` and `B` afterwards.
fn changed_by_job() -> Table {
    let table = new_table();
    let mut updates = vec![(10, json!({"ID": "A", "s": 1, "n": 1}))];
    updates.extend(["B", "D"].map(|id| (10, json!({"ID": id, "s": 1}))));
    updates.extend(["A", "B", "C", "D"].map(|id| (20, json!({"ID": id, "s": 2, "Actor": "job"}))));
    updates.extend([(30, json!({"ID": "A", "n": 5})), (30, json!({"ID": "B", "s": 3}))]);
    write_all(&table, &updates);
    table
}

#[test]
fn a_plan_names_its_command_and_is_limited() {
    let table = changed_by_job();
    let (reading, console) = (Console::of(&table), Console::writing(&table));
    let (shown, plan) = run(&reading, "/changes/undo?actor=job", &[]);
    let text = reading.page(&shown).text;
    // The command of the plan plans the same.
    let command = plan["Command"].as_str().unwrap();
    let (words, _) = command["vzero ".len()..].split_once(" --table ").unwrap();
    let printed = table.run(&format!("{words} --dry-run --output json"));
    let sum = printed.lines.last().unwrap();
    assert!(
        text.contains(command) && sum["Entities"] == 3 && sum["ChangeSet"] == plan["ChangeSet"],
        "{text}"
    );
    // Limits, and selected versions.
    let picks = "pick0=[%22A%22,2]&pick7=[%22D%22,2]&pick8=[%22A%22,2]";
    for (path, field, expected) in [
        ("actor=job", ("limit", "1"), " in 1 of "),
        ("actor=job", ("max_wcu", "1"), "4 versions in 3 of 4 items"),
        (picks, ("", ""), "2 versions in 2 of 2 items"),
    ] {
        let (shown, _) = run(&reading, &format!("/changes/undo?{path}"), &[field]);
        let text = reading.page(&shown).text;
        assert!(text.contains(expected), "{path} {field:?}: {text}");
        assert_eq!(text.contains("in at least"), field.0 == "max_wcu", "{text}");
    }
    let (action, mut fields) = console.form("/changes/undo?actor=job");
    fields.push(("max_wcu".to_owned(), "0".to_owned()));
    assert_eq!(console.post(&action, &fields).status, 400);
    // A plan that fails says why.
    let delete = table.client.delete_table().table_name(&table.name);
    table.block_on(delete.send()).unwrap();
    let text = console.page(&run(&console, "/changes/undo?id=B&version=2", &[]).0).text;
    assert!(text.contains("Failed: ") && !text.contains("Nothing changes"), "{text}");
}

#[test]
fn a_plan_is_applied_as_it_was_shown_and_can_be_taken_back() {
    let table = changed_by_job();
    let (reading, console) = (Console::of(&table), Console::writing(&table));
    for (filter, status) in [
        ("", 400),
        ("prefix=A", 400),
        ("actor=job&path=s", 400),
        ("plan=x", 404),
        ("id=A", 400),
        ("pick0=[\"A\"]", 400),
        ("pick0=[\"A\",0]", 400),
    ] {
        let answer = console.get(&format!("/changes/undo?{filter}"));
        assert_eq!(answer.status, status, "{filter}");
    }
    let (shown, plan) = run(&reading, "/changes/undo?actor=job", &[]);
    assert_eq!((&plan["Form"], &plan["Entities"]), (&Value::Null, &json!(3)), "{plan}");
    let text = reading.page(&shown).text;
    assert!(!text.contains("Apply") && text.contains("--write"), "{text}");
    let fields = [("conflicts", "leave"), ("as_actor", "zoe")];
    let (shown, plan) = run(&console, "/changes/undo?actor=job", &fields);
    assert_eq!(
        (&plan["Counts"]["Versions"], &plan["Conflicts"]),
        (&json!(4), &json!(1)),
        "{plan}"
    );
    let list = plan["List"].as_array().unwrap();
    let of = |id: &str| list.iter().find(|one| one["ID"] == id).unwrap();
    assert_eq!(of("B")["Conflicts"], json!([{"Path": "s", "From": 3, "To": 1}]));
    assert_eq!(
        of("A")["Changes"],
        json!([{"Path": "s", "Kind": "changed", "From": 2, "To": 1}])
    );
    assert_eq!(of("C")["Action"], "delete");
    assert!(console.page(&shown).text.contains("its triggers fire"));
    // Another client writes after the preview.
    write_all(&table, &[(40, json!({"ID": "D", "n": 7}))]);
    let apply = console.form(&shown);
    let (applied, result) = run(&console, &shown, &[]);
    let outcomes = json!({"Applied": 2, "Unchanged": 0, "ChangedMeanwhile": 1, "Conflict": 1});
    assert_eq!((&applied, &result["Outcomes"]), (&shown, &outcomes), "{result}");
    let latest = |id: &str| console.json(&format!("/entity?id={id}"))["Latest"].clone();
    let are = |states: [u64; 3], is_deleted: bool| {
        let found = ["A", "B", "D"].map(|id| latest(id)["Attributes"]["s"].as_u64().unwrap());
        assert_eq!((found, &latest("C")["Deleted"]), (states, &json!(is_deleted)));
    };
    are([1, 3, 2], true);
    let (author, reason) = (latest("A")["Actor"].clone(), latest("A")["Reason"].clone());
    assert_eq!((author, reason), (json!("zoe"), json!("undo of actor job")));
    // A plan is applied once.
    let items = table.items();
    assert_eq!(console.post(&apply.0, &apply.1).status, 303);
    assert_eq!((&console.json(&shown)["Outcomes"], table.items()), (&outcomes, items));
    let set = format!(
        "/changes/undo?change_set={}",
        encoded(result["ChangeSet"].as_str().unwrap())
    );
    let links = console.page(&shown).links().join(" ").replace('-', "%2D");
    assert!(links.contains(&set), "{links}");
    let (again, plan) = run(&console, &set, &[]);
    assert_eq!((&plan["Entities"], console.get(&shown).status), (&json!(2), 404));
    run(&console, &again, &[]);
    are([2, 3, 2], false);
    // One version, whose conflict is overwritten.
    let (one, plan) = run(&console, "/changes/undo?id=B&version=2", &[("conflicts", "overwrite")]);
    assert_eq!((&plan["Entities"], &plan["Conflicts"]), (&json!(1), &json!(1)));
    run(&console, &one, &[]);
    are([2, 1, 2], false);
}

#[test]
fn items_of_an_attached_table_are_changed_back() {
    let (orders, store) = orders();
    let console = Console::serving(&orders, &store, true);
    let (_, found) = run(&console, "/changes?actor=b", &[]);
    assert_eq!(found["Counts"]["Versions"], 1, "{found}");
    let undo = "/changes/undo?actor=b&since=2000-01-01";
    assert_eq!(run(&console, undo, &[]).1["Counts"]["Unattributed"], 1);
    let options = ["with_unattributed_deletions", "actor_changed_only"];
    let page = console.page(undo);
    assert!(options.iter().all(|name| page.find("input", "name", name).is_some()));
    let fields = [(options[0], "1"), (options[1], "1"), ("as_actor", "zoe")];
    let (path, plan) = run(&console, undo, &fields);
    assert_eq!(
        (&plan["Entities"], &plan["ChangeSet"]),
        (&json!(2), &Value::Null),
        "{plan}"
    );
    let (_, result) = run(&console, &path, &[]);
    assert_eq!(result["Outcomes"]["Applied"], 2, "{result}");
    let [one, two] = [1, 2].map(|no| orders.item(no));
    assert_eq!(
        (&one["state"], &one["by"], &two["state"]),
        (&json!({"S": "a"}), &json!({"S": "zoe"}), &json!({"S": "x"}))
    );
    // The items have no attribute for a reason.
    let (action, mut fields) = console.form(undo);
    fields.push(("as_reason".to_owned(), "why".to_owned()));
    assert_eq!(console.post(&action, &fields).status, 400);
}
