//! Actions of scripts on a versioned table.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType as Kind, StreamViewType};
use serde_json::{Value, json};
use shared::{
    clock,
    domain::{Item, keys::VersionDigits, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::Store,
};

use crate::{
    database,
    table::{self, Table},
};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Performs an action, with the items that were kept. Returns `None` for an unknown action.
///
/// | action | of |
/// |---|---|
/// | `@write {…}` | the writer, with this update |
/// | `@writes COUNT {…}` | the writer, with this update again and again, and its number in `N` |
/// | `@writes_to TABLE HISTORY {…}` | the writer of another table |
/// | `@at SECOND {…}` | the writer, whose clock is at this second of 1970 |
/// | `@each_second SECOND COUNT {…}` | the same, once in each second from this one, with the number in `N` |
/// | `@put ID KEY {…}` | another client, which puts an item in DynamoDB JSON |
/// | `@set ID KEY {…}` | another client, which replaces attributes of an item; null removes one |
/// | `@delete ID KEY` | another client |
/// | `@recorded ID 300,200,-` | another client, which puts versions that were recorded this many days ago, or at an unknown time |
/// | `@quarantine ID NUMBER {…}`, `@malformed …`, `@rejected …` | stream-fn, which puts a record of this image into quarantine |
/// | `@put_again ID NUMBER` | stream-fn, which puts a version that was kept: the output is the outcome |
/// | `@item ID KEY` | none: the output is the item, null if it does not exist |
/// | `@keys ID` | none: the output is the list of the entity's sort keys |
/// | `@marked ID` | none: the output is the list of the versions that prune marked |
/// | `@ago HOURS` | none: the output is `{"At": …}`, a time |
/// | `@reserved` | none: the output is the partition keys of items that belong to no entity |
/// | `@table NAME KEY,KEY:N [{…}]` | an operator, who creates a table of these keys and items: the output is `{NAME: …}`, its name |
/// | `@streamed NAME KEY,KEY:N VIEW` | an operator, who creates a table with a stream of this view type, which `@view TABLE` shows |
/// | `@empty NAME` | an operator, who creates a table for versions |
/// | `@history NAME` | an operator, who creates a history table |
/// | `@copy TABLE NAME` | an operator, who restores a backup of a table |
/// | `@replace TABLE` | an operator, who deletes a table, and restores it under its name |
/// | `@drop TABLE` | an operator |
/// | `@claim TABLE HISTORY` | functions that are deployed with these tables, `-` for none: the output is the error, or null |
/// | `@forget TABLE KEY NAME,NAME` | an earlier release, which has not stored these attributes of an item of the library itself |
/// | `@put_into TABLE {…}` | another client |
/// | `@items_in TABLE` | none: the output is the keys of the items, without those of the library itself |
pub(crate) fn act(table: &Table, kept: &BTreeMap<String, Value>, kind: &str, words: &[&str]) -> Option<Value> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let at = |second: u64, update| {
        let store = database::at_second(&table.store, second);
        table.block_on(table::write(&store, update))
    };
    let keyed = |id: &str, key: &str, item: &str| {
        let mut item = json(item);
        (item["PK"], item["SK"]) = (json!({"S": id}), json!({"S": key}));
        item
    };
    match (kind, words) {
        ("put", [id, key, item]) => table.put(keyed(id, key, item)),
        ("set", [id, key, members]) => {
            let mut item = table.items_of(id)[*key].clone();
            for (name, value) in json(members).as_object().unwrap() {
                item[name] = value.clone();
            }
            item.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            table.put(item);
        }
        ("delete", [id, key]) => table.delete(id, key),
        ("recorded", [id, days]) => recorded(table, id, days),
        _ => {
            return Some(match (kind, words) {
                ("write", _) => json!(table.write(json(&words.join(" ")))),
                ("writes", [count, ..]) => numbered(1..number(count) + 1, &words[1..], |update, _| table.write(update)),
                ("at", [second, ..]) => json!(at(number(second), json(&words[1..].join(" ")))),
                ("each_second", [second, count, update]) => numbered(0..number(count), &[update], |update, past| {
                    at(number(second) + past, update)
                }),
                ("quarantine" | "malformed" | "rejected", [id, number, image]) => {
                    let kind = match kind {
                        "malformed" => "Malformed",
                        "rejected" => "Rejected",
                        _ => "Conflict",
                    };
                    table.quarantine(id, number, kind, &keyed(id, "v0", image))
                }
                ("put_again", [id, number]) => {
                    let mut image = kept[&format!("{id} v{number}")].clone();
                    (image["SK"], image["Latest"]) = (json!({"S": "v0"}), json!({"N": number}));
                    image["RecordedVersion"] = image["Latest"].clone();
                    let image: Item = serde_json::from_value(image).unwrap();
                    let version = VersionItem::from_image(image, table.store.digits()).unwrap();
                    let put = table.block_on(table.store.put_version(&version)).unwrap();
                    json!(format!("{put:?}"))
                }
                ("item", [id, key]) => table.items_of(id).remove(*key).unwrap_or_default(),
                ("keys", [id]) => json!(table.items_of(id).into_keys().collect::<Vec<_>>()),
                ("marked", [id]) => {
                    let items = table.items_of(id).into_iter();
                    let marked = items.filter(|(_, item)| item.get("TTL").is_some());
                    let mut numbers: Vec<_> = marked.map(|(key, _)| number(&key[1..])).collect();
                    numbers.sort_unstable();
                    json!(numbers)
                }
                ("ago", [hours]) => json!({"At": ago(number(hours)).to_string()}),
                ("reserved", _) => json!(table.reserved_items()),
                _ => return operate(table, kind, words),
            });
        }
    }
    Some(Value::Null)
}

/// Writes an update once for each number, which is in `N`. Returns the last version.
fn numbered(numbers: Range<u64>, update: &[&str], write: impl Fn(Value, u64) -> u64) -> Value {
    let versions = numbers.map(|number| {
        let mut update = json(&update.join(" "));
        update["N"] = json!(number);
        write(update, number)
    });
    json!(versions.last())
}

/// Performs an action of an operator on whole tables.
fn operate(table: &Table, kind: &str, words: &[&str]) -> Option<Value> {
    let client = &table.client;
    let delete = |name: &str| table.block_on(client.delete_table().table_name(name).send()).unwrap();
    let items = |name: &str| table.block_on(database::items(client, name));
    let fill = |name: &str, items: Vec<Value>| {
        for item in items {
            table.block_on(database::put_into(client, name, item));
        }
    };
    let create = |name: &str, items: Vec<Value>| {
        table.block_on(table::create(client, name)).unwrap();
        fill(name, items);
    };
    let key = |key| match str::split_once(key, ':') {
        Some((name, _)) => (name, Kind::N),
        None => (key, Kind::S),
    };
    let named = |name: &str, create: &dyn Fn(&str)| {
        let full = table.endpoint.table(name);
        create(&full);
        json!({name: full})
    };
    Some(match (kind, words) {
        ("table", [name, keys, items]) => {
            let keys: Vec<_> = keys.split(',').map(key).collect();
            named(name, &|full| {
                table.block_on(database::create_table(client, full, &keys)).unwrap();
                table.block_on(table.endpoint.wait_until_active(full));
                fill(full, json(items).as_array().unwrap().clone());
            })
        }
        ("streamed", [name, keys, view]) => {
            let keys: Vec<_> = keys.split(',').map(key).collect();
            named(name, &|full| {
                let view = StreamViewType::from(*view);
                table
                    .block_on(database::create_streamed(client, full, &keys, view))
                    .unwrap();
            })
        }
        ("view", [name]) => {
            let described = table.block_on(client.describe_table().table_name(*name).send());
            let stream = described.unwrap().table.unwrap().stream_specification;
            json!(stream.and_then(|stream| Some(stream.stream_view_type?.to_string())))
        }
        ("empty", [name]) => named(name, &|full| create(full, Vec::new())),
        ("history", [name]) => named(name, &|full| {
            table.block_on(table::create_history(client, full)).unwrap();
        }),
        ("copy", [from, name]) => named(name, &|full| create(full, items(from))),
        ("replace", [name]) => {
            let items = items(name);
            delete(name);
            create(name, items);
            Value::Null
        }
        ("drop", [name]) => {
            delete(name);
            Value::Null
        }
        ("claim", [name, history]) => match table.block_on(store(table, name, history).claim_layout()) {
            Ok(()) => Value::Null,
            Err(error) => json!(format!("{error:?}: {error}")),
        },
        ("writes_to", [name, history, update]) => {
            json!(table.block_on(table::write(&store(table, name, history), json(update))))
        }
        ("forget", [name, sort_key, attributes]) => {
            let key = |text: &str| AttributeValue::S(text.to_owned());
            let request = client.update_item().table_name(*name);
            let request = request.key("PK", key("#vzero")).key("SK", key(sort_key));
            let request = request.update_expression(format!("REMOVE {attributes}"));
            table.block_on(request.send()).unwrap();
            Value::Null
        }
        ("put_into", [name, ..]) => {
            fill(name, vec![json(&words[1..].join(" "))]);
            Value::Null
        }
        ("items_in", [name]) => {
            let key = |item: &Value| {
                ["PK", "SK"]
                    .map(|name| item[name]["S"].as_str().unwrap().to_owned())
                    .join(" ")
            };
            let mut keys: Vec<_> = items(name).iter().map(key).collect();
            keys.retain(|key| !["#vzero config", "#vzero owner"].contains(&key.as_str()));
            keys.sort();
            json!(keys)
        }
        _ => return None,
    })
}

fn store(table: &Table, name: &str, history: &str) -> Store {
    let history = (history != "-").then(|| history.to_owned());
    Store::new(table.client.clone(), name, VersionDigits::default()).with_history(history)
}

fn ago(hours: u64) -> RecordedAt {
    RecordedAt::since_epoch(clock::since_epoch().saturating_sub(Duration::from_secs(hours * 3_600)))
}

/// Puts an entity whose versions were recorded this many days ago, at the time of the client.
fn recorded(table: &Table, id: &str, days: &str) {
    for (number, days) in (1_u64..).zip(days.split(',')) {
        for key in ["v0".to_owned(), format!("v{number}")] {
            let mut item = json!({"PK": {"S": id}, "SK": {"S": key}, "RequestId": {"S": "r"}});
            if key == "v0" {
                item["Latest"] = json!({"N": number.to_string()});
            }
            if let Ok(days) = days.parse::<u64>() {
                let time = ago(days * 24);
                item["RecordedAt"] = json!({"S": time.to_string()});
                item["Timestamp"] = json!({"N": time.floor_millis().get().to_string()});
            }
            table.put(item);
        }
    }
}
