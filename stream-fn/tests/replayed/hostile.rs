//! Records that must not harm the others of their batch.

use serde_json::{Value, json};
use shared::clock;
use testkit::{
    hostile::{NUMBER, RAW_VALUE, overflow},
    scripted::{Reply, Scripted},
};

use super::{LEFT, batch, latest_keys, record};

fn latest(number: u64, attributes: &Value) -> Value {
    let mut record = record(&number.to_string(), &latest_keys(&format!("E{number}")), attributes);
    record["dynamodb"]["NewImage"]["Latest"] = json!({"N": "1"});
    record
}

/// Returns the sequence numbers of the failed records, and the bodies of the answered requests. Panics before a request with this text.
async fn handle(event: &str, panics_for: &'static str) -> (Vec<String>, Vec<String>) {
    let http = Scripted::new(move |operation, body| {
        let text = body.to_string();
        assert!(panics_for.is_empty() || !text.contains(panics_for), "a defect");
        let count = body["Statements"].as_array().map_or(0, Vec::len);
        Reply::now(match operation {
            "Query" => json!({"Items": [], "Count": 0}),
            "BatchExecuteStatement" => json!({"Responses": vec![json!({}); count]}),
            _ => json!({}),
        })
    });
    let failed = super::handle(&super::writer(http.clone()), event, LEFT).await.unwrap();
    let sent = http.answered().into_iter().map(|(_, body)| body.to_string()).collect();
    (failed, sent)
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_only_its_own_record() {
    let mut records: Vec<_> = (1..=60)
        .map(|number| latest(number, &json!({"A": {"S": "a"}})))
        .collect();
    records[29] = latest(30, &json!({"A": {"S": "defect"}}));
    let event = batch(&records);
    let (failed, sent) = handle(&event, "defect").await;
    assert_eq!(failed, ["30"]);
    let is_sent = |number: usize| sent.iter().any(|body| body.contains(&format!("\"E{number}\"")));
    assert!((1..=60).all(|number| is_sent(number) == (number != 30)));
}

/// Records that are older than 20 s are checked together, before the versions are put.
#[tokio::test(start_paused = true)]
async fn a_panic_in_the_work_on_a_chunk_fails_only_its_record() {
    let mut records: Vec<_> = (1..=30).map(|number| latest(number, &json!({}))).collect();
    for record in &mut records {
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(clock::since_epoch().as_secs() - 100);
    }
    let event = batch(&records);
    let (failed, sent) = handle(&event, "\"E7\"").await;
    assert_eq!(failed, ["7"]);
    let is_put = |number: usize| {
        let id = format!("\"E{number}\"");
        sent.iter()
            .any(|body| body.contains(&id) && !body.contains("RequestItems"))
    };
    assert!((1..=30).all(|number| is_put(number) == (number != 7)));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_quarantine_fails_only_its_record() {
    let mut records: Vec<_> = (1..=3).map(|number| latest(number, &json!({}))).collect();
    records[1]["dynamodb"]["NewImage"]["Latest"] = json!({"S": "no number"});
    let event = batch(&records);
    let (failed, sent) = handle(&event, "quarantine#").await;
    assert_eq!(failed, ["2"]);
    assert!([1, 3].iter().all(|number| {
        let id = format!("\"E{number}\"");
        sent.iter().any(|body| body.contains(&id))
    }));
}

#[tokio::test(start_paused = true)]
async fn reserved_names_are_data_at_each_position() {
    let attributes = |name: &str| {
        json!({
            name: {"S": "[1"},
            "M": {"M": {name: {"S": "{\"x\": 1}"}}},
            "N": {"L": [{"M": {name: {"M": {name: {"N": "1"}}}}}]},
            "Set": {"SS": [name]},
        })
    };
    for name in [RAW_VALUE, NUMBER] {
        let mut record = latest(1, &attributes(name));
        record["dynamodb"]["Keys"][name] = json!({"S": "[1"});
        record["userIdentity"] = json!({name: "1"});
        record[name] = json!("[1");
        // A document that overflows the stack of a parser, in a member that is not read, and in one that is.
        let event = json!({"Records": [record], name: "1"}).to_string();
        let deep = overflow(120, 60);
        let event = event.replacen('{', &format!("{{\"other\": {deep}, "), 1);
        let malformed = format!(r#"{{"dynamodb": {{"SequenceNumber": "2", "Keys": {deep}}}}}"#);
        let event = event.replacen("\"Records\":[", &format!("\"Records\":[{malformed}, "), 1);
        let (failed, sent) = handle(&event, "").await;
        assert_eq!(failed, ["2"]);
        assert_eq!(sent.len(), 1);
        for text in [
            format!(r#""{name}":{{"S":"[1"}}"#),
            format!(r#"{{"M":{{"{name}":{{"S":"{{\"x\": 1}}"}}}}}}"#),
            format!(r#"{{"M":{{"{name}":{{"M":{{"{name}":{{"N":"1"}}}}}}}}}}"#),
            format!(r#"{{"SS":["{name}"]}}"#),
        ] {
            assert!(sent[0].contains(&text), "{text} in {}", sent[0]);
        }
    }
}
