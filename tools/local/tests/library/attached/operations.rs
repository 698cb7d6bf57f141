//! Audit, restore and purge while other programs write.

use std::time::Duration;

use operations::{
    audit::{
        auditor::Auditor,
        collection::Finding,
        segment::{Progress, SegmentAudit},
    },
    item_restore::{ItemRestoreError, ItemRestored, plan_item_restore, restore_item},
    purge::entity::ItemCounts,
    rate_limit::RateLimiter,
    segments::scan::Segment,
};
use serde_json::json;
use shared::{
    clock::{Clock, since_epoch},
    domain::{Item, attached::item, purge_marker::CLOCK_TOLERANCE},
};
use testkit::{
    attached::{Orders, key_attributes, state},
    database::{self, version},
};

fn orders() -> Orders {
    Orders::new("vzero")
}

fn key() -> Item {
    serde_json::from_value(key_attributes(1)).unwrap()
}

/// Lag of an audit whose deferred checks the test settles when it wants.
const LAG: Duration = Duration::from_millis(1);

#[test]
fn a_record_that_arrives_within_the_lag_is_no_error() {
    let orders = orders();
    let entity = orders.entity(1);
    orders.put(1, &state("a"));
    orders.deliver_all();
    orders.put(1, &state("b"));
    let mut auditor = Auditor::new(orders.store(), RateLimiter::unlimited(), LAG, Vec::new());
    let examined = orders.runtime.block_on(auditor.entity(&entity, None)).unwrap();
    assert_eq!((examined, auditor.waiting()), (Some((1, Vec::new())), 1));
    // An interrupted audit continues with its deferred checks.
    let deferred = serde_json::to_string(&auditor.deferred()).unwrap();
    let deferred = serde_json::from_str(&deferred).unwrap();
    let mut auditor = Auditor::new(orders.store(), RateLimiter::unlimited(), LAG, deferred);
    orders.deliver_all();
    // The next change is not delivered yet: history has a newer version, so the item is compared again.
    orders.put(1, &state("c"));
    let settled = orders.runtime.block_on(auditor.settle()).unwrap().unwrap();
    assert_eq!((settled.findings, auditor.waiting()), (Vec::new(), 1));
    orders.deliver_all();
    let settled = orders.runtime.block_on(auditor.settle()).unwrap().unwrap();
    let (through, latest) = (1, version(3));
    assert_eq!(settled.findings, [Finding::Lagging { through, latest }]);
    assert!(orders.runtime.block_on(auditor.settle()).unwrap().is_none());
}

#[test]
fn a_segment_continues_after_its_last_history() {
    let orders = orders();
    for no in 1..=5 {
        orders.put(no, &state("a"));
    }
    orders.deliver_all();
    orders.put(5, &state("b"));
    let segment = Segment { index: 0, total: 1 };
    let audit = |progress| SegmentAudit::new(orders.store(), RateLimiter::unlimited(), LAG, segment, progress);
    let mut progress = Progress::default();
    let mut findings = Vec::new();
    // Each step is that of a new run.
    while let Some(step) = orders.runtime.block_on(audit(progress.clone()).step()).unwrap() {
        findings.extend(step.audited.into_iter().flat_map(|audited| audited.findings));
        progress = serde_json::from_str(&serde_json::to_string(&step.progress).unwrap()).unwrap();
    }
    assert_eq!(findings, [Finding::Differs { version: version(1) }]);
    assert_eq!((progress.counts.entities, progress.counts.versions), (5, 5));
}

#[test]
fn a_restore_keeps_what_other_clients_add_and_rejects_what_they_change() {
    let orders = orders();
    let (store, entity) = (orders.store(), orders.entity(1));
    let plan = |number| {
        orders
            .runtime
            .block_on(plan_item_restore(&store, &entity, key(), version(number)))
            .unwrap()
    };
    let restore = |planned| orders.runtime.block_on(restore_item(&store, planned));
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.deliver_all();
    let planned = plan(1);
    orders.put(1, &json!({"state": {"S": "b"}, "added": {"S": "x"}}));
    assert_eq!(restore(&planned), Ok(ItemRestored::Restored));
    assert_eq!(orders.item(1), json!({"state": {"S": "a"}, "added": {"S": "x"}}));
    // The response to this request was lost: it is sent again.
    assert_eq!(restore(&planned), Ok(ItemRestored::Restored));
    orders.deliver_all();

    let planned = plan(2);
    orders.put(1, &state("c"));
    assert_eq!(restore(&planned), Err(ItemRestoreError::Changed));
    assert_eq!(orders.item(1), state("c"));
    orders.delete(1);
    assert_eq!(restore(&planned), Err(ItemRestoreError::Changed));
    assert!(orders.item(1).is_null());
    orders.deliver_all();

    // A tombstone, and an item that another client creates in the meantime.
    let newest = orders.versions(1).len() as u64;
    let planned = plan(1);
    orders.put(1, &state("d"));
    assert_eq!(restore(&planned), Err(ItemRestoreError::Changed));
    orders.deliver_all();
    let planned = plan(newest);
    orders.put(1, &state("e"));
    assert_eq!(restore(&planned), Err(ItemRestoreError::Changed));
    assert_eq!(orders.item(1), state("e"));
    orders.deliver_all();
    let planned = plan(newest);
    orders.delete(1);
    assert_eq!(restore(&planned), Ok(ItemRestored::Deleted));
}

#[test]
fn a_history_that_begins_during_a_purge_is_kept() {
    let orders = orders();
    let entity = orders.entity(1);
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.deliver_all();
    let mut covered = orders.stored(1)[0].clone();
    // DynamoDB Local rounds the time of a record down to a minute.
    let purged_at = since_epoch().saturating_sub(Duration::from_secs(60) + CLOCK_TOLERANCE * 2);
    let store = orders.store().with_clock(Clock::new(move || purged_at));
    let mut deleted = ItemCounts::new();
    let write = || {
        assert!(orders.stored(1).is_empty());
        // A version from before the purge, whose record was processed without reading the marker.
        covered["RecordedAt"] = json!({"S": "2020-01-01T00:00:00.000000000Z"});
        let put = database::put_into(&orders.client, &orders.history, covered.clone());
        orders.runtime.block_on(put);
        orders.put(1, &state("c"));
        let records = orders.records();
        orders.deliver(&records[2..]);
        assert_eq!(orders.versions(1), ["v1 a", "v2 b Missed", "v3 c"]);
    };
    let on_wait = |_| std::thread::scope(|scope| scope.spawn(write).join().unwrap());
    let purge = operations::purge::entity::purge(&store, &entity, LAG, on_wait, &mut deleted);
    orders.runtime.block_on(purge).unwrap();
    assert_eq!(orders.versions(1), ["v2 b Missed", "v3 c"]);
    assert_eq!(deleted.values().sum::<u64>(), 3);
    let findings = orders
        .runtime
        .block_on(operations::audit::auditor::audit(&store, &entity, Duration::ZERO))
        .unwrap();
    assert_eq!(findings, Some(vec![Finding::Missed { versions: 1 }]));
}

#[test]
fn stream_fn_decides_again_if_the_backfill_is_first() {
    let orders = orders();
    orders.put(1, &state("a"));
    let store = orders.store();
    let image = serde_json::from_value::<Item>(json!({"customer": {"S": "c"}, "no": {"N": "1"}, "state": {"S": "a"}}));
    let stored = item::baseline(
        store.attached_table().unwrap(),
        &orders.entity(1),
        image.unwrap(),
        store.now(),
        store.compression(),
    );
    let stored = serde_json::to_value(stored.unwrap()).unwrap();
    let put = database::put_into(&orders.client, &orders.history, stored);
    orders.runtime.block_on(put);
    orders.put(1, &state("b"));
    orders.deliver_all();
    assert_eq!(orders.versions(1), ["v1 a Baseline", "v2 b"]);
}
