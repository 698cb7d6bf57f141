use serde_json::{Value, json};

use super::*;

fn orders() -> Value {
    json!({
        "TableName": "Orders",
        "KeySchema": [
            {"AttributeName": "orderNo", "KeyType": "RANGE"}, {"AttributeName": "customerId", "KeyType": "HASH"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "customerId", "AttributeType": "S"}, {"AttributeName": "orderNo", "AttributeType": "N"},
            {"AttributeName": "status", "AttributeType": "S"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "ProvisionedThroughput": null,
        "GlobalSecondaryIndexes": [{"IndexName": "byStatus", "KeySchema": []}],
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        "Tags": [{"Key": "a", "Value": "b"}],
    })
}

fn parsed(change: impl FnOnce(&mut Value)) -> Result<AttachedTable, Invalid> {
    let mut definition = orders();
    change(&mut definition);
    parse(&definition.to_string())
}

#[test]
fn a_definition_is_the_json_of_create_table() {
    let table = parsed(|_| {}).unwrap();
    assert_eq!((table.table(), table.history_table()), ("Orders", "Orders-history"));
    let keys: Vec<_> = table.keys().map(|key| (key.name.as_str(), key.kind)).collect();
    assert_eq!(keys, [("customerId", KeyType::S), ("orderNo", KeyType::N)]);
    assert_eq!((table.version_attribute(), table.filter()), (None, None));
    assert!(table.ignored().is_empty());
    let table = parsed(|definition| {
        definition["KeySchema"] = json!([{"AttributeName": "status", "KeyType": "HASH"}]);
        definition["HistoryTable"] = json!("Log");
        definition["VersionAttribute"] = json!("version");
        (definition["ActorAttribute"], definition["ReasonAttribute"]) = (json!("by"), json!("why"));
        definition["ChangeSetAttribute"] = json!("job");
        definition["IgnoreAttributes"] = json!(["lastSeen", "a,b"]);
        definition["Filter"] = json!({"status": [{"prefix": "open"}]});
    });
    let table = table.unwrap();
    assert_eq!(
        (table.history_table(), table.version_attribute()),
        ("Log", Some("version"))
    );
    assert_eq!(table.attribution().collect::<Vec<_>>(), ["by", "why", "job"]);
    // It is stored beside the history, and read there.
    assert_eq!(parse(&table.to_json().to_string()), Ok(table.clone()));
    assert_eq!(table.keys().count(), 1);
    assert_eq!(table.ignored().iter().collect::<Vec<_>>(), ["a,b", "lastSeen"]);
    // The filter knows that the attribute is a key.
    let pattern = r#"{"dynamodb":{"Keys":{"status":{"S":[{"prefix":"open"}]}}}}"#;
    assert_eq!(table.filter().unwrap(), pattern);
}

#[test]
fn each_mistake_has_a_message() {
    let long = format!("TableName {:?}", "x".repeat(250));
    let cases = format!(
        r#"
        TableName null => TableName is missing
        TableName 7 => TableName is not a string
        TableName "a b" => TableName is not a table name: 3 to 255 letters, digits, underscores, hyphens and dots
        {long} => HistoryTable is not a table name: 3 to 255 letters, digits, underscores, hyphens and dots
        HistoryTable "Orders" => HistoryTable is the table itself
        HistoryTable [] => HistoryTable is not a string
        KeySchema null => KeySchema is missing
        KeySchema [{{"AttributeName": "customerId"}}] => KeySchema is not a list of objects with AttributeName and KeyType
        KeySchema [{{"AttributeName": "customerId", "KeyType": "RANGE"}}] => KeySchema has no partition key, KeyType HASH
        KeySchema [{{"AttributeName": "customerId", "KeyType": "PRIMARY"}}] => KeySchema has the KeyType PRIMARY, which is neither HASH nor RANGE
        KeySchema [{{"AttributeName": "customerId", "KeyType": "HASH"}}, {{"AttributeName": "status", "KeyType": "HASH"}}] => KeySchema has more than one attribute of KeyType HASH
        KeySchema [{{"AttributeName": "status", "KeyType": "HASH"}}, {{"AttributeName": "status", "KeyType": "RANGE"}}] => status is the partition key and the sort key
        KeySchema [{{"AttributeName": "other", "KeyType": "HASH"}}] => AttributeDefinitions has no type of the key attribute other
        AttributeDefinitions null => AttributeDefinitions is missing
        AttributeDefinitions {{}} => AttributeDefinitions is not a list of objects with AttributeName and AttributeType
        AttributeDefinitions [{{"AttributeName": "customerId", "AttributeType": "SS"}}] => the type of the key attribute customerId is not S, N or B
        VersionAttribute 7 => VersionAttribute is not a string
        VersionAttribute "" => VersionAttribute has an empty attribute name
        ActorAttribute ["a"] => ActorAttribute is not a string
        ActorAttribute "" => ActorAttribute has an empty attribute name
        ReasonAttribute "" => ReasonAttribute has an empty attribute name
        ChangeSetAttribute 7 => ChangeSetAttribute is not a string
        ChangeSetAttribute "" => ChangeSetAttribute has an empty attribute name
        IgnoreAttributes "a" => IgnoreAttributes is not a list of attribute names
        IgnoreAttributes [7] => IgnoreAttributes is not a list of attribute names
        IgnoreAttributes [""] => IgnoreAttributes has an empty attribute name
        IgnoreAttributes ["orderNo"] => IgnoreAttributes has the key attribute orderNo
        Filter 7 => Filter is invalid: a pattern is an object that is not empty
        "#
    );
    for case in cases.trim().lines() {
        let (definition, expected) = case.trim().split_once(" => ").unwrap();
        let (member, value) = definition.split_once(' ').unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        let error = parsed(|definition| definition[member] = value).unwrap_err();
        assert_eq!(error.to_string(), expected, "{case}");
    }
    assert_eq!(
        parse("{\n x").unwrap_err().to_string(),
        "it is not JSON: line 2, column 2"
    );
    assert_eq!(parse("[]").unwrap_err().to_string(), "it is not a JSON object");
    // A version attribute can be a key attribute: writers that keep versions themselves have such tables.
    let table = parsed(|definition| definition["VersionAttribute"] = json!("orderNo"));
    assert!(table.is_ok());
}
