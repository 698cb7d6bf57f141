//! States of a table: `vzero admin state load`, `vzero admin state list`, and all items of an entity: `vzero admin items`.

use serde_json::{Value, json};
use testkit::{command::Run, table::Table};

use crate::new_table;

/// States of three machines, as items with their keys.
const STATES: &str = r#"[
    {"PK": "Equipment#1", "SK": "2023-10-03T12:32:00", "State": "NORMAL"},
    {"PK": "Equipment#1", "SK": "2023-11-05T12:12:00", "State": "WARNING1"},
    {"PK": "Equipment#1", "SK": "2023-11-06T12:05:00", "State": "NORMAL"},
    {"PK": "Equipment#6", "SK": "2024-03-07T22:09:29", "State": "ERROR"},
    {"PK": "Equipment#6", "SK": "2024-03-30T22:09:29", "State": "WARNING2"},
    {"PK": "Equipment#118", "SK": "2023-12-15T08:30:00", "State": "NORMAL"},
    {"PK": "Equipment#118", "SK": "2023-12-16T09:45:00", "State": "WARNING1"},
    {"PK": "Equipment#118", "SK": "2023-12-17T10:20:00", "State": "NORMAL"},
    {"PK": "Equipment#118", "SK": "2023-12-18T11:05:00", "State": "ERROR"},
    {"PK": "Equipment#118", "SK": "2023-12-19T12:15:00", "State": "WARNING2"}
]"#;
const METADATA: [(&str, &str, &str); 3] = [
    ("Equipment#1", "Equipment-001", "F#88546"),
    ("Equipment#6", "Equipment-006", "F#56658"),
    ("Equipment#118", "Equipment-118", "F#88985"),
];

fn load(table: &Table, text: &str) -> Run {
    table.run_with_input("state load -", text)
}

fn listed(id: &str, time: &str, state: &str) -> Value {
    json!({"ID": id, "Time": time, "Attributes": {"State": state}})
}

/// Returns the times of the states that the arguments select.
fn times(table: &Table, arguments: &str) -> Vec<String> {
    let lines = table.lines(&format!("state list {arguments}"), 0);
    lines
        .iter()
        .map(|line| line["Time"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_file_of_states_is_loaded_and_a_month_is_listed_newest_first() {
    let table = new_table();
    for (id, name, factory) in METADATA {
        let [name, factory] = [format!("Name={name}"), format!("FactoryId={factory}")];
        table.json(&format!("metadata {id} --set {name} --set {factory}"), 0);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), STATES).unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(table.json(&format!("state load {path}"), 0), json!({"Loaded": 10}));

    let month = "state list Equipment#118 --prefix 2023-12 --newest-first";
    let expected = [
        ("2023-12-19T12:15:00", "WARNING2"),
        ("2023-12-18T11:05:00", "ERROR"),
        ("2023-12-17T10:20:00", "NORMAL"),
        ("2023-12-16T09:45:00", "WARNING1"),
        ("2023-12-15T08:30:00", "NORMAL"),
    ];
    assert_eq!(
        table.lines(month, 0),
        expected.map(|(time, state)| listed("Equipment#118", time, state))
    );
    // The last line has the whole item collection of one machine.
    table.check(&format!(
        r#"
        {month} --limit 1 => Time ["2023-12-19T12:15:00"]
        {month} --limit 0 => Time []
        state list Equipment#1 --prefix 2023-11 => Time ["2023-11-05T12:12:00", "2023-11-06T12:05:00"]
        state list Equipment#1 --prefix 2023-1 --limit 2 => Time ["2023-10-03T12:32:00", "2023-11-05T12:12:00"]
        state list Equipment#118 --prefix 2023-12 --from 2023-12-18 --to 2024-12-31 => Time ["2023-12-18T11:05:00", "2023-12-19T12:15:00"]
        state list Equipment#6 --newest-first --eventual => Time ["2024-03-30T22:09:29", "2024-03-07T22:09:29"]
        state list Equipment#6 --prefix 2023 => Time []
        items Equipment#6 => SK ["Metadata", "2024-03-07T22:09:29", "2024-03-30T22:09:29"]
        "#
    ));

    // A load can be repeated, and its input can be the output of a list.
    let before = table.items();
    assert_eq!(table.json(&format!("state load {path}"), 0), json!({"Loaded": 10}));
    let listing = table.run(month);
    assert_eq!(load(&table, &listing.stdout).json(), json!({"Loaded": 5}));
    assert_eq!(table.items(), before);
    assert_eq!(before.len(), 13);
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
    let rows = r##"
{"ID": "E"} => line 2: Time is missing
{"Time": "2023-01-01"} => line 2: ID is missing
{"PK": "E", "Time": "2023-01-01"} => line 2: SK is missing
{"ID": 1, "Time": "2023-01-01"} => line 2: ID is not a string
{"ID": "", "Time": "2023-01-01"} => line 2: ID: the partition key is empty
{"ID": "#vzero", "Time": "2023-01-01"} => line 2: ID: the partition key #vzero, and keys that begin with #vzero#, are reserved
{"ID": "E", "Time": "soon"} => line 2: Time: it is not an ISO 8601 date and time
{"PK": "E", "SK": "v0"} => line 2: SK: it is not an ISO 8601 date and time
{"PK": "E", "SK": "v1"} => line 2: SK: it is not an ISO 8601 date and time
{"PK": "E", "SK": "Metadata"} => line 2: SK: it is not an ISO 8601 date and time
{"ID": "E", "Time": "2024-01-01", "Latest": 1} => line 2: Latest is reserved
{"ID": "E", "Time": "2024-01-01", "A": {"$odd": 1}} => line 2: A: $odd is no known form
{"ID": "E", "Time": "2024-01-01", "A": 1e999} => line 2: A: a number cannot be stored
{"ID": "E", "Time": "2024-01-01", "A": {"$strings": []}} => line 2: A: $strings has no element, or one of them twice
{"ID": "E", "Time": "2024-01-01", "": 1} => line 2: a name is empty
  {"ID": "E", "Time": "2023-01-01"} => line 1 and line 2, column 3 have the same entity and time
{"PK": "E", "SK": "2023-01-01T00:00:00Z"} => line 1 and line 2 have the same entity and time
5 => line 2: it is not a JSON object
{"ID": "E", } => line 2, column 13: expected the name of a member in quotes
{"ID": "E" => line 2, column 11: the text ends too early"##;
    let rows = rows.lines().skip(1).map(|row| row.split_once(" => ").unwrap());
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
fn a_prefix_that_no_time_has_is_rejected() {
    let table = new_table();
    for prefix in ["''", "v", "v0", "Meta", "2023-13", "2023-12*", "2023-12-15T08:30:00Z"] {
        table.check(&format!(
            "state list E --prefix {prefix} => 2 error: --prefix: it is not the beginning of a stored time, such as 2023-12 or 2023-12-15T08"
        ));
    }
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
    let newest = times(&table, "E --newest-first --limit 1200");
    assert_eq!((newest.len(), newest[0].as_str()), (1200, minute(2004).as_str()));
    assert_eq!(times(&table, "E").len(), 2005);
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
