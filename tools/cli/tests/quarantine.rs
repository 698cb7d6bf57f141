//! Records in quarantine: `vzero admin quarantine`, and the commands that find and release them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use serde_json::json;
use testkit::{script, script_tests, table::Table};

script_tests! {
    Table;
    fn records_are_listed_with_their_reason_and_image();
    fn an_audit_reports_records_in_quarantine_and_a_purge_deletes_them();
    fn a_redrive_releases_a_record_whose_version_can_be_stored();
    fn a_repair_releases_a_record_whose_version_is_missing();
    fn versions_are_released_before_a_latest_item_gets_its_number();
}

#[test]
fn a_repair_does_not_choose_between_records_and_names_commands_for_any_key() {
    let table = Table::new(env!("CARGO_BIN_EXE_vzero"));
    let id = "a b'#$(c)";
    // DynamoDB would reject the record of `large` again.
    for (id, number, kind, latest, state) in [
        (id, "1", "Conflict", "7", "FIRST"),
        (id, "2", "Conflict", "7", "SECOND"),
        ("large", "3", "Rejected", "7", "OK"),
        ("far", "4", "Conflict", "1000000000000", "OK"),
    ] {
        let image = json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "State": {"S": state}});
        table.quarantine(id, number, kind, &image);
    }
    let mut lines = table.lines("repair --all --yes --lag 0", 4);
    let summary = lines.pop().unwrap();
    assert_eq!((&summary["Recorded"], &summary["Left"]), (&json!(0), &json!(4)));
    for (why, count) in [
        (r"'quarantine:a b'\''#$(c)'", 2),
        ("quarantine:large --drop-malformed", 1),
        ("more than 10000 above", 1),
    ] {
        let named = lines.iter().filter(|line| line["Why"].as_str().unwrap().contains(why));
        assert_eq!(named.count(), count, "{why}: {lines:?}");
    }
    // The version exists: nothing is put, and the record leaves.
    script::run(
        &table,
        r#"
        @put large v7 {"State": {"S": "OK"}}
        repair large --yes --lag 0 => Step ["Release", "None", null] => 4
        quarantine large => ID []
        "#,
    );
}
