//! The items that a request names, and those of a table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::domain::{
    Item,
    keys::{FLOOR_KEY, LATEST_KEY, partition_key_of, sort_key_of},
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

/// Returns random bytes, in base64.
pub(crate) fn incompressible(seed: u64, bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rng = fastrand::Rng::with_seed(seed);
    let digits = (0..bytes / 3 * 4).map(|_| char::from(DIGITS[rng.usize(..64)]));
    digits.collect()
}

/// Returns `true` for the sort key of a version item, of any width.
pub(crate) fn is_version_key(key: &str) -> bool {
    let digits = key.strip_prefix('v').unwrap_or_default();
    key != LATEST_KEY && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the partition key and the sort key of each item that a request reads or writes.
pub(crate) fn keys(operation: &str, body: &Value) -> Vec<(String, String)> {
    let of = |item: &Value| (text(item, "/PK/S").to_owned(), text(item, "/SK/S").to_owned());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match operation {
        "PutItem" => vec![of(&body["Item"])],
        "BatchGetItem" => keys_of_batch(body).iter().map(of).collect(),
        "TransactWriteItems" => {
            let items = list(&body["TransactItems"]);
            let keys = items.iter().flat_map(|item| item.as_object().into_iter().flatten());
            keys.map(|(kind, item)| of(&item[if kind == "Put" { "Item" } else { "Key" }]))
                .collect()
        }
        BATCH_EXECUTE_STATEMENT | EXECUTE_TRANSACTION => {
            let statements = [list(&body["Statements"]), list(&body["TransactStatements"])].concat();
            let puts = statements.iter().filter_map(put_of);
            puts.map(|put| of(&put["Item"])).collect()
        }
        "Query" => {
            let values = body["ExpressionAttributeValues"].as_object().into_iter().flatten();
            let texts = values.filter_map(|(_, value)| value["S"].as_str());
            texts.map(|text| (text.to_owned(), String::new())).collect()
        }
        _ => vec![of(&body["Key"])],
    }
}

/// Returns the keys that a `BatchGetItem` reads.
pub(crate) fn keys_of_batch(body: &Value) -> Vec<Value> {
    let tables = body["RequestItems"].as_object().into_iter().flatten();
    let keys = tables.filter_map(|(_, table)| table["Keys"].as_array());
    keys.flatten().cloned().collect()
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

/// The items of a table, by partition key and sort key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Items(BTreeMap<String, BTreeMap<String, Value>>);

impl FromIterator<Value> for Items {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        let mut all = Self::default();
        for item in items {
            let (entity, key) = (text(&item, "/PK/S").to_owned(), text(&item, "/SK/S").to_owned());
            all.0.entry(entity).or_default().insert(key, item);
        }
        all
    }
}

impl Items {
    pub(crate) fn get(&self, entity: &str, key: &str) -> Option<&Value> {
        self.0.get(entity)?.get(key)
    }

    pub(crate) fn entities(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the items of an entity with their sort keys, in the order of these.
    pub(crate) fn of(&self, entity: &str) -> impl Iterator<Item = (&str, &Value)> + use<'_> {
        let items = self.0.get(entity).into_iter().flatten();
        items.map(|(key, item)| (key.as_str(), item))
    }

    pub(crate) fn of_entities_mut(&mut self, entities: &BTreeSet<String>) -> impl Iterator<Item = &mut Value> {
        let items = self.0.iter_mut().filter(|(entity, _)| entities.contains(*entity));
        items.flat_map(|(_, items)| items.values_mut())
    }

    /// Returns the number in the latest item of an entity.
    pub(crate) fn latest(&self, entity: &str) -> Option<u64> {
        text(self.get(entity, LATEST_KEY)?, "/Latest/N").parse().ok()
    }

    /// Returns the first version of an entity that was not pruned.
    pub(crate) fn floor(&self, entity: &str) -> u64 {
        let floor = self.get(entity, FLOOR_KEY);
        floor.and_then(|item| text(item, "/Floor/N").parse().ok()).unwrap_or(1)
    }
}
