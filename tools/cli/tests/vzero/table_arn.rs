//! `vzero` with the ARN of a table, as a table of another account has to be given.
//!
//! The embedded database knows tables by name only, so the ARNs are replaced between it and the command.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::Client;
use serde_json::json;
use shared::{domain::keys::VersionDigits, dynamodb::Store};
use testkit::{
    command::Run,
    endpoint::{is_skipped, sdk_config},
    http::{self, Message},
    table,
    tap::Tap,
};

const ACCOUNT: &str = "arn:aws:dynamodb:us-east-1:210987654321:table/";

/// Answers requests for ARNs of tables, and keeps these ARNs. A request for a name is rejected, as in another account.
fn in_another_account(database: String, asked: Arc<Mutex<BTreeSet<String>>>) -> String {
    http::serve(move |request| {
        let body = request.json();
        let tables = match body.get("RequestItems") {
            Some(of_tables) => of_tables.as_object().unwrap().keys().cloned().collect(),
            None => vec![body["TableName"].as_str().unwrap().to_owned()],
        };
        assert!(tables.iter().all(|table| table.starts_with(ACCOUNT)), "{tables:?}");
        asked.lock().unwrap().extend(tables);
        let headers = ["x-amz-target", "content-type", "authorization", "x-amz-date"];
        let headers = headers.map(|name| format!("\r\n{name}: {}", request.header(name).unwrap()));
        let head = format!("POST / HTTP/1.1\r\nhost: localhost{}", headers.concat());
        let text = body.to_string().replace(ACCOUNT, "");
        let response = http::send(&database, &Message::new(&head, text));
        assert!(response.head.starts_with("HTTP/1.1 200"), "{response:?}");
        let mut response = response.json();
        // A batch has its items by what was asked for.
        if let Some(items) = response.get_mut("Responses") {
            let by_name = items.as_object().unwrap().clone().into_iter();
            *items = by_name
                .map(|(name, items)| (format!("{ACCOUNT}{name}"), items))
                .collect();
        }
        Message::new("HTTP/1.1 200 OK", response.to_string())
    })
}

fn vzero(endpoint: &str, table: &str, command: &str) -> (i32, String) {
    let run = Run::alone(
        crate::VZERO,
        &[],
        &format!("--endpoint-url {endpoint} --table {table} {command}"),
    );
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    (run.code, run.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_table_given_by_its_arn_find_its_history() {
    if is_skipped("it needs a proxy of an embedded DynamoDB") {
        return;
    }
    let tap = Tap::embedded();
    let client = Client::new(&sdk_config(&tap.endpoint).await);
    for (latest, history) in [("Same", None), ("Latest", Some("Versions"))] {
        table::create(&client, latest).await.unwrap();
        let mut store = Store::new(client.clone(), latest, VersionDigits::default());
        if let Some(name) = history {
            table::create_history(&client, name).await.unwrap();
            store = store.with_history(Some(name.to_owned()));
        }
        store.claim_layout().await.unwrap();
        for number in 1..=3 {
            table::write(&store, json!({"ID": "E", "N": number})).await;
        }

        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let account = in_another_account(tap.endpoint.clone(), Arc::clone(&asked));
        for command in [
            "get E",
            "get E --version 2",
            "log E --full",
            "log E",
            "blame E",
            "diff E 1 3",
            "items E",
            "lag E",
            "audit E --lag 0",
        ] {
            let by_arn = vzero(&account, &format!("{ACCOUNT}{latest}"), command);
            assert_eq!(by_arn, vzero(&tap.endpoint, latest, command), "{command}");
            assert_eq!(by_arn.0, 0, "{command}: {by_arn:?}");
        }
        let tables = [Some(latest), history].into_iter().flatten();
        let tables: BTreeSet<_> = tables.map(|name| format!("{ACCOUNT}{name}")).collect();
        assert_eq!(*asked.lock().unwrap(), tables);
    }
}
