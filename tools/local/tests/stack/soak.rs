//! A small soak test with functions that are killed at random. `tools/soak` runs a large one.

use std::time::Duration;

use local::soak::{self, Settings};

use crate::support::start;

#[tokio::test]
async fn killed_functions_neither_lose_nor_repeat_updates() {
    let stack = start().await;
    let settings = Settings {
        seed: 7,
        updates: 200,
        entities: 8,
        senders: 8,
        of_one_entity: 3,
        kill_one_in: 8,
        timeout: Duration::from_secs(60),
    };
    let summary = soak::run(&stack, &settings).await.unwrap();
    assert_eq!(summary.findings, Vec::<String>::new());
    assert_eq!((summary.updates, summary.versions, summary.entities), (200, 200, 8));
    assert!(summary.kills > 0 && summary.retries > 0, "{summary:?}");
}
