//! Properties of histories: generated changes of a few items, delivered with duplicates, overlapping replays by two writers,
//! batches of any size and failed requests.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::{
    Client,
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        http::HttpResponse,
        interceptors::{BeforeDeserializationInterceptorContextMut, BeforeTransmitInterceptorContextRef},
        retry::RetryConfig,
    },
    error::BoxError,
};
use proptest::prelude::*;
use serde_json::Value;
use stream_fn::{HistoryWriter, response::Outcome};

use super::{Change, Orders, State, Version, deadline, handle, keys, record};

/// Change of an item by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    /// Puts an item with this state.
    Put(u8),
    /// Changes an ignored attribute.
    Touch,
    Delete,
    /// Deletes the item, and creates it again.
    Recreate(u8),
    /// DynamoDB deletes the expired item.
    Expire,
}

/// Applies changes to items that exist or not, and returns the stream records.
fn changes(initial: [bool; 3], ops: &[(usize, Op)]) -> Vec<Change> {
    let mut items: [State; 3] = initial.map(|exists| exists.then_some((0, 0)));
    let mut changes = Vec::new();
    // The number of digits changes.
    let mut number = 99_999_999_999_999_999_990_u128;
    let mut add = |item: usize, old: State, new: State, is_ttl| {
        number += 1;
        changes.push(Change {
            item,
            number: number.to_string(),
            old,
            new,
            is_ttl,
        });
    };
    for (item, op) in ops {
        let old = items[*item];
        let new = match (*op, old) {
            (Op::Put(state), old) => Some((state, old.map_or(0, |(_, seen)| seen))),
            (Op::Touch, Some((state, seen))) => Some((state, seen + 1)),
            (Op::Recreate(state), Some(_)) => {
                add(*item, old, None, false);
                add(*item, None, Some((state, 0)), false);
                items[*item] = Some((state, 0));
                continue;
            }
            (Op::Recreate(state), None) => Some((state, 0)),
            (Op::Touch | Op::Delete | Op::Expire, None) => continue,
            (Op::Delete | Op::Expire, Some(_)) => None,
        };
        add(*item, old, new, *op == Op::Expire);
        items[*item] = new;
    }
    changes
}

/// Returns the history that records in this order must have. Of the records that are not delivered, those in `late` are delivered
/// after all others.
fn expected(changes: &[Change], is_delivered: impl Fn(usize) -> bool, late: bool) -> [Vec<Version>; 3] {
    let mut histories: [Vec<Version>; 3] = [vec![], vec![], vec![]];
    let mut last: [Option<(usize, Option<u8>)>; 3] = [None; 3];
    let state = |state: State| state.map(|(state, _)| state);
    let mut apply = |index: usize, change: &Change| {
        let (history, last) = (&mut histories[change.item], &mut last[change.item]);
        let (old, new) = (state(change.old), state(change.new));
        let is_changed = old != new || new.is_none();
        if last.is_some_and(|(place, _)| place > index) {
            if is_changed {
                history.push((change.number.clone(), new, "Late"));
            }
            return;
        }
        let of_old = match *last {
            None => old.is_some().then_some("Baseline"),
            Some((_, last)) => (last != old).then_some("Missed"),
        };
        if let Some(mark) = of_old {
            history.push((format!("{}#old", change.number), old, mark));
            *last = Some((index, old));
        }
        if is_changed {
            let mark = if change.is_ttl { "TTL" } else { "" };
            history.push((change.number.clone(), new, mark));
            *last = Some((index, new));
        }
    };
    for (index, change) in changes.iter().enumerate().filter(|(index, _)| is_delivered(*index)) {
        apply(index, change);
    }
    for (index, change) in changes
        .iter()
        .enumerate()
        .filter(|(index, _)| late && !is_delivered(*index))
    {
        apply(index, change);
    }
    histories
}

/// Fails requests, before they are sent or after they were applied.
#[derive(Debug)]
struct Faults {
    seed: u32,
    attempts: AtomicU32,
}

impl Faults {
    fn draw(&self) -> u32 {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let mut random = fastrand::Rng::with_seed(u64::from(self.seed) << 32 | u64::from(attempt));
        random.u32(..8)
    }
}

impl Intercept for Faults {
    fn name(&self) -> &'static str {
        "faults"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match self.draw() {
            0 => Err("not sent".into()),
            _ => Ok(()),
        }
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.draw() == 0 {
            let body = r#"{"__type": "InternalServerError"}"#;
            *context.response_mut() = HttpResponse::new(500.try_into()?, body.into());
        }
        Ok(())
    }
}

fn faulty(client: &Client, seed: u32) -> Client {
    let faults = Faults {
        seed,
        attempts: AtomicU32::new(0),
    };
    let config = client.config().to_builder().retry_config(RetryConfig::disabled());
    Client::from_conf(config.interceptor(faults).build())
}

/// Delivers records as an event source mapping: batches of these sizes in turn, from the first failed record on. `back` of a
/// batch are delivered again with the next one.
async fn deliver(writer: &HistoryWriter, records: &[Value], batches: &[(usize, usize)]) {
    let (mut from, mut turn) = (0, 0);
    while from < records.len() {
        let (size, back) = batches[turn % batches.len()];
        turn += 1;
        // After many turns, no record is delivered twice.
        let start = from.saturating_sub(if turn < 100 { back } else { 0 });
        let end = (from + size).min(records.len());
        let failed = handle(writer, &records[start..end]).await;
        let number = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned();
        let first = records[start..end]
            .iter()
            .position(|record| failed.contains(&number(record)));
        from = first.map_or(end, |first| start + first);
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u8).prop_map(Op::Put),
        2 => Just(Op::Touch),
        1 => Just(Op::Delete),
        1 => (0..3u8).prop_map(Op::Recreate),
        1 => Just(Op::Expire),
    ]
}

fn ops() -> impl Strategy<Value = Vec<(usize, Op)>> {
    proptest::collection::vec((0..3usize, op()), 1..30)
}

fn batches() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((1..12usize, 0..6usize), 1..6)
}

/// Runs a property on one database, which all cases share.
fn check<S: Strategy>(strategy: S, property: impl AsyncFn(&Orders, u64, S::Value)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let orders = runtime.block_on(Orders::new());
    let config = ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let run = proptest::test_runner::TestRunner::new(config).run(&strategy, |value| {
        let case = orders.case.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(property(&orders, case, value));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn history_has_each_change_once_and_in_order() {
    let strategy = (any::<[bool; 3]>(), ops(), [batches(), batches()], any::<[u32; 2]>());
    check(strategy, async |orders, case, (initial, ops, batches, seeds)| {
        let changes = changes(initial, &ops);
        let records: Vec<_> = changes.iter().map(|change| record(case, change)).collect();
        let writers = seeds.map(|seed| orders.writer(faulty(&orders.database.client, seed)));
        tokio::join!(
            deliver(&writers[0], &records, &batches[0]),
            deliver(&writers[1], &records, &batches[1]),
        );
        for (item, expected) in expected(&changes, |_| true, false).into_iter().enumerate() {
            assert_eq!(orders.versions(case, item).await, expected, "{changes:?}");
        }
        // A complete replay changes nothing.
        let before = orders.stored(&orders.entity(&keys(case, 0))).await;
        let whole = orders.writer(orders.database.client.clone());
        assert_eq!(handle(&whole, &records).await, [""; 0]);
        assert_eq!(orders.stored(&orders.entity(&keys(case, 0))).await, before);
    });
}

#[test]
fn records_that_were_left_out_are_late() {
    let strategy = (any::<[bool; 3]>(), ops(), batches(), any::<[bool; 60]>(), any::<u32>());
    check(
        strategy,
        async |orders, case, (initial, ops, batches, left_out, seed)| {
            let changes = changes(initial, &ops);
            let is_delivered = |index: usize| !left_out[index % left_out.len()];
            let records: Vec<_> = changes.iter().map(|change| record(case, change)).collect();
            let select = |delivered: bool| -> Vec<_> {
                let selected = (0..records.len()).filter(|index| is_delivered(*index) == delivered);
                selected.map(|index| records[index].clone()).collect()
            };
            let writer = orders.writer(faulty(&orders.database.client, seed));
            deliver(&writer, &select(true), &batches).await;
            for (item, expected) in expected(&changes, is_delivered, false).into_iter().enumerate() {
                assert_eq!(orders.versions(case, item).await, expected, "{changes:?}");
            }
            // A redrive, twice.
            let writer = HistoryWriter::from_store(orders.store());
            let late = select(false);
            for _ in 0..2 {
                let raw: Vec<_> = late.iter().map(ToString::to_string).collect();
                let processed = writer
                    .process(raw.iter().map(AsRef::as_ref).collect(), deadline())
                    .await;
                for record in processed {
                    assert!(
                        !matches!(record.outcome, Outcome::Failed { .. }),
                        "{:?}",
                        record.outcome
                    );
                }
                for (item, expected) in expected(&changes, is_delivered, true).into_iter().enumerate() {
                    assert_eq!(orders.versions(case, item).await, expected, "{changes:?}");
                }
            }
        },
    );
}
