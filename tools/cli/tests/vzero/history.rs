//! Who recorded a version, when and why: `get`, `history`, `diff` and the commands that write.

use serde_json::json;

use crate::{
    new_table,
    script::{self, script_tests},
};

script_tests! {
    fn filters_select_versions();
    fn versions_without_a_time_or_a_previous_version_are_named();
    fn changes_are_shown_in_both_formats();
    fn an_actor_describes_one_version_only();
    fn at_finds_a_version_by_its_own_time();
    fn effective_at_reads_the_highest_version_that_is_old_enough();
}

#[test]
fn changes_of_maps_sets_and_long_values() {
    let table = new_table();
    let long = "x".repeat(100);
    let text = r#"
        @put E v1 {"Address": {"M": {"City": {"S": "Bonn"}, "Zip": {"N": "1"}}}, "Tags": {"SS": ["a", "b"]}}
        @put E v2 {"Address": {"M": {"City": {"S": "LONG"}}}, "Tags": {"SS": ["b", "c"]}, "Deleted": {"BOOL": true}}
        @put E v0 {"Latest": {"N": "2"}, "RecordedVersion": {"N": "2"}}
        history E --changes --from 2 => ~ 2  (time not known)  Address.City: Bonn → SHORT…, -Address.Zip, +Deleted: true, Tags: +c -a
        history E --changes --from 2 --full => ~ Bonn → LONG, -Address.Zip
        "#;
    script::run(&table, &text.replace("LONG", &long).replace("SHORT", &long[..59]));
}

#[test]
fn tables_show_the_record_apart_from_the_attributes() {
    let table = new_table();
    script::run(
        &table,
        r#"
        @put E v1 {"RecordedAt": {"S": "2026-01-01T00:00:10.000000000Z"}, "Actor": {"S": "shop"}, "RequestId": {"S": "r"}, "Status": {"S": "paid"}, "Total": {"N": "120"}}
        @put E v2 {"RecordedAt": {"S": "2026-01-01T00:00:20.000000000Z"}, "Actor": {"S": "shop\u001b[2J"}, "RequestId": {"S": "r"}, "Status": {"S": "sent\u0007"}}
        @put E v0 {"Latest": {"N": "2"}, "RecordedVersion": {"N": "2"}, "Status": {"S": "sent"}}
        "#,
    );
    let shown = table.run("--output table get E --version 1").stdout;
    let expected = "\
┌────────────┬────────────────────────────────┐
│ ID         ┆ E                              │
│ Version    ┆ 1                              │
│ RecordedAt ┆ 2026-01-01T00:00:10.000000000Z │
│ RequestId  ┆ r                              │
│ Actor      ┆ shop                           │
└────────────┴────────────────────────────────┘
┌────────┬──────┐
│ Status ┆ paid │
│ Total  ┆ 120  │
└────────┴──────┘
";
    assert_eq!(shown, expected);
    // Columns without a value are left out.
    let words = |arguments: &str| {
        let shown = table.run(arguments).stdout;
        let words = shown
            .split(|c: char| !c.is_ascii() || c.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    };
    let (first, second) = ("2026-01-01T00:00:10.000000000Z", "2026-01-01T00:00:20.000000000Z");
    assert_eq!(
        words("--output table diff E 1 2"),
        format!(
            "Version 1 2 RecordedAt {first} {second} Actor shop shop\\u{{1b}}[2J RequestId r r Attribute 1 2 Status paid sent\\u{{7}} \
             Total 120 (none)"
        )
    );
    assert_eq!(
        words("--output table history E --to 1"),
        format!("Version RecordedAt Actor RequestId Status Total 1 {first} shop r paid 120")
    );
}

#[test]
fn a_printed_version_can_be_put_again() {
    let table = new_table();
    let item = r#"{"RecordedAt": {"S": "2026-01-01T00:00:20.000000000Z"}, "Actor": {"S": "shop"}, "Status": {"S": "paid"}, "Total": {"N": "120"}}"#;
    let latest = r#"{"Latest": {"N": "2"}}"#;
    script::run(&table, &format!("@put E v2 {item}\n@put E v0 {latest}"));
    let shown = table.run("get E --version 2").stdout;
    let copy = table.run_with_input("put F --json - --actor me", &shown);
    assert_eq!(copy.code, 0, "{copy:?}");
    let copy = table.json("get F", 0);
    assert_eq!(copy["Attributes"], json!({"Status": "paid", "Total": 120}));
    assert_eq!(copy["Actor"], "me");
    assert_ne!(copy["RecordedAt"], "2026-01-01T00:00:20.000000000Z");
    // A retry at any distance names the time of the first attempt.
    let retry = "put F --set A=1 --request-id x --set RequestSentAt=2026-01-01";
    assert_eq!(table.json(&retry, 0)["Outcome"], "Written");
    assert_eq!(table.json(&retry, 0)["Outcome"], "Duplicate");
    assert_eq!(table.json("get F", 0)["Attributes"].get("RequestSentAt"), None);
}
