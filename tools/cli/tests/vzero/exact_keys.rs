//! Items whose sort keys extend the key of a version, such as `v3#note`, are neither versions nor errors.

use serde_json::{Value, json};
use testkit::table::Table;

/// Commands that read the entity `E` or the table, and change nothing.
const READS: &str = "\
    get E; get E --eventual; get E --version 1; get E --version 3; get E --effective-at 2020-01-02; \
    history E; history E --limit 2; history E --oldest-first --limit 2; history E --from 2 --to 3; history E --changes; \
    history E --changed N; diff E 2 3; lag E; audit E --lag 0; audit --all --lag 0; \
    repair E --lag 0 --dry-run; repair --all --lag 0 --dry-run; prune E --keep 1 --dry-run; prune --all --keep 1 --dry-run; get E --at ";

/// Runs the commands, the last one with this time.
fn outputs(table: &Table, at: &str) -> Vec<(i32, String, String)> {
    let run = |arguments: &str| {
        let run = table.run(arguments);
        (run.code, without_expiry(&run.stdout), run.stderr)
    };
    format!("{READS}{at}").split("; ").map(run).collect()
}

/// Removes the time at which pruned versions would expire, which depends on the clock.
fn without_expiry(stdout: &str) -> String {
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(mut members)) => {
            members.shift_remove("Expires");
            Value::Object(members).to_string()
        }
        _ => line.to_owned(),
    };
    stdout.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn put(table: &Table, n: u64) -> Value {
    let (change, time) = (format!("N={n}"), format!("2020-01-0{n}"));
    let arguments = format!("put --mode inline E --set {change} --time {time}");
    table.json(&arguments, 0)
}

#[test]
fn an_item_beside_a_version_is_not_a_version() {
    if testkit::endpoint::is_about_one_table("an_item_beside_a_version_is_not_a_version") {
        return;
    }
    for digits in [1, 2, 10] {
        let table = Table::with_digits(crate::VZERO, digits);
        for n in 1..=3 {
            put(&table, n);
        }
        let second = table.json("get E --version 2", 0);
        let at = second["RecordedAt"].as_str().unwrap().to_owned();
        let before = outputs(&table, &at);
        assert!(
            before.iter().all(|(code, stdout, _)| *code == 0 && !stdout.is_empty()),
            "{before:?}"
        );

        let pad = |n: u64| format!("v{n:0width$}", width = usize::from(digits));
        let notes = ["v0#note".to_owned(), "v0#".to_owned()].into_iter();
        let notes = notes
            .chain((1..=4).map(|n| format!("{}#note", pad(n))))
            .chain([format!("{}#", pad(3))]);
        // Attributes that a version has, with other values.
        for sort_key in notes.chain(["note#3".to_owned()]) {
            table.put(json!({
                "PK": {"S": "E"}, "SK": {"S": sort_key}, "N": {"S": "other"}, "Latest": {"N": "7"}, "RequestId": {"S": "r"},
                "RecordedAt": {"S": "2019-01-01T00:00:00.000000000Z"}, "Text": {"S": "a note"}, "Deleted": {"BOOL": true},
            }));
        }
        let after = outputs(&table, &at);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "width {digits}");
        }

        // The next versions have the next numbers, and restores copy no note.
        assert_eq!(put(&table, 4)["Version"], 4);
        let restored = table.json("restore --mode inline E 3", 0);
        assert_eq!(restored["Version"], 5);
        let latest = table.json("get E", 0);
        assert_eq!(latest["Attributes"], json!({"N": "3"}));
        table.lines("audit E --lag 0", 0);
        let items = table.items_of("E");
        assert_eq!(items[&format!("{}#note", pad(4))]["Text"]["S"], "a note");
        assert_eq!(items[&pad(4)]["N"]["S"], "4");

        // Pruning removes versions, and leaves the items beside them.
        table.lines("prune E --keep 1", 0);
        let is_marked = |key: &str| table.items_of("E")[key].get("TTL").is_some();
        assert!(is_marked(&pad(1)) && !is_marked(&format!("{}#note", pad(1))));
    }
}
