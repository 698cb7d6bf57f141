use std::collections::BTreeSet;

use serde_json::json;

use super::{item, sent};
use crate::{
    clock::Deadline,
    domain::{
        attached::{
            AttachedTable,
            change::Place,
            definition::{KeyAttribute, KeyType, Parts},
            item::{Around, State, StateOrigin},
            key,
        },
        compression::Compression,
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::{Store, put::append::Append, read::tail},
};

fn orders() -> AttachedTable {
    let key = |name: &str, kind| KeyAttribute {
        name: name.to_owned(),
        kind,
    };
    AttachedTable::new(Parts {
        table: "Orders".to_owned(),
        history_table: None,
        partition_key: key("id", KeyType::S),
        sort_key: Some(key("no", KeyType::N)),
        version_attribute: Some("rev".to_owned()),
        ignored: BTreeSet::new(),
        filter: None,
    })
    .unwrap()
}

#[tokio::test]
async fn attached_tail() {
    let entity = key::parse(&orders(), r#"{"id": "a", "no": 7}"#).unwrap();
    for (name, below, consistent) in [
        ("attached_tail", None, false),
        ("attached_tail_next", Version::new(12), true),
    ] {
        let request = tail::request(&entity, below, consistent, "Orders-history");
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
}

/// One version with attribute names that need quotes, or are reserved, and one that is nested too deeply for a map.
#[tokio::test]
async fn attached_insert() {
    let nested = |levels: usize| (1..levels).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}));
    let mut appends = Vec::new();
    for (no, deep) in [(7, nested(31)), (8, nested(32))] {
        let image = json!({
            "id": {"S": "a"}, "no": {"N": no.to_string()}, "rev": {"N": "3"}, "it's \"quoted\"": {"S": "x"},
            "PK": {"S": "user"}, "TTL": {"N": "1"}, "deep": deep,
        });
        let entity = key::of_item(&orders(), &item(image.clone())).unwrap();
        let state = State {
            place: Place::parse("2026-11-22T06:24:48.123", "300000000000000000042").unwrap(),
            recorded_at: Some(RecordedAt::of_stream_record(1_795_328_688_000_000, Version::FIRST)),
            image: item(image),
            is_deleted: false,
            deleted_by: None,
            origin: StateOrigin::Record,
            around: None,
            omission: None,
        };
        appends.push(Append::new(&orders(), &entity, Version::FIRST, &state, Compression::None).unwrap());
    }
    let deadline = Deadline::after(std::time::Duration::from_secs(60));
    let send = async |client| {
        let store = Store::attached(client, orders());
        store.append_versions(&appends, deadline).await
    };
    let mut body = sent(send).await;
    // The members of the text are in any order.
    for statement in body["DynamoDB_20120810.BatchExecuteStatement"]["Statements"]
        .as_array_mut()
        .unwrap()
    {
        for parameter in statement["Parameters"].as_array_mut().unwrap() {
            if let Some(text) = parameter["S"].as_str()
                && let Ok(mut image) = serde_json::from_str::<serde_json::Value>(text)
                && image.get("deep").is_some()
            {
                image.sort_all_objects();
                parameter["S"] = image.to_string().into();
            }
        }
    }
    insta::assert_json_snapshot!("attached_insert", body);
}

/// A late version and its late entry are one transaction.
#[tokio::test]
async fn attached_insert_late() {
    let image = item(json!({"id": {"S": "a"}, "no": {"N": "7"}}));
    let entity = key::of_item(&orders(), &image).unwrap();
    let at = RecordedAt::of_stream_record(1_795_328_688_000_000, Version::FIRST);
    let state = State {
        place: Place::parse("2026-11-22T06:24:48.123", "300000000000000000042").unwrap(),
        recorded_at: Some(at),
        image,
        is_deleted: false,
        deleted_by: None,
        origin: StateOrigin::Late,
        around: Some(Around {
            after: Some(Version::FIRST),
            in_order: Version::new(2).unwrap(),
            in_order_at: Some(at),
        }),
        omission: None,
    };
    let version = Version::new(3).unwrap();
    let append = Append::new(&orders(), &entity, version, &state, Compression::None).unwrap();
    let deadline = Deadline::after(std::time::Duration::from_secs(60));
    let send = async |client| {
        let store = Store::attached(client, orders());
        store.append_versions(&[append], deadline).await
    };
    let mut body = sent(send).await;
    body["DynamoDB_20120810.ExecuteTransaction"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("attached_insert_late", body);
}
