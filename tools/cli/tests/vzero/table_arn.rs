//! `vzero` with the ARN of a table, as a table of another account has to be given.
//!
//! The embedded database knows tables by name only, so the ARNs are replaced between it and the command.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::Client;
use axum::{Router, body::Bytes, http::HeaderMap};
use serde_json::{Value, json};
use shared::{domain::keys::VersionDigits, dynamodb::Store};
use testkit::{
    endpoint::{is_skipped, sdk_config},
    table,
    tap::Tap,
};

const ACCOUNT: &str = "arn:aws:dynamodb:us-east-1:210987654321:table/";

/// Answers requests for ARNs of tables, and keeps these ARNs. A request for a name is rejected, as in another account.
async fn in_another_account(database: String, asked: Arc<Mutex<BTreeSet<String>>>) -> String {
    let app = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let (database, asked) = (database.clone(), Arc::clone(&asked));
        async move {
            let request: Value = serde_json::from_slice(&body).unwrap();
            let tables = match request.get("RequestItems") {
                Some(of_tables) => of_tables.as_object().unwrap().keys().cloned().collect(),
                None => vec![request["TableName"].as_str().unwrap().to_owned()],
            };
            assert!(tables.iter().all(|table| table.starts_with(ACCOUNT)), "{tables:?}");
            asked.lock().unwrap().extend(tables);
            let text = request.to_string().replace(ACCOUNT, "");
            let mut response = send(&database, &headers, &text);
            // A batch has its items by what was asked for.
            if let Some(items) = response.get_mut("Responses") {
                let by_name = items.as_object().unwrap().clone().into_iter();
                *items = by_name
                    .map(|(name, items)| (format!("{ACCOUNT}{name}"), items))
                    .collect();
            }
            response.to_string()
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    endpoint
}

fn send(database: &str, headers: &HeaderMap, body: &str) -> Value {
    let address = database.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").unwrap();
    for name in ["x-amz-target", "content-type", "authorization", "x-amz-date"] {
        write!(stream, "{name}: {}\r\n", headers[name].to_str().unwrap()).unwrap();
    }
    write!(stream, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (status, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(status.starts_with("HTTP/1.1 200"), "{response}");
    serde_json::from_str(body).unwrap()
}

async fn vzero(endpoint: &str, table: &str, command: &str) -> (Option<i32>, String) {
    let mut vzero = tokio::process::Command::new(crate::VZERO);
    vzero.env_clear().args(["--endpoint-url", endpoint, "--table", table]);
    let output = vzero.args(command.split(' ')).output().await.unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_table_given_by_its_arn_find_its_history() {
    if is_skipped(
        "reads_of_a_table_given_by_its_arn_find_its_history",
        "it needs a proxy of an embedded DynamoDB",
    ) {
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
        let account = in_another_account(tap.endpoint.clone(), Arc::clone(&asked)).await;
        for command in [
            "get E",
            "get E --version 2",
            "history E",
            "history E --changes",
            "diff E 1 3",
            "items E",
            "lag E",
            "audit E --lag 0",
        ] {
            let by_arn = vzero(&account, &format!("{ACCOUNT}{latest}"), command).await;
            assert_eq!(by_arn, vzero(&tap.endpoint, latest, command).await, "{command}");
            assert_eq!(by_arn.0, Some(0), "{command}: {by_arn:?}");
        }
        let tables = [Some(latest), history].into_iter().flatten();
        let tables: BTreeSet<_> = tables.map(|name| format!("{ACCOUNT}{name}")).collect();
        assert_eq!(*asked.lock().unwrap(), tables);
    }
}
