//! States of a table: `vzero admin state load`, `vzero admin state list`, and all items of an entity: `vzero admin items`.

use serde_json::json;
use testkit::{command::Run, table::Table};

use crate::{new_table, script::script_tests};

fn load(table: &Table, text: &str) -> Run {
    table.run_with_input("state load -", text)
}

script_tests! {
    fn a_file_of_states_is_loaded_and_a_month_is_listed_newest_first();
    fn a_prefix_that_no_time_has_is_rejected();
}

#[test]
fn a_list_of_states_can_be_loaded() {
    let table = new_table();
    let states = include_str!("../scripts/states.json");
    assert_eq!(load(&table, states).json(), json!({"Loaded": 10}));
    let before = table.items();
    let listing = table
        .run("state list Equipment#118 --prefix 2023-12 --newest-first")
        .stdout;
    let last = json!({"ID": "Equipment#118", "Time": "2023-12-15T08:30:00", "Attributes": {"State": "NORMAL"}});
    assert!(listing.ends_with(&format!("{last}\n")), "{listing}");
    assert_eq!(load(&table, &listing).json(), json!({"Loaded": 5}));
    assert_eq!((table.items() == before, before.len()), (true, 10));
}

#[test]
fn each_form_of_a_state_is_loaded() {
    let table = new_table();
    // An existing state is replaced, with all its attributes.
    table.json("state put E --time 2023-01-01T00:00:00 --set Old=1", 0);
    let text = r#"
{"ID": "E", "Time": "2023-01-01", "N": 1.50, "Tags": {"$strings": ["a"]}, "None": null}

{"PK": "E", "SK": "2023-01-01T01:00:00+01:00.", "Time": "x"}
"#;
    let run = load(&table, text);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    let run = load(&table, &text.replace("+01:00.", ".5+01:00"));
    assert_eq!(run.json(), json!({"Loaded": 2}), "{run:?}");
    let items = table.items_of("E");
    assert_eq!(items.len(), 2);
    let first = &items["2023-01-01T00:00:00"];
    assert_eq!(
        testkit::table::number(&first["N"]),
        testkit::table::number(&json!({"N": "1.5"}))
    );
    assert_eq!(first["Tags"], json!({"SS": ["a"]}));
    assert!(first.get("Old").is_none() && first.get("None").is_none() && first.get("Time").is_none());
    // With the keys of the item, other members are attributes.
    assert_eq!(items["2023-01-01T00:00:00.5"]["Time"], json!({"S": "x"}));
    assert_eq!(load(&table, "").json(), json!({"Loaded": 0}));
    assert_eq!(load(&table, "[]").json(), json!({"Loaded": 0}));
}

#[test]
fn an_invalid_file_is_rejected_with_its_line_and_nothing_is_stored() {
    let table = new_table();
    let valid = r#"{"ID": "E", "Time": "2023-01-01T00:00:00", "A": "secret"}"#;
    let large = format!(
        r#"{{"ID": "E", "Time": "2024-01-01", "A": "{}"}}"#,
        "x".repeat(400 * 1024)
    );
    let rows = include_str!("../scripts/invalid_states").lines();
    let rows = rows.map(|row| row.split_once(" => ").unwrap());
    let more = [
        (large.as_str(), "line 2: the item would be larger than 400 KB"),
        ("{\"ID\": \"E\"}\n\n{}", "line 2: Time is missing; 2 errors in total"),
    ];
    for (second, message) in rows.chain(more) {
        let run = load(&table, &format!("{valid}\n{second}"));
        assert!(
            run.stderr.starts_with(&format!("error: -: {message}")),
            "{second}: {run:?}"
        );
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (2, "", 1));
        assert!(!run.stderr.contains("secret"));
    }
    // An array can have several states on a line.
    let run = load(&table, &format!("[{valid},\n {valid}, {{}}]"));
    assert!(run.stderr.contains("line 2, column 61: ID is missing"), "{run:?}");
    let run = load(&table, &format!("[{valid}"));
    assert!(
        run.stderr.contains("line 1, column 59: the text ends too early"),
        "{run:?}"
    );
    let run = table.run("state load /no/such/file");
    assert_eq!(
        (run.code, run.stderr.starts_with("error: /no/such/file: No such file")),
        (2, true)
    );
    assert!(table.items().is_empty());
}

#[test]
fn a_long_load_shows_its_progress() {
    let table = new_table();
    let minute = |n: u32| format!("2023-01-{:02}T{:02}:{:02}:00", n / 1440 + 1, n / 60 % 24, n % 60);
    let text: String = (0..2005)
        .map(|n| json!({"ID": "E", "Time": minute(n), "N": n}).to_string() + "\n")
        .collect();
    let run = load(&table, &text);
    assert_eq!(run.json(), json!({"Loaded": 2005}));
    assert_eq!(run.stderr, "1000 states stored\n2000 states stored\n");
    let newest = table.lines("state list E --newest-first --limit 1200", 0);
    assert_eq!((newest.len(), &newest[0]["Time"]), (1200, &json!(minute(2004))));
    assert_eq!(table.lines("state list E", 0).len(), 2005);
    // All items are one page.
    let run = table.run("items E");
    assert_eq!((run.lines.len(), run.stderr.as_str()), (2005, "2005 items read\n"));
}

#[test]
fn items_of_an_entity_in_the_order_of_their_kinds() {
    let table = new_table();
    for n in 1..=11 {
        let version = format!("State={n}");
        table.json(&format!("put E --mode inline --set {version}"), 0);
    }
    table.json(
        "put E --mode transaction --idempotency ledger --request-id r --set State=12",
        0,
    );
    table.json("metadata E --set Name=Press", 0);
    for time in ["2023-12-16T09:45:00", "2023-12-15T08:30:00"] {
        table.json(&format!("state put E --time {time} --set State=OK"), 0);
    }
    table.json("prune E --keep 100", 0);
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "note\u{7}"}, "Text": {"S": "foreign"}}));
    table.put(json!({"PK": {"S": "E"}, "SK": {"S": "expired"}, "TTL": {"N": "1"}}));
    table.put(json!({"PK": {"S": "F"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}}));

    let run = table.run("items E");
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, "note: 1 expired items are not shown\n")
    );
    let found: Vec<_> = run
        .lines
        .iter()
        .map(|item| (item["Kind"].as_str().unwrap(), item["SK"].as_str().unwrap()))
        .collect();
    let versions: Vec<_> = (1..=12).map(|n| format!("v{n}")).collect();
    let mut expected = vec![("Metadata", "Metadata"), ("Latest", "v0")];
    expected.extend(versions.iter().map(|key| ("Version", key.as_str())));
    expected.extend([("State", "2023-12-15T08:30:00"), ("State", "2023-12-16T09:45:00")]);
    let others = table.items_of("E").contains_key("floor").then_some(("Floor", "floor"));
    expected.extend(others);
    expected.extend([("Request", "request#r"), ("Other", "note\u{7}")]);
    assert_eq!(found, expected);
    let metadata = json!({"ID": "E", "Kind": "Metadata", "SK": "Metadata", "Attributes": {"Name": "Press"}});
    assert_eq!(run.lines[0], metadata);
    let latest = &run.lines[1]["Attributes"];
    assert_eq!((&latest["Latest"], &latest["State"]), (&json!(12), &json!("12")));
    assert!(latest.get("RequestPayload").is_some() && latest.get("PK").is_none());

    let run = table.run("items E --output table --eventual");
    let places = [
        "E\n",
        "\nMetadata\n",
        "\nLatest item\n",
        "\nVersions\n",
        "\nStates\n",
        "\nOther items\n",
    ];
    let places = places.map(|title| run.stdout.find(title).unwrap_or_else(|| panic!("{title}: {run:?}")));
    assert!(places.is_sorted());
    assert!(
        run.stdout.contains("│ note\\u{7}") && !run.stdout.contains("RequestPayload"),
        "{run:?}"
    );

    let missing = table.run("items None");
    let get = table.run("get None");
    assert_eq!(missing.code, 3);
    let said = &missing.stderr;
    assert!(
        said.starts_with("error: there is no None in vzero-test-") && said.ends_with(": check the key and --table\n"),
        "{said}"
    );
    assert_eq!((get.code, get.stderr), (missing.code, missing.stderr));
}

#[test]
fn states_are_one_table() {
    let table = new_table();
    load(
        &table,
        "{\"ID\": \"E\", \"Time\": \"2023-01-01\", \"A\": 1}\n{\"ID\": \"E\", \"Time\": \"2023-01-02\", \"B\": \"x\"}",
    );
    let run = table.run("state list E --output table");
    let rows: Vec<_> = run.stdout.lines().filter(|line| line.starts_with('│')).collect();
    let expected = [
        "│ Time                ┆ A ┆ B │",
        "│ 2023-01-01T00:00:00 ┆ 1 ┆   │",
        "│ 2023-01-02T00:00:00 ┆   ┆ x │",
    ];
    assert_eq!(rows, expected, "{run:?}");
    assert_eq!(table.run("state list F --output table").stdout, "");
}
