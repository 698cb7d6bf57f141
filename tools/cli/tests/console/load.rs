//! Many requests at the same time.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;
use testkit::{database::put_item, endpoint::Engine};

use crate::{html::Page, new_table, served::Console};

const REQUESTS: usize = 1000;
const CLIENTS: usize = 200;
const PAGES: [&str; 3] = ["/", "/entity?id=E1", "/health"];

/// The embedded DynamoDB processes one request after the other. If all pages sent their requests at once, these would wait for
/// longer than an attempt may take.
#[test]
fn many_requests_at_once_have_no_errors() {
    let table = new_table();
    table.runtime.block_on(async {
        for (n, sk) in (0..500).flat_map(|n| [(n, "v0"), (n, "v1")]) {
            let text = "x".repeat(4000);
            let item =
                json!({"PK": {"S": format!("E{n}")}, "SK": {"S": sk}, "Latest": {"N": "1"}, "Text": {"S": text}});
            put_item(&table.client, &table.name, item).await;
        }
    });
    // DynamoDB Local needs longer for a page of large items.
    let timeout = match table.endpoint.engine {
        Engine::DynamodbLocal => "3000",
        _ => "400",
    };
    let console = Console::with_environment(&table, &[], &format!("--attempt-timeout-ms {timeout}"));
    let sent = AtomicUsize::new(0);
    let client = || {
        let mut errors = Vec::new();
        loop {
            let request = sent.fetch_add(1, Ordering::Relaxed);
            if request >= REQUESTS {
                return errors;
            }
            let path = PAGES[request % PAGES.len()];
            let answer = console.get(path);
            if answer.status != 200 {
                errors.push(format!("{path} {} {}", answer.status, Page::parse(&answer.body).text));
            }
        }
    };
    let errors: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let kinds = errors.iter().fold(BTreeMap::<_, usize>::new(), |mut kinds, error| {
        *kinds.entry(error).or_default() += 1;
        kinds
    });
    assert!(errors.is_empty(), "{} errors: {kinds:#?}", errors.len());
}
