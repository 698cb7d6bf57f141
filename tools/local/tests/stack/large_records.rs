//! Records whose JSON is much larger than the items: a number of one digit can have 126 of them.

use std::time::Duration;

use aws_sdk_dynamodb::{config::timeout::TimeoutConfig, types::AttributeValue};
use shared::{domain::entity::EntityId, dynamodb::Store};
use testkit::endpoint::is_skipped;

use crate::support::start;

/// Numbers of an item. Each has 135 bytes in a record, and about 3 in the item.
const NUMBERS: usize = 34_000;
const TIMEOUT: Duration = Duration::from_secs(240);

/// Lambda invokes a function with up to 6 MB.
#[tokio::test]
async fn a_record_of_more_than_4_mb_is_delivered() {
    if is_skipped(
        "a_record_of_more_than_4_mb_is_delivered",
        "its size is about the embedded DynamoDB",
    ) {
        return;
    }
    let stack = start().await;
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(TIMEOUT)
        .operation_attempt_timeout(TIMEOUT)
        .read_timeout(TIMEOUT)
        .build();
    let config = aws_sdk_dynamodb::config::Builder::from(&stack.endpoint.config).timeout_config(timeouts);
    let client = aws_sdk_dynamodb::Client::from_conf(config.build());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |text: &str| AttributeValue::N(text.to_owned());
    let numbers = AttributeValue::L(vec![number("1E125"); NUMBERS]);
    let put = async |id: &str, value: &AttributeValue| {
        let put = client
            .put_item()
            .table_name(&stack.table)
            .item("PK", text(id))
            .item("SK", text("v0"))
            .item("Latest", number("1"))
            .item("A", value.clone());
        put.send().await.unwrap();
    };
    let is_delivered = async |id: &str| {
        let get = client.get_item().table_name(&stack.table).projection_expression("PK");
        let get = get.key("PK", text(id)).key("SK", text("v1"));
        get.send().await.unwrap().item.is_some()
    };
    let delivered = async |id: &str| {
        let delivered = async {
            while !is_delivered(id).await {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, delivered).await.unwrap();
    };
    put("large", &numbers).await;
    delivered("large").await;

    // A record of this length that can never become a version is set aside, although a transaction has at most 4 MB.
    put("conflict", &text("first")).await;
    delivered("conflict").await;
    put("conflict", &numbers).await;
    let entity = EntityId::new("conflict").unwrap();
    let store = Store::new(client.clone(), stack.table.clone(), stack.store.digits());
    let quarantined = async {
        loop {
            if let Some(record) = operations::read::quarantined::quarantined(&store, &entity)
                .await
                .unwrap()
                .pop()
            {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let record = tokio::time::timeout(TIMEOUT, quarantined).await.unwrap();
    assert_eq!(record.kind, "Conflict");
    assert!(record.record.len() > 4_500_000, "{}", record.record.len());
    assert_eq!(record.record.matches(r#""N":"10"#).count(), NUMBERS);
    store.delete_quarantined(&record).await.unwrap();
    let items = client.query().table_name(&stack.table).projection_expression("SK");
    let items = items.key_condition_expression("PK = :pk");
    let left = items.expression_attribute_values(":pk", text("conflict")).send().await;
    assert_eq!(left.unwrap().count, 2);
}
