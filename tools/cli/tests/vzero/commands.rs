//! The command `vzero` on a table.

use std::process::Command;

use serde_json::{Value, json};
use shared::domain::Item;
use testkit::{command::Arguments, table::Table};

use crate::{new_table, script::script_tests};

/// The only line of a command that succeeds.
fn line(table: &Table, arguments: &(impl Arguments + ?Sized)) -> Value {
    table.json(arguments, 0)
}

script_tests! {
    fn the_life_of_an_entity();
    fn without_stream_fn_versions_are_not_in_history();
    fn each_failure_has_its_exit_code_and_one_line();
    fn the_width_of_version_keys_is_that_of_the_table();
    fn metadata_and_states();
}

#[test]
fn every_type_is_shown_and_restored_without_loss() {
    if testkit::endpoint::is_about_one_table("every_type_is_shown_and_restored_without_loss") {
        return;
    }
    let table = new_table();
    if table
        .endpoint
        .differs("every_type_is_shown_and_restored_without_loss", &["type-names"])
    {
        return;
    }
    let attributes = r#"{"S": "é\u0000", "N": -0.12345678901234567890123456789012345678, "Empty": "", "B": {"$binary": "AAEC"},
        "SS": {"$strings": ["a", "b"]}, "NS": {"$numbers": [1, 2.5]}, "BS": {"$binaries": ["AA==", "AQ=="]},
        "Null": {"$null": true}, "Bool": false, "L": [null, {"$binary": ""}], "M": {"$map": {"$x": 1}}}"#;
    assert_eq!(table.run_with_input("put --mode inline E --json -", attributes).code, 0);
    let shown = table.run("get E");
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), &shown.stdout).unwrap();
    // Puts the printed version as another entity.
    let copy = ["put", "--mode", "inline", "F", "--json", path.path().to_str().unwrap()];
    assert_eq!(line(&table, &copy)["Version"], 1);
    assert_eq!(line(&table, "get F")["Attributes"], shown.lines[0]["Attributes"]);
    assert!(shown.stdout.contains("-0.12345678901234567890123456789012345678"));
    let stored = ["E", "F"].map(|id| {
        let mut item = table.items_of(id)["v1"].clone();
        let members = item.as_object_mut().unwrap();
        members.retain(|name, _| !["PK", "RequestId", "RecordedAt", "V0Id"].contains(&name.as_str()));
        serde_json::from_value::<Item>(item).unwrap()
    });
    assert_eq!(stored[0], stored[1]);
}

#[test]
fn usage_errors_are_one_line() {
    testkit::command::check(
        |arguments| {
            let output = Command::new(crate::VZERO).args(arguments.words()).output();
            output.unwrap().into()
        },
        "
        get => 2 error: the following required arguments were not provided: <ID>; `vzero get --help` lists the arguments
        nonsense => 2 error: unrecognized subcommand 'nonsense'; `vzero --help` lists the arguments
        admin state list E --limit x => 2 error: invalid value 'x' for '--limit <COUNT>': invalid digit found in string; \
        `vzero admin state list --help` lists the arguments
        get E --endpoint-url localhost:8000 => 2 error: invalid value 'localhost:8000' for '--endpoint-url <URL>': \
        expected a URL such as http://127.0.0.1:8000; `vzero get --help` lists the arguments
        ",
    );
}

#[test]
fn an_unreachable_database_is_named_with_the_cause_and_the_next_step() {
    let credentials = "AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x";
    let region = "AWS_REGION=eu-central-1";
    let all = format!("{credentials} {region}");
    let wrong = format!("{all} AWS_ENDPOINT_URL=localhost:8000");
    let is_local = "--endpoint-url http://127.0.0.1:1";
    let unknown = "--endpoint-url http://host.invalid:8000";
    for (environment, arguments, code, start, end) in [
        (
            "",
            is_local,
            5,
            "cannot connect to http://127.0.0.1:1: connection refused",
            "; start the local stack, or correct --endpoint-url",
        ),
        (
            &all,
            unknown,
            5,
            "cannot connect to http://host.invalid:8000: ",
            "; correct --endpoint-url, or check the network",
        ),
        (region, "", 5, "no AWS credentials found: run `aws sso login`", ""),
        (credentials, "", 2, "no AWS Region: use --region, or set AWS_REGION", ""),
        (
            &wrong,
            "",
            2,
            "the endpoint is not a URL (",
            "): correct AWS_ENDPOINT_URL, or use --endpoint-url",
        ),
    ] {
        let (start, end) = (format!("error: {start}"), format!("{end}\n"));
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(crate::VZERO);
        command.env_clear().env("HOME", home.path());
        command
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_MAX_ATTEMPTS", "1");
        command.envs(environment.split_whitespace().map(|pair| pair.split_once('=').unwrap()));
        command.args(["get", "secret"]).args(arguments.words());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.starts_with(&start) && said.ends_with(&end), "{said}");
        assert!(said.lines().count() == 1 && !said.contains("secret"), "{said}");
        let verbose = command.arg("-v").output().unwrap();
        let verbose = String::from_utf8(verbose.stderr).unwrap();
        assert!(
            verbose.len() > said.len() && verbose.contains("GetItem could not be sent"),
            "{verbose}"
        );
    }
}

#[test]
fn null_removes_an_attribute_and_null_can_be_stored() {
    let table = new_table();
    line(&table, "put E --set A=1 --set 'ID=an attribute'");
    line(&table, r#"put E --set-json A=null --set-json 'B={"$null": true}'"#);
    let attributes = line(&table, "get E")["Attributes"].clone();
    assert_eq!(attributes, json!({"B": {"$null": true}, "ID": "an attribute"}));
    let shown = table.run("get E").stdout;
    assert_eq!(table.run_with_input("put F --json -", &shown).code, 0);
    assert_eq!(line(&table, "get F")["Attributes"], attributes);
}

#[test]
fn tables_completions_and_costs() {
    let table = new_table();
    let put = table.run("--consumed-capacity put --mode inline E --set State=OK");
    assert!(put.stderr.contains(" units in 3 requests"), "{put:?}");
    table.check(
        "
        --output table history E => ~ State => ~ │ 1
        --output table lag E => ~ the latest version is 1, the newest in history is 1
        completions bash => ~ _vzero
        put --help => ~ Example: vzero put
        ",
    );
}

/// Write options with their values, and the commands that accept them besides put, restore, delete and undelete.
const WRITE_OPTIONS: [(&str, &[&str]); 11] = [
    ("--mode inline", &["backfill", "console", "plan"]),
    ("--idempotency recent", &["backfill", "console", "plan"]),
    ("--idempotency-window 7", &["backfill", "console", "plan"]),
    ("--ledger-ttl-days 7", &["backfill", "console", "plan"]),
    ("--ordering time", &["backfill", "console"]),
    ("--skip-unchanged", &["backfill", "console"]),
    ("--expect 1", &[]),
    ("--request-id r", &[]),
    ("--time 2020-01-01", &["state put"]),
    ("--actor me", &["history"]),
    ("--reason why", &[]),
];

#[test]
fn only_commands_that_write_accept_write_options() {
    let run = |command: &str| {
        let ran = Command::new(crate::VZERO).args(command.words()).output();
        ran.unwrap().status.code()
    };
    let commands = "put,restore,delete,undelete,get,history,diff,lag,metadata,state put,state latest,state list,state load,items,\
                    table create,audit,backfill,prune,pin,purge,redrive,repair,console,plan,completions";
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
