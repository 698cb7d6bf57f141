//! Actions of scripts on a table that other programs write.

use std::{ops::RangeInclusive, time::Duration};

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use serde_json::{Map, Value, json};
use shared::{
    clock::{Clock, Deadline, since_epoch},
    domain::Item,
    dynamodb::n,
};

use crate::{
    attached::{KEYS, Orders, key_attributes, state},
    database,
    hostile::incompressible,
    script::{Script, Subject},
    table::Record,
    vzero::Vzero,
};

/// `$K1` is the key of order 1, `$J1` is its partition key in history, in JSON. `$TABLE` and `$LOG` are the tables.
///
/// | action | of |
/// |---|---|
/// | `@put 1-3 {…}` | the writer, which replaces orders with these attributes in DynamoDB JSON |
/// | `@state 1-3 a b` | the same, with the attribute `state` alone, which has one value after the other |
/// | `@large 1 BYTES`, `@many 1 COUNT x` | the same, with an attribute of many bytes, or with many attributes |
/// | `@delete 1` | the writer |
/// | `@mapper 1 REV` | a writer that replaces the order if its `rev` is this one, `-` for none; the output is `true` if it is |
/// | `@ttl NAME` | the owner of the table, who enables time to live |
/// | `@deliver 0,2-3` | stream-fn, with these records, or with all |
/// | `@deliver_after SECONDS 0,2-3` | the same, later |
/// | `@deliver_broken 0` | the same, with a malformed image |
/// | `@put_version 1 KEY {…}`, `@copy_version 1 FROM TO`, `@delete_version 1 KEY` | another client, in the history table |
/// | `@empty_copy NAME` | an operator, who creates a table with the same keys: the output is `{NAME: …}`, its name |
/// | `@items_in TABLE` | none: the output is the items, sorted |
/// | `@item 1` | none: the output is the order |
/// | `@stored 1`, `@versions 1` | none: the output is its items in the history table, or its versions |
/// | `@changes 1` | none: the output is its changes, oldest first |
impl Subject for Orders {
    fn create(vzero: &'static str, _: Option<u8>, definition: &Value) -> Self {
        Self::with(vzero, definition)
    }

    fn vzero(&self) -> &Vzero {
        self
    }

    fn records(&self) -> Vec<Record> {
        Self::records(self)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let key = |no| (format!("$K{no}"), Self::key(no));
        let json = |no| (format!("$J{no}"), json!(self.entity(no).as_str()).to_string());
        let names = [("$TABLE", &self.table), ("$LOG", &self.history)];
        let names = names.map(|(name, value)| (name.to_owned(), value.clone()));
        (1..=5).flat_map(|no| [key(no), json(no)]).chain(names).collect()
    }

    fn act(&self, script: &Script<'_, Self>, kind: &str, words: &[&str]) -> Option<Value> {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let history = |item: Value| self.block_on(database::put_into(&self.client, &self.history, item));
        match (kind, words) {
            ("put", [no, ..]) => numbers(no).for_each(|no| self.put(no, &json(&words[1..].join(" ")))),
            ("state", [no, ..]) => {
                for no in numbers(no) {
                    let states = words[1..].iter().flat_map(|words| words.split(' '));
                    states.for_each(|text| self.put(no, &state(text)));
                }
            }
            ("large", [no, bytes]) => {
                let bytes = usize::try_from(number(bytes)).unwrap();
                self.put(number(no), &json!({"long": {"B": incompressible(bytes)}}));
            }
            ("many", [no, count, text]) => {
                let members = (0..number(count)).map(|index| (format!("a{index}"), json!({"S": text})));
                self.put(number(no), &members.collect::<Map<_, _>>().into());
            }
            ("delete", [no]) => self.delete(number(no)),
            ("ttl", [name]) => {
                let ttl = TimeToLiveSpecification::builder().attribute_name(*name).enabled(true);
                let request = self.client.update_time_to_live().table_name(&self.table);
                let request = request.time_to_live_specification(ttl.build().unwrap());
                self.block_on(request.send()).unwrap();
            }
            ("mapper", [no, rev]) => {
                let item: Item = serde_json::from_value(key_attributes(number(no))).unwrap();
                let put = self
                    .client
                    .put_item()
                    .table_name(&self.table)
                    .set_item(Some(item.into()));
                let put = put.expression_attribute_names("#rev", "rev");
                let put = match *rev {
                    "-" => put.condition_expression("attribute_not_exists(#rev)"),
                    rev => put
                        .condition_expression("#rev = :rev")
                        .expression_attribute_values(":rev", n(rev)),
                };
                return Some(self.block_on(put.send()).is_ok().into());
            }
            ("deliver", [""] | []) => self.deliver_all(),
            ("deliver", [numbers]) => self.deliver(&script.records(numbers)),
            ("deliver_after", [seconds, numbers]) => {
                let later = Duration::from_secs(number(seconds));
                let writer = self.writer().with_clock(Clock::new(move || since_epoch() + later));
                let records = script.records(numbers);
                let raw: Vec<_> = records.iter().map(|record| record.json().to_string()).collect();
                let deadline = Deadline::after(Duration::from_secs(60));
                self.block_on(writer.process(raw.iter().map(String::as_str).collect(), deadline));
            }
            ("deliver_broken", [numbers]) => {
                let record = script.records(numbers).remove(0);
                let mut broken = record.json().clone();
                broken["dynamodb"]["NewImage"]["state"] = json!({"X": "y"});
                self.deliver(&[Record::new(record.sequence_number().clone(), Duration::ZERO, broken)]);
            }
            ("put_version", [no, key, item]) => {
                let mut item = json(item);
                (item["PK"], item["SK"]) = (json!({"S": self.entity(number(no)).as_str()}), json!({"S": key}));
                history(item);
            }
            ("copy_version", [no, from, to]) => {
                let mut stored = self.stored(number(no)).into_iter();
                let mut item = stored.find(|item| item["SK"]["S"] == *from).unwrap();
                item["SK"] = json!({"S": to});
                history(item);
            }
            ("delete_version", [no, key]) => {
                let id = self.entity(number(no));
                self.block_on(database::delete_item(&self.client, &self.history, id.as_str(), key));
            }
            ("empty_copy", [name]) => {
                let full = self.endpoint.table(name);
                self.block_on(database::create_table(&self.client, &full, &KEYS))
                    .unwrap();
                self.block_on(self.endpoint.wait_until_active(&full));
                return Some(json!({*name: full}));
            }
            ("items_in", [name]) => {
                let items = self.block_on(database::items(&self.client, name));
                return Some(database::sorted(items).into());
            }
            ("item", [no]) => return Some(self.item(number(no))),
            ("stored", [no]) => return Some(self.stored(number(no)).into()),
            ("versions", [no]) => return Some(json!(self.versions(number(no)))),
            ("changes", [no]) => {
                let run = self.vzero().run(&["log", &Self::key(number(no)), "--utc", "--reverse"]);
                let changes = run.stdout.lines().map(|line| line.splitn(3, "  ").nth(2).unwrap());
                return Some(changes.collect());
            }
            _ => return None,
        }
        Some(Value::Null)
    }
}

fn numbers(text: &str) -> RangeInclusive<u64> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    first.parse().unwrap()..=last.parse().unwrap()
}
