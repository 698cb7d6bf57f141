//! `vzero log --all`: scripts, and a comparison with the histories of all entities.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{
    Rng,
    attached::Orders,
    database::{at_second, update},
    script_tests,
    table::Table,
    updates::{WriteMode, apply, mode},
    vzero::Vzero,
};

use crate::{change_order, random_update};

script_tests! {
    Table;
    fn all_versions_are_listed_by_time();
    fn what_a_scan_does_not_know_is_named();
    fn what_history_lacks_limits_what_is_complete();
}

mod attached {
    testkit::script_tests! {
        testkit::attached::Orders;
        fn all_versions_of_an_attached_table_are_listed_by_time();
        fn failure_documents_limit_what_is_complete();
    }
}

/// Compares the versions of all entities with those of each.
fn check(vzero: &Vzero, keys: &BTreeSet<String>) {
    let json = |words: &[&str], options: &[&str]| vzero.lines(&[words, options, &["--output", "json"]].concat(), 0);
    let union = |options: &[&str]| {
        let lines = keys.iter().flat_map(|key| json(&["log", key], options));
        let mut lines: Vec<_> = lines.collect();
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        lines.sort_by_key(|line| (text(line, "RecordedAt"), text(line, "ID"), line["Version"].as_u64()));
        lines.reverse();
        lines
    };
    let every = union(&[]);
    let times: Vec<_> = every.iter().filter_map(|line| line["RecordedAt"].as_str()).collect();
    let (since, until) = (times[times.len() * 2 / 3], times[times.len() / 3]);
    let cases: [&[&str]; 6] = [
        &[],
        &["--since", since, "--until", until],
        &["--actor", "amy"],
        &["--path", "A"],
        &["--path", "L[1].V"],
        &["--since", since, "--actor", "amy", "--path", "A"],
    ];
    for options in cases {
        let mut found = json(&["log", "--all", "--segments", "3"], options);
        assert!(found.pop().unwrap()["CompleteUntil"].is_string());
        let mut expected = union(options);
        assert!(expected.len() > 3, "{options:?}");
        assert_eq!(found, expected, "{options:?}");
        let mut first = json(&["log", "--all", "--reverse", "-n", "3"], options);
        first.pop();
        expected.reverse();
        assert_eq!(first, expected[..3], "{options:?}");
    }
}

#[test]
fn all_versions_are_those_of_each_entity() {
    for is_own in [false, true] {
        let table = crate::table_with_history(is_own);
        table.block_on(table.store.claim_layout()).unwrap();
        let (mut random, mut keys) = (Rng::with_seed(0x2026_1126), BTreeSet::new());
        for number in 0..200 {
            let id = format!("Equipment#{}", random.u64(..30));
            let json = random_update(&mut random, &id, number);
            keys.insert(id);
            // History lacks some of them.
            let mode = mode([WriteMode::Stream, WriteMode::Inline][usize::from(random.u8(..5) > 0)]);
            let store = at_second(&table.store, random.u64(..100));
            table.block_on(apply(&store, &update(json), mode)).unwrap();
        }
        check(&table, &keys);
    }
}

#[test]
fn all_versions_of_an_attached_table_are_those_of_each_item() {
    let orders = Orders::with(crate::VZERO, &json!({"ActorAttribute": "by"}));
    let (mut random, mut keys) = (Rng::with_seed(0x2026_1127), BTreeSet::new());
    for number in 0..100 {
        keys.insert(Orders::key(change_order(&orders, &mut random, number)));
    }
    // Some records come late.
    let records = orders.records();
    orders.deliver(
        &records
            .iter()
            .filter(|_| random.u64(..4) > 0)
            .cloned()
            .collect::<Vec<_>>(),
    );
    orders.deliver(&records);
    keys.retain(|key| orders.run(&["log", key]).code == 0);
    check(&orders, &keys);
}
