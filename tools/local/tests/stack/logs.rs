//! No log line contains attribute values or keys: all lines of both functions, at every level.

use serde_json::{Value, json};

use crate::{
    support::{insert, invoke, log, quarantined, start, start_with, template},
    telemetry::Documented,
};

/// Part of every value and every request id. No line may contain it.
const SECRET: &str = "Se9cret";
/// Part of every partition key. No line may contain it.
const KEY: &str = "Ke9y";

/// The secret in Base64, as binary values are logged.
const SECRET_IN_BASE64: &str = "U2U5Y3JldA==";
const SECRET_NUMBER: &str = "90817263545362718";

fn id(name: &str) -> String {
    format!("{KEY}#{name}")
}

fn number() -> Value {
    serde_json::from_str(SECRET_NUMBER).unwrap()
}

#[tokio::test]
async fn no_log_line_contains_a_value() {
    let stack = start().await;
    if stack.endpoint.differs(&["type-names"]) {
        return;
    }
    let documented = Documented::read();
    // The other levels have fewer lines.
    for (level, mode) in [
        ("TRACE", "stream"),
        ("TRACE", "inline"),
        ("TRACE", "transaction"),
        ("DEBUG", "stream"),
        ("ERROR", "stream"),
    ] {
        let logs = Box::pin(lines(level, mode)).await;
        for line in &logs {
            documented.check(line);
        }
        assert!(!logs.is_empty() || level == "ERROR");
        for secret in [SECRET, SECRET_IN_BASE64, SECRET_NUMBER, KEY] {
            let found = logs.iter().find(|line| line.contains(secret));
            assert!(found.is_none(), "{level} {mode}: a value or a key in {found:?}");
        }
    }
}

/// Returns all lines of both functions, after successes and failures of every kind.
async fn lines(level: &str, mode: &str) -> Vec<String> {
    let mut template = template(&[("LogLevel", level), ("WriteMode", mode)]);
    template.mapping.maximum_retry_attempts = Some(0);
    let stack = start_with(template).await;
    let write = async |update: &Value| invoke(&stack, "writer-fn", update).await;
    let values = json!({
        "S": SECRET, "N": number(), "L": [SECRET, number()], "M": {"a": {"b": SECRET}}, "RequestId": format!("{SECRET}-1"),
        "Actor": SECRET, "Reason": SECRET, "Time": "2026-01-01", "ID": id("good"),
    });
    let mut kinds = Vec::new();
    for update in [
        values.clone(),
        values.clone(),
        json!({"ID": id("good"), "RequestId": format!("{SECRET}-2"), "Deleted": true, "A": SECRET}),
        // Conflicts, and every kind of invalid update.
        json!({"ID": id("good"), "ExpectedVersion": 77, "A": SECRET}),
        json!({"ID": [SECRET]}),
        json!({"ID": id("bad"), "Deleted": SECRET}),
        json!({"ID": id("bad"), "ExpectedVersion": SECRET}),
        json!({"ID": id("bad"), "RequestId": [SECRET]}),
        json!({"ID": id("bad"), "RequestId": SECRET.repeat(1000)}),
        json!({"ID": id("bad"), "Latest": SECRET}),
        json!({"ID": id("bad"), "Time": SECRET}),
        json!({"ID": id("bad"), "RequestSentAt": SECRET}),
        // The request id of another update.
        json!({"ID": id("good"), "RequestId": format!("{SECRET}-1"), "A": SECRET}),
        json!({"ID": id("bad"), "A": SECRET.repeat(100_000)}),
        json!({"ID": id("bad"), "A": (0..40).fold(json!(SECRET), |value, _| json!([value]))}),
        serde_json::from_str(&format!(
            r#"{{"ID": "{}", "A": [{SECRET_NUMBER}{SECRET_NUMBER}{SECRET_NUMBER}]}}"#,
            id("bad")
        ))
        .unwrap(),
        json!([SECRET]),
        json!(SECRET),
        json!({"Records": SECRET}),
        json!({"Type": "Notification", "Message": SECRET, "MessageId": SECRET}),
        json!({"detail-type": SECRET, "detail": {"A": SECRET}, "id": SECRET}),
    ] {
        let answer = write(&update).await;
        assert!(!answer["errorMessage"].to_string().contains(SECRET), "{answer}");
        let kind = answer["errorType"].as_str().or(answer["Outcome"].as_str());
        kinds.push(kind.unwrap().to_owned());
    }
    for kind in ["Written", "Duplicate", "VersionConflict", "InvalidEvent"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind} is not among {kinds:?}");
    }
    // Messages of a queue: the queue assigns their ids, which are no secrets.
    let message =
        |id: &str, body: &str| json!({"messageId": id, "body": body, "attributes": {"MessageGroupId": SECRET}});
    let batch = json!({"Records": [
        message("m-1", &json!({"ID": id("queued"), "A": SECRET}).to_string()), message("m-2", SECRET),
        message("m-3", &json!({"ID": id("queued"), "A": {"": SECRET}}).to_string()), message("m-4", "{}"),
    ]});
    write(&batch).await;
    // An item above 400 KB, and a counter that is not a number.
    write(&json!({"ID": id("large"), "A": SECRET.repeat(40_000)})).await;
    assert_eq!(
        write(&json!({"ID": id("large"), "B": SECRET.repeat(40_000)})).await["errorType"],
        "InvalidEvent"
    );
    stack
        .put(json!({"PK": {"S": id("odd")}, "SK": {"S": "v0"}, "Latest": {"S": SECRET}, "B": {"B": SECRET_IN_BASE64}}))
        .await;
    assert_eq!(write(&json!({"ID": id("odd")})).await["errorType"], "InvalidEvent");
    // A version that exists with other attributes, and every kind of malformed record.
    stack
        .put(json!({"PK": {"S": id("taken")}, "SK": {"S": "v1"}, "A": {"S": SECRET}}))
        .await;
    write(&json!({"ID": id("taken"), "A": format!("{SECRET} too")})).await;
    let record = |number: &str, image: &Value| {
        let mut record = insert(number, image);
        record["dynamodb"]["Keys"] = json!({"PK": {"S": id("streamed")}, "SK": {"S": "v0"}});
        record
    };
    let with = |number: &str, attribute: Value| {
        let image = json!({"PK": {"S": id("streamed")}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "A": attribute});
        record(number, &image)
    };
    let batch = json!({"Records": [
        with("1", json!({"BS": [SECRET_IN_BASE64]})), with("2", json!({"Q": SECRET})), with("4", json!(SECRET)),
        with("3", json!({"B": format!("{SECRET}!")})), record("6", &json!(SECRET)), SECRET,
        record("5", &json!({"PK": {"S": id("streamed")}, "Latest": {"N": SECRET}})),
    ]});
    invoke(&stack, "stream-fn", &batch).await;
    invoke(&stack, "stream-fn", &json!({"Records": SECRET})).await;
    // The item that is no version.
    quarantined(&stack, &id("odd")).await;
    [log(&stack, "writer-fn"), log(&stack, "stream-fn")].concat()
}

#[tokio::test]
async fn a_function_with_an_invalid_setting_logs_it_and_does_not_start() {
    let mut invalid = template(&[]);
    for function in &mut invalid.functions {
        let variables = &mut function.environment;
        variables.insert("AWS_MAX_ATTEMPTS".to_owned(), "11".to_owned());
    }
    let stack = start_with(invalid).await;
    let update = json!({"ID": "E"});
    assert_eq!(
        invoke(&stack, "writer-fn", &update).await["errorType"],
        "Runtime.ExitError"
    );
    let log = log(&stack, "writer-fn").concat();
    let cause = "AWS_MAX_ATTEMPTS cannot be read: expected a whole number from 1 to 10";
    assert!(log.contains("not started") && log.contains(cause), "{log}");
    // Valid settings reach the function.
    let stack = start_with(template(&[("MaxAttempts", "10")])).await;
    assert_eq!(invoke(&stack, "writer-fn", &update).await["Version"], 1);
}
