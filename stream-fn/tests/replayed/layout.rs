//! stream-fn processes no record before it has checked the layout of the table, with replayed responses.

use lambda_runtime::Diagnostic;
use serde_json::{Value, json};
use shared::{clock::Deadline, config::Config, domain::attached::definition::AttachedSettings};
use stream_fn::{HistoryWriter, response::Outcome};
use testkit::{
    cases::cases,
    replay::{self, Replay},
};

use super::{LEFT, batch, latest_keys, record};

fn config(attributes: &Value) -> Value {
    let mut item = json!({
        "PK": {"S": "#vzero"}, "SK": {"S": "config"}, "VersionDigits": {"N": "1"},
        "TableId": {"S": "id"}, "TableName": {"S": "Original"},
    });
    let attributes = attributes.as_object().unwrap().clone();
    item.as_object_mut().unwrap().extend(attributes);
    json!({"Item": item})
}

fn described() -> Value {
    json!({"Table": {"TableName": "Table", "TableId": "id"}})
}

fn writer(replay: &Replay, history: Option<&str>) -> HistoryWriter {
    let mut settings = replay::settings();
    settings.history = history.map(str::to_owned);
    HistoryWriter::new(replay.client(), &settings)
}

async fn handle(writer: &HistoryWriter) -> Result<usize, Diagnostic> {
    let mut record = record("1", &latest_keys("E"), &json!({"Latest": {"N": "1"}}));
    record["dynamodb"]["ApproximateCreationDateTime"] = json!(null);
    let failed = super::handle(writer, &batch(&[record]), LEFT).await?;
    Ok(failed.len())
}

/// The purge marker is read, because the record has no time.
const PROCESSED: [&str; 2] = ["BatchGetItem", "PutItem"];

#[tokio::test(start_paused = true)]
async fn the_layout_is_checked_once() {
    let markers = json!({"Responses": {}, "UnprocessedKeys": {}});
    let replay = Replay::new([
        config(&json!({})),
        described(),
        config(&json!({})),
        markers.clone(),
        json!({}),
        markers,
        json!({}),
    ]);
    let writer = writer(&replay, None);
    writer.start().await;
    for _ in 0..2 {
        assert_eq!(handle(&writer).await.unwrap(), 0);
    }
    let expected = [&["GetItem", "DescribeTable", "GetItem"][..], &PROCESSED, &PROCESSED].concat();
    assert_eq!(replay.operations(), expected);
}

/// A writer can store another layout after the first invocation.
#[tokio::test(start_paused = true)]
async fn a_table_without_a_layout_is_checked_by_each_invocation() {
    let markers = json!({"Responses": {}, "UnprocessedKeys": {}});
    let wide = config(&json!({"VersionDigits": {"N": "10"}}));
    let own = config(&json!({"HistoryTable": {"S": "History"}}));
    for (stored, message) in [
        (wide, "have 10 digits, not 1"),
        (own, "in the table History, not in Table"),
    ] {
        let replay = Replay::new([
            json!({}),
            described(),
            markers.clone(),
            json!({}),
            stored,
            described(),
            config(&json!({})),
            described(),
            markers.clone(),
            json!({}),
            markers.clone(),
            json!({}),
        ]);
        let writer = writer(&replay, None);
        assert_eq!(handle(&writer).await.unwrap(), 0);
        let refused = handle(&writer).await.unwrap_err();
        assert!(refused.error_message.contains(message), "{}", refused.error_message);
        // Once a layout is stored, it is not read again.
        for _ in 0..2 {
            assert_eq!(handle(&writer).await.unwrap(), 0);
        }
        assert_eq!(replay.operations().len(), 12, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_record_is_processed_without_a_successful_check() {
    // Attributes of the stored layout, the error of its read, or none; the history table of the function; and the error.
    const REFUSED: &str = r#"
        [null, "History"]                                -> has no layout yet
        [{"VersionDigits": {"N": "10"}}, null]           -> have 10 digits, not 1
        [{"HistoryTable": {"S": "History"}}, null]       -> in the table History, not in Table
        [{"HistoryTable": {"S": "History"}}, "Other"]    -> in the table History, not in Other
        [{}, "History"]                                  -> in the table Table, not in History
        [{"TableId": {"S": "of-the-original"}}, null]    -> is a copy of Original
        [{"TableId": {"N": "1"}, "HistoryTable": {"S": "H"}}, null] -> `vzero --table Table admin table adopt --history-table H`
        [{"VersionDigits": {"S": "1"}}, null]            -> cannot be read
        ["AccessDeniedException", null]                  -> GetItem failed with AccessDeniedException
    "#;
    let own = |name: &str| config(&json!({"HistoryTable": {"S": name}}));
    for (case, message) in cases(REFUSED) {
        let stored = match &case[0] {
            Value::Null => json!({}),
            Value::String(code) => json!({"__type": code}),
            attributes => config(attributes),
        };
        let history = case[1].as_str();
        let correct = match history {
            Some(history) => own(history),
            None => config(&json!({})),
        };
        let markers = json!({"Responses": {}, "UnprocessedKeys": {}});
        let replay = Replay::new([stored, described(), correct, described(), markers, json!({})]);
        let writer = writer(&replay, history);
        let refused = handle(&writer).await.unwrap_err();
        assert_eq!(refused.error_type, "Layout");
        assert!(refused.error_message.contains(message), "{}", refused.error_message);
        assert_eq!(replay.operations(), ["GetItem", "DescribeTable"], "{message}");
        // The invocation is retried, also in the same process, and the layout is that of the function now.
        let processed = handle(&writer).await;
        assert!(processed.is_ok(), "{message}: {processed:?}");
        assert_eq!(replay.operations().len(), 6, "{message}");
    }
}

/// The names and types of an attached table's keys, as stream-fn reads them before its first record.
fn keys(partition_key: &str, kind: &str) -> Value {
    json!({"Table": {
        "KeySchema": [{"AttributeName": partition_key, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": partition_key, "AttributeType": kind}],
    }})
}

#[tokio::test(start_paused = true)]
async fn no_record_of_an_attached_table_is_processed_before_its_keys_are_known() {
    let settings = Config {
        attached: Some(AttachedSettings {
            table: "Orders".to_owned(),
            history_table: Some("Log".to_owned()),
            ignored: ["seen".to_owned()].into(),
            ..AttachedSettings::default()
        }),
        ..replay::settings()
    };
    let mut record = record("1", &json!({"id": {"N": "7"}}), &json!({}));
    record["dynamodb"]["StreamViewType"] = json!("NEW_AND_OLD_IMAGES");
    let event = batch(&[record]);
    for (description, message) in [
        (
            json!({"__type": "AccessDeniedException"}),
            "DescribeTable failed with AccessDeniedException",
        ),
        (
            json!({"__type": "ResourceNotFoundException"}),
            "DescribeTable failed with ResourceNotFoundException",
        ),
        (json!({"Table": {}}), "KeySchema has no partition key"),
        (keys("id", "BOOL"), "the type of the key attribute id is not S, N or B"),
        (keys("seen", "N"), "IgnoreAttributes has the key attribute seen"),
    ] {
        let inserted = json!({"Responses": [{}]});
        let replay = Replay::new([description, keys("id", "N"), json!({"Items": []}), inserted]);
        let writer = HistoryWriter::new(replay.client(), &settings);
        let refused = super::handle(&writer, &event, LEFT).await.unwrap_err();
        assert_eq!(refused.error_type, "Layout");
        assert!(refused.error_message.contains(message), "{}", refused.error_message);
        assert_eq!(replay.operations(), ["DescribeTable"], "{message}");
        // Nor if a caller does not check it.
        let unchecked = writer.process(vec!["{}"], Deadline::after(LEFT)).await;
        assert!(matches!(unchecked[0].outcome, Outcome::Failed { .. }));
        // A retry reads the keys again, and the history has the key of the item.
        let failed = super::handle(&writer, &event, LEFT).await.unwrap();
        let operations = ["DescribeTable", "DescribeTable", "Query", "BatchExecuteStatement"];
        assert_eq!(replay.operations(), operations, "{message}");
        assert!(failed.is_empty(), "{message}");
        let inserted = replay.bodies()[3].to_string();
        assert!(inserted.contains(r#"{\"id\":7}"#), "{inserted}");
    }
    // At the start, the definition is stored for readers of the history. No record waits for it.
    for (stored, then) in [
        (json!({}), Some(json!({}))),
        (json!({"__type": "AccessDeniedException"}), None),
    ] {
        let operations = if then.is_some() {
            "UpdateItem GetItem"
        } else {
            "UpdateItem"
        };
        let handled = [json!({"Items": []}), json!({"Responses": [{}]})];
        let replay = Replay::new([keys("id", "N"), stored].into_iter().chain(then).chain(handled));
        let writer = HistoryWriter::new(replay.client(), &settings);
        writer.start().await;
        assert!(super::handle(&writer, &event, LEFT).await.unwrap().is_empty());
        assert_eq!(
            replay.operations().join(" "),
            format!("DescribeTable {operations} Query BatchExecuteStatement")
        );
    }
}

/// Readers learn since when the functions index the versions, and that they no longer do. Nothing is stored in the wrong table.
#[tokio::test(start_paused = true)]
async fn the_start_stores_since_when_the_index_exists() {
    let since = json!({"TimeIndexSince": {"S": "2026-11-26T13:20:52Z"}});
    let unclaimed = json!({"Item": since});
    for (time_index, config, expected) in [
        (
            true,
            config(&json!({})),
            Some("SET #since = if_not_exists(#since, :since)"),
        ),
        (true, json!({}), Some("SET #since = if_not_exists(#since, :since)")),
        (true, config(&since), None),
        (true, unclaimed.clone(), None),
        (false, config(&since), Some("REMOVE #since")),
        (false, unclaimed, Some("REMOVE #since")),
        (false, json!({}), None),
        // The item that a removal leaves in a history table.
        (
            false,
            json!({"Item": {"PK": {"S": "#vzero"}, "SK": {"S": "config"}}}),
            None,
        ),
    ] {
        let replay = Replay::new([config.clone(), described(), config.clone(), json!({})]);
        let settings = Config {
            time_index,
            ..replay::settings()
        };
        HistoryWriter::new(replay.client(), &settings).start().await;
        let update = replay.bodies().into_iter().nth(3);
        let expression = update
            .as_ref()
            .map(|update| update["UpdateExpression"].as_str().unwrap());
        assert_eq!(expression, expected, "{time_index} {config}");
        assert!(update.is_none_or(|update| update["Key"]["SK"] == json!({"S": "config"})));
    }
    let replay = Replay::new([config(&json!({"TableId": {"S": "other"}})), described()]);
    let settings = Config {
        time_index: true,
        ..replay::settings()
    };
    HistoryWriter::new(replay.client(), &settings).start().await;
    assert_eq!(replay.operations(), ["GetItem", "DescribeTable"]);
}
