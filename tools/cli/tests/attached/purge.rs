//! `vzero --attached FILE admin purge`.

use shared::clock::{Clock, since_epoch};
use testkit::attached::{Orders, state};

use crate::orders;

#[test]
fn a_purge_deletes_the_history_and_keeps_the_item() {
    let orders = orders();
    let key = Orders::key(1);
    for text in ["a", "b", "c"] {
        orders.put(1, &state(text));
        orders.put(2, &state(text));
    }
    orders.deliver_all();
    let all = r#"{"versions": 3, "floor": 1}"#;
    orders.check(&format!(
        r#"
        prune {key} --keep 2 --grace 1d => {{"Marked": 1}}
        purge {key} --dry-run => {{"WouldDelete": {all}}}
        purge {key} => 2
        purge {key} --yes --wait 1s => {{"Deleted": {all}}} => 0 …
        purge {key} --yes => 3
        "#
    ));
    assert!(orders.stored(1).is_empty());
    assert_eq!((orders.item(1), orders.versions(2).len()), (state("c"), 3));

    // The records from before the purge are not stored again, those of failure documents neither.
    let records = orders.records();
    let of_item: Vec<_> = records.iter().step_by(2).cloned().collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    std::fs::write(&path, orders.document(&of_item).body.to_string()).unwrap();
    let redriven = orders.json(&["redrive", path.to_str().unwrap()], 0);
    assert_eq!(redriven["Purged"], 3);
    let later = Clock::new(|| since_epoch() + std::time::Duration::from_secs(60));
    let writer = orders.writer().with_clock(later);
    let raw: Vec<_> = of_item.iter().map(|record| record.json().to_string()).collect();
    let raw: Vec<_> = raw.iter().map(String::as_str).collect();
    let deadline = shared::clock::Deadline::after(std::time::Duration::from_secs(60));
    orders.runtime.block_on(writer.process(raw, deadline));
    assert!(orders.stored(1).is_empty());
}
