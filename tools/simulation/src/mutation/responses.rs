//! Mutations of responses of the database.

use serde_json::{Value, json};
use shared::domain::{
    attached::item::LATE_PREFIX,
    keys::{FLOOR_KEY, LATEST_KEY, PART_PREFIX},
    purge_marker,
    version::Version,
};

use super::{Mutation, expressions::remove};
use crate::{
    caller::Caller,
    schedule::{HISTORY, TABLE},
};

/// Id of each table.
const ANY_TABLE: &str = "any-table";
/// Time of a purge marker that covers no version.
const LONG_AGO: &str = "1970-01-01T00:00:00.000000000Z";

pub(super) fn change(
    mutation: Mutation,
    operation: &str,
    caller: Option<&Caller>,
    request: &Value,
    response: &mut Value,
) {
    let is_writer = caller.is_some_and(Caller::is_writer);
    match (mutation, operation) {
        (Mutation::HistorySearch, "BatchGetItem" | "Query") if is_writer => {
            for item in read_items(response) {
                remove(item, "RequestId");
            }
        }
        (Mutation::AttachedRecord, "Query") => {
            for item in read_items(response)
                .into_iter()
                .filter(|item| item.get("Stream").is_some())
            {
                item["RequestId"] = json!({"S": "1"});
            }
        }
        (Mutation::AttachedFloor, "GetItem") if response["Item"]["SK"]["S"] == FLOOR_KEY => {
            remove(response, "Item");
        }
        (Mutation::AttachedLate, "Query") => {
            if let Some(items) = response.get_mut("Items").and_then(Value::as_array_mut) {
                let is_entry = |item: &Value| item["SK"]["S"].as_str().is_some_and(|key| key.starts_with(LATE_PREFIX));
                items.retain(|item| !is_entry(item));
            }
        }
        (Mutation::Parts, "GetItem") if is_part(&response["Item"]) => remove(response, "Item"),
        (Mutation::HistoryWait, "BatchGetItem") if is_writer => {
            let keys = keys(request);
            if let Some(found) = of_history(response) {
                let is_missing = |key: &&Value| !found.iter().any(|item| item["SK"] == key["SK"]);
                let missing: Vec<_> = keys.iter().filter(is_missing).cloned().collect();
                found.extend(missing);
            }
        }
        (Mutation::Compare, "PutItem") if response.get("Item").is_some() => response["Item"] = request["Item"].clone(),
        // A statement that fails is followed by a read of the existing item. A success prevents that read.
        (Mutation::Compare, "BatchExecuteStatement") => {
            let responses = response.get_mut("Responses").and_then(Value::as_array_mut);
            let is_taken = |response: &&mut Value| response["Error"]["Code"] == "DuplicateItem";
            for response in responses.into_iter().flatten().filter(is_taken) {
                *response = json!({});
            }
        }
        // The check reads from the floor on.
        (Mutation::Uncounted, "Query") if is_writer && from(request) == Some(FLOOR_KEY) => {
            response["Items"] = json!([]);
            response["Count"] = json!(0);
            remove(response, "LastEvaluatedKey");
        }
        (Mutation::Fingerprint, "BatchGetItem" | "Query") if is_writer => {
            for item in read_items(response) {
                remove(item, "RequestPayload");
            }
        }
        (Mutation::Fingerprint, "TransactWriteItems") if is_writer => equal_payloads(request, response),
        // The update would remove or change this attribute. An update is skipped only if it changes nothing.
        (Mutation::SkipUnchanged, "GetItem") if is_writer && request["Key"]["SK"]["S"] == LATEST_KEY => {
            if let Some(latest) = response.get_mut("Item").and_then(Value::as_object_mut)
                && latest.contains_key("Latest")
            {
                latest.entry("Deleted").or_insert_with(|| json!({"BOOL": false}));
            }
        }
        (Mutation::BeforeTombstone, "GetItem" | "Query") if caller.is_some_and(Caller::is_operator) => {
            read_items(response).into_iter().for_each(hide_deletion);
        }
        (Mutation::CopiedLayout, "DescribeTable") => response["Table"]["TableId"] = json!(ANY_TABLE),
        (Mutation::CopiedLayout, "GetItem") if response["Item"]["TableId"].is_object() => {
            response["Item"]["TableId"] = json!({"S": ANY_TABLE});
        }
        (Mutation::PurgeMarker, "BatchGetItem") if caller.is_some_and(Caller::is_stream_function) => {
            if let Some(found) = of_history(response) {
                found.retain(|item| item["SK"]["S"] != purge_marker::SORT_KEY);
            }
        }
        (Mutation::RedriveMarker, "BatchGetItem") if caller.is_some_and(Caller::is_operator) => {
            let is_marker = |item: &&mut Value| item["SK"]["S"] == purge_marker::SORT_KEY;
            for marker in read_items(response).into_iter().filter(is_marker) {
                marker["PurgedAt"] = json!({"S": LONG_AGO});
                marker["Purged"] = json!({"M": {"none": {"N": "1"}}});
            }
        }
        (Mutation::PrunedFloor, "BatchGetItem") => {
            if let Some(found) = of_history(response) {
                found.retain(|item| item["SK"]["S"] != FLOOR_KEY);
            }
        }
        (Mutation::AboveLatest, "BatchGetItem")
            if caller.is_some_and(Caller::is_operator) && reads_numbers(request) =>
        {
            let count = |key: Value| json!({"PK": key["PK"], "Latest": {"N": Version::MAX.to_string()}});
            let counted: Vec<_> = keys(request).into_iter().map(count).collect();
            response["Responses"] = json!({ TABLE: counted });
        }
        (Mutation::UnprocessedKeys, "BatchGetItem") if response.get("UnprocessedKeys").is_some() => {
            response["UnprocessedKeys"] = json!({});
        }
        _ => {}
    }
}

fn is_part(item: &Value) -> bool {
    item["SK"]["S"].as_str().is_some_and(|key| key.starts_with(PART_PREFIX))
}

/// Lets a tombstone look like another version.
fn hide_deletion(item: &mut Value) {
    remove(item, "Deleted");
    if let Some(image) = item.pointer_mut("/Image/M") {
        remove(image, "Deleted");
    }
}

/// Returns the items that a read of several keys returned from the table of history.
fn of_history(response: &mut Value) -> Option<&mut Vec<Value>> {
    let tables = response["Responses"].as_object_mut()?;
    let table = if tables.contains_key(HISTORY) { HISTORY } else { TABLE };
    tables.get_mut(table)?.as_array_mut()
}

/// Returns the items of a read.
fn read_items(response: &mut Value) -> Vec<&mut Value> {
    let Some(members) = response.as_object_mut() else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for (name, value) in members {
        match name.as_str() {
            "Item" => items.push(value),
            "Items" => items.extend(value.as_array_mut().into_iter().flatten()),
            "Responses" => {
                let tables = value.as_object_mut().into_iter().flat_map(|tables| tables.values_mut());
                items.extend(tables.filter_map(Value::as_array_mut).flatten());
            }
            _ => {}
        }
    }
    items
}

fn keys(request: &Value) -> Vec<Value> {
    let tables = request["RequestItems"]
        .as_object()
        .into_iter()
        .flat_map(|tables| tables.values());
    tables
        .filter_map(|table| table["Keys"].as_array())
        .flatten()
        .cloned()
        .collect()
}

/// Returns the first sort key of a query.
fn from(request: &Value) -> Option<&str> {
    request.pointer("/ExpressionAttributeValues/:from/S")?.as_str()
}

/// Returns `true` if a request reads the version numbers of latest items, strongly consistently.
fn reads_numbers(request: &Value) -> bool {
    let read = &request["RequestItems"][TABLE];
    let projects = read["ProjectionExpression"]
        .as_str()
        .is_some_and(|names| names.contains("#latest"));
    projects && read["ConsistentRead"] == true && read["ExpressionAttributeNames"]["#latest"] == "Latest"
}

/// Gives the marker of a ledger the payload of the update that meets it. The requests add no check digits to the recent
/// requests.
fn equal_payloads(request: &Value, response: &mut Value) {
    let reasons = response.get_mut("CancellationReasons").and_then(Value::as_array_mut);
    for (index, reason) in reasons.into_iter().flatten().enumerate() {
        if let Some(payload) = reason.pointer_mut("/Item/Payload") {
            *payload = request["TransactItems"][index]["Put"]["Item"]["Payload"].clone();
        }
    }
}
