//! `vzero undo` on a table that other programs write.

use std::cell::Cell;

use serde_json::{Value, json};
use testkit::{attached::Orders, script_tests, table::Record, vzero::Vzero};

use crate::{
    VZERO,
    undo_model::{self, Items},
};

script_tests! {
    Orders;
    fn an_undo_of_an_item_of_other_programs_increases_its_version_attribute();
    fn a_plan_of_an_attached_table_is_carried_out_as_it_is();
}

/// Orders that a job changed three hours ago.
struct Imported {
    orders: Orders,
    writes: Cell<u64>,
    delivered: Cell<usize>,
}

impl Items for Imported {
    const OPTIONS: [&'static str; 2] = [
        "--actor import-7 --since 4h --until 1h --with-unattributed-deletions",
        "--change-set U --since 1h --with-unattributed-deletions",
    ];

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
    let definition = json!({"ActorAttribute": "by", "ReasonAttribute": "why", "ChangeSetAttribute": "set"});
    undo_model::check(&Imported {
        orders: Orders::with(VZERO, &definition),
        writes: Cell::new(0),
        delivered: Cell::new(0),
    });
}
