//! Who recorded a version, when and why: `get`, `history`, `diff` and the commands that write.

use serde_json::{Value, json};
use testkit::table::Table;

use crate::new_table;

fn put(table: &Table, arguments: &str) {
    table.json(&format!("put --mode inline E {arguments}"), 0);
}

fn at(second: u64) -> String {
    format!("2026-01-01T00:00:{second:02}.000000000Z")
}

/// Stores version items as they are, and the last one as the latest item too.
fn store(table: &Table, items: &[Value]) {
    for (number, item) in (1..).zip(items) {
        let mut version = item.clone();
        (version["PK"], version["SK"]) = (json!({"S": "E"}), json!({"S": format!("v{number}")}));
        table.put(version.clone());
        if number == items.len() {
            version["SK"] = json!({"S": "v0"});
            version["Latest"] = json!({"N": number.to_string()});
            version["RecordedVersion"] = version["Latest"].clone();
            table.put(version);
        }
    }
}

/// Versions 1 to 5, recorded at the seconds 10 to 50.
fn orders() -> Table {
    let table = new_table();
    let item = |second, actor: Option<&str>, status: &str, total: Option<u64>| {
        let mut item = json!({"RecordedAt": {"S": at(second)}, "Status": {"S": status}, "RequestId": {"S": "r"}});
        if let Some(actor) = actor {
            item["Actor"] = json!({"S": actor});
        }
        if let Some(total) = total {
            item["Total"] = json!({"N": total.to_string()});
        }
        item
    };
    let mut paid = item(20, Some("payments"), "paid", Some(120));
    paid["Reason"] = json!({"S": "settled\u{9b}"});
    store(
        &table,
        &[
            item(10, Some("shop"), "placed", Some(120)),
            paid,
            item(30, None, "paid", Some(120)),
            item(40, Some("shop"), "paid", Some(90)),
            item(50, Some("shop\u{1b}[2J"), "sent\u{7}", None),
        ],
    );
    table
}

#[test]
fn filters_select_versions() {
    let table = orders();
    table.check(
        "
        history E --since 2026-01-01T00:00:30Z => Version [5, 4, 3] => 0 nothing
        history E --since 2026-01-01T01:00:30.5+01:00 => Version [5, 4] => 0 nothing
        history E --until 2026-01-01T00:00:30Z => Version [3, 2, 1] => 0 nothing
        history E --until 2026-01-01T00:00:30Z --oldest-first => Version [1, 2, 3]
        history E --since 2026-01-01T00:00:20Z --until 2026-01-01T00:00:40Z => Version [4, 3, 2]
        history E --actor shop => Version [4, 1] => 0 nothing
        history E --actor shop --limit 1 => Version [4]
        history E --actor sho => Version [] => 0 note: no version matches
        history E --changed Status => Version [5, 2, 1] => 0 nothing
        history E --changed Total --oldest-first => Version [1, 4, 5]
        history E --changed Total --since 2026-01-01T00:00:20Z --actor shop => Version [4]
        history E --changed Total --from 4 --to 4 => Version [4] => 0 nothing
        history E --changed Status --from 3 => Version [5]
        history E --from 2 --to 3 => Version [3, 2] => 0 nothing
        history E --since 2027-01-01 => Version [] => 0 note: no version matches
        history E --since soon => 2 error: --since: it is not an ISO 8601 date and time
        history E --until 10:00 => 2 error: --until: it is not an ISO 8601 date and time
        // The header is shown even if no version matches.
        --output table history E --actor unknown => ~ Version => 0 note: no version matches
        ",
    );
}

#[test]
fn versions_without_a_time_or_a_previous_version_are_named() {
    let table = orders();
    for number in [1, 2] {
        let mut old = table.items_of("E")[&format!("v{number}")].clone();
        old.as_object_mut().unwrap().remove("RecordedAt");
        table.put(old);
    }
    table.check(
        "history E --until 2026-01-01T00:00:40Z => Version [4, 3] => 0 note: left out, because they have no known RecordedAt: 1 to 2",
    );
    table.delete("E", "v3");
    table.check(
        r#"
        history E --actor shop => Version [4, 1] => 0 note: not in the history yet: 3
        history E --since 2026-01-01T00:00:40Z => Version [5, 4]
        history E --since 2026-01-01T00:00:45Z => Version [5] => 0 nothing
        --output json history E --changes --from 4 --to 4 => = {"ID": "E", "Version": 4, "RecordedAt": "2026-01-01T00:00:40.000000000Z", "RequestId": "r", "Actor": "shop", "Note": "previous version not available"}
        --output table history E --changes --to 4 --limit 1 => ~ 4  2026-01-01 00:00:40Z  shop  (previous version not available)
        "#,
    );
    for (arguments, numbers, said) in [
        (
            "--since 2026-01-01T00:00:40Z --oldest-first",
            "[4, 5]",
            "left out, because they have no known RecordedAt: 1 to 2",
        ),
        ("--changed Status", "[5, 4, 2, 1]", "previous version not available: 4"),
    ] {
        table.check(&format!(
            "history E {arguments} => Version {numbers} => 0 note: {said}…"
        ));
        let said = format!("note: {said}\nnote: not in the history yet: 3\n");
        assert_eq!(table.run(&format!("history E {arguments}")).stderr, said);
    }
}

#[test]
fn changes_are_shown_in_both_formats() {
    let table = orders();
    let text = table.run("history E --changes");
    let expected = "\
5  2026-01-01 00:00:50Z  shop\\u{1b}[2J  Status: paid → sent\\u{7}, -Total
4  2026-01-01 00:00:40Z  shop  Total: 120 → 90
3  2026-01-01 00:00:30Z  (no changes)
2  2026-01-01 00:00:20Z  payments  Status: placed → paid  (settled\\u{9b})
1  2026-01-01 00:00:10Z  shop  +Status: placed, +Total: 120
";
    assert_eq!(
        (text.code, text.stdout.as_str(), text.stderr.as_str()),
        (0, expected, "")
    );
    let lines = table.lines("--output json history E --changes --oldest-first --from 2", 0);
    assert_eq!(lines.len(), 4);
    assert_eq!(
        lines[0],
        json!({
            "ID": "E", "Version": 2, "RecordedAt": at(20), "RequestId": "r", "Actor": "payments",
            "Reason": "settled\u{9b}", "Changes": {"Status": {"From": "placed", "To": "paid"}},
        })
    );
    let oldest = table.run("history E --changes --oldest-first").stdout;
    let reversed: Vec<_> = expected.lines().rev().collect();
    assert_eq!(oldest.lines().collect::<Vec<_>>(), reversed);
    assert_eq!(lines[1]["Changes"], json!({}));
    assert_eq!(lines[3]["Changes"]["Total"], json!({"From": 90}));
    table.check("--output json history E --changes --changed Total --limit 1 => Version [5]");
}

#[test]
fn changes_of_maps_sets_and_long_values() {
    let table = new_table();
    let long = "x".repeat(100);
    store(
        &table,
        &[
            json!({"Address": {"M": {"City": {"S": "Bonn"}, "Zip": {"N": "1"}}}, "Tags": {"SS": ["a", "b"]}}),
            json!({"Address": {"M": {"City": {"S": long}}}, "Tags": {"SS": ["b", "c"]}, "Deleted": {"BOOL": true}}),
        ],
    );
    let run = |more: &str| {
        let run = table.run(&format!("history E --changes --from 2 {more}"));
        run.stdout
    };
    let short = format!(
        "Address.City: Bonn → {}…, -Address.Zip, +Deleted: true, Tags: +c -a",
        "x".repeat(59)
    );
    assert_eq!(run(""), format!("2  (time not known)  {short}\n"));
    assert!(run("--full").contains(&format!("Bonn → {long}, -Address.Zip")));
}

#[test]
fn an_actor_describes_one_version_only() {
    let table = new_table();
    put(&table, "--set A=1 --actor amy --reason first --time 2026-01-01");
    put(&table, "--set A=2");
    let lines = table.lines("history E", 0);
    assert_eq!((lines[0].get("Actor"), &lines[1]["Actor"]), (None, &json!("amy")));
    assert_eq!(lines[0]["Attributes"], json!({"A": "2"}));
    let shown = table.run("--output table history E").stdout;
    assert_eq!(shown.matches("amy").count(), 1, "{shown}");
    let header = shown.lines().nth(1).unwrap();
    let names: Vec<_> = header
        .split(['│', '┆'])
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(
        names,
        ["Version", "RecordedAt", "Actor", "Reason", "RequestId", "A", "Time"]
    );
    // Columns without a value are left out.
    let shown = table.run("--output table history E --from 2").stdout;
    assert!(!shown.contains("Actor") && !shown.contains("Deleted"), "{shown}");

    for arguments in ["delete E", "undelete E", "restore E 1"] {
        table.json(&format!("{arguments} --mode inline --actor ben --time 2026-01-02"), 0);
        put(&table, "--set A=3");
        table.json(&format!("{arguments} --mode inline"), 0);
        table.check(r#"get E --deleted => {"Actor": null, "Reason": null}"#);
        let shown = table.json("get E --deleted", 0);
        assert_eq!(shown["Attributes"].get("Time"), None, "{arguments:?}");
    }
    table.check(
        r#"
        --output table history E --limit 1 => ~ RestoredFrom
        get E => {"RestoredFrom": 1}
        "#,
    );
}

#[test]
fn get_and_diff_show_the_record_apart_from_the_attributes() {
    let table = orders();
    let shown = table.run("--output table get E --version 1").stdout;
    let expected = format!(
        "\
┌────────────┬────────────────────────────────┐
│ ID         ┆ E                              │
│ Version    ┆ 1                              │
│ RecordedAt ┆ {} │
│ RequestId  ┆ r                              │
│ Actor      ┆ shop                           │
└────────────┴────────────────────────────────┘
┌────────┬────────┐
│ Status ┆ placed │
│ Total  ┆ 120    │
└────────┴────────┘
",
        at(10)
    );
    assert_eq!(shown, expected);
    let shown = table.run("--output table diff E 4 5").stdout;
    let words: Vec<_> = shown
        .split(|character: char| !character.is_ascii() || character == ' ')
        .filter(|word| word.len() > 3)
        .map(str::trim)
        .collect();
    assert_eq!(
        words.join(" "),
        format!(
            "Version RecordedAt {} {} Actor shop shop\\u{{1b}}[2J RequestId Attribute Status paid sent\\u{{7}} Total (none)",
            at(40),
            at(50)
        ),
        "{shown}"
    );
    let same = table.run("--output table diff E 2 3").stdout;
    assert!(same.ends_with("(no changes)\n"), "{same}");
    let json = table.json("diff E 4 5", 0);
    assert_eq!(json["Recorded"]["From"]["Actor"], "shop");
}

#[test]
fn at_finds_a_version_by_its_own_time() {
    let table = new_table();
    for n in ["1", "2", "3"] {
        put(&table, &format!("--set A={n}"));
    }
    let second = table.json("get E --version 2", 0);
    let time = second["RecordedAt"].as_str().unwrap();
    assert_eq!(table.json(&format!("get E --at {time}"), 0), second);
    table.json("restore E 1 --mode inline", 0);
    assert_eq!(table.json(&format!("get E --at {time}"), 0), second);
    table.check(&format!("history E --since {time} --until {time} => Version [2]"));
}

#[test]
fn effective_at_reads_the_highest_version_that_is_old_enough() {
    let table = new_table();
    for day in ["03", "01", "02", "05"] {
        put(&table, &format!("--set Day={day} --time 2026-01-{day}T00:00:00Z"));
    }
    table.check(
        r#"
        get E --effective-at 2026-01-01 => {"Version": 2}
        get E --effective-at 2026-01-02T00:00:00 => {"Version": 3}
        get E --effective-at 2026-01-04 => {"Version": 3}
        get E --effective-at 2026-01-05 => {"Version": 4}
        get E --effective-at 1767312000000 => {"Version": 3}
        get E --effective-at 2025-12-31 => 3 error: E has no version of this time or an earlier one: the latest is version 4
        get E --effective-at -1 => 3
        get E --effective-at 2025-12-31 --limit 2 => 3 error: none of the 2 newest versions has this time or an earlier one; read more versions with a higher --limit
        get E --effective-at soon => 2 error: --effective-at: it is neither an ISO 8601 date and time nor epoch milliseconds
        get E --effective-at 2026-01-01 --at 2026-01-01 => 2
        get E --effective-at 2026-01-01 --version 1 => 2
        get E --at 2026-01-01 --version 1 => 2
        get E --limit 5 => 2
        get E --effective-at 2026-01-01 --limit 0 => 2
        "#,
    );
    table.delete("E", "v3");
    table.check(
        "get E --effective-at 2025-12-31 => 3 error: version 3 is not in the history yet; try again, or run vzero audit E",
    );
    let mut unknown = table.items_of("E")["v0"].clone();
    unknown["Time"] = json!({"S": "secret"});
    table.put(unknown);
    let run = table.run("get E --effective-at 2025-12-31");
    let said = "error: the time of version 4 is not known: ";
    assert!(
        run.code == 3 && run.stderr.starts_with(said) && !run.stderr.contains("secret"),
        "{run:?}"
    );

    let table = new_table();
    for day in ["01", "02", "03"] {
        put(&table, &format!("--set Day={day} --time 2026-01-{day}T00:00:00Z"));
    }
    table.json("prune E --keep 1", 0);
    // The items of the pruned versions still exist.
    for time in ["2026-01-02", "2025-12-31"] {
        let run = table.run(&format!("get E --effective-at {time}"));
        let said = &run.stderr;
        assert!(run.code == 3 && said.contains("history begins at version 3"), "{said}");
    }
}

#[test]
fn at_reports_a_version_without_a_time() {
    let table = new_table();
    store(&table, &[json!({"A": {"N": "1"}}), json!({"A": {"N": "2"}})]);
    let run = table.run("get E --at 2026-01-01");
    let said = "error: it is not known when version 1 was recorded; an older release wrote it: use --effective-at, or --version\n";
    assert_eq!((run.code, run.stderr.as_str()), (3, said));
}

#[test]
fn a_printed_version_can_be_put_again() {
    let table = orders();
    let shown = table.run("get E --version 2").stdout;
    let copy = table.run_with_input("put F --json - --actor me", &shown);
    assert_eq!(copy.code, 0, "{copy:?}");
    let copy = table.json("get F", 0);
    assert_eq!(copy["Attributes"], json!({"Status": "paid", "Total": 120}));
    assert_eq!(copy["Actor"], "me");
    assert_ne!(copy["RecordedAt"], at(20));
    // A retry at any distance names the time of the first attempt.
    let retry = "put F --set A=1 --request-id x --set RequestSentAt=2026-01-01";
    assert_eq!(table.json(&retry, 0)["Outcome"], "Written");
    assert_eq!(table.json(&retry, 0)["Outcome"], "Duplicate");
    assert_eq!(table.json("get F", 0)["Attributes"].get("RequestSentAt"), None);
}
