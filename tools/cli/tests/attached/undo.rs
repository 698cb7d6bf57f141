//! `vzero undo` on a table that other programs write.

use std::cell::Cell;

use operations::undo::{apply::apply, plan::plan, selection::Selection, set_file::SetFile};
use serde_json::{Value, json};
use shared::domain::version::Version;
use testkit::{attached::Orders, command::Run, script_tests, table::Record, vzero::Vzero};

use crate::{
    VZERO,
    undo_model::{self, Items},
};

script_tests! {
    Orders;
    fn an_undo_of_an_item_of_other_programs_increases_its_version_attribute();
    fn a_plan_of_an_attached_table_is_carried_out_as_it_is();
    fn an_undo_without_an_attribute_for_its_set_has_a_file();
}

/// Orders that a job changed three hours ago.
struct Imported {
    orders: Orders,
    writes: Cell<u64>,
    delivered: Cell<usize>,
    set: String,
}

impl Items for Imported {
    const OF_JOB: &'static str = "--actor import-7 --since 4h --until 1h --with-unattributed-deletions";

    fn set(&self) -> String {
        self.set.clone()
    }

    fn of_deletions(&self) -> Option<&'static str> {
        (self.set == "U").then_some("--since 1h --with-unattributed-deletions")
    }

    fn vzero(&self) -> &Vzero {
        &self.orders
    }

    fn write(&self, number: usize, author: &str, attributes: Value) {
        self.writes.set(self.writes.get() + 1);
        let number = u64::try_from(number).unwrap();
        let Value::Object(members) = attributes else {
            return self.orders.delete(number);
        };
        // Each write makes a version.
        let mut item = json!({"by": {"S": author}, "why": {"S": self.writes.get().to_string()}});
        for (name, value) in members {
            item[name] = match value {
                Value::Object(members) => {
                    let members = members
                        .into_iter()
                        .map(|(name, value)| (name, json!({"N": value.to_string()})));
                    json!({"M": members.collect::<serde_json::Map<_, _>>()})
                }
                value => json!({"N": value.to_string()}),
            };
        }
        self.orders.put(number, &item);
    }

    fn deliver(&self) {
        let (records, is_first) = (self.orders.records(), self.delivered.get() == 0);
        let mut new = records[self.delivered.get()..].to_vec();
        for record in new.iter_mut().filter(|_| is_first) {
            let mut earlier = record.json().clone();
            let created = &mut earlier["dynamodb"]["ApproximateCreationDateTime"];
            *created = json!(created.as_f64().unwrap() - 3.0 * 3600.0);
            *record = Record::new(record.sequence_number().clone(), record.created(), earlier);
        }
        self.orders.deliver(&new);
        self.delivered.set(records.len());
    }

    fn stored(&self, number: usize) -> (Value, usize) {
        let number = u64::try_from(number).unwrap();
        (self.orders.item(number), self.orders.versions(number).len())
    }

    fn number(line: &Value) -> usize {
        usize::try_from(line["Key"]["no"].as_u64().unwrap()).unwrap()
    }
}

#[test]
fn an_undo_of_a_job_on_an_attached_table_is_that_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("@{}", folder.path().join("undo").display());
    for (set, definition) in [
        (
            "U",
            json!({"ActorAttribute": "by", "ReasonAttribute": "why", "ChangeSetAttribute": "set"}),
        ),
        (&file, json!({"ActorAttribute": "by", "ReasonAttribute": "why"})),
    ] {
        undo_model::check(&Imported {
            orders: Orders::with(VZERO, &definition),
            writes: Cell::new(0),
            delivered: Cell::new(0),
            set: set.to_owned(),
        });
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
    let options = undo_model::options(Selection {
        versions: Version::new(2).map(|version| [version].into()),
        ..Selection::default()
    });
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
