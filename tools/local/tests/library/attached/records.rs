//! Single records of an attached table: requests, quarantine, reads and purges.

use std::time::Duration;

use local::mapping::filter::Filters;
use serde_json::{Value, json};
use shared::{
    domain::{
        attached::{AttachedTable, key},
        keys::LATEST_KEY,
        names, purge_marker,
    },
    dynamodb::read::history::HistoryQuery,
};
use testkit::{
    database::{update, write},
    hostile::incompressible,
};

use super::{Change, HISTORY, Orders, State, handle, keys, record};

fn change(item: usize, number: u64, old: State, new: State) -> Change {
    Change {
        item,
        number: (100_000_000_000_000_000_000 + u128::from(number)).to_string(),
        old,
        new,
        is_ttl: false,
    }
}

#[tokio::test]
async fn one_request_inserts_a_version_of_each_of_25_items() {
    let orders = Orders::new().await;
    let is_metered = {
        let test = "the cost of 25 versions of an attached table";
        let endpoint = &orders.database.endpoint;
        !endpoint.differs(test, &["statement-units", "large-statement-units"])
    };
    let writer = orders.writer(orders.database.client.clone());
    let insert = |item| change(item, item as u64, None, Some((1, 0)));
    let update = |item| change(item, 100 + item as u64, Some((1, 0)), Some((2, 0)));
    let records = |of: &dyn Fn(usize) -> Change| (0..25).map(|item| record(1, &of(item))).collect::<Vec<_>>();
    orders.database.consumed();
    let both: Vec<_> = records(&insert).into_iter().chain(records(&update)).collect();
    assert_eq!(handle(&writer, &both).await, [""; 0]);
    let consumed = orders.database.consumed();
    let count = |name| consumed.iter().filter(|(operation, _)| *operation == name).count();
    // The tail is known after the first version of an item.
    assert_eq!(
        (count("Query"), count("BatchExecuteStatement"), consumed.len()),
        (25, 2, 27)
    );
    let units = |name| {
        consumed
            .iter()
            .filter(|(operation, _)| *operation == name)
            .map(|(_, units)| units)
            .sum::<f64>()
    };
    if is_metered {
        assert!((units("BatchExecuteStatement") - 50.0).abs() < 0.1, "{consumed:?}");
    }
    assert!(units("Query") <= 12.5 + 0.1, "{consumed:?}");
    // One that is delivered again needs a read.
    assert_eq!(handle(&writer, &records(&update)[..1]).await, [""; 0]);
    assert_eq!(orders.database.consumed(), [("Query", 0.5)]);
}

#[tokio::test]
async fn malformed_records_fail_alone() {
    let orders = Orders::new().await;
    let writer = orders.writer(orders.database.client.clone());
    let good = |number, state| {
        record(
            1,
            &change(0, number, (state > 1).then_some((state - 1, 0)), Some((state, 0))),
        )
    };
    let broken = |number, edit: &dyn Fn(&mut Value)| {
        let mut record = good(number, 2);
        edit(&mut record);
        record
    };
    let records = [
        good(1, 1),
        broken(2, &|record| {
            record["dynamodb"]["NewImage"]["state"] = json!({"X": "secret"});
        }),
        broken(3, &|record| record["dynamodb"]["NewImage"]["no"] = json!({"N": "9"})),
        broken(4, &|record| record["eventName"] = json!("PUT")),
        broken(5, &|record| record["dynamodb"]["OldImage"] = json!({"no": 7})),
        broken(6, &|record| {
            record["eventSourceARN"] = json!("arn:aws:kinesis:eu-west-1:1:stream/Orders");
        }),
        // Its version has no state, because it fits neither plain nor compressed.
        broken(7, &|record| {
            record["dynamodb"]["NewImage"]["long"] = json!({"B": incompressible(409_200)});
        }),
        broken(8, &|record| record["dynamodb"]["Keys"] = json!({"other": {"S": "key"}})),
        broken(9, &|record| {
            drop(record["dynamodb"].as_object_mut().unwrap().remove("NewImage"));
        }),
        good(10, 2),
    ];
    // One without keys has no entity.
    let no_keys = broken(11, &|record| record["dynamodb"]["Keys"] = json!(7));
    let all: Vec<_> = records.iter().cloned().chain([no_keys]).collect();
    assert_eq!(handle(&writer, &all).await, ["100000000000000000011"]);
    let stored = orders.stored(&orders.entity(&keys(1, 0))).await;
    let sort_key = |stored: &Value| stored["SK"]["S"].as_str().unwrap().to_owned();
    let quarantined =
        [2, 3, 4, 5, 6, 7, 9].map(|number| format!("quarantine#{}", 100_000_000_000_000_000_000_u128 + number));
    // A long record continues in a second item.
    let firsts: Vec<_> = stored
        .iter()
        .map(sort_key)
        .filter(|key| key.matches('#').count() < 2)
        .collect();
    assert_eq!(firsts[..7], quarantined);
    assert_eq!(firsts[7..], ["v0000000001", "v0000000002", "v0000000003"]);
    let omitted = stored.iter().find(|stored| stored.get("Omitted").is_some()).unwrap();
    assert_eq!(omitted["SK"], json!({"S": "v0000000002"}));
    assert!(
        stored
            .iter()
            .all(|stored| !stored["Reason"].to_string().contains("secret"))
    );
    let other = key::of_other_keys(&serde_json::from_value(json!({"other": {"S": "key"}})).unwrap()).unwrap();
    assert_eq!(orders.stored(&other).await.len(), 1);
    // Delivered again, they change nothing.
    handle(&writer, &records).await;
    assert_eq!(orders.stored(&orders.entity(&keys(1, 0))).await, stored);
}

#[tokio::test]
async fn versions_are_read_as_those_of_the_projects_own_table() {
    let orders = Orders::new().await;
    let writer = orders.writer(orders.database.client.clone());
    let mut first = record(1, &change(0, 1, None, Some((1, 0))));
    first["dynamodb"]["NewImage"]["rev"] = json!({"S": "a"});
    let mut second = record(1, &change(0, 3, Some((1, 0)), Some((2, 0))));
    second["dynamodb"]["OldImage"]["rev"] = json!({"S": "a"});
    let late = record(1, &change(0, 2, Some((7, 0)), Some((8, 0))));
    for record in [first, second, late] {
        assert_eq!(handle(&writer, &[record]).await, [""; 0]);
    }
    let (store, entity) = (orders.store(), orders.entity(&keys(1, 0)));
    let latest = store.get(&entity, LATEST_KEY, true).await.unwrap().unwrap();
    let batched = store.batch_get(&entity, &[LATEST_KEY.to_owned()], true).await.unwrap();
    assert_eq!(batched, std::slice::from_ref(&latest));
    let json = serde_json::to_value(latest).unwrap();
    // The newest version is late, and never was the latest.
    assert_eq!(
        (&json["SK"]["S"], &json["Latest"]["N"], &json["state"]["N"]),
        (&json!("v0"), &json!("2"), &json!("2"))
    );
    assert_eq!(
        (&json["item:TTL"]["N"], &json["item:PK"]["S"], &json["TTL"]),
        (&json!("1"), &json!("user"), &Value::Null)
    );
    let history = store
        .history(&entity, HistoryQuery::default())
        .await
        .unwrap()
        .unwrap()
        .collect()
        .await
        .unwrap();
    let numbers: Vec<_> = history
        .iter()
        .map(|view| (view.version.get(), view.recorded_by_stream))
        .collect();
    assert_eq!(numbers, [(3, true), (2, true), (1, true)]);
    assert!(history.iter().all(|view| view.recorded_at.is_some() && !view.deleted));
    let records: Vec<_> = history.iter().map(|view| Value::from(view.record_json())).collect();
    assert_eq!((&records[0]["Late"], &records[1]["Late"]), (&json!(true), &Value::Null));
    assert_eq!(
        (&records[2]["ItemVersion"], &records[2]["Stream"]),
        (&json!("a"), &json!(super::LABEL))
    );
    // These are no attributes of the item, so no difference shows them. `Stream` is also one of the user.
    let attributes = ["Late", "ItemVersion"].map(|name| history[0].attributes.contains_key(name));
    assert_eq!(attributes, [false; 2]);
    let stream = history[0].attributes.get("Stream");
    assert_eq!(serde_json::to_value(stream).unwrap(), json!({"S": "user"}));
    let newest = store.newest(&entity, true).await.unwrap().unwrap();
    assert_eq!(newest.0.get(), 3);
    assert_eq!(store.lag(&entity).await.unwrap().unwrap().latest.get(), 3);
    let as_of = operations::as_of::as_of(&store, &entity, history[2].recorded_at.unwrap(), true)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(as_of.version.get(), 1);
    let absent = orders.entity(&keys(1, 1));
    assert!(store.get(&absent, LATEST_KEY, true).await.unwrap().is_none());
    assert!(store.history(&absent, HistoryQuery::default()).await.unwrap().is_none());
    // Other programs write the latest items.
    let update = update(json!({"ID": entity.as_str(), "state": 9}));
    let refused = write(&store, &update, shared::config::WriteOptions::default())
        .await
        .unwrap_err();
    assert!(
        refused.contains("other programs write the items of an attached table"),
        "{refused}"
    );
}

#[tokio::test]
async fn changes_before_a_purge_are_not_recorded() {
    let orders = Orders::new().await;
    let entity = orders.entity(&keys(1, 0));
    let now = shared::clock::since_epoch();
    let at = |seconds: u64| shared::domain::recorded_at::RecordedAt::since_epoch(now + Duration::from_secs(seconds));
    let mut marker = json!({"SK": {"S": purge_marker::SORT_KEY}});
    marker["PK"] = json!({"S": format!("#vzero#purged#{}", sha256(entity.as_str()))});
    marker[names::PURGED_AT] = json!({"S": at(0).to_string()});
    marker[names::PURGED] = json!({"M": {}});
    orders.database.put(HISTORY, marker).await;
    let mut old = record(1, &change(0, 1, None, Some((1, 0))));
    old["dynamodb"]["ApproximateCreationDateTime"] = json!(now.as_secs() - 100);
    let new = record(1, &change(0, 2, Some((1, 0)), Some((2, 0))));
    let writer = orders.writer(orders.database.client.clone());
    let clock = shared::clock::Clock::new(move || now);
    assert_eq!(handle(&writer.with_clock(clock), &[old, new]).await, [""; 0]);
    let history = orders.versions(1, 0).await;
    let marks: Vec<_> = history.iter().map(|(_, state, mark)| (*state, *mark)).collect();
    assert_eq!(marks, [(Some(1), "Baseline"), (Some(2), "")]);
}

fn sha256(text: &str) -> String {
    use std::fmt::Write as _;

    use sha2::{Digest as _, Sha256};
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn the_mapping_applies_the_patterns_of_a_filter() {
    let definition = json!({
        "TableName": "Orders",
        "KeySchema": [{"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "customer", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
        ],
        "Filter": {"customer": [{"prefix": "c"}], "no": [0, 1.0], "state": [{"anything-but": 3}]},
    });
    let table = AttachedTable::parse(&definition.to_string()).unwrap();
    let filters = Filters::parse([table.filter().unwrap().pattern()]).unwrap();
    for (item, old, new, expected) in [
        (0, None, Some(1), true),
        (1, Some(1), Some(2), true),
        (2, Some(1), Some(2), false),
        (0, Some(3), Some(3), false),
        // The change that leaves the filter, and a deletion.
        (0, Some(1), Some(3), true),
        (0, Some(1), None, true),
        (0, Some(3), None, false),
    ] {
        let state = |state: Option<u8>| state.map(|state| (state, 0));
        let record = record(1, &change(item, 1, state(old), state(new)));
        assert_eq!(filters.matches(&record), expected, "{item} {old:?} {new:?}");
    }
}
