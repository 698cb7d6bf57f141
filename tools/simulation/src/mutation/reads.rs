//! Mutations of what the functions and operators read: responses of the database, events of invocations, and stream records.

use aws_lambda_events::event::dynamodb;
use serde_json::{Value, json};
use shared::domain::{
    attached::item::LATE_PREFIX,
    keys::{FLOOR_KEY, LATEST_KEY, PART_PREFIX},
    purge_marker,
    quarantine::PREFIX,
    version::Version,
};

use crate::{
    caller::Caller,
    mutation::{Mutation, expressions::remove},
    requests::{keys_of_batch, text},
    schedule::{HISTORY, TABLE},
};

/// Id of each table.
const ANY_TABLE: &str = "any-table";
/// Time of a purge marker that covers no version.
const LONG_AGO: &str = "1970-01-01T00:00:00.000000000Z";

/// Changes a response of the database.
pub(super) fn change(
    mutation: Mutation,
    operation: &str,
    caller: Option<&Caller>,
    request: &Value,
    response: &mut Value,
) {
    let is_writer = caller.is_some_and(Caller::is_writer);
    let is_operator = caller.is_some_and(Caller::is_operator);
    match (mutation, operation) {
        ("history-search", "BatchGetItem" | "Query") if is_writer => remove_all(response, "RequestId"),
        ("fingerprint", "BatchGetItem" | "Query") if is_writer => remove_all(response, "RequestPayload"),
        ("attached-record", "Query") => {
            let items = items(response).into_iter();
            for item in items.filter(|item| item.get("Stream").is_some()) {
                item["RequestId"] = json!({"S": "1"});
            }
        }
        ("attached-floor", "GetItem") | ("pruned-floor", "BatchGetItem") => retain(response, |key| key != FLOOR_KEY),
        ("attached-late", "Query") => retain(response, |key| !key.starts_with(LATE_PREFIX)),
        ("parts", "GetItem") => retain(response, |key| !key.starts_with(PART_PREFIX)),
        ("purge-marker", "BatchGetItem") if caller.is_some_and(Caller::is_stream_function) => {
            retain(response, |key| key != purge_marker::SORT_KEY);
        }
        ("history-wait", "BatchGetItem") if is_writer => {
            let tables = response["Responses"].as_object_mut().into_iter().flatten();
            let history = tables
                .filter(|(table, _)| [HISTORY, TABLE].contains(&table.as_str()))
                .min_by_key(|(table, _)| table.as_str() == TABLE);
            if let Some(found) = history.and_then(|(_, items)| items.as_array_mut()) {
                let is_missing = |key: &Value| !found.iter().any(|item| item["SK"] == key["SK"]);
                let missing: Vec<_> = keys_of_batch(request).into_iter().filter(is_missing).collect();
                found.extend(missing);
            }
        }
        ("compare", "PutItem") if response.get("Item").is_some() => response["Item"] = request["Item"].clone(),
        // A statement that fails is followed by a read of the existing item. A success prevents that read.
        ("compare", "BatchExecuteStatement") => {
            let responses = response.get_mut("Responses").and_then(Value::as_array_mut);
            let is_taken = |response: &&mut Value| response["Error"]["Code"] == "DuplicateItem";
            for response in responses.into_iter().flatten().filter(is_taken) {
                *response = json!({});
            }
        }
        // The check reads from the floor on.
        ("uncounted", "Query") if is_writer && text(request, "/ExpressionAttributeValues/:from/S") == FLOOR_KEY => {
            (response["Items"], response["Count"]) = (json!([]), json!(0));
            remove(response, "LastEvaluatedKey");
        }
        // The marker of a ledger gets the payload of the update that meets it. The requests add no check digits to the recent requests.
        ("fingerprint", "TransactWriteItems") if is_writer => {
            let reasons = response.get_mut("CancellationReasons").and_then(Value::as_array_mut);
            for (index, reason) in reasons.into_iter().flatten().enumerate() {
                if let Some(payload) = reason.pointer_mut("/Item/Payload") {
                    *payload = request["TransactItems"][index]["Put"]["Item"]["Payload"].clone();
                }
            }
        }
        // The update would remove or change this attribute. An update is skipped only if it changes nothing.
        ("skip-unchanged", "GetItem") if is_writer && request["Key"]["SK"]["S"] == LATEST_KEY => {
            if let Some(latest) = response.get_mut("Item").and_then(Value::as_object_mut)
                && latest.contains_key("Latest")
            {
                latest.entry("Deleted").or_insert_with(|| json!({"BOOL": false}));
            }
        }
        // A tombstone looks like another version.
        ("before-tombstone", "GetItem" | "Query") if is_operator => {
            remove_all(response, "Deleted");
            let images = items(response)
                .into_iter()
                .filter_map(|item| item.pointer_mut("/Image/M"));
            images.for_each(|image| remove(image, "Deleted"));
        }
        ("copied-layout", "DescribeTable") => response["Table"]["TableId"] = json!(ANY_TABLE),
        ("copied-layout", "GetItem") if response["Item"]["TableId"].is_object() => {
            response["Item"]["TableId"] = json!({"S": ANY_TABLE});
        }
        ("hold", _) if is_operator => remove_all(response, "Hold"),
        ("redrive-marker", "BatchGetItem") if is_operator => {
            let is_marker = |item: &&mut Value| item["SK"]["S"] == purge_marker::SORT_KEY;
            for marker in items(response).into_iter().filter(is_marker) {
                marker["PurgedAt"] = json!({"S": LONG_AGO});
                marker["Purged"] = json!({"M": {"none": {"N": "1"}}});
            }
        }
        ("above-latest", "BatchGetItem") if is_operator && reads_numbers(request) => {
            let count = |key: Value| json!({"PK": key["PK"], "Latest": {"N": Version::MAX.to_string()}});
            let counted: Vec<_> = keys_of_batch(request).into_iter().map(count).collect();
            response["Responses"] = json!({ TABLE: counted });
        }
        ("unprocessed-keys", "BatchGetItem") if response.get("UnprocessedKeys").is_some() => {
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

/// Removes an attribute from the items of a read.
pub(super) fn remove_all(response: &mut Value, name: &str) {
    for item in items(response) {
        remove(item, name);
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

/// Returns `true` if a request reads the version numbers of latest items, strongly consistently.
fn reads_numbers(request: &Value) -> bool {
    let read = &request["RequestItems"][TABLE];
    let projects = text(read, "/ProjectionExpression").contains("#latest");
    projects && read["ConsistentRead"] == true && read["ExpressionAttributeNames"]["#latest"] == "Latest"
}

pub(super) fn change_event(mutation: Mutation, event: &mut Value) {
    if mutation != "redelivery" {
        return;
    }
    match event.get_mut("Records").and_then(Value::as_array_mut) {
        Some(messages) => {
            for message in messages {
                if let Some(attributes) = message["attributes"].as_object_mut() {
                    attributes.retain(|name, _| name == "SenderId");
                }
                let mut body = serde_json::from_str(text(message, "/body")).unwrap_or_default();
                remove_times(&mut body);
                message["body"] = json!(body.to_string());
            }
        }
        None => remove_times(event),
    }
}

/// Removes the times of an event or update.
fn remove_times(event: &mut Value) {
    for name in ["RequestSentAt", "time"] {
        remove(event, name);
    }
}

/// Returns `true` if the typed event of the runtime accepts a batch: it parses all records at once.
pub(super) fn is_typed(payload: &Value) -> bool {
    serde_json::from_str::<dynamodb::Event>(&payload.to_string()).is_ok()
}

pub(super) fn change_record(mutation: Mutation, record: &mut Value) {
    match mutation {
        // Without an end, if the record of an item in quarantine were quarantined, too.
        "filter" => {
            if let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
                && !text(key, "/S").starts_with(PREFIX)
            {
                *key = json!({"S": LATEST_KEY});
            }
        }
        "attached-old-image" if record.pointer("/dynamodb/Keys/PK").is_none() => {
            remove(&mut record["dynamodb"], "OldImage");
        }
        "stream-time" => {
            let image = &record["dynamodb"]["NewImage"];
            if image["RecordedVersion"] != image["Latest"] {
                remove(&mut record["dynamodb"], "ApproximateCreationDateTime");
            }
        }
        "own-version" => {
            if let Some(image) = record.pointer_mut("/dynamodb/NewImage")
                && image.get("RecordedVersion").is_some()
                && let Some(latest) = image.get("Latest").cloned()
            {
                image["RecordedVersion"] = latest;
            }
        }
        _ => {}
    }
}
