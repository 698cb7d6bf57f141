//! The writer checks the layout of its table before its first write, with replayed responses.

use serde_json::{Value, json};
use shared::domain::keys::VersionDigits;
use testkit::{
    cases::cases,
    replay::{self, Replay},
};
use writer_fn::Writer;

use super::handle;

fn config(table_id: &str) -> Value {
    json!({"Item": {
        "PK": {"S": "#vzero"}, "SK": {"S": "config"}, "VersionDigits": {"N": "1"},
        "TableId": {"S": table_id}, "TableName": {"S": "Original"},
    }})
}

fn described(table_id: &str) -> Value {
    json!({"Table": {"TableName": "Table", "TableId": table_id}})
}

#[tokio::test(start_paused = true)]
async fn the_layout_is_checked_once() {
    let written = json!({"Attributes": {"Latest": {"N": "7"}}});
    let replay = Replay::new([config("id"), described("id"), written.clone(), written]);
    let writer = Writer::new(replay.client(), &replay::settings());
    for _ in 0..2 {
        let written = handle(&writer, &json!({"ID": "E", "A": 1})).await;
        assert_eq!(written["Version"], 7);
    }
    assert_eq!(
        replay.operations(),
        ["GetItem", "DescribeTable", "UpdateItem", "UpdateItem"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_history_table_gets_its_owner_before_the_layout_is_stored() {
    let owner = |table: &str, history: &str| {
        json!({"Item": {
            "PK": {"S": "#vzero"}, "SK": {"S": "owner"}, "TableId": {"S": table}, "TableName": {"S": "Other"},
            "HistoryTableId": {"S": history},
        }})
    };
    let taken = json!({"Responses": [{"Error": {"Code": "DuplicateItem"}}]});
    let [stored, written] = [json!({}), json!({"Attributes": {"Latest": {"N": "1"}}})];
    for (responses, is_refused) in [
        (vec![json!({"Responses": [{"TableName": "History"}]})], false),
        // A response to the INSERT was lost.
        (vec![taken.clone(), owner("id", "history")], false),
        (vec![taken.clone(), owner("other", "history")], true),
        // The history table is a copy.
        (vec![taken, owner("id", "original")], true),
    ] {
        let mut settings = replay::settings();
        settings.history = Some("History".to_owned());
        let before = [json!({}), described("id"), json!({"Items": []}), described("history")];
        let after = [stored.clone(), written.clone()];
        let replay = Replay::new(before.into_iter().chain(responses.clone()).chain(after));
        let writer = Writer::new(replay.client(), &settings);
        let response = handle(&writer, &json!({"ID": "E", "A": 1})).await;
        let claimed = [
            "GetItem",
            "DescribeTable",
            "Scan",
            "DescribeTable",
            "BatchExecuteStatement",
        ];
        assert_eq!(replay.operations()[..5], claimed);
        assert_eq!(replay.bodies()[3]["TableName"], "History");
        let statement = &replay.bodies()[4]["Statements"][0]["Statement"];
        assert!(
            statement.as_str().unwrap().starts_with("INSERT INTO \"History\""),
            "{statement}"
        );
        let sent = 4 + responses.len();
        if is_refused {
            assert_eq!(response["errorType"], "Layout");
            let message = response["errorMessage"].as_str().unwrap();
            let command = "`vzero --table Table admin table adopt --history-table History`";
            assert!(
                message.contains("belongs to another table (Other)") && message.contains(command),
                "{message}"
            );
            assert_eq!(replay.operations().len(), sent);
        } else {
            assert_eq!(response["Version"], 1);
            assert_eq!(replay.operations()[sent..], ["UpdateItem", "UpdateItem"]);
            assert_eq!(replay.bodies()[sent]["Key"]["PK"]["S"], "#vzero");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_keys_of_a_table_without_a_layout_decide_whether_it_gets_this_one() {
    // The width of the settings and the keys, or the error of the read; the message if the layout is refused.
    const KEYS: &str = r#"
        [1, ["v0", "v1", "Metadata", "v1#note"]]  ->
        [1, "AccessDeniedException"]              ->
        [2, ["Metadata", "v00", "v12"]]           ->
        [1, ["Metadata", "v12", "v01"]]           -> the table Table has versions whose keys have 2 digits, not 1: deploy with VersionDigits=2, and run `vzero --table Table --version-digits 2 admin table adopt`
        [2, ["v00", "v1"]]                        -> the table Table has versions whose keys have 1 digits, not 2
        [2, ["Metadata"]]                         -> have 1 digits, not 2: use VersionDigits=1, or, if it has no such versions, `vzero --table Table --version-digits 2 admin table adopt`
        [2, "AccessDeniedException"]              -> Scan failed with AccessDenied
    "#;
    for (case, message) in KEYS
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split_once("->").unwrap())
    {
        let (case, message): (Value, _) = (serde_json::from_str(case).unwrap(), message.trim());
        let item = |key: &Value| json!({"PK": {"S": "Equipment#1"}, "SK": {"S": key}});
        let page = match &case[1] {
            Value::String(code) => json!({"__type": code}),
            keys => json!({"Items": keys.as_array().unwrap().iter().map(item).collect::<Vec<_>>()}),
        };
        let written = json!({"Attributes": {"Latest": {"N": "1"}}});
        let replay = Replay::new([json!({}), described("id"), page, json!({}), written]);
        let mut settings = replay::settings();
        settings.digits = VersionDigits::new(u8::try_from(case[0].as_u64().unwrap()).unwrap()).unwrap();
        let response = handle(&Writer::new(replay.client(), &settings), &json!({"ID": "E", "A": 1})).await;
        let operations = replay.operations();
        assert_eq!(operations[..3], ["GetItem", "DescribeTable", "Scan"]);
        if message.is_empty() {
            assert_eq!(operations[3..], ["UpdateItem", "UpdateItem"], "{case}");
            assert_eq!(
                replay.bodies()[3]["ExpressionAttributeValues"][":digits"]["N"],
                case[0].to_string()
            );
        } else {
            assert_eq!(operations.len(), 3, "{case}");
            assert!(
                response["errorMessage"].as_str().unwrap().contains(message),
                "{response}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_a_successful_check() {
    // Changes of the stored layout and of the description, or the errors of their reads; the type of the error, and its message.
    const REFUSED: &str = r#"
        [{"TableId": {"S": "original"}}, {}, "Layout"]                  -> is a copy of Original
        [{}, {"Replicas": [{"RegionName": "eu-west-1"}]}, "Layout"]     -> is a global table
        [{"VersionDigits": {"N": "10"}}, {}, "Layout"]                  -> have 10 digits, not 1
        [{}, "AccessDeniedException", "Internal"]                       -> DescribeTable failed with AccessDenied
        ["AccessDeniedException", {}, "Internal"]                       -> GetItem failed with AccessDenied
        [{}, "ThrottlingException", "Throttled"]                        -> DescribeTable failed with Throttling
    "#;
    let changed = |mut response: Value, member: &str, change: &Value| match change {
        Value::String(code) => json!({"__type": code}),
        change => {
            let members = response[member].as_object_mut().unwrap();
            members.extend(change.as_object().unwrap().clone());
            response
        }
    };
    for (case, message) in cases(REFUSED) {
        let attempts = if case[1] == "ThrottlingException" { 3 } else { 1 };
        let mut responses = vec![changed(config("id"), "Item", &case[0])];
        responses.extend(vec![changed(described("id"), "Table", &case[1]); attempts]);
        for event in [
            json!({"ID": "E", "A": 1}),
            json!({"Records": [{"messageId": "m", "body": "{\"ID\": \"E\"}"}]}),
        ] {
            let written = json!({"Attributes": {"Latest": {"N": "1"}}});
            let next = [config("id"), described("id"), written];
            let replay = Replay::new(responses.iter().cloned().chain(next));
            let writer = Writer::new(replay.client(), &replay::settings());
            let refused = handle(&writer, &event).await;
            assert_eq!(refused["errorType"], case[2], "{refused}");
            assert!(refused["errorMessage"].as_str().unwrap().contains(message), "{refused}");
            assert_eq!(replay.requests().len(), responses.len(), "{message}");
            // The next invocation of the process checks again.
            let response = handle(&writer, &event).await;
            assert!(response.get("errorType").is_none(), "{response}");
        }
    }
}
