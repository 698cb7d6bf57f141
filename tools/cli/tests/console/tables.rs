//! The menu of tables, and tables that other programs write: their items by their keys, and changes of these items.

use std::{thread, time::Instant};

use aws_sdk_dynamodb::types::{ScalarAttributeType, StreamViewType};
use serde_json::{Value, json};
use shared::{
    domain::{
        Item,
        attached::{item::baseline, key},
        compression::Compression,
        keys::VersionDigits,
        recorded_at::RecordedAt,
    },
    dynamodb::Store,
};
use testkit::{
    attached::{Orders, state},
    database::{create_streamed, put_into},
    table,
};

use crate::{
    escaping::{HOSTILE, is_inert},
    http::encoded,
    served::Console,
};

const ONE: &str = "c%201";

fn order(text: &str, rev: &str, by: &str) -> Value {
    json!({"state": {"S": text}, "rev": {"N": rev}, "cart": {"L": [{"S": text}]}, "by": {"S": by}})
}

/// Creates orders 1, which changed once, and 2, which was deleted.
pub(crate) fn orders() -> (Orders, Store) {
    let orders = Orders::with(env!("CARGO_BIN_EXE_vzero"), &json!({"ActorAttribute": "by"}));
    orders.put(1, &order("a", "1", "a"));
    orders.put(1, &order("b", "2", "b"));
    orders.put(2, &state("x"));
    orders.delete(2);
    orders.deliver_all();
    let store = orders.store();
    (orders, store)
}

/// Creates a table of entities.
fn own(orders: &Orders, name: &str, history: Option<&str>) -> Store {
    let name = orders.endpoint.table(name);
    let history = history.map(|history| orders.endpoint.table(history));
    orders.block_on(table::create(&orders.client, &name)).unwrap();
    if let Some(history) = &history {
        orders.block_on(table::create_history(&orders.client, history)).unwrap();
    }
    let store = Store::new(orders.client.clone(), name, VersionDigits::default()).with_history(history);
    orders.block_on(store.claim_layout()).unwrap();
    orders.block_on(table::write(&store, json!({"ID": "E", "N": 1})));
    store
}

#[test]
fn each_kind_of_table_is_in_the_menu_and_served() {
    let (orders, _) = orders();
    let (first, beside) = (own(&orders, "Own", None), own(&orders, "Beside", Some("Log")));
    let foreign = orders.endpoint.table("Foreign");
    let keys = [("id", ScalarAttributeType::S)];
    let foreign_stream = create_streamed(&orders.client, &foreign, &keys, StreamViewType::NewImage);
    orders.block_on(foreign_stream).unwrap();
    let console = Console::serving(&orders, &first, true);
    let menu = console.json("/")["Tables"].clone();
    let (own, beside, log) = (first.latest_table(), beside.latest_table(), beside.history_table());
    for expected in [
        json!({"Table": own, "Kind": "own", "HistoryTable": null}),
        json!({"Table": beside, "Kind": "own", "HistoryTable": log}),
        json!({"Table": orders.table, "Kind": "attached", "HistoryTable": orders.history, "Keys": {"customer": "S", "no": "N"}}),
    ] {
        assert!(menu.as_array().unwrap().contains(&expected), "{menu}");
    }
    assert!(!menu.to_string().contains(&foreign), "{menu}");
    let of_order = orders.entity(1).as_str().to_owned();
    for (table, id, expected) in [(beside, "E", "E"), (&orders.table, ONE, &of_order)] {
        for path in [
            "/?",
            "/health?",
            "/changes?",
            "/entity?id={}&",
            "/version?version=1&id={}&",
            "/compare?id={}&from=1&to=1&",
            "/as-of?version=1&id={}&",
            "/restore?version=1&id={}&",
        ] {
            let path = format!("{}table={table}", path.replace("{}", id));
            let (page, json) = (console.page(&path), console.json(&path));
            assert!(!path.contains("id=") || json["ID"] == expected, "{path}: {json}");
            assert!(page.text.contains("attached: customer (S) no (N)"), "{path}");
            // All links but those of the menu stay on the table, and so do forms.
            let addresses = page
                .links()
                .into_iter()
                .chain(page.named("form").into_iter().filter_map(|form| {
                    form.attribute("action")
                        .filter(|_| form.attribute("method") == Some("post"))
                }));
            let leaves = |address: &&str| {
                let is_menu = *address == "/" || address.starts_with("/?table=");
                address.starts_with('/') && !is_menu && !address.contains(&format!("table={table}"))
            };
            assert_eq!(addresses.filter(leaves).collect::<Vec<_>>(), [] as [&str; 0], "{path}");
            assert_eq!(page.field("table"), Some(table), "{path}");
        }
    }
    assert_eq!(console.json("/entity?id=E")["Latest"]["Version"], 1);
    for (table, why) in [
        ("none", "there is no table none"),
        (&foreign, "`vzero attach"),
        (&orders.history, "is the history of"),
    ] {
        let answer = console.get(&format!("/entity?id=E&table={table}"));
        assert!(
            [404, 409].contains(&answer.status) && answer.body.contains(why),
            "{answer:?}"
        );
    }
}

#[test]
fn items_of_an_attached_table_are_listed_by_their_keys() {
    let (orders, store) = orders();
    let console = Console::serving(&orders, &store, true);
    let text = console.page("/").text;
    assert!(text.contains("customernoLast changeVersionStatec1"), "{text}");
    // The versions of an item at which a page of the scan ends are skipped, however many there are.
    orders.put(3, &state("y"));
    for n in 0..119 {
        orders.put(3, &state(&n.to_string()));
    }
    orders.deliver_all();
    assert!(console.json("/")["ItemsRead"].as_u64().unwrap() < 80);
    let [one, two, three] = [(1, 2, false), (2, 2, true), (3, 120, false)]
        .map(|(no, version, deleted)| json!([orders.entity(no).as_str(), version, deleted]));
    for (path, expected) in [
        ("/", json!([one, two, three])),
        ("/?state=live", json!([one, three])),
        ("/?state=deleted", json!([two])),
        ("/?find=%22no%22:2", json!([two])),
        ("/?find=none", json!([])),
    ] {
        let entities = console.json(path)["Entities"].clone();
        let rows = entities.as_array().unwrap().iter();
        let mut rows: Vec<_> = rows
            .map(|row| json!([row["ID"], row["Version"], row["Deleted"]]))
            .collect();
        rows.sort_by_key(ToString::to_string);
        assert_eq!(Value::from(rows), expected, "{path}");
    }
    assert_eq!(console.json("/?find=c%202")["Exact"], *orders.entity(2).as_str());
}

#[test]
fn an_item_is_restored_and_undeleted() {
    let (orders, store) = orders();
    let console = Console::serving(&orders, &store, true);
    for (no, path, number, actor, expected) in [
        (1, "/restore?version=1&id=c%201", 3, "", order("a", "3", "b")),
        (1, "/restore?version=2&id=c%201", 4, "zoe", order("b", "4", "zoe")),
        (
            2,
            "/undelete?id=c%202",
            3,
            "zoe",
            json!({"state": {"S": "x"}, "by": {"S": "zoe"}}),
        ),
        (2, "/restore?version=2&id=c%202", 4, "", Value::Null),
    ] {
        let (before, is_deleted) = (orders.item(no), expected.is_null());
        assert_eq!(
            console.json(path)["Deleted"],
            json!({"From": before.is_null(), "To": is_deleted})
        );
        let page = console.page(path);
        let has = |name| page.find("input", "name", name).is_some();
        assert_eq!((has("actor"), has("reason")), (!is_deleted, false), "{path}");
        let (action, mut fields) = console.form(path);
        fields.push(("actor".to_owned(), actor.to_owned()));
        let answer = thread::scope(|scope| {
            let sent = scope.spawn(|| console.post(&action, &fields));
            let started = Instant::now();
            while orders.item(no) == before {
                assert!(started.elapsed().as_secs() < 60, "{path}: the item is not changed");
            }
            orders.deliver_all();
            sent.join().unwrap()
        });
        let again = console.post(&action, &fields);
        for (answer, outcome) in [(answer, "Written"), (again, "Unchanged")] {
            let location = answer.header("location").unwrap();
            assert!(
                location.ends_with(&format!("&version={number}&done={outcome}")),
                "{answer:?}"
            );
            let shown = console.json(location);
            assert_eq!((&shown["Deleted"], &orders.item(no)), (&json!(is_deleted), &expected));
            assert_eq!(shown["Actor"], expected["by"]["S"], "{path}");
        }
    }
}

#[test]
fn a_conflict_shows_what_was_changed_in_between_and_writes_nothing() {
    let (orders, store) = orders();
    let console = Console::serving(&orders, &store, true);
    console.run(&format!("open /restore?version=1&id={ONE}"));
    for (fields, status) in [("expected=9", 409), ("reason=no attribute", 400)] {
        assert_eq!(console.run(&format!("form 0 {fields}")).code, status, "{fields}");
    }
    orders.put(1, &json!({"state": {"S": "another"}, "rev": {"N": "3"}}));
    let before = orders.item(1);
    for is_delivered in [false, true] {
        if is_delivered {
            orders.deliver_all();
        }
        let run = console.run("form 0 none");
        assert!(run.code == 409 && run.stdout.contains("Nothing was changed"), "{run:?}");
        let has = |text| run.stdout.contains(text);
        assert_eq!(has("Changed in between") && has("another"), is_delivered, "{run:?}");
        assert_eq!(orders.item(1), before);
    }
}

#[test]
fn no_name_key_or_value_of_another_table_becomes_markup() {
    let orders = Orders::new(env!("CARGO_BIN_EXE_vzero"));
    for (index, names) in HOSTILE.chunks_exact(2).enumerate() {
        let [table, history] = ["T", "T-history"].map(|name| orders.endpoint.table(&format!("{index}{name}")));
        orders
            .block_on(table::create_history(&orders.client, &history))
            .unwrap();
        let keys = [names[0], names[1]];
        let schema = [(keys[0], ScalarAttributeType::S), (keys[1], ScalarAttributeType::N)];
        let created = create_streamed(&orders.client, &table, &schema, StreamViewType::NewAndOldImages);
        orders.block_on(created).unwrap();
        let definition = json!({
            "TableName": table, "HistoryTable": history,
            "KeySchema": [{"AttributeName": keys[0], "KeyType": "HASH"}, {"AttributeName": keys[1], "KeyType": "RANGE"}],
            "AttributeDefinitions": [
                {"AttributeName": keys[0], "AttributeType": "S"}, {"AttributeName": keys[1], "AttributeType": "N"},
            ],
        });
        let attached = attach::parse(&definition.to_string()).unwrap();
        // As stream-fn does when it starts.
        let store = Store::attached(orders.client.clone(), attached.clone());
        orders.block_on(store.put_definition()).unwrap();
        let console = Console::serving(&orders, &orders.store(), true);
        for text in HOSTILE {
            let item =
                json!({keys[0]: {"S": text}, keys[1]: {"N": "1"}, format!("x{text}"): {"M": {text: {"S": text}}}});
            let item: Item = serde_json::from_value(item).unwrap();
            let (entity, at) = (
                key::of_item(&attached, &item).unwrap(),
                RecordedAt::parse("2026-11-22").unwrap(),
            );
            let version = baseline(&attached, &entity, item, at, Compression::None).unwrap();
            orders.block_on(put_into(
                &orders.client,
                &history,
                serde_json::to_value(version).unwrap(),
            ));
            let id = encoded(entity.as_str());
            for path in [
                "?",
                "?find={}&",
                "entity?id={}&",
                "version?id={}&",
                "restore?version=1&id={}&",
                "as-of?id={}&",
            ] {
                let path = format!("/{}table={table}", path.replace("{}", &id));
                let answer = console.get(&path);
                let page = is_inert(&path, &answer.body);
                let is_shown = answer.status == 200 && page.text.contains("zq");
                assert!(is_shown || path.starts_with("/restore"), "{answer:?}");
            }
            let path = format!("/?table={}", encoded(text));
            is_inert(&path, &console.get(&path).body);
        }
    }
}
