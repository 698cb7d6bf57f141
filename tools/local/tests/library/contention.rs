//! Cost of concurrent updates of one entity.

use futures::future::join_all;
use serde_json::json;
use shared::config::WriteMode;
use testkit::database::{Database, mode, update};
use writer_fn::counter::{self, WriteOutcome};

const WRITERS: u32 = 20;
const UPDATES: u32 = 20;

/// Maximum number of requests of an update, on average. `docs/adr/0019-author-and-time-of-a-version.md` names it.
const MAX_REQUESTS: f64 = 3.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_concurrent_writers_of_one_entity_take_few_requests() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let writer = async || {
        for _ in 0..UPDATES {
            let update = update(json!({"ID": "E", "State": "OK"}));
            let outcome = counter::write(&store, &update, mode(WriteMode::Stream)).await.unwrap();
            assert!(matches!(outcome, WriteOutcome::Written { .. }), "{outcome:?}");
        }
    };
    database.requests.take();
    let before = database.consumed().len();
    assert_eq!(before, 0);
    join_all((0..WRITERS).map(|_| writer())).await;
    // Successful requests, and those whose condition failed.
    let written = u32::try_from(database.consumed().len()).unwrap();
    let rejected = database.requests.take().1;
    let requests = f64::from(written + rejected) / f64::from(WRITERS * UPDATES);
    #[allow(clippy::print_stdout, reason = "a figure of the documentation")]
    {
        println!("{requests:.2} requests per update");
    }
    assert!(requests <= MAX_REQUESTS, "{requests} requests per update");
    let latest = store
        .latest(&testkit::database::entity("E"), true)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(latest.version.get(), u64::from(WRITERS * UPDATES));
}
