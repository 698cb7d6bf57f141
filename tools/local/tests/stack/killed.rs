//! Processes of both functions are killed with SIGKILL at arbitrary moments of their invocations.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::future::{join, join_all};
use serde_json::{Value, json};
use shared::domain::{AttributeValue, Item};

use crate::support::{invoke, settled, start};

const SENDERS: usize = 8;
const ENTITIES: usize = 5;
/// Number of updates of each sender.
const UPDATES: usize = 15;
/// Number of invocations of writer-fn between two kills.
const INVOCATIONS: usize = 10;
const MAX_ATTEMPTS: usize = 200;

#[tokio::test]
async fn killed_functions_neither_lose_nor_repeat_updates() {
    let stack = start().await;
    let (sent, retried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let acknowledged = async |update: &Value| {
        for _ in 0..MAX_ATTEMPTS {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            // The invocations of the other senders, and those of stream-fn, are in progress.
            let kill = async {
                if number % INVOCATIONS == INVOCATIONS - 1 {
                    stack.lambda.kill_all();
                }
            };
            let (response, ()) = join(invoke(&stack, "writer-fn", update), kill).await;
            match response["errorType"].as_str() {
                None => return response["Version"].as_u64().unwrap(),
                Some("Runtime.ExitError") => retried.fetch_add(1, Ordering::Relaxed),
                Some(_) => panic!("{response}"),
            };
        }
        panic!("{update} was not acknowledged")
    };
    let senders = (0..SENDERS).map(async |sender| {
        let mut versions = Vec::new();
        for number in 0..UPDATES {
            let entity = format!("E{}", (sender + number) % ENTITIES);
            let request = format!("{sender}-{number}");
            let update = json!({
                "ID": entity, "RequestId": request, "Update": request,
                format!("Odd{}", number % 4): [number, null, {"é": ""}], format!("Odd{}", (number + 1) % 4): null,
            });
            let version = acknowledged(&update).await;
            // A queue delivers some messages twice.
            if number % 8 == 0 {
                assert_eq!(acknowledged(&update).await, version, "{update}");
            }
            versions.push(((entity, version), (request.clone(), request)));
        }
        versions
    });
    let expected: BTreeMap<_, _> = join_all(senders).await.into_iter().flatten().collect();
    assert_eq!(expected.len(), SENDERS * UPDATES);
    let table = settled(&stack).await;
    let text = |item: &Item, name: &str| match item.get(name) {
        Some(AttributeValue::S(text)) => text.clone(),
        other => panic!("{name} is {other:?}"),
    };
    let versions = table.iter().flat_map(|(entity, items)| {
        let versions = items
            .iter()
            .filter_map(|(key, item)| Some((stack.store.digits().version_of(key)?, item)));
        versions.map(|(version, item)| {
            let of = (text(item, "RequestId"), text(item, "Update"));
            ((entity.clone(), version.get()), of)
        })
    });
    assert_eq!(versions.collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(stack.mapping.counters.get().documents, 0);
    assert!(retried.into_inner() > 0);
}
