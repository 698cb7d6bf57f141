//! Messages that must not harm the others of their batch.

use serde_json::{Value, json};
use shared::json;
use testkit::{
    hostile::{NUMBER, RAW_VALUE, overflow},
    replay::failures,
    scripted::{Reply, Scripted},
};

fn message(id: &str, body: &str) -> Value {
    super::message(id, body, &json!({}))
}

/// Handles a batch. Returns the failed messages, and the values of the updates by request id.
async fn handle(messages: &[Value], panics_for: &'static str) -> (Vec<String>, Vec<(String, Value)>) {
    let http = Scripted::new(move |_, body| {
        assert_ne!(
            body["ExpressionAttributeValues"][":request"]["S"], panics_for,
            "a defect"
        );
        Reply::now(json!({"Attributes": {"Latest": {"N": "1"}}}))
    });
    let response = super::handle(&super::writer(http.clone()), &super::batch(messages)).await;
    (failures(&response), super::sent(&http))
}

fn has(values: &Value, value: &Value) -> bool {
    values.as_object().unwrap().values().any(|other| other == value)
}

fn healthy(n: usize) -> Value {
    message(
        &format!("healthy{n}"),
        &json!({"ID": format!("E{n}"), "A": n}).to_string(),
    )
}

/// As `serde_json::Value`, the document overflows the stack and ends the process, with all messages of the batch.
#[tokio::test]
async fn a_document_that_overflows_the_stack_of_a_parser_is_data() {
    for objects in [40, 80, 100] {
        let hostile = overflow(120, objects);
        let mut messages: Vec<_> = (1..=9).map(healthy).collect();
        messages.insert(4, message("hostile", &format!(r#"{{"ID": "b", "A": {hostile}}}"#)));
        let (failed, sent) = handle(&messages, "").await;
        // DynamoDB stores at most 32 levels.
        assert_eq!(failed, ["hostile"]);
        assert_eq!(sent.len(), 9, "{sent:?}");

        let hostile = overflow(20, objects);
        let (failed, sent) = handle(&[message("hostile", &format!(r#"{{"ID": "b", "A": {hostile}}}"#))], "").await;
        assert!(failed.is_empty());
        let mut document = &json::parse(&hostile).unwrap();
        for _ in 0..20 {
            document = &document[0];
        }
        let lists = (0..20).fold(
            json!({"M": {RAW_VALUE: {"S": document[RAW_VALUE]}}}),
            |value, _| json!({"L": [value]}),
        );
        assert!(has(&sent[0].1, &lists), "{objects}");
    }
}

#[tokio::test]
async fn reserved_names_are_data_at_each_position() {
    for name in [RAW_VALUE, NUMBER] {
        for (value, stored) in [
            (json!({name: "{\"x\": 1}"}), json!({"M": {name: {"S": "{\"x\": 1}"}}})),
            (json!({name: "1"}), json!({"M": {name: {"S": "1"}}})),
            (json!({name: "no JSON"}), json!({"M": {name: {"S": "no JSON"}}})),
            (
                json!({name: {name: 1}}),
                json!({"M": {name: {"M": {name: {"N": "1"}}}}}),
            ),
            (
                json!([{name: [], "b": 1}]),
                json!({"L": [{"M": {name: {"L": []}, "b": {"N": "1"}}}]}),
            ),
        ] {
            let update = json!({"ID": "E", "A": value, name: "an attribute"}).to_string();
            let event = json!({"detail-type": name, "detail": {"ID": "E", "A": value}, name: "1"}).to_string();
            let notification = json!({"Type": "Notification", "Message": update, name: "1"}).to_string();
            for body in [update.clone(), event, notification] {
                let mut carrier = message("m", &body);
                carrier["attributes"] = json!({name: "1"});
                carrier["messageAttributes"] = json!({name: value});
                let (failed, sent) = handle(&[carrier], "").await;
                assert!(failed.is_empty(), "{body}");
                assert!(has(&sent[0].1, &stored), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn a_panic_fails_only_its_own_message() {
    let mut messages: Vec<_> = (1..=9).map(healthy).collect();
    messages.insert(4, message("defect", &json!({"ID": "D", "A": 0}).to_string()));
    let (failed, sent) = handle(&messages, "defect").await;
    assert_eq!(failed, ["defect"]);
    assert_eq!(sent.len(), 9, "{sent:?}");
}
