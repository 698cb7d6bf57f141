//! Records of an attached table: requests, quarantine and reads.

use serde_json::{Value, json};
use shared::{
    domain::{attached::key, keys::LATEST_KEY},
    dynamodb::Store,
};
use stream_fn::{HistoryWriter, Purpose};
use testkit::{
    attached::Orders,
    database::items,
    hostile::incompressible,
    updates::{WriteOptions, update, write},
};

use super::{change, handle, metered};
use operations::read::lag::lag;

#[test]
fn one_request_inserts_a_version_of_each_of_25_items() {
    let orders = Orders::new("vzero");
    let (client, meter) = metered(&orders);
    let writer = HistoryWriter::from_store(
        Store::attached(client, orders.store().attached_table().unwrap().clone()),
        Purpose::Invocation,
    );
    let inserts = (0..25).map(|no| change(no, no, None, Some("a")));
    let updates: Vec<_> = (0..25).map(|no| change(no, 100 + no, Some("a"), Some("b"))).collect();
    let both: Vec<_> = inserts.chain(updates.iter().cloned()).collect();
    assert_eq!(orders.block_on(handle(&writer, &both)), [""; 0]);
    let charges = meter.take();
    let of = |name| {
        let units = charges.iter().filter(|charge| charge.operation == name);
        units.fold((0, 0.0), |(count, sum), charge| (count + 1, sum + charge.units))
    };
    let ((queries, read), (statements, written)) = (of("Query"), of("BatchExecuteStatement"));
    // The tail is known after the first version of an item.
    assert_eq!((queries, statements, charges.len()), (25, 2, 27));
    assert!(read <= 12.6, "{charges:?}");
    let rows = ["statement-units", "large-statement-units"];
    assert!(
        orders.endpoint.differs(&rows) || (written - 50.0).abs() < 0.1,
        "{charges:?}"
    );
    // One that is delivered again needs a read.
    assert_eq!(orders.block_on(handle(&writer, &updates[..1])), [""; 0]);
    let again: Vec<_> = meter.take().iter().map(|charge| charge.operation).collect();
    assert_eq!(again, ["Query"]);
}

#[test]
fn malformed_records_fail_alone() {
    let orders = Orders::new("vzero");
    let writer = orders.writer();
    let broken = |number, path: &str, value: Value| {
        let mut record = change(1, number, Some("a"), Some("b"));
        let (parent, name) = path.rsplit_once('/').unwrap();
        record.pointer_mut(parent).unwrap()[name] = value;
        record
    };
    let records = [
        change(1, 1, None, Some("a")),
        broken(2, "/dynamodb/NewImage/state", json!({"X": "secret"})),
        broken(3, "/dynamodb/NewImage/no", json!({"N": "9"})),
        broken(4, "/eventName", json!("PUT")),
        broken(5, "/dynamodb/OldImage", json!({"no": 7})),
        broken(6, "/eventSourceARN", json!("arn:aws:kinesis:eu-west-1:1:stream/Orders")),
        // Its version has no state, because it fits neither plain nor compressed.
        broken(7, "/dynamodb/NewImage/long", json!({"B": incompressible(409_200)})),
        broken(8, "/dynamodb/Keys", json!({"other": {"S": "key"}})),
        broken(9, "/dynamodb/NewImage", Value::Null),
        change(1, 10, Some("a"), Some("b")),
    ];
    // One without keys has no entity.
    let no_keys = broken(11, "/dynamodb/Keys", json!(7));
    let id = no_keys["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned();
    let all: Vec<_> = records.iter().cloned().chain([no_keys]).collect();
    assert_eq!(orders.block_on(handle(&writer, &all)), [id]);
    let stored = orders.stored(1);
    let keys = stored.iter().map(|stored| stored["SK"]["S"].as_str().unwrap());
    let number = |number: usize| records[number - 1]["dynamodb"]["SequenceNumber"].as_str().unwrap();
    let mut expected = [2, 3, 4, 5, 6, 7, 9]
        .map(|n| format!("quarantine#{}", number(n)))
        .to_vec();
    expected.sort();
    expected.extend((1..=3).map(|version| format!("v{version:010}")));
    // A long record continues in a second item.
    assert_eq!(
        keys.filter(|key| key.matches('#').count() < 2).collect::<Vec<_>>(),
        expected
    );
    let omitted = stored.iter().find(|stored| stored.get("Omitted").is_some()).unwrap();
    assert_eq!(omitted["SK"], json!({"S": "v0000000002"}));
    assert!(
        !stored
            .iter()
            .any(|stored| stored["Reason"].to_string().contains("secret"))
    );
    let other = key::of_other_keys(&serde_json::from_value(json!({"other": {"S": "key"}})).unwrap()).unwrap();
    let all = orders.block_on(items(&orders.client, &orders.history));
    assert_eq!(all.iter().filter(|item| item["PK"]["S"] == other.as_str()).count(), 1);
    // Delivered again, they change nothing.
    orders.block_on(handle(&writer, &records));
    assert_eq!(orders.stored(1), stored);
}

#[test]
fn versions_are_read_as_those_of_the_projects_own_table() {
    let orders = Orders::new("vzero");
    let writer = orders.writer();
    let records = [
        change(1, 1, None, Some("a")),
        change(1, 3, Some("a"), Some("b")),
        change(1, 2, Some("x"), Some("y")),
    ];
    orders.block_on(async {
        for record in records {
            assert_eq!(handle(&writer, &[record]).await, [""; 0]);
        }
        let (store, entity) = (orders.store(), orders.entity(1));
        let latest = store.get(&entity, LATEST_KEY, true).await.unwrap().unwrap();
        let batched = store.batch_get(&entity, &[LATEST_KEY.to_owned()], true).await.unwrap();
        assert_eq!(batched, std::slice::from_ref(&latest));
        // The newest version is late, and never was the latest.
        let json = serde_json::to_value(latest).unwrap();
        let shown = ["SK", "Latest", "state", "item:TTL", "item:PK", "TTL"].map(|name| &json[name]);
        let expected = json!([{"S": "v0"}, {"N": "2"}, {"S": "b"}, {"N": "1"}, {"S": "user"}, null]);
        assert_eq!(json!(shown), expected);
        assert_eq!(store.newest(&entity, true).await.unwrap().unwrap().0.get(), 3);
        assert_eq!(lag(&store, &entity).await.unwrap().unwrap().latest.get(), 3);
        let absent = orders.entity(2);
        assert!(store.get(&absent, LATEST_KEY, true).await.unwrap().is_none());
        // Other programs write the latest items.
        let update = update(json!({"ID": entity.as_str(), "state": 9}));
        let refused = write(&store, &update, WriteOptions::default()).await.unwrap_err();
        let reason = "other programs write the items of an attached table";
        assert!(refused.contains(reason), "{refused}");
    });
}
