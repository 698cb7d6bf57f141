//! `vzero attach --check`.

use aws_sdk_dynamodb::types::StreamViewType;
use serde_json::{Value, json};
use shared::domain::{
    Item,
    attached::{
        change::Place,
        item::{State, StateOrigin, stored},
        key,
    },
    compression::Compression,
    version::Version,
};
use testkit::{
    command::Run,
    database::put_into,
    table::{Table, create_history},
};

use super::{STREAM, create, open};

/// Puts a version of an item into the history table, as stream-fn does.
fn record(table: &Table, version: u64, image: &Value, is_deleted: bool, origin: StateOrigin) {
    let definition = json!({
        "TableName": "Orders",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
        ],
    });
    let attached = operations::attached::parse(&definition.to_string()).unwrap();
    let image: Item = serde_json::from_value(image.clone()).unwrap();
    let entity = key::of_item(&attached, &image).unwrap();
    let state = State {
        place: Place::parse(STREAM, &version.to_string()).unwrap(),
        recorded_at: None,
        image,
        is_deleted,
        deleted_by: None,
        origin,
        around: None,
        omission: None,
    };
    let item = stored(
        &attached,
        &entity,
        Version::new(version).unwrap(),
        state,
        Compression::None,
    )
    .unwrap();
    let item = serde_json::to_value(item).unwrap();
    table.runtime.block_on(put_into(&table.client, "Orders-history", item));
}

fn order(id: &str, status: &str, seen: u64) -> Value {
    json!({"id": {"S": id}, "no": {"N": "7"}, "status": {"S": status}, "seen": {"N": seen.to_string()}})
}

#[test]
fn a_check_compares_items_with_their_newest_version() {
    let Some(table) = open("a_check_compares_items_with_their_newest_version") else {
        return;
    };
    create(&table, "Orders", "id", Some(StreamViewType::NewAndOldImages));
    let check = |options: &str| table.run(&format!("attach Orders --check --lag 0 {options}"));
    let run = check("");
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (3, "error: there is no table Orders-history\n")
    );
    table
        .runtime
        .block_on(create_history(&table.client, "Orders-history"))
        .unwrap();
    let counts = |run: &Run| {
        let counts = run.lines.last().unwrap();
        ["Checked", "Following", "Behind", "Missing", "Differs"].map(|name| counts[name].as_u64().unwrap())
    };
    assert_eq!(counts(&check("")), [0; 5]);
    let put = |item: Value| table.runtime.block_on(put_into(&table.client, "Orders", item));
    put(order("missing", "open", 1));
    put(order("following", "paid", 1));
    record(&table, 1, &order("following", "open", 1), false, StateOrigin::Record);
    record(&table, 2, &order("following", "paid", 1), false, StateOrigin::Record);
    let run = check("");
    assert_eq!((run.code, counts(&run)), (0, [2, 1, 0, 1, 0]), "{run:?}");
    // Late versions are older than the last one before them.
    for version in 3..6 {
        record(
            &table,
            version,
            &order("following", "late", 1),
            false,
            StateOrigin::Late,
        );
    }
    assert_eq!(counts(&check("")), [2, 1, 0, 1, 0]);
    // Nothing differs, so there is no wait for the lag of 60 s.
    let run = table.run("attach Orders --check");
    assert_eq!((run.code, counts(&run), run.stderr.as_str()), (0, [2, 1, 0, 1, 0], ""));

    // An ignored attribute does not count.
    put(order("following", "paid", 2));
    let run = check("");
    assert_eq!((run.code, counts(&run)), (4, [2, 0, 0, 1, 1]));
    let finding = json!({"ID": r#"{"id":"following","no":7}"#, "Finding": "Differs", "Version": 5});
    assert_eq!(run.lines[0], finding);
    assert_eq!(
        run.stderr,
        "note: 1 items differ: waiting 0 s for the stream\nerror: 1 items differ from their history\n"
    );
    let run = check("--ignore seen");
    assert_eq!((run.code, counts(&run)), (0, [2, 1, 0, 1, 0]));

    // A tombstone is no state of an item that exists.
    record(&table, 6, &order("following", "paid", 2), true, StateOrigin::Record);
    assert_eq!(check("--ignore seen").code, 4);
    // The sample is limited.
    assert_eq!(counts(&check("--sample 1"))[0], 1);
    // Another history table.
    assert_eq!(check("--history-table VersionControl-missing").code, 3);
}
