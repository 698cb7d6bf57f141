//! Mutations of responses of the database.

use serde_json::{Value, json};
use shared::domain::{
    attached::item::LATE_PREFIX,
    keys::{FLOOR_KEY, LATEST_KEY, PART_PREFIX},
    purge_marker,
    version::Version,
};

use crate::{
    caller::Caller,
    mutation::{Mutation as M, expressions::remove},
    requests::text,
    schedule::{HISTORY, TABLE},
};

/// Id of each table.
const ANY_TABLE: &str = "any-table";
/// Time of a purge marker that covers no version.
const LONG_AGO: &str = "1970-01-01T00:00:00.000000000Z";

pub(super) fn change(mutation: M, operation: &str, caller: Option<&Caller>, request: &Value, response: &mut Value) {
    let is_writer = caller.is_some_and(Caller::is_writer);
    let is_operator = caller.is_some_and(Caller::is_operator);
    match (mutation, operation) {
        (M::HistorySearch, "BatchGetItem" | "Query") if is_writer => {
            for item in items(response) {
                remove(item, "RequestId");
            }
        }
        (M::Fingerprint, "BatchGetItem" | "Query") if is_writer => {
            for item in items(response) {
                remove(item, "RequestPayload");
            }
        }
        (M::AttachedRecord, "Query") => {
            let items = items(response).into_iter();
            for item in items.filter(|item| item.get("Stream").is_some()) {
                item["RequestId"] = json!({"S": "1"});
            }
        }
        (M::AttachedFloor, "GetItem") | (M::PrunedFloor, "BatchGetItem") => retain(response, |key| key != FLOOR_KEY),
        (M::AttachedLate, "Query") => retain(response, |key| !key.starts_with(LATE_PREFIX)),
        (M::Parts, "GetItem") => retain(response, |key| !key.starts_with(PART_PREFIX)),
        (M::PurgeMarker, "BatchGetItem") if caller.is_some_and(Caller::is_stream_function) => {
            retain(response, |key| key != purge_marker::SORT_KEY);
        }
        (M::HistoryWait, "BatchGetItem") if is_writer => {
            let tables = response["Responses"].as_object_mut().into_iter().flatten();
            let history = tables
                .filter(|(table, _)| [HISTORY, TABLE].contains(&table.as_str()))
                .min_by_key(|(table, _)| table.as_str() == TABLE);
            if let Some(found) = history.and_then(|(_, items)| items.as_array_mut()) {
                let is_missing = |key: &Value| !found.iter().any(|item| item["SK"] == key["SK"]);
                let missing: Vec<_> = keys(request).into_iter().filter(is_missing).collect();
                found.extend(missing);
            }
        }
        (M::Compare, "PutItem") if response.get("Item").is_some() => response["Item"] = request["Item"].clone(),
        // A statement that fails is followed by a read of the existing item. A success prevents that read.
        (M::Compare, "BatchExecuteStatement") => {
            let responses = response.get_mut("Responses").and_then(Value::as_array_mut);
            let is_taken = |response: &&mut Value| response["Error"]["Code"] == "DuplicateItem";
            for response in responses.into_iter().flatten().filter(is_taken) {
                *response = json!({});
            }
        }
        // The check reads from the floor on.
        (M::Uncounted, "Query") if is_writer && text(request, "/ExpressionAttributeValues/:from/S") == FLOOR_KEY => {
            (response["Items"], response["Count"]) = (json!([]), json!(0));
            remove(response, "LastEvaluatedKey");
        }
        // The marker of a ledger gets the payload of the update that meets it. The requests add no check digits to the recent requests.
        (M::Fingerprint, "TransactWriteItems") if is_writer => {
            let reasons = response.get_mut("CancellationReasons").and_then(Value::as_array_mut);
            for (index, reason) in reasons.into_iter().flatten().enumerate() {
                if let Some(payload) = reason.pointer_mut("/Item/Payload") {
                    *payload = request["TransactItems"][index]["Put"]["Item"]["Payload"].clone();
                }
            }
        }
        // The update would remove or change this attribute. An update is skipped only if it changes nothing.
        (M::SkipUnchanged, "GetItem") if is_writer && request["Key"]["SK"]["S"] == LATEST_KEY => {
            if let Some(latest) = response.get_mut("Item").and_then(Value::as_object_mut)
                && latest.contains_key("Latest")
            {
                latest.entry("Deleted").or_insert_with(|| json!({"BOOL": false}));
            }
        }
        // A tombstone looks like another version.
        (M::BeforeTombstone, "GetItem" | "Query") if is_operator => {
            for item in items(response) {
                remove(item, "Deleted");
                item.pointer_mut("/Image/M")
                    .into_iter()
                    .for_each(|image| remove(image, "Deleted"));
            }
        }
        (M::CopiedLayout, "DescribeTable") => response["Table"]["TableId"] = json!(ANY_TABLE),
        (M::CopiedLayout, "GetItem") if response["Item"]["TableId"].is_object() => {
            response["Item"]["TableId"] = json!({"S": ANY_TABLE});
        }
        (M::RedriveMarker, "BatchGetItem") if is_operator => {
            let is_marker = |item: &&mut Value| item["SK"]["S"] == purge_marker::SORT_KEY;
            for marker in items(response).into_iter().filter(is_marker) {
                marker["PurgedAt"] = json!({"S": LONG_AGO});
                marker["Purged"] = json!({"M": {"none": {"N": "1"}}});
            }
        }
        (M::AboveLatest, "BatchGetItem") if is_operator && reads_numbers(request) => {
            let count = |key: Value| json!({"PK": key["PK"], "Latest": {"N": Version::MAX.to_string()}});
            let counted: Vec<_> = keys(request).into_iter().map(count).collect();
            response["Responses"] = json!({ TABLE: counted });
        }
        (M::UnprocessedKeys, "BatchGetItem") if response.get("UnprocessedKeys").is_some() => {
            response["UnprocessedKeys"] = json!({});
        }
        _ => {}
    }
}

/// Returns the lists of items of a read.
fn lists(response: &mut Value) -> Vec<&mut Vec<Value>> {
    let members = response.as_object_mut().into_iter().flatten();
    let lists = members.flat_map(|(name, value)| match name.as_str() {
        "Items" => vec![value],
        "Responses" => value
            .as_object_mut()
            .into_iter()
            .flat_map(|tables| tables.values_mut())
            .collect(),
        _ => Vec::new(),
    });
    lists.filter_map(Value::as_array_mut).collect()
}

/// Returns the items of a read.
fn items(response: &mut Value) -> Vec<&mut Value> {
    match response.get("Item").is_some() {
        true => vec![&mut response["Item"]],
        false => lists(response).into_iter().flatten().collect(),
    }
}

/// Removes the items whose sort keys a reader does not see.
fn retain(response: &mut Value, sees: impl Fn(&str) -> bool) {
    let is_seen = |item: &Value| item["SK"]["S"].as_str().is_none_or(&sees);
    if !is_seen(&response["Item"]) {
        remove(response, "Item");
    }
    for items in lists(response) {
        items.retain(is_seen);
    }
}

/// Returns the keys of a request.
fn keys(request: &Value) -> Vec<Value> {
    let tables = request["RequestItems"].as_object().into_iter().flatten();
    let keys = tables.filter_map(|(_, table)| table["Keys"].as_array());
    keys.flatten().cloned().collect()
}

/// Returns `true` if a request reads the version numbers of latest items, strongly consistently.
fn reads_numbers(request: &Value) -> bool {
    let read = &request["RequestItems"][TABLE];
    let projects = text(read, "/ProjectionExpression").contains("#latest");
    projects && read["ConsistentRead"] == true && read["ExpressionAttributeNames"]["#latest"] == "Latest"
}
