//! The command `vzero` on a table.

use std::process::Command;

use testkit::{command::Arguments as _, script_tests, table::Table};

script_tests! {
    Table;
    fn the_life_of_an_entity();
    fn without_stream_fn_versions_are_not_in_history();
    fn each_failure_has_its_exit_code_and_one_line();
    fn the_width_of_version_keys_is_that_of_the_table();
    fn metadata_and_states();
    fn every_type_is_shown_and_restored_without_loss();
    fn usage_errors_are_one_line();
    fn commands_that_write_many_items_ask();
    fn null_removes_an_attribute_and_null_can_be_stored();
    fn tables_completions_and_costs();
}

/// Commands that write or delete more than one item.
const MANY: [&str; 7] = [
    "state load",
    "table adopt",
    "backfill",
    "prune",
    "purge",
    "redrive",
    "repair",
];

/// Write options with their values, and the commands that accept them besides put, restore, delete and undelete.
const WRITE_OPTIONS: [(&str, &[&str]); 13] = [
    ("--mode inline", &["backfill", "console", "plan"]),
    ("--idempotency recent", &["backfill", "console", "plan"]),
    ("--idempotency-window 7", &["backfill", "console", "plan"]),
    ("--ledger-ttl-days 7", &["backfill", "console", "plan"]),
    ("--ordering time", &["backfill", "console"]),
    ("--skip-unchanged", &["backfill", "console"]),
    ("--expect 1", &[]),
    ("--request-id r", &[]),
    ("--time 2020-01-01", &["state put"]),
    ("--actor me", &["log", "history"]),
    ("--reason why", &[]),
    ("--yes", &MANY),
    ("--dry-run", &MANY),
];

#[test]
fn only_commands_that_write_accept_write_options() {
    let run = |command: &str| {
        let ran = Command::new(crate::VZERO).args(command.words()).output();
        ran.unwrap().status.code()
    };
    let commands = "put,restore,delete,undelete,get,log,history,show,diff,blame,lag,metadata,state put,state latest,state list,state load,items,\
                    table create,table adopt,audit,backfill,prune,pin,purge,redrive,repair,console,plan,completions";
    for (option, others) in WRITE_OPTIONS {
        for command in commands.split(',') {
            let writes = ["put", "restore", "delete", "undelete"].contains(&command);
            let code = if writes || others.contains(&command) { 0 } else { 2 };
            // Help is shown after all arguments were accepted up to there.
            assert_eq!(
                run(&format!("{command} {option} --help")),
                Some(code),
                "{command} {option}"
            );
        }
    }
    assert_eq!(run("--mode inline put E"), Some(2));
}
