//! Records whose JSON is much larger than the items: a number of one digit can have 126 of them.

use std::time::Duration;

use aws_sdk_dynamodb::{config::timeout::TimeoutConfig, types::AttributeValue};
use operations::quarantine::quarantined;
use shared::{domain::entity::EntityId, dynamodb::Store};
use testkit::endpoint::is_skipped;

use crate::support::start;

/// Numbers of an item. Each has 135 bytes in a record, and about 3 in the item.
const NUMBERS: usize = 34_000;
const TIMEOUT: Duration = Duration::from_secs(240);

async fn wait_for<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            match found().await {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap()
}

/// Lambda invokes a function with up to 6 MB.
#[tokio::test]
async fn a_record_of_more_than_4_mb_is_delivered() {
    let name = "a_record_of_more_than_4_mb_is_delivered";
    if is_skipped(name, "its size is about the embedded DynamoDB") {
        return;
    }
    let stack = start().await;
    let timeouts = TimeoutConfig::builder().operation_timeout(TIMEOUT);
    let timeouts = timeouts.operation_attempt_timeout(TIMEOUT).read_timeout(TIMEOUT);
    let config = aws_sdk_dynamodb::config::Builder::from(&stack.endpoint.config).timeout_config(timeouts.build());
    let client = aws_sdk_dynamodb::Client::from_conf(config.build());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |text: &str| AttributeValue::N(text.to_owned());
    let numbers = AttributeValue::L(vec![number("1E125"); NUMBERS]);
    let put = async |id: &str, value: &AttributeValue| {
        let put = client.put_item().table_name(&stack.table).item("A", value.clone());
        let put = put.item("PK", text(id)).item("SK", text("v0"));
        put.item("Latest", number("1")).send().await.unwrap();
    };
    let delivered = async |id: &str| {
        wait_for(async || {
            let get = client.get_item().table_name(&stack.table).projection_expression("PK");
            let get = get.key("PK", text(id)).key("SK", text("v1"));
            get.send().await.unwrap().item
        })
        .await;
    };
    put("large", &numbers).await;
    delivered("large").await;

    // A record of this length that can never become a version is set aside, although a transaction has at most 4 MB.
    put("conflict", &text("first")).await;
    delivered("conflict").await;
    put("conflict", &numbers).await;
    let entity = EntityId::new("conflict").unwrap();
    let store = Store::new(client.clone(), stack.table.clone(), stack.store.digits());
    let record = wait_for(async || quarantined(&store, &entity).await.unwrap().pop()).await;
    assert_eq!(record.kind, "Conflict");
    assert!(record.record.len() > 4_500_000, "{}", record.record.len());
    assert_eq!(record.record.matches(r#""N":"10"#).count(), NUMBERS);
    operations::quarantine::delete_quarantined(&store, &record)
        .await
        .unwrap();
    let items = client.query().table_name(&stack.table).projection_expression("SK");
    let items = items.key_condition_expression("PK = :pk");
    let left = items.expression_attribute_values(":pk", text("conflict")).send().await;
    assert_eq!(left.unwrap().count, 2);
}
