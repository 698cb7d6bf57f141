//! The command `vzero` on a table.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{command::Arguments, table::Table};

use crate::new_table;

/// The only line of a command that succeeds.
fn line(table: &Table, arguments: &(impl Arguments + ?Sized)) -> Value {
    table.json(arguments, 0)
}

/// A version without the members that differ in each run.
fn stable(mut version: Value) -> Value {
    let members = version.as_object_mut().unwrap();
    assert!(
        members
            .remove("RecordedAt")
            .is_some_and(|time| time.as_str().unwrap().ends_with('Z'))
    );
    assert!(members.remove("RequestId").is_some());
    version
}

fn written(version: u64) -> Value {
    json!({"ID": "E", "Version": version, "Outcome": "Written"})
}

fn version(number: u64, deleted: bool, attributes: Value) -> Value {
    json!({"ID": "E", "Version": number, "Deleted": deleted, "Attributes": attributes})
}

#[test]
#[allow(clippy::too_many_lines, reason = "one story in the order of its commands")]
fn the_life_of_an_entity_in_every_mode() {
    for mode in ["stream", "inline", "transaction"] {
        let table = new_table();
        let write = |arguments: &str| line(&table, &format!("{arguments} --mode {mode}"));
        let first = write("put E --set State=OK --set-json N=12345678901234567890.5 --time 2020-01-01T00:00:00");
        assert_eq!(first, written(1));
        let second = "put E --set State=BAD --unset N --actor me --reason why --request-id r2";
        assert_eq!(write(&format!("{second} --time 2020-01-02T00:00:00")), written(2));
        let again = write(&format!("{second} --time 2020-01-02T00:00:00"));
        assert_eq!(again, json!({"ID": "E", "Version": 2, "Outcome": "Duplicate"}));

        let mut shown = version(2, false, json!({"State": "BAD", "Time": "2020-01-02T00:00:00"}));
        (shown["Actor"], shown["Reason"]) = (json!("me"), json!("why"));
        let now = line(&table, "get E");
        assert_eq!((stable(now.clone()), &now["RequestId"]), (shown, &json!("r2")));
        assert_eq!(line(&table, "get E --eventual"), now);
        assert_eq!(line(&table, "get E --version 2"), now);
        if mode == "stream" {
            // No function reads the stream of this table, so version 1 is not in history.
            table.check(
                r#"
                lag E => = {"ID": "E", "Latest": 2, "Through": 0}
                get E --version 1 => 3
                history E => Version [2] => 0 note: not in the history yet: 1
                "#,
            );
            continue;
        }
        let number: Value = serde_json::from_str("12345678901234567890.5").unwrap();
        let attributes = json!({"State": "OK", "N": number, "Time": "2020-01-01T00:00:00"});
        let then = version(1, false, attributes);
        let shown = then;
        let then = line(&table, "get E --version 1");
        assert_eq!(stable(then.clone()), shown);
        let at = then["RecordedAt"].as_str().unwrap();
        assert_eq!(line(&table, &format!("get E --at {at}")), then);
        assert_eq!(line(&table, "get E --effective-at 2020-01-01T12:00:00"), then);
        let history = table.run("history E");
        assert_eq!((history.lines, history.stderr.as_str()), (vec![now, then.clone()], ""));
        table.check("history E --oldest-first --limit 1 => Version [1]");
        let mut diff = line(&table, "diff E 1 2");
        let recorded = diff.as_object_mut().unwrap().remove("Recorded").unwrap();
        assert_eq!(recorded["From"]["RecordedAt"], then["RecordedAt"]);
        assert_eq!(
            stable(recorded["To"].clone()),
            json!({"Version": 2, "Actor": "me", "Reason": "why"})
        );
        assert_eq!(
            diff,
            json!({
                "ID": "E", "From": 1, "To": 2, "Added": {}, "Removed": {"N": number},
                "Changed": {
                    "State": {"From": "OK", "To": "BAD"},
                    "Time": {"From": "2020-01-01T00:00:00", "To": "2020-01-02T00:00:00"},
                },
            })
        );
        assert_eq!(write("restore E 1"), written(3));
        // The time of version 1 describes only that version.
        let state = json!({"State": "OK", "N": number});
        let mut restored = version(3, false, state.clone());
        restored["RestoredFrom"] = json!(1);
        assert_eq!(stable(line(&table, "get E")), restored);
        assert_eq!(write("delete E"), written(4));
        table.check(
            r#"
            get E => 3 error: E is deleted as of version 4
            get E --deleted => {"Deleted": true}
            "#,
        );
        assert_eq!(write("delete E")["Outcome"], "Unchanged");
        assert_eq!(write("undelete E"), written(5));
        assert_eq!(line(&table, "get E")["Attributes"], state);
        table.check(r#"lag E => = {"ID": "E", "Latest": 5, "Through": 5}"#);
        assert_eq!(write("put E --set State=OK --skip-unchanged")["Outcome"], "Unchanged");
    }
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
    let items = table.runtime.block_on(async {
        let client = aws_sdk_dynamodb::Client::new(&table.endpoint.config);
        let get = async |pk: &str| {
            let key = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
            let request = client
                .get_item()
                .table_name(&table.name)
                .key("PK", key(pk))
                .key("SK", key("v1"));
            let mut item = request.send().await.unwrap().item.unwrap();
            item.retain(|name, _| !["PK", "RequestId", "RecordedAt", "V0Id"].contains(&name.as_str()));
            item
        };
        (get("E").await, get("F").await)
    });
    assert_eq!(items.0, items.1);
}

#[test]
fn each_failure_has_its_exit_code_and_one_line() {
    let table = new_table();
    table.check(
        r#"
        put --mode inline E --set A=1 --time 2020-01-02T00:00:00 --ordering time => {"Version": 1}
        get F => 3 error: there is no F in …
        get E --version 2 => 3 error: there is no version 2 of E: the latest is 1
        get E --version 0 => 2 error: a version is a number from 1 to 9223372036854775807
        get E --at soon => 2 error: --at: it is not an ISO 8601 date and time
        get E --at 2019-01-01 => 3 error: E has no version of this time or an earlier one: the latest is version 1
        history F => 3 error: there is no F…
        diff E 1 2 => 3 error: there is no version 2 of E: the latest is 1
        restore E 7 => 3 error: there is no version 7 of E: the latest is 1
        restore F 1 => 3 error: there is no F in …
        delete F => 3 error: there is no F in …
        metadata E => 3 error: E has no metadata
        state latest E => 3 error: E has no states
        put E --expect 5 --set A=2 => 4 error: expected version 5, but the latest is 1…
        put E --set A=2 --ordering time --time 2020-01-01 => 4 error: the update is older than the latest version, 1
        put E --set PK=x => 2 error: the update: PK is reserved
        put E --set-json A=oops => 2 error: A: expected a value at line 1 column 1
        put E --set-json 'A={"$odd": 1}' => 2 error: A: $odd is no known form: put a map with such a name as {"$map": {…}}
        put E --json /no/such/file => 2 error: /no/such/file: No such file or directory (os error 2)
        put E => 2 error: put needs attributes: use --set, --set-json or --unset, or --json FILE, which may be {}
        put E --actor me --time 2020-01-01 => 2 error: put needs attributes…
        put '' --set A=2 => 2 error: the update: ID is not a partition key: the partition key is empty
        put E --set A=2 --time junk => 2 error: --time: it is not an ISO 8601 date and time
        put E --set Time=junk => 2 error: the update: Time cannot be read: it is not an ISO 8601 date and time
        put E --ordering time --set A=2 => 2 error: the update: Time is missing, and updates are ordered by time
        restore E 1 --ordering time => 2 error: the update: Time is missing…
        delete E --ordering time => 2 error: the update: Time is missing…
        undelete E --ordering time => 2 error: the update: Time is missing…
        state put E --time 2020-01-01 --set Latest=1 => 2 error: Latest is reserved
        metadata E --set TTL=1 => 2 error: TTL is reserved
        --profile nope get E => 2 error: --profile: there is no profile nope, or it has no credentials: …
        state put E --set A=1 => 2 error: a state needs --time
        --version-digits 7 get E => 2 error: the table's version keys have 1 digits, not 7
        --table NoSuchTable get E => 3 error: there is no table NoSuchTable at http://…
        "#,
    );
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
fn the_width_of_version_keys_is_that_of_the_table() {
    if testkit::endpoint::is_about_one_table("the_width_of_version_keys_is_that_of_the_table") {
        return;
    }
    // Without --version-digits, the table's width applies.
    new_table().check(
        r#"
        --version-digits 3 put --mode inline E --set A=1 => {"Version": 1}
        put --mode inline E --set A=2 => {"Version": 2}
        history E => Version [2, 1]
        --version-digits 1 history E => 2
        "#,
    );
}

#[test]
fn metadata_and_states() {
    new_table().check(
        r#"
        metadata E --set Name=Equipment-001 --set-json Lines=[1] => = {"ID": "E", "Attributes": {"Name": "Equipment-001", "Lines": [1]}}
        metadata E --unset Lines => = {"ID": "E", "Attributes": {"Name": "Equipment-001"}}
        metadata E => = {"ID": "E", "Attributes": {"Name": "Equipment-001"}}
        state put E --time 2020-01-01T00:00:00 --set State=OK => {"Outcome": "Put"}
        state put E --time 2020-01-02T00:00:00 --set State=BAD => {"Outcome": "Put"}
        state put E --time 2020-01-02T00:00:00 --set State=OTHER => 4
        state latest E => = {"ID": "E", "Time": "2020-01-02T00:00:00", "Attributes": {"State": "BAD"}}
        state list E => Time ["2020-01-01T00:00:00", "2020-01-02T00:00:00"]
        state list E --from 2020-01-01T12:00:00 => = {"ID": "E", "Time": "2020-01-02T00:00:00", "Attributes": {"State": "BAD"}}
        state put E --time 2020-01-02T00:00:00 --set State=OTHER --replace => {"Outcome": "Put"}
        "#,
    );
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
