//! Log lines of events with ids, names and keys of 1 MB: a line stays short, and the response has the whole id.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::logging::MAX_LINE_BYTES;
use testkit::command::members;

use crate::support::{RunningStack, failed, first, insert, invoke, log, logged, start_with, template};

const MEGABYTE: usize = 1_000_000;

/// Checks the length of each line, and that it is JSON. Returns the lines that are no metrics.
fn checked(stack: &RunningStack, function: &str) -> Vec<Value> {
    for line in log(stack, function) {
        assert!(line.len() < MAX_LINE_BYTES, "{} bytes: {}", line.len(), &line[..500]);
        assert!(!line.contains(['\u{7f}', '\u{9b}', '\u{202e}']), "{line:?}");
    }
    let mut lines = logged(stack, function);
    lines.retain(|line| line.get("_aws").is_none());
    lines
}

fn with<'a>(lines: &'a [Value], member: &'a str) -> impl Iterator<Item = &'a str> {
    lines.iter().filter_map(move |line| line[member].as_str())
}

#[tokio::test]
async fn the_ids_of_an_event_do_not_make_long_lines() {
    let mut template = template(&[("LogLevel", "DEBUG")]);
    template.mapping.maximum_retry_attempts = Some(0);
    let stack = start_with(template).await;
    let long = |start: &str| format!("{start}\u{9b}{}", "é".repeat(MEGABYTE / 2));
    let characters = |start: &str| start.len() + 1 + MEGABYTE / 2;

    // writer-fn: ids of messages, senders, groups and envelopes, names of attributes, keys.
    let message = |id: &str, body: &Value| {
        // The sender of a valid update is stored.
        let is_valid = ["r-1", "r-2"].iter().any(|request| body["RequestId"] == *request);
        let sender = if is_valid { "sender".to_owned() } else { long("sender") };
        let attributes = json!({"SenderId": sender, "MessageGroupId": long(id)});
        json!({"messageId": long(id), "body": body.to_string(), "attributes": attributes})
    };
    let bridge = json!({"id": long("b"), "source": long("s"), "detail-type": "t", "detail": {"ID": "E"}});
    let sns = json!({"Type": "Notification", "MessageId": long("n"), "Message": json!({"ID": "E"}).to_string()});
    let name = "n".repeat(65_000);
    let number = |name: &str| serde_json::from_str::<Value>(&format!(r#"{{"ID": "E", "{name}": 1e999}}"#)).unwrap();
    let bodies = [
        json!({"ID": "E", "RequestId": "r-1"}),
        json!({"ID": long("E")}),
        json!({"ID": "\u{0}".repeat(2048), "RequestId": "r-2"}),
        json!({"ID": "E", "RequestId": long("r")}),
        number(&name),
        bridge.clone(),
        sns.clone(),
        json!(long("text")),
    ];
    let ids: Vec<_> = (0..bodies.len()).map(|index| format!("m-{index}-")).collect();
    let records: Vec<_> = ids.iter().zip(&bodies).map(|(id, body)| message(id, body)).collect();
    let mut failures = 0;
    for records in records.chunks(2) {
        let response = invoke(&stack, "writer-fn", &json!({"Records": records})).await;
        for failure in response["batchItemFailures"].as_array().unwrap() {
            let is_whole = ids.iter().any(|start| failure["itemIdentifier"] == long(start));
            assert!(is_whole, "the response has the whole id");
            failures += 1;
        }
    }
    assert_eq!(failures, 6);
    for event in [&bridge, &sns, &number(&name)] {
        let response = invoke(&stack, "writer-fn", event).await;
        assert_eq!(response["errorType"], "InvalidEvent");
        assert!(response.to_string().len() < MAX_LINE_BYTES);
    }
    let lines = checked(&stack, "writer-fn");
    for id in &ids {
        let (start, characters) = ("é".repeat(127 - id.len()), characters(id));
        let expected = format!("{id}\u{9b}{start}… ({characters} characters)");
        let logged = with(&lines, "message_id").find(|logged| logged.starts_with(id));
        assert_eq!(logged, Some(expected.as_str()));
    }
    assert!(with(&lines, "error").any(|error| error.contains("… (65000 characters) cannot be stored")));

    // stream-fn: sequence numbers, in both kinds of records, and names of attributes.
    let record = |number: &str, id: &str, attribute: &str| {
        let mut image = first(id);
        image[attribute] = json!({"Q": "x"});
        insert(number, &image)
    };
    let kinesis = json!({"kinesis": {"sequenceNumber": long("9"), "data": long("data")}});
    let batch = json!({"Records": [
        record(&long("7"), "F", "a"), record(&long("8"), "", &long("a")), kinesis, record("111", "F", &"a".repeat(65_000)),
    ]});
    let response = invoke(&stack, "stream-fn", &batch).await;
    assert_eq!(
        response,
        failed(&["7", "8", "9"].map(long).each_ref().map(String::as_str))
    );
    let nameless = json!({"Records": [{"dynamodb": record("", "", &long("a"))["dynamodb"]}]});
    let response = invoke(&stack, "stream-fn", &nameless).await;
    assert!(response["errorType"] == "Malformed" && response.to_string().len() < MAX_LINE_BYTES);
    let lines = checked(&stack, "stream-fn");
    let end = format!("… ({} characters)", characters("7"));
    for digit in ["7", "8", "9"] {
        assert!(with(&lines, "sequence_number").any(|logged| logged.starts_with(digit) && logged.ends_with(&end)));
    }
    // The alarm counts this line.
    let alarm = json!(["record", "Quarantined", "111"]);
    assert!(
        lines
            .iter()
            .any(|line| members(line, &["message", "outcome", "sequence_number"]) == alarm)
    );
}

#[tokio::test]
async fn the_lines_of_a_large_batch_name_each_request_once() {
    const RECORDS: usize = 300;
    let stack = start_with(template(&[])).await;
    let request = |index: usize| format!("0c2ad5cf-6a0e-4f5e-8e05-{index:012}");
    let record = |index: usize| {
        let mut image = first(&format!("E{index}"));
        image["RequestId"] = json!({"S": request(index)});
        insert(&index.to_string(), &image)
    };
    let batch = json!({"Records": (0..RECORDS).map(record).collect::<Vec<_>>()});
    assert_eq!(invoke(&stack, "stream-fn", &batch).await, failed(&[]));
    let lines = checked(&stack, "stream-fn");
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for id in with(&lines, "requests").flat_map(|requests| requests.split(' ')) {
        *named.entry(id.to_owned()).or_default() += 1;
    }
    assert_eq!(named, (0..RECORDS).map(|index| (request(index), 1)).collect());
    let batches: Vec<_> = lines.iter().filter(|line| line["message"] == "batch").collect();
    assert_eq!((batches.len(), &batches[0]["recorded"]), (1, &json!(RECORDS)));
}
