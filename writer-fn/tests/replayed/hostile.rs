//! Messages that must not harm the others of their batch.

use serde_json::json;
use testkit::{
    replay::failures,
    scripted::{Reply, Scripted},
};

#[tokio::test]
async fn a_panic_fails_only_its_own_message() {
    let http = Scripted::new(|_, body| {
        assert_ne!(body["ExpressionAttributeValues"][":request"]["S"], "defect", "a defect");
        Reply::now(json!({"Attributes": {"Latest": {"N": "1"}}}))
    });
    let message = |id: &str| super::message(id, &json!({"ID": id}).to_string(), &json!({}));
    let mut messages: Vec<_> = (1..=9).map(|n| message(&format!("E{n}"))).collect();
    messages.insert(4, message("defect"));
    let response = super::handle(&super::writer(http.clone()), &super::batch(&messages)).await;
    assert_eq!(failures(&response), ["defect"]);
    let sent = super::sent(&http);
    assert_eq!(sent.len(), 9, "{sent:?}");
}
