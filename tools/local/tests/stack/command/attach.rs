//! The command `local --attach`: a table that other programs write.

use aws_sdk_dynamodb::Client;
use operations::read::items::scan_items;
use serde_json::{Value, json};
use shared::{
    domain::{Item, attached::digits, attributes::text},
    dynamodb::Store,
};
use testkit::{attached, database::index_entries, serving::Serving, wait::eventually};

use crate::{command::file, serving::serve};

const ITEMS: u64 = 5;

pub(crate) fn definition() -> Value {
    json!({
        "TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [
            {"AttributeName": "customerId", "KeyType": "HASH"}, {"AttributeName": "orderNo", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "customerId", "AttributeType": "S"}, {"AttributeName": "orderNo", "AttributeType": "N"},
        ],
        "IgnoreAttributes": ["seen"], "Filter": {"customerId": [{"prefix": "c"}]}, "ActorAttribute": "RequestId",
    })
}

fn order(customer: &str, number: u64, state: Option<u64>) -> Item {
    let mut item = json!({"customerId": {"S": customer}, "orderNo": {"N": number.to_string()}});
    if let Some(state) = state {
        // Its type and names are those of attributes of a version item.
        item["Image"] = json!({"M": {"State": {"N": state.to_string()}}});
        item["RequestId"] = json!({"S": "of the client"});
    }
    serde_json::from_value(item).unwrap()
}

async fn client_of(stack: &Serving) -> Client {
    Client::new(&local::dynamodb::sdk_config(&format!("http://{}", stack.dynamodb)).await)
}

/// Puts an order, or deletes that with this key.
async fn change(client: &Client, order: Item, is_put: bool) {
    if is_put {
        let put = client.put_item().table_name("Orders").set_item(Some(order.into()));
        put.send().await.unwrap();
    } else {
        let delete = client.delete_item().table_name("Orders").set_key(Some(order.into()));
        delete.send().await.unwrap();
    }
}

/// Returns the states of an order, oldest first, `None` for a deletion.
async fn states(store: &Store, customer: &str, number: u64) -> Vec<Option<u64>> {
    let states = attached::states(store, &order(customer, number, None)).await;
    let number = |item: Item| {
        let json = serde_json::to_value(item).unwrap();
        json["Image"]["M"]["State"]["N"].as_str().unwrap().parse().unwrap()
    };
    states.into_iter().map(|state| state.map(number)).collect()
}

/// The stack is killed at any time, with its functions.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_stack_follows_each_change_of_an_attached_table() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let definition = definition().to_string();
    let path = file(folder.path(), "orders.json", &definition);
    let mut expected = vec![Vec::new(); usize::try_from(ITEMS).unwrap()];
    for start in 0..4 {
        let mut stack = serve(&["--attach", &path, "--data-dir", &data, "--parameter", "TimeIndex=true"]);
        let client = client_of(&stack).await;
        if start == 3 {
            let history = Store::new(client.clone(), "Orders-history", digits());
            let stored = history.stored_definition().await.unwrap().unwrap();
            let table = attach::parse(&definition).unwrap();
            assert_eq!(attach::parse(&stored), Ok(table.clone()));
            let store = Store::attached(client, table);
            for (number, expected) in (0..).zip(&expected) {
                let complete = async || {
                    let found = states(&store, "c", number).await;
                    (found.len() >= expected.len()).then_some(found)
                };
                assert_eq!(eventually("a complete history", complete).await, *expected);
                assert!(
                    states(&store, "other", number).await.is_empty(),
                    "the filter excludes it"
                );
            }
            let entries = index_entries(store.client(), store.history_table()).await;
            assert_eq!(entries.len(), expected.iter().map(Vec::len).sum::<usize>());
            let authored = scan_items(&store).await.unwrap();
            let mut authored = authored
                .iter()
                .filter(|item| item.contains_key("item:RequestId"))
                .peekable();
            assert!(authored.peek().is_some() && authored.all(|item| text(item, "Actor") == Some("of the client")));
            break;
        }
        for step in 0..60 {
            let number = step % ITEMS;
            let state = (step % 7 != 6).then_some(start * 1000 + step);
            for customer in ["c", "other"] {
                change(&client, order(customer, number, state), state.is_some()).await;
            }
            let states = &mut expected[usize::try_from(number).unwrap()];
            // A deletion of an item that does not exist changes nothing.
            if state.is_some() || states.last().is_some_and(Option::is_some) {
                states.push(state);
            }
        }
        stack.kill();
    }
}
