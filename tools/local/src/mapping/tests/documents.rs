//! Failure documents beside the deliveries.

use super::*;

#[tokio::test(start_paused = true)]
async fn deliveries_do_not_wait_for_a_document_and_the_position_does() {
    let mut run = Run::new(bisecting(), records(6));
    run.hangs = true;
    let result = run.with(bad(&[2], true)).await;
    assert_eq!(result.deliveries().len(), 6);
    assert_eq!((result.documents.len(), result.dropped), (0, 0));
    // With the mapping, the pending document is gone, and its record is delivered again.
    assert_eq!(result.position, after(1));
    let mut again = Run::new(bisecting(), records(6));
    again.positions = positions_after(1);
    let result = again.with(bad(&[2], true)).await;
    assert_eq!(result.deliveries()[&sequence(2)], 1 + 1 + 3);
    assert_eq!((result.documents.len(), result.position), (1, after(6)));
}

#[tokio::test(start_paused = true)]
async fn documents_that_hang_bound_the_records_in_memory() {
    let settings = Settings {
        batch_size: 1,
        maximum_retry_attempts: Some(0),
        ..Settings::default()
    };
    let mut run = Run::new(settings, records(100));
    run.hangs = true;
    let result = run.with(|_, _| InvocationOutcome::FunctionError).await;
    // 16 are written, one is received, and one is sent.
    assert_eq!(result.batches.len(), 18);
    assert_eq!(result.position, None);
}
