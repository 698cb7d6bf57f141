//! Audit, restore and purge while other programs write.

use std::time::Duration;

use operations::{
    audit::{auditor::Auditor, collection::Finding},
    error::OperationError,
    item_change::{ItemChange, ItemOptions, Wanted, change_item, plan_item_change, recorded_version},
    purge::Purge,
    rate_limit::RateLimiter,
};
use serde_json::{Value, json};
use shared::{
    clock::{Clock, since_epoch},
    domain::{Item, recorded_at::CLOCK_TOLERANCE},
};
use testkit::{
    attached::{Orders, key_attributes, state},
    database::{put_into, version},
};

/// Lag of an audit whose deferred checks the test settles when it wants.
const LAG: Duration = Duration::from_millis(1);

#[test]
fn a_record_that_arrives_within_the_lag_is_no_error() {
    let orders = Orders::new("vzero");
    let entity = orders.entity(1);
    orders.put(1, &state("a"));
    orders.deliver_all();
    orders.put(1, &state("b"));
    let mut auditor = Auditor::new(orders.store(), RateLimiter::unlimited(), LAG, Vec::new());
    let examined = orders.block_on(auditor.entity(&entity, None)).unwrap();
    assert_eq!((examined, auditor.waiting()), (Some((1, Vec::new())), 1));
    // An interrupted audit continues with its deferred checks.
    let deferred = serde_json::to_string(&auditor.deferred()).unwrap();
    let deferred = serde_json::from_str(&deferred).unwrap();
    let mut auditor = Auditor::new(orders.store(), RateLimiter::unlimited(), LAG, deferred);
    let mut settle = || {
        orders.deliver_all();
        orders.put(1, &state("c"));
        let settled = orders.block_on(auditor.settle()).unwrap();
        (settled.map(|settled| settled.findings), auditor.waiting())
    };
    // The next change is not delivered yet: history has a newer version, so the item is compared again.
    assert_eq!(settle(), (Some(Vec::new()), 1));
    let (through, latest) = (1, version(3));
    assert_eq!(settle(), (Some(vec![Finding::Lagging { through, latest }]), 0));
    assert_eq!(settle(), (None, 0));
}

#[test]
fn a_restore_keeps_what_other_clients_add_and_rejects_what_they_change() {
    let orders = Orders::new("vzero");
    let store = orders.store();
    let key: Item = serde_json::from_value(key_attributes(1)).unwrap();
    let plan = |number| {
        let (wanted, options) = (Wanted::Version(version(number)), ItemOptions::default());
        orders
            .block_on(plan_item_change(&store, key.clone(), wanted, &options))
            .unwrap()
    };
    let restore = |planned: &ItemChange| orders.block_on(change_item(&store, planned));
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.deliver_all();
    let planned = plan(1);
    orders.put(1, &json!({"state": {"S": "b"}, "added": {"S": "x"}}));
    // The response to the first request was lost: it is sent again.
    for _ in 0..2 {
        restore(&planned).unwrap();
        assert_eq!(orders.item(1), json!({"state": {"S": "a"}, "added": {"S": "x"}}));
    }
    let recorded = || {
        orders
            .block_on(recorded_version(&store, &orders.entity(1), &planned))
            .unwrap()
    };
    orders.deliver(&orders.records()[..3]);
    assert_eq!(recorded(), None);
    orders.deliver_all();
    assert_eq!(recorded(), Some(version(4)));
    // After the plan, another client changes, deletes or creates the item. Version 6 is the tombstone.
    for (number, other) in [(2, Some("c")), (2, None), (1, Some("d")), (6, Some("e"))] {
        let planned = plan(number);
        match other {
            Some(other) => orders.put(1, &state(other)),
            None => orders.delete(1),
        }
        assert!(matches!(restore(&planned), Err(OperationError::Changed)), "{other:?}");
        assert_eq!(orders.item(1), other.map_or(Value::Null, state));
        orders.deliver_all();
    }
    let planned = plan(6);
    orders.delete(1);
    restore(&planned).unwrap();
    // Another client meanwhile added the attribute that the change adds.
    orders.put(1, &state("a"));
    orders.put(1, &json!({}));
    orders.deliver_all();
    let planned = plan(1);
    orders.put(1, &state("z"));
    assert!(matches!(restore(&planned), Err(OperationError::Changed)));
}

#[test]
fn a_history_that_begins_during_a_purge_is_kept() {
    let orders = Orders::new("vzero");
    let entity = orders.entity(1);
    orders.put(1, &state("a"));
    orders.put(1, &state("b"));
    orders.deliver_all();
    let mut covered = orders.stored(1)[0].clone();
    // DynamoDB Local rounds the time of a record down to a minute.
    let purged_at = since_epoch().saturating_sub(Duration::from_secs(60) + CLOCK_TOLERANCE * 2);
    let store = orders.store().with_clock(Clock::new(move || purged_at));
    let write = || {
        assert!(orders.stored(1).is_empty());
        // A version from before the purge, whose record was processed without reading the marker.
        covered["RecordedAt"] = json!({"S": "2020-01-01T00:00:00.000000000Z"});
        orders.block_on(put_into(&orders.client, &orders.history, covered.clone()));
        orders.put(1, &state("c"));
        let records = orders.records();
        orders.deliver(&records[2..]);
        assert_eq!(orders.versions(1), ["v1 a", "v2 b Missed", "v3 c"]);
    };
    let on_wait = |_| std::thread::scope(|scope| scope.spawn(write).join().unwrap());
    let mut purge = Purge::new(&store, entity.clone());
    orders.block_on(purge.run(LAG, on_wait)).unwrap();
    assert_eq!(orders.versions(1), ["v2 b Missed", "v3 c"]);
    assert_eq!(purge.deleted.values().sum::<u64>(), 3);
    let mut auditor = Auditor::new(store, RateLimiter::unlimited(), Duration::ZERO, Vec::new());
    let (_, findings) = orders.block_on(auditor.entity(&entity, None)).unwrap().unwrap();
    assert_eq!(findings, [Finding::Missed { versions: 1 }]);
}
