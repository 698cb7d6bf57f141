//! The whole arithmetic: by hand, and by what has to hold of any inputs.

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

use super::{cost::Architecture, limits::Limit, *};

fn even(updates_per_second: f64, entities: u64, item_bytes: u64) -> Inputs {
    Inputs {
        updates_per_second,
        entities,
        item_bytes,
        writing: Writing {
            mode: WriteMode::Stream,
            idempotency: Idempotency::default(),
            stream_behind: true,
            pruned: false,
        },
        hottest_share: 1.0 / entities as f64,
        retention_days: 30.0,
        ledger_days: 0.0,
        batch_size: 100.0,
        batching_window: 0.0,
        parallelization_factor: 2.0,
        queue_batch_size: 10.0,
        queue_concurrency: 20.0,
        memory_mb: 128.0,
        latency_ms: 5.0,
    }
}

fn planned(inputs: Inputs) -> Plan {
    let load = Load::of(&inputs);
    Plan {
        limits: limits(&inputs, &load),
        cost: Cost::of(&load, Architecture::Arm64, &Prices::read(None).unwrap()),
        inputs,
        load,
    }
}

fn part(plan: &Plan, name: &str) -> f64 {
    plan.cost.parts.iter().find(|(part, _)| *part == name).unwrap().1
}

fn assert_close(what: &str, measured: f64, by_hand: f64) {
    let close = (measured - by_hand).abs() <= by_hand.abs() * 1e-4;
    assert!(close, "{what}: {measured} and not {by_hand}");
}

fn limit(plan: &Plan, name: &str) -> Limit {
    *plan.limits.iter().find(|limit| limit.name == name).unwrap()
}

/// 1,000 updates a second of 100,000 entities, 500 bytes: by a calculator.
#[test]
fn a_thousand_updates_a_second_by_hand() {
    let plan = planned(even(1_000.0, 100_000, 500));
    let load = &plan.load;
    // 19 write units in 9 updates; 500 + 10 + 17 + 24 * 16 bytes.
    assert_close("write units", load.write_units, 19_000.0 / 9.0);
    assert_eq!(load.units.latest_bytes, 911);
    // 30 days of versions of 600 bytes, and 100,000 latest items of 1,011: 1,555,200 MB and 101.1 MB.
    let gb = (2_592_000.0 * 1_000.0 * 600.0 + 100_000.0 * 1_011.0) / 1_073_741_824.0;
    assert_close("storage", load.storage_gb, gb);
    // 145 partitions by size, 3 by writes.
    assert_close("partitions", load.partitions, 145.0);
    assert_close("stream", load.stream_records, 2_000.0);
    // 290 lanes, polled four times a second: less than a record each time.
    assert_close("batch of stream-fn", load.stream.batch, 1.0);
    // 31 us of a vCPU, of which there is 128/1,769.
    assert_close("duration of stream-fn", load.stream.duration_ms, 1.0 + 5.0 + 0.428_430);
    assert_close("stream-fn at once", load.stream.concurrency, 6.428_430);
    assert_close("batch of writer-fn", load.writer.batch, 10.0);
    // 10/9 requests an update: 10 of 217 us, and 5 ms.
    let writer_ms = 1.0 + 5.555_556 + 10.0 * 2.999_008 * 10.0 / 9.0;
    assert_close("duration of writer-fn", load.writer.duration_ms, writer_ms);
    // One to send it, a tenth to receive it, a tenth to delete it.
    assert_close("queue", load.queue_requests, 1_200.0);

    assert_close("Writes", part(&plan, "Writes"), 2_628.0 * 19.0 / 9.0 * 0.625);
    assert_close("Reads", part(&plan, "Reads"), 0.0);
    assert_close("Storage", part(&plan, "Storage"), gb * 0.25);
    assert_close("Backup", part(&plan, "Backup"), gb * 0.2);
    assert_close("Queue", part(&plan, "Queue"), 2_628.0 * 1.2 * 0.4);
    let writer = 262.8 * 0.2 + 262.8e6 * (writer_ms + 0.5) / 1_000.0 / 8.0 * 0.000_013_333_4;
    assert_close("WriterFunction", part(&plan, "WriterFunction"), writer);
    let stream = 2_628.0 * 0.2 + 2_628e6 * 6.928_430 / 1_000.0 / 8.0 * 0.000_013_333_4;
    assert_close("StreamFunction", part(&plan, "StreamFunction"), stream);
    let logs = 2_628e6 * (430.0 + 1540.0) / 1_073_741_824.0 * 0.5;
    assert_close("Logs", part(&plan, "Logs"), logs);
    assert!(
        plan.limits.iter().all(|limit| !limit.is_exceeded()),
        "{:?}",
        plan.limits
    );
}

/// What one entity takes: 1,000 write units, shared by all that an update writes under its key.
#[test]
fn the_hottest_entity_by_hand() {
    for (mode, idempotency, stream_behind, most) in [
        (WriteMode::Stream, Idempotency::Recent(Window::LAST), true, 500.0),
        (WriteMode::Stream, Idempotency::default(), true, 9_000.0 / 19.0),
        (WriteMode::Inline, Idempotency::Recent(Window::LAST), false, 500.0),
        (
            WriteMode::Inline,
            Idempotency::Recent(Window::LAST),
            true,
            1_000.0 / 3.0,
        ),
        (WriteMode::Transaction, Idempotency::default(), false, 250.0),
        (
            WriteMode::Stream,
            Idempotency::Ledger(Retention::default()),
            true,
            200.0,
        ),
        (
            WriteMode::Transaction,
            Idempotency::Ledger(Retention::default()),
            true,
            1_000.0 / 7.0,
        ),
    ] {
        let with = |updates_per_second| {
            let mut inputs = even(updates_per_second, 1_000, 500);
            inputs.hottest_share = 1.0;
            inputs.writing = Writing {
                mode,
                idempotency,
                stream_behind,
                pruned: false,
            };
            limit(&planned(inputs), "HottestEntity")
        };
        assert_close(
            "most",
            planned(even(1.0, 1, 500)).load.hottest_most_updates,
            9_000.0 / 19.0,
        );
        assert!(!with(most * 0.999).is_exceeded(), "{mode:?} {idempotency:?}");
        assert!(with(most * 1.001).is_exceeded(), "{mode:?} {idempotency:?}");
    }
}

#[test]
fn the_limit_that_is_met_first() {
    let exceeded = |inputs| {
        let plan = planned(inputs);
        let exceeded = plan.limits.into_iter().filter(Limit::is_exceeded);
        exceeded.map(|limit| limit.name).collect::<Vec<_>>()
    };
    let share = |mut inputs: Inputs, share| {
        inputs.hottest_share = share;
        inputs
    };
    let transaction = |mut inputs: Inputs| {
        inputs.writing.mode = WriteMode::Transaction;
        inputs
    };
    assert_eq!(exceeded(even(100.0, 1_000, 500)), Vec::<&str>::new());
    assert_eq!(exceeded(share(even(600.0, 1_000, 500), 1.0)), ["HottestEntity"]);
    // A transaction reads before it writes: 15 ms during which another update of the entity makes it run again.
    assert_eq!(exceeded(transaction(share(even(70.0, 1_000, 500), 1.0))), ["LostRaces"]);
    assert_eq!(exceeded(even(2_000.0, 1_000_000, 500)), ["NewTable"]);
    assert_eq!(exceeded(even(1.0, 1_000, 409_585)), ["ItemSize"]);
    // However much else there is: what does not fit works at no rate.
    assert_eq!(exceeded(even(1e6, 1_000_000, 409_585))[0], "ItemSize");
    assert_eq!(exceeded(even(1.0, 1_000, 409_600 - 16 - 384 - 27)), Vec::<&str>::new());
    // A million a second, as deployed.
    let million = exceeded(even(1e6, 1_000_000, 500));
    assert_eq!(million[..2], ["NewTable", "WriterFunction"], "{million:?}");
    assert!(
        million.contains(&"TableQuota") && million.contains(&"AccountConcurrency"),
        "{million:?}"
    );
    let mut slow = even(100.0, 1_000, 500);
    slow.latency_ms = 30_000.0;
    assert_eq!(exceeded(slow)[0], "WriterFunction");
    let mut packed = even(100.0, 1_000, 300_000);
    (packed.queue_batch_size, packed.memory_mb) = (100.0, 128.0);
    assert!(!exceeded(packed).contains(&"Memory"));
}

#[test]
fn a_larger_batch_takes_fewer_invocations() {
    let with = |batch_size, batching_window| {
        let mut inputs = even(10_000.0, 1_000_000, 500);
        (inputs.batch_size, inputs.batching_window, inputs.retention_days) = (batch_size, batching_window, 0.0);
        planned(inputs).load.stream
    };
    // 22 shards of 2 lanes, polled four times a second.
    assert_close("as deployed", with(100.0, 0.0).batch, 10_000.0 / 4.0 / 44.0);
    assert_close("with a window", with(1_000.0, 1.0).batch, 10_000.0 * 1.25 / 44.0);
    assert!(with(1_000.0, 1.0).invocations < with(100.0, 0.0).invocations);
    // 400 KB: two items of an update in the megabyte of a poll, and 15 in an event.
    let large = |batching_window| {
        let mut inputs = even(10_000.0, 1_000_000, 400_000);
        (inputs.batching_window, inputs.retention_days) = (batching_window, 0.0);
        planned(inputs).load.stream.capacity
    };
    assert!(large(0.0) < large(1.0));
}

#[test]
fn pruning_and_the_ledger_cost_what_they_write() {
    let mut pruned = even(1_000.0, 1_000, 500);
    pruned.writing.pruned = true;
    let plan = planned(pruned);
    assert_close("pruned", plan.load.units.writes(), 28.0 / 9.0);
    assert_close("records of pruned versions", plan.load.stream_records, 4_000.0);
    let mut ledger = even(1_000.0, 1_000, 500);
    ledger.writing.idempotency = Idempotency::Ledger(Retention::default());
    (ledger.ledger_days, ledger.retention_days) = (8.0, 0.0);
    // 238 bytes a marker, for 8 days.
    let gb = (8.0 * 86_400.0 * 1_000.0 * 238.0 + 1_000.0 * 610.0) / 1_073_741_824.0;
    assert_close("markers", planned(ledger).load.storage_gb, gb);
}

fn any_inputs() -> impl Strategy<Value = Inputs> {
    let writing = (0..3u8, 0..=100u8, any::<bool>(), any::<bool>());
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
        |((mode, window, stream_behind, pruned), rate, entities, bytes, settings, (share, days, latency_ms))| Inputs {
            updates_per_second: rate,
            entities,
            item_bytes: bytes,
            writing: Writing {
                mode: [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction][usize::from(mode)],
                idempotency: Window::new(window).map_or(Idempotency::Ledger(Retention::default()), Idempotency::Recent),
                stream_behind,
                pruned,
            },
            hottest_share: share.max(1.0 / entities as f64),
            retention_days: days,
            ledger_days: if window == 0 { 8.0 } else { 0.0 },
            batch_size: settings.0.into(),
            batching_window: settings.1.into(),
            parallelization_factor: settings.2.into(),
            queue_batch_size: settings.3.into(),
            queue_concurrency: settings.4.into(),
            memory_mb: settings.5.into(),
            latency_ms,
        },
    )
}

/// Every number of a plan that says how much of something there is.
fn amounts(plan: &Plan) -> Vec<(&'static str, f64)> {
    let load = &plan.load;
    let mut amounts = plan.cost.parts.clone();
    amounts.extend([
        ("write units", load.write_units),
        ("read units", load.read_units),
        ("partitions", load.partitions),
        ("storage", load.storage_gb),
        ("growth", load.storage_growth_gb),
        ("hottest", load.hottest_write_units),
        ("stream records", load.stream_records),
        ("stream", load.stream_mb),
        ("stream-fn", load.stream.invocations),
        ("stream-fn at once", load.stream.concurrency),
        ("writer-fn", load.writer.invocations),
        ("writer-fn at once", load.writer.concurrency),
        ("in flight", load.messages_in_flight),
        ("requests", load.queue_requests),
        ("logs", load.log_gb),
        ("provisioned", plan.cost.provisioned_writes),
        ("month", plan.cost.growth),
        ("total", plan.cost.total()),
    ]);
    amounts
}

proptest! {
    #[test]
    fn a_plan_is_made_of_numbers(inputs in any_inputs()) {
        let plan = planned(inputs);
        for (what, amount) in amounts(&plan) {
            prop_assert!(amount.is_finite() && amount >= 0.0, "{what}: {amount}");
        }
        for limit in &plan.limits {
            prop_assert!(limit.load.is_finite() && limit.bound.is_finite() && limit.bound > 0.0, "{limit:?}");
        }
        for function in [plan.load.stream, plan.load.writer] {
            prop_assert!(function.batch >= 1.0 && function.batch <= 10_000.0, "{function:?}");
            prop_assert!(function.capacity > 0.0 && function.duration_ms > 0.0, "{function:?}");
        }
        let used: Vec<_> = plan.limits.iter().filter(|limit| limit.name != "ItemSize").map(Limit::used).collect();
        prop_assert!(used.is_sorted_by(|a, b| a >= b), "{used:?}");
        let parts: f64 = plan.cost.parts.iter().map(|(_, amount)| amount).sum();
        prop_assert_eq!(parts, plan.cost.total());
        // A version is written once, and its latest item once, at least.
        prop_assert!(plan.load.units.writes() >= 2.0);
        prop_assert!(plan.load.hottest_most_updates <= 500.0);
    }

    #[test]
    fn more_takes_more(inputs in any_inputs(), factor in 1.0..1_000.0f64) {
        let mut rate = inputs;
        rate.updates_per_second = (inputs.updates_per_second * factor).min(1e9);
        let mut entities = inputs;
        entities.entities = ((inputs.entities as f64 * factor) as u64).clamp(inputs.entities, 1_000_000_000_000);
        let mut bytes = inputs;
        bytes.item_bytes = ((inputs.item_bytes as f64 * factor) as u64).max(inputs.item_bytes);
        for (named, more) in [("rate", rate), ("entities", entities), ("bytes", bytes)] {
            for ((what, less), (_, more)) in amounts(&planned(inputs)).into_iter().zip(amounts(&planned(more))) {
                // Fewer large messages fit a batch, which is so much sooner done.
                let shorter = named == "bytes" && what == "in flight";
                prop_assert!(shorter || more >= less * (1.0 - 1e-9), "{named}: {what} was {less} and is {more}");
            }
        }
    }

    #[test]
    fn more_entities_make_the_hottest_one_cooler(inputs in any_inputs(), factor in 1..1_000u64) {
        let evenly = |entities: u64| {
            let entities = entities.min(1_000_000_000_000);
            let hottest_share = 1.0 / entities as f64;
            planned(Inputs { entities, hottest_share, ..inputs }).load.hottest_write_units
        };
        prop_assert!(evenly(inputs.entities * factor) <= evenly(inputs.entities));
    }
}
