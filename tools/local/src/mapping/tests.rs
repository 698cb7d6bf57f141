//! The mapping in virtual time, against recordings made on AWS and the decisions of the ADR.

mod fakes;
mod recordings;
mod shards;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::json;
use shared::domain::sequence::SequenceNumber;

use self::fakes::*;
use super::{record::Record, settings::Settings, source::SourceError, *};

/// Fails from the first bad record on, and as a whole where that is wanted.
fn bad(bad: &'static [usize], whole: bool) -> impl Fn(&[String], usize) -> InvocationOutcome {
    move |numbers, _| {
        let is_bad = |number: &&String| bad.iter().any(|bad| sequence(*bad) == **number);
        let bad: Vec<_> = numbers.iter().filter(is_bad).collect();
        match bad.is_empty() {
            false if whole => InvocationOutcome::FunctionError,
            _ => failing(bad),
        }
    }
}

/// Responds with success from this invocation on, and before it with another outcome.
fn done_at(invocation: usize, before: InvocationOutcome) -> impl Fn(&[String], usize) -> InvocationOutcome {
    move |_, count| match count < invocation {
        true => before.clone(),
        false => response(&json!({})),
    }
}

fn bisecting() -> Settings {
    Settings {
        bisect_on_function_error: true,
        report_batch_item_failures: true,
        maximum_retry_attempts: Some(2),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn bad_records_are_isolated() {
    for whole in [false, true] {
        for bad_ones in [&[1][..], &[57], &[100], &[1, 2, 50, 99]] {
            let result = Run::new(bisecting(), records(100)).with(bad(bad_ones, whole)).await;
            let given_up: Vec<_> = result.documents.iter().flat_map(numbers_of).collect();
            let expected: Vec<_> = bad_ones.iter().map(|number| sequence(*number)).collect();
            assert_eq!(given_up, expected, "one document each, in order (whole: {whole})");
            for document in &result.documents {
                assert_eq!(document.body["DDBStreamBatchInfo"]["batchSize"], 1);
                assert_eq!(document.body["requestContext"]["approximateInvokeCount"], 3);
            }
            assert_eq!(result.deliveries().collect::<HashSet<_>>().len(), 100);
            assert_eq!(result.position, after(100));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unbounded_record_is_tried_until_it_is_done_and_throttles_use_up_no_retries() {
    let unbounded = Settings {
        maximum_retry_attempts: None,
        ..bisecting()
    };
    for (settings, count, tries, outcome) in [
        (unbounded, 1, 300, failing([&sequence(1)])),
        (bisecting(), 2, 21, InvocationOutcome::NotInvoked),
    ] {
        let result = Run::new(settings, records(count)).with(done_at(tries, outcome)).await;
        assert_eq!(result.sizes(), vec![count; tries]);
        assert!(result.documents.is_empty());
        assert_eq!(result.position, after(count));
    }
}

#[tokio::test(start_paused = true)]
async fn lanes_keep_the_order_of_an_item_and_do_not_wait_for_each_other() {
    let settings = Settings {
        parallelization_factor: 10,
        batch_size: 5,
        ..bisecting()
    };
    let item = |number: usize| record(number, &format!("item-{}", number % 7));
    let slow = item(1).lane(10);
    let result = Run::new(settings, (1..=70).map(item).collect())
        .with_delays(move |numbers, _| {
            let is_slow = item(numbers[0].parse().unwrap()).lane(10) == slow;
            (Duration::from_secs(if is_slow { 100 } else { 0 }), response(&json!({})))
        })
        .await;
    let mut by_item: HashMap<usize, Vec<usize>> = HashMap::new();
    for number in result.deliveries() {
        let number: usize = number.parse().unwrap();
        by_item.entry(number % 7).or_default().push(number);
    }
    assert_eq!(by_item.len(), 7);
    let is_complete = |numbers: &Vec<usize>| numbers.is_sorted() && numbers.len() == 10;
    assert!(by_item.values().all(is_complete));
    let at_once = result.batches.iter().filter(|(at, _)| at.is_zero()).count();
    assert!(at_once > 5, "the other lanes did not wait: {at_once}");
    assert_eq!(result.position, after(70));
}

#[tokio::test(start_paused = true)]
async fn a_mapping_goes_on_from_its_position() {
    let mut run = Run::new(Settings::default(), records(5));
    run.positions = positions_after(3);
    run.errors = vec![
        SourceError::ExpiredIterator,
        SourceError::Unavailable("down".to_owned()),
    ];
    assert_eq!(run.succeeding().await.batches[0].1, [sequence(4), sequence(5)]);

    let mut run = Run::new(Settings::default(), records(2));
    run.errors = vec![SourceError::Trimmed];
    assert_eq!(run.succeeding().await.sizes(), [2]);

    let latest = Settings {
        starting_position: position::Position::Latest,
        ..Settings::default()
    };
    assert!(Run::new(latest, records(2)).succeeding().await.batches.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_position_never_passes_what_is_not_done() {
    let mut run = Run::new(bisecting(), records(4));
    run.lasts = Duration::from_secs(30);
    // The third record hangs for longer than the mapping runs.
    let result = run.with_delays(|numbers, _| match numbers.contains(&sequence(3)) {
        true if numbers[0] == sequence(3) => (Duration::from_secs(100), response(&json!({}))),
        true => (Duration::ZERO, failing([&sequence(3)])),
        false => (Duration::ZERO, response(&json!({}))),
    });
    assert_eq!(result.await.position, after(2));
}

#[tokio::test(start_paused = true)]
async fn deliveries_do_not_wait_for_a_document_and_the_position_does() {
    let mut run = Run::new(bisecting(), records(6));
    run.hangs = true;
    let result = run.with(bad(&[2], true)).await;
    assert_eq!(result.deliveries().collect::<HashSet<_>>().len(), 6);
    assert_eq!((result.documents.len(), result.dropped), (0, 0));
    // With the mapping, the pending document is gone, and its record is delivered again.
    assert_eq!(result.position, after(1));
    let mut again = Run::new(bisecting(), records(6));
    again.positions = positions_after(1);
    let result = again.with(bad(&[2], true)).await;
    let deliveries = result.deliveries().filter(|number| **number == sequence(2));
    assert_eq!(deliveries.count(), 1 + 1 + 3);
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
