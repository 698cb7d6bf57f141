//! `vzero undo` on a table that other programs write.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use operations::undo::{apply::apply, options::Options, plan::plan, set_file::SetFile};
use serde_json::{Value, json};
use shared::{
    clock::{Clock, since_epoch},
    domain::version::Version,
};
use testkit::{
    attached::{Orders, key_attributes},
    command::Run,
    database::put_into,
    script_tests,
};

use crate::VZERO;

script_tests! {
    Orders;
    fn an_undo_of_an_item_of_other_programs_increases_its_version_attribute();
    fn a_plan_of_an_attached_table_is_carried_out_as_it_is();
    fn an_undo_without_an_attribute_for_its_set_has_a_file();
    fn what_is_no_change_of_an_item_is_not_undone();
    fn an_erased_value_of_other_programs_is_neither_undone_nor_restored();
}

/// Returns the options of an undo of version 2.
fn options() -> Options {
    let mut options = Options::default();
    options.selection.versions = Version::new(2).map(|version| [version].into());
    options
}

#[test]
fn what_another_client_writes_while_an_undo_is_planned_stays() {
    let orders = Orders::with(VZERO, &json!({}));
    let state = |a: u64, b: u64| json!({"a": {"N": a.to_string()}, "b": {"N": b.to_string()}});
    // The clock is read when history was read, and when the plan is made.
    for no in 1..=2 {
        orders.put(no, &state(1, 1));
        orders.put(no, &state(2, 1));
        orders.deliver_all();
        let (mut item, mut version) = (key_attributes(no), orders.stored(no).pop().unwrap());
        version["SK"] = json!({"S": "v0000000003"});
        for item in [&mut item, &mut version["Image"]["M"]] {
            item.as_object_mut()
                .unwrap()
                .extend(state(2, 5).as_object().unwrap().clone());
        }
        let (client, runtime, reads) = (
            orders.client.clone(),
            orders.runtime.handle().clone(),
            AtomicU64::new(0),
        );
        let written = [(orders.table.clone(), item), (orders.history.clone(), version)];
        let clock = Clock::new(move || {
            if reads.fetch_add(1, Ordering::Relaxed) + 1 == no {
                let (client, runtime, written) = (client.clone(), runtime.clone(), written.clone());
                let put = move || written.map(|(table, item)| runtime.block_on(put_into(&client, &table, item)));
                thread::spawn(put).join().unwrap();
            }
            since_epoch()
        });
        let (store, options) = (orders.store().with_clock(clock), options());
        let planned = orders.block_on(plan(&store, &orders.entity(no), &options)).unwrap();
        orders.block_on(apply(&store, planned, None, &options, None)).unwrap();
        assert_eq!(orders.item(no), state(1, 5), "{no}");
    }
}

#[test]
fn the_versions_of_a_set_are_found_among_those_of_others() {
    let orders = Orders::with(VZERO, &json!({"ActorAttribute": "by"}));
    let put = |a: u64, b: u64, by: &str| {
        let item = json!({"a": {"N": a.to_string()}, "b": {"N": b.to_string()}, "by": {"S": by}, "seen": {"N": b.to_string()}});
        orders.put(1, &item);
    };
    put(1, 1, "amy");
    put(2, 1, "job");
    orders.deliver_all();
    let (store, folder) = (orders.store(), tempfile::tempdir().unwrap());
    let path = folder.path().join("set");
    let options = options();
    let planned = orders.block_on(plan(&store, &orders.entity(1), &options)).unwrap();
    // Another client takes the next number.
    put(2, 5, "job");
    let file = SetFile::open(&path, store.attached_table().unwrap()).unwrap();
    let applied = orders.block_on(apply(&store, planned, None, &options, Some(&file)));
    assert!(applied.unwrap().is_written);
    let selected = format!("undo --change-set @{} --dry-run --output json", path.display());
    let check = |versions: &Value, reason: &str| {
        let run = orders.run(&selected);
        let found = run.lines[..run.lines.len() - 1].first();
        let found = found.map_or((json!([]), String::new()), |line| {
            (line["Versions"].clone(), line["Conflicts"].to_string())
        });
        assert!(found.0 == *versions && found.1.contains(reason), "{run:?}");
    };
    check(&json!([]), "the item differs from its newest version");
    put(1, 6, "job");
    orders.deliver_all();
    check(&json!([4]), "");
    let text = std::fs::read_to_string(&path).unwrap();
    let (unwritten, _) = text.trim_end().rsplit_once('\n').unwrap();
    let (other, change) = unwritten.split_at(unwritten.len() - 4);
    // Killed before or after the write, or in a line; a version is missing.
    for (text, versions, reason) in [
        (format!("{unwritten}\n"), json!([4]), ""),
        (format!("{text}{{\"Key\": "), json!([4]), ""),
        (format!("{other}x{}\n", &change[1..]), json!([]), ""),
        (
            text.replace(change, &format!("x{}", &change[1..])),
            json!([]),
            "history has no version with the change",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        check(&versions, reason);
    }
    // Another client makes the same change.
    std::fs::write(&path, &text).unwrap();
    put(2, 6, "job");
    put(1, 6, "job");
    orders.deliver_all();
    check(&json!([]), "versions 4 and 7 make the same change");
}

#[test]
fn an_undo_without_a_named_set_creates_its_file_in_the_folder() {
    let (orders, folder) = (
        Orders::with(VZERO, &json!({"ActorAttribute": "by"})),
        tempfile::tempdir().unwrap(),
    );
    for by in ["amy", "job"] {
        orders.put(1, &json!({"a": {"S": by}, "by": {"S": by}}));
    }
    orders.deliver_all();
    let undo = |options: &str| -> Value {
        let mut command = orders.command(&format!("undo {options} --yes --output json"));
        let mut run: Run = command.current_dir(folder.path()).output().unwrap().into();
        orders.deliver_all();
        assert_eq!(run.code, 0, "{run:?}");
        run.lines.pop().unwrap()
    };
    let set = undo("--actor job")["ChangeSet"].clone();
    assert_eq!(orders.item(1)["a"]["S"], "amy");
    assert_eq!(undo(&format!("--change-set {}", set.as_str().unwrap()))["Entities"], 1);
    assert_eq!(orders.item(1)["a"]["S"], "job");
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}
