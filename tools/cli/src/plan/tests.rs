//! Tests of the whole calculation: examples that were calculated manually, and properties of any inputs.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "inputs are drawn within bounds, and a sum is compared with itself"
)]

use proptest::prelude::*;
use shared::{
    domain::{ledger::Retention, recent_requests::Window},
    dynamodb::write::{Idempotency, WriteMode},
};

use super::{
    calculate::Plan,
    curve::Duration,
    figures::{STREAM_CURVE, WRITER_CURVE},
    limits::Limit,
    model::{Architecture, Inputs, Settings, TableClass},
    prices::Prices,
    units::{HistoryTable, Writing},
};

/// Inputs with evenly distributed updates and the default settings.
pub(super) fn even(updates_per_second: f64, entities: u64, item_bytes: u64) -> Inputs {
    Inputs {
        updates_per_second,
        entities,
        item_bytes,
        writing: writing(WriteMode::Stream, Idempotency::default(), true),
        history_class: TableClass::Standard,
        hottest_share: 1.0 / entities as f64,
        zipf: None,
        partitions: None,
        retention_days: 30.0,
        ledger_days: 0.0,
        settings: Settings {
            batch_size: 100.0,
            batching_window: 0.0,
            parallelization_factor: 2.0,
            queue_batch_size: 10.0,
            queue_concurrency: 20.0,
            memory: 512.0,
            architecture: Architecture::Arm64,
            latency_ms: 5.0,
        },
    }
}

fn writing(mode: WriteMode, idempotency: Idempotency, stream_behind: bool) -> Writing {
    Writing {
        history: HistoryTable::Same,
        mode,
        idempotency,
        stream_behind,
        pruned: false,
    }
}

pub(super) fn planned(inputs: Inputs) -> Plan {
    Plan::of(inputs, &Prices::read(None).unwrap())
}

fn part(plan: &Plan, name: &str) -> f64 {
    plan.costs.iter().find(|(part, _)| *part == name).unwrap().1
}

fn assert_close(what: &str, measured: f64, expected: f64) {
    let close = (measured - expected).abs() <= expected.abs() * 1e-4;
    assert!(close, "{what}: {measured} instead of {expected}");
}

pub(super) fn limit(plan: &Plan, name: &str) -> Limit {
    *plan.limits.iter().find(|limit| limit.name == name).unwrap()
}

/// 1,000 updates a second of 100,000 entities, 500 bytes.
#[test]
fn a_thousand_updates_a_second_match_manual_calculation() {
    let plan = planned(even(1_000.0, 100_000, 500));
    let load = &plan.load;
    // 19 write units in 9 updates; 500 + 29 + 57 + 18 * 17 bytes.
    assert_close("write units", load.table.write_units, 19_000.0 / 9.0);
    assert_eq!(load.units.latest_bytes, 892);
    // 30 days of versions of 600 bytes, and 100,000 latest items of 992: 1,555,200 MB and 99.2 MB.
    let gb = (2_592_000.0 * 1_000.0 * 600.0 + 100_000.0 * 992.0) / 1_073_741_824.0;
    assert_close("storage", load.table.storage_gb, gb);
    // 145 partitions by size, 3 by writes.
    assert_close("partitions", load.table.partitions, 145.0);
    assert_close("stream", load.stream_records, 2_000.0);
    // 290 lanes, polled four times a second: 0.862 records each time, and 1.49 in the polls that have any.
    let mean: f64 = 1_000.0 / 4.0 / 290.0;
    let batch = mean / (1.0 - (-mean).exp());
    assert_close("batch of stream-fn", load.stream.batch, batch);
    let measured = Duration::of(&STREAM_CURVE, 512.0);
    let stream_ms = measured.invocation_ms + 5.0 + batch * measured.item_micros / 1_000.0;
    assert_close("duration of stream-fn", load.stream.duration_ms, stream_ms);
    assert_close("concurrency of stream-fn", load.stream.concurrency, stream_ms / batch);
    assert_close("batch of writer-fn", load.writer.batch, 10.0);
    // 10/9 requests an update: 10 times their CPU time. 5 ms, and another 5 ms if one of ten updates needs a second request.
    let measured = Duration::of(&WRITER_CURVE, 512.0);
    let latency_ms = 5.0 + 5.0 * (1.0 - (8.0_f64 / 9.0).powi(10));
    let writer_ms = measured.invocation_ms + latency_ms + 10.0 * measured.item_micros / 1_000.0 * 10.0 / 9.0;
    assert_close("duration of writer-fn", load.writer.duration_ms, writer_ms);
    // One request to send it, a tenth to receive it, a tenth to delete it.
    assert_close("queue", load.queue_requests, 1_200.0);

    assert_close("Writes", part(&plan, "Writes"), 2_628.0 * 19.0 / 9.0 * 0.625);
    assert_close("Reads", part(&plan, "Reads"), 0.0);
    assert_close("Storage", part(&plan, "Storage"), gb * 0.25);
    assert_close("Backup", part(&plan, "Backup"), gb * 0.2);
    assert_close("Queue", part(&plan, "Queue"), 2_628.0 * 1.2 * 0.4);
    let writer = 262.8 * 0.2 + 262.8e6 * (writer_ms + 0.5) / 1_000.0 / 2.0 * 0.000_013_333_4;
    assert_close("WriterFunction", part(&plan, "WriterFunction"), writer);
    let stream = (2_628.0 * 0.2 + 2_628e6 * (stream_ms + 0.5) / 1_000.0 / 2.0 * 0.000_013_333_4) / batch;
    assert_close("StreamFunction", part(&plan, "StreamFunction"), stream);
    let logs = 2_628e6 * (430.0 + 140.0 + 1400.0 / batch) / 1_073_741_824.0 * 0.5;
    assert_close("Logs", part(&plan, "Logs"), logs);
    assert!(
        plan.limits.iter().all(|limit| !limit.is_exceeded()),
        "{:?}",
        plan.limits
    );
}

/// An entity has 1,000 write units per second, for everything that an update writes under its partition key.
#[test]
fn the_limit_of_the_hottest_entity_matches_manual_calculation() {
    let (recent, last) = (Idempotency::default(), Idempotency::Recent(Window::new(1).unwrap()));
    let ledger = Idempotency::Ledger(Retention::default());
    for (mode, idempotency, stream_behind, max) in [
        (WriteMode::Stream, last, true, 9_000.0 / 19.0),
        (WriteMode::Stream, recent, true, 9_000.0 / 19.0),
        (WriteMode::Inline, last, false, 9_000.0 / 19.0),
        (WriteMode::Inline, last, true, 9_000.0 / 28.0),
        (WriteMode::Transaction, recent, false, 250.0),
        (WriteMode::Stream, ledger, true, 200.0),
        (WriteMode::Transaction, ledger, true, 1_000.0 / 7.0),
    ] {
        let plan_of = |updates_per_second| {
            planned(Inputs {
                hottest_share: 1.0,
                writing: writing(mode, idempotency, stream_behind),
                ..even(updates_per_second, 1_000, 500)
            })
        };
        let is_exceeded = |rate| limit(&plan_of(rate), "HottestEntity").is_exceeded();
        assert_close("maximum", plan_of(1.0).load.max_entity_updates, max);
        assert!(!is_exceeded(max * 0.999), "{mode:?} {idempotency:?}");
        assert!(is_exceeded(max * 1.001), "{mode:?} {idempotency:?}");
    }
}

#[test]
fn the_first_exceeded_limit() {
    let exceeded = |inputs| {
        let limits = planned(inputs).limits.into_iter();
        let exceeded = limits.filter(Limit::is_exceeded).map(|limit| limit.name);
        exceeded.collect::<Vec<_>>()
    };
    let one_entity = |rate| Inputs {
        hottest_share: 1.0,
        ..even(rate, 1_000, 500)
    };
    let transaction = writing(WriteMode::Transaction, Idempotency::default(), true);
    for (inputs, limits) in [
        (even(100.0, 1_000, 500), &[][..]),
        (one_entity(600.0), &["HottestEntity"]),
        // A transaction reads before it writes: 15 ms in which another update of the entity makes it start again.
        (
            Inputs {
                writing: transaction,
                ..one_entity(70.0)
            },
            &["LostRaces"],
        ),
        (even(2_000.0, 1_000_000, 500), &["NewTable"]),
        (even(1.0, 1_000, 409_585), &["ItemSize"]),
        (even(1.0, 1_000, 409_000), &[]),
    ] {
        assert_eq!(exceeded(inputs), limits, "{inputs:?}");
    }
    // An item that is too large is first, even if other limits are exceeded more.
    assert_eq!(exceeded(even(1e6, 1_000_000, 409_585))[0], "ItemSize");
    let million = exceeded(even(1e6, 1_000_000, 500));
    assert_eq!(million[0], "NewTable", "{million:?}");
    for limit in ["WriterFunction", "TableQuota", "AccountConcurrency"] {
        assert!(million.contains(&limit), "{million:?}");
    }
    let mut slow = even(100.0, 1_000, 500);
    slow.settings.latency_ms = 30_000.0;
    assert_eq!(exceeded(slow)[0], "WriterFunction");
    let mut large = even(100.0, 1_000, 300_000);
    large.settings.queue_batch_size = 100.0;
    assert!(!exceeded(large).contains(&"Memory"));
}

#[test]
fn a_larger_batch_needs_fewer_invocations() {
    let stream = |item_bytes, batch_size, batching_window| {
        let mut inputs = even(10_000.0, 1_000_000, item_bytes);
        inputs.retention_days = 0.0;
        (inputs.settings.batch_size, inputs.settings.batching_window) = (batch_size, batching_window);
        planned(inputs).load.stream
    };
    let (default, window) = (stream(500, 100.0, 0.0), stream(500, 1_000.0, 1.0));
    // 22 shards of 2 lanes, polled four times a second.
    assert_close("default", default.batch, 10_000.0 / 4.0 / 44.0);
    assert_close("with a window", window.batch, 10_000.0 * 1.25 / 44.0);
    assert!(window.invocations < default.invocations);
    // 400 KB: two items of an update in the megabyte of a poll, and 15 in an event.
    assert!(stream(400_000, 100.0, 0.0).capacity < stream(400_000, 100.0, 1.0).capacity);
}

#[test]
fn pruning_and_the_ledger_consume_write_units() {
    let mut pruned = even(1_000.0, 1_000, 500);
    pruned.writing.pruned = true;
    let plan = planned(pruned);
    assert_close("pruned", plan.load.units.writes(), 28.0 / 9.0);
    assert_close("records of pruned versions", plan.load.stream_records, 4_000.0);
    let mut ledger = even(1_000.0, 1_000, 500);
    ledger.writing.idempotency = Idempotency::Ledger(Retention::default());
    (ledger.ledger_days, ledger.retention_days) = (15.0, 0.0);
    // 238 bytes for each ledger item, for 15 days.
    let gb = (15.0 * 86_400.0 * 1_000.0 * 238.0 + 1_000.0 * 610.0) / 1_073_741_824.0;
    assert_close("ledger items", planned(ledger).load.table.storage_gb, gb);
}

/// 1,000 updates a second of 100,000 entities, 500 bytes, with a history table.
#[test]
fn a_history_table_matches_manual_calculation() {
    let mut inputs = even(1_000.0, 100_000, 500);
    inputs.writing.history = HistoryTable::Own;
    let standard = planned(inputs);
    inputs.history_class = TableClass::InfrequentAccess;
    let infrequent = planned(inputs);
    let (table, history) = (standard.load.table, standard.load.history.unwrap());
    assert_close("writes of latest items", table.write_units, 10_000.0 / 9.0);
    assert_close("writes of history", history.write_units, 1_000.0);
    // 30 days of versions of 500 + 18 + 100 bytes, and 100,000 latest items of 992.
    let (versions, latest) = (
        2_592_000.0 * 1_000.0 * 618.0 / 1_073_741_824.0,
        99.2e6 / 1_073_741_824.0,
    );
    assert_close("storage of history", history.storage_gb, versions);
    assert_close("storage of latest items", table.storage_gb, latest);
    // 150 partitions by size; the stream has the shards of latest items only, and one record of each update.
    assert_eq!((history.partitions, table.partitions), (150.0, 4.0));
    assert_close("stream", standard.load.stream_records, 1_000.0);
    assert_close("maximum of one entity", standard.load.max_entity_updates, 900.0);
    assert_eq!(table.storage_growth_gb, 0.0);

    let month = 2_628.0;
    assert_close("Writes", part(&standard, "Writes"), month * 19.0 / 9.0 * 0.625);
    assert_close("Storage", part(&standard, "Storage"), (versions + latest) * 0.25);
    let writes = month * (10.0 / 9.0 * 0.625 + 0.78);
    assert_close("Writes, infrequent access", part(&infrequent, "Writes"), writes);
    let storage = versions * 0.1 + latest * 0.25;
    assert_close("Storage, infrequent access", part(&infrequent, "Storage"), storage);
    assert_eq!(part(&infrequent, "Backup"), part(&standard, "Backup"));
    assert_close("growth", infrequent.growth, history.storage_growth_gb * 0.3);
    let provisioned = 730.0 * (10_000.0 / 9.0 * 0.00065 + 1_000.0 * 0.00081);
    assert_close("provisioned", infrequent.provisioned_writes, provisioned);
}

fn any_inputs() -> impl Strategy<Value = Inputs> {
    let writing = (0..3u8, 0..=100u8, any::<bool>(), any::<bool>(), any::<bool>());
    let rate = (-3.0..=9.0f64).prop_map(|power| 10f64.powf(power).clamp(0.001, 1e9));
    let entities = (0.0..=12.0f64).prop_map(|power| (10f64.powf(power) as u64).clamp(1, 1_000_000_000_000));
    let bytes = prop_oneof![1..=2_000u64, 1..=500_000u64, Just(1_000_000_000)];
    let settings = (
        1..=10_000u32,
        0..=300u32,
        1..=10u32,
        1..=10_000u32,
        2..=1_000u32,
        128..=10_240u32,
    );
    let rest = (0.0..=1.0f64, 0.0..=36_500.0f64, 0.01..=60_000.0f64);
    (writing, rate, entities, bytes, settings, rest).prop_map(
        |((mode, window, stream_behind, pruned, own), rate, entities, bytes, settings, (share, days, latency_ms))| {
            Inputs {
                updates_per_second: rate,
                entities,
                item_bytes: bytes,
                history_class: if own {
                    TableClass::InfrequentAccess
                } else {
                    TableClass::Standard
                },
                writing: Writing {
                    history: if own { HistoryTable::Own } else { HistoryTable::Same },
                    mode: [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction][usize::from(mode)],
                    idempotency: Window::new(window)
                        .map_or(Idempotency::Ledger(Retention::default()), Idempotency::Recent),
                    stream_behind,
                    pruned,
                },
                hottest_share: share.max(1.0 / entities as f64),
                zipf: None,
                partitions: None,
                retention_days: days,
                ledger_days: if window == 0 { 15.0 } else { 0.0 },
                settings: Settings {
                    batch_size: settings.0.into(),
                    batching_window: settings.1.into(),
                    parallelization_factor: settings.2.into(),
                    queue_batch_size: settings.3.into(),
                    queue_concurrency: settings.4.into(),
                    memory: settings.5.into(),
                    architecture: Architecture::Arm64,
                    latency_ms,
                },
            }
        },
    )
}

fn amounts(plan: &Plan) -> Vec<(&'static str, f64)> {
    let load = &plan.load;
    let mut amounts = plan.costs.to_vec();
    amounts.extend([
        ("write units", load.table.write_units),
        ("read units", load.read_units),
        ("partitions", load.table.partitions),
        ("storage", load.table.storage_gb),
        ("growth", load.table.storage_growth_gb),
        ("hottest", load.hottest_write_units),
        ("stream records", load.stream_records),
        ("stream", load.stream_mb),
        ("stream-fn", load.stream.invocations),
        ("concurrency of stream-fn", load.stream.concurrency),
        ("writer-fn", load.writer.invocations),
        ("writer-fn concurrency", load.writer.concurrency),
        ("in flight", load.messages_in_flight),
        ("requests", load.queue_requests),
        ("logs", load.log_gb),
        ("provisioned", plan.provisioned_writes),
        ("month", plan.growth),
        ("total", plan.total()),
    ]);
    amounts
}

proptest! {
    #[test]
    fn every_number_of_a_plan_is_valid(inputs in any_inputs()) {
        let plan = planned(inputs);
        for (what, amount) in amounts(&plan) {
            prop_assert!(amount.is_finite() && amount >= 0.0, "{what}: {amount}");
        }
        prop_assert_eq!(plan.limits.len(), if plan.load.units.races { 11 } else { 10 });
        for limit in &plan.limits {
            prop_assert!(limit.load.is_finite() && limit.bound.is_finite() && limit.bound > 0.0, "{limit:?}");
        }
        for function in [plan.load.stream, plan.load.writer] {
            prop_assert!(function.batch >= 1.0 && function.batch <= 10_000.0, "{function:?}");
            prop_assert!(function.capacity > 0.0 && function.duration_ms > 0.0, "{function:?}");
        }
        let used: Vec<_> = plan.limits.iter().filter(|limit| !["ItemSize", "MessagesInFlight"].contains(&limit.name)).map(Limit::used).collect();
        prop_assert!(used.is_sorted_by(|a, b| a >= b), "{used:?}");
        let parts: f64 = plan.costs.iter().map(|(_, amount)| amount).sum();
        prop_assert_eq!(parts, plan.total());
        // An update writes at least its version item and its latest item.
        prop_assert!(plan.load.units.writes() >= 2.0);
        let partitions = if plan.load.history.is_some() { 2.0 } else { 1.0 };
        prop_assert!(plan.load.max_entity_updates <= partitions * 500.0);
    }

    #[test]
    fn a_larger_input_needs_no_less_capacity(inputs in any_inputs(), factor in 1.0..1_000.0f64) {
        let mut rate = inputs;
        rate.updates_per_second = (inputs.updates_per_second * factor).min(1e9);
        let mut entities = inputs;
        entities.entities = ((inputs.entities as f64 * factor) as u64).clamp(inputs.entities, 1_000_000_000_000);
        let mut bytes = inputs;
        bytes.item_bytes = ((inputs.item_bytes as f64 * factor) as u64).max(inputs.item_bytes);
        for (named, more) in [("rate", rate), ("entities", entities), ("bytes", bytes)] {
            for ((what, less), (_, more)) in amounts(&planned(inputs)).into_iter().zip(amounts(&planned(more))) {
                // A batch has fewer large messages, so it takes less time.
                let shorter = named == "bytes" && what == "in flight";
                prop_assert!(shorter || more >= less * (1.0 - 1e-9), "{named}: {what} was {less} and is {more}");
            }
        }
    }

    #[test]
    fn more_entities_reduce_the_load_of_the_hottest(inputs in any_inputs(), factor in 1..1_000u64) {
        let evenly = |entities: u64| {
            let entities = entities.min(1_000_000_000_000);
            let hottest_share = 1.0 / entities as f64;
            planned(Inputs { entities, hottest_share, ..inputs }).load.hottest_write_units
        };
        prop_assert!(evenly(inputs.entities * factor) <= evenly(inputs.entities));
    }
}

#[test]
fn more_memory_is_never_slower() {
    for curve in [STREAM_CURVE, WRITER_CURVE] {
        assert!(
            curve
                .windows(2)
                .all(|pair| pair[0].memory_mb < pair[1].memory_mb && pair[0].item_micros >= pair[1].item_micros),
            "{curve:?}"
        );
    }
}

/// One entity with 1,600 updates a second: its partition accepts 900, and 700 messages a second fail, each for 180 s.
#[test]
fn failed_messages_of_a_hot_entity_are_in_flight() {
    let hot = |rate| {
        planned(Inputs {
            hottest_share: 1.0,
            ..even(rate, 1_000, 500)
        })
    };
    let failing = hot(1_600.0);
    let limit_of = limit(&failing, "MessagesInFlight");
    assert_close("in flight", (limit_of.load / 126_000.0).floor(), 1.0);
    assert!(limit_of.is_exceeded() && !limit(&hot(899.0), "MessagesInFlight").is_exceeded());
    // The batch waits for retries.
    assert!(failing.load.writer.duration_ms > hot(899.0).load.writer.duration_ms + 100.0);
    let names: Vec<_> = failing.limits.iter().map(|limit| limit.name).collect();
    let at = |name| names.iter().position(|found| *found == name);
    assert!(at("HottestEntity") < at("MessagesInFlight"), "{names:?}");
}
