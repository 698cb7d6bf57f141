//! Functions that are killed at random, on a small scale. `tools/soak` does it on a larger one.

use std::time::Duration;

use local::soak::{self, Settings};

use crate::support::start;

#[tokio::test]
async fn functions_that_are_killed_lose_and_repeat_nothing() {
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
