//! Records whose JSON is much larger than the items: a number of one digit can have 126 of them.

use std::time::Duration;

use aws_sdk_dynamodb::{config::timeout::TimeoutConfig, types::AttributeValue};
use testkit::endpoint::is_skipped;

use crate::{
    command::COMMAND,
    support::{start_with, template},
};

/// Numbers of an item. Each has 135 bytes in a record, and about 3 in the item.
const NUMBERS: usize = 34_000;
/// A build without optimizations needs seconds for each request with such an item.
const PATIENT: [(&str, &str); 3] = [
    ("ReadTimeoutMs", "25000"),
    ("AttemptTimeoutMs", "25000"),
    ("OperationTimeoutMs", "25000"),
];

const TIMEOUT: Duration = Duration::from_secs(240);

/// Lambda invokes a function with up to 6 MB.
#[tokio::test]
async fn a_record_of_more_than_4_mb_is_delivered() {
    if is_skipped("a_record_of_more_than_4_mb_is_delivered", COMMAND) {
        return;
    }
    let stack = start_with(template(&PATIENT)).await;
    let timeouts = TimeoutConfig::builder().operation_timeout(TIMEOUT).build();
    let config = aws_sdk_dynamodb::config::Builder::from(&stack.endpoint.config).timeout_config(timeouts);
    let client = aws_sdk_dynamodb::Client::from_conf(config.build());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = AttributeValue::N("1E125".to_owned());
    let put = client
        .put_item()
        .table_name(&stack.table)
        .item("PK", text("large"))
        .item("SK", text("v0"))
        .item("Latest", AttributeValue::N("1".to_owned()))
        .item("A", AttributeValue::L(vec![number; NUMBERS]));
    put.send().await.unwrap();
    let is_delivered = async || {
        let get = client.get_item().table_name(&stack.table).projection_expression("PK");
        let get = get.key("PK", text("large")).key("SK", text("v1"));
        get.send().await.unwrap().item.is_some()
    };
    let delivered = async {
        while !is_delivered().await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, delivered).await.unwrap();
}
