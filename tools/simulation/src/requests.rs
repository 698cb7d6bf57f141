//! The items that a request names.

use serde_json::{Value, json};
use shared::domain::{
    Item, attached,
    keys::{partition_key_of, sort_key_of},
    layout,
};

use crate::database::{BATCH_EXECUTE_STATEMENT, EXECUTE_TRANSACTION};

/// Returns the text at a JSON pointer, empty if there is none.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the sequence number of a stream record.
pub(crate) fn sequence_number(record: &Value) -> &str {
    text(record, "/dynamodb/SequenceNumber")
}

/// Returns the partition key and the sort key of each item that a request reads or writes.
pub(crate) fn keys(operation: &str, body: &Value) -> Vec<(String, String)> {
    let of = |item: &Value| {
        let text = |name: &str| item[name]["S"].as_str().unwrap_or_default().to_owned();
        (text("PK"), text("SK"))
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match operation {
        "PutItem" => vec![of(&body["Item"])],
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables
                .flat_map(|(_, table)| list(&table["Keys"]))
                .map(|key| of(&key))
                .collect()
        }
        "TransactWriteItems" => {
            let items = list(&body["TransactItems"]);
            let keys = items.iter().flat_map(|item| item.as_object().into_iter().flatten());
            keys.map(|(kind, item)| of(&item[if kind == "Put" { "Item" } else { "Key" }]))
                .collect()
        }
        BATCH_EXECUTE_STATEMENT | EXECUTE_TRANSACTION => {
            let statements = [list(&body["Statements"]), list(&body["TransactStatements"])].concat();
            statements
                .iter()
                .filter_map(put_of)
                .map(|put| of(&put["Item"]))
                .collect()
        }
        "Query" => {
            let values = body["ExpressionAttributeValues"].as_object().into_iter().flatten();
            values
                .filter_map(|(_, value)| Some((value["S"].as_str()?.to_owned(), String::new())))
                .collect()
        }
        _ => vec![of(&body["Key"])],
    }
}

/// Converts an item of the history table to one whose attributes are flat.
pub(crate) fn flat(item: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(layout::version_item(serde_json::from_value(item)?))
}

/// Converts the items of a table to ones whose attributes are flat. Versions in parts are joined.
pub(crate) fn flat_all(items: Vec<Value>, is_history: bool) -> Result<Vec<Value>, serde_json::Error> {
    let items: Vec<Item> = items
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()?;
    let flat = |item: &Item| {
        let mut joined = item.clone();
        let is_part = |part: &&Item, key: &str| {
            partition_key_of(part) == partition_key_of(item) && sort_key_of(part) == Some(key)
        };
        let part = |key: String| items.iter().find(|part| is_part(part, &key)).cloned();
        let further: Option<Vec<_>> = layout::part_keys(item).into_iter().map(part).collect();
        if let Some(further) = further.filter(|further| !further.is_empty()) {
            layout::join(&mut joined, further);
        }
        serde_json::to_value(match is_history {
            true => layout::version_item(joined),
            false => layout::version_item_beside_latest(joined),
        })
    };
    items.iter().map(flat).collect()
}

/// As [`flat`], for the history of an attached table.
pub(crate) fn flat_attached(item: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(attached::item::flat(serde_json::from_value(item)?))
}

/// Converts a statement to a put of the same item: `INSERT INTO "TABLE" VALUE {'NAME': ?, …}`.
pub(crate) fn put_of(statement: &Value) -> Option<Value> {
    let text = statement.get("Statement")?.as_str()?.strip_prefix("INSERT INTO \"")?;
    let (table, mut names) = text.split_once("\" VALUE {")?;
    let mut item = serde_json::Map::new();
    for parameter in statement.get("Parameters")?.as_array()? {
        let quoted = names.trim_start_matches(", ").strip_prefix('\'')?;
        let (name, rest) = quoted.split_once("': ?")?;
        item.insert(name.replace("''", "'"), parameter.clone());
        names = rest;
    }
    Some(json!({"TableName": table, "Item": item}))
}
