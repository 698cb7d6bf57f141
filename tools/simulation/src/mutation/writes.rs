//! Mutations of requests of the functions and of operators. Each disables a part of a condition, or of a change.

use serde_json::{Value, json};
use shared::domain::{
    Item,
    keys::LATEST_KEY,
    layout::{IMAGE_DEFLATE, version_item},
    purge_marker,
    quarantine::PREFIX,
    size::{MAX_ITEM_BYTES, MAX_LEVELS, levels, of_item},
};

use crate::{
    mutation::{
        Mutation,
        expressions::{
            CONDITION, NAMES, UPDATE, VALUES, disable, has, is_rule, negate, remove, remove_condition, replace,
            sort_key, weaken, writes,
        },
    },
    requests::{is_version_key, put_of, text},
};

/// Removal of the oldest request from the map.
const OLDEST: &str = "#recent.#f0";
/// Addition of a request to the map.
const ENTRY: &str = "#recent.#hash = if_not_exists(#latest, :zero) + :entry,";
/// Guard of an update that may have been sent before.
const GUARD: &str = "#since < :sent";
/// Incarnation of every latest item.
const SAME: &str = "same";
/// Bytes that an item without compression leaves free.
const RESERVE: usize = 1100;
/// Milliseconds by which a message looks younger.
const YOUNGER: i64 = 5000;
/// Rules of requests that are no updates.
const OF_TOMBSTONES: [&str; 2] = ["removal", "staging"];

pub(super) fn change(mutation: Mutation, operation: &str, body: &mut Value) {
    match mutation {
        "attached-consistent" if operation == "Query" && body["ConsistentRead"] == true => {
            body["ConsistentRead"] = json!(false);
        }
        "forced-compression" => {
            let statements = body.get_mut("Statements").and_then(Value::as_array_mut);
            for statement in statements.into_iter().flatten() {
                let item = put_of(statement).map(|put| put["Item"].clone()).unwrap_or_default();
                let parameters = statement.get_mut("Parameters").and_then(Value::as_array_mut);
                let is_image = |parameter: &&mut Value| **parameter == item[IMAGE_DEFLATE];
                if has_to_be_compressed(&item)
                    && let Some(image) = parameters.into_iter().flatten().find(is_image)
                {
                    *image = too_large();
                }
            }
        }
        "whole-set" | "set-time" if operation == "TransactWriteItems" => change_set(mutation, body),
        _ => {}
    }
    for update in writes("Update", operation, body) {
        change_update(mutation, operation == "UpdateItem", update);
    }
    for put in writes("Put", operation, body) {
        change_put(mutation, put);
    }
    for delete in writes("Delete", operation, body) {
        match mutation {
            "raise" => weaken(delete, "#latest = :read", "attribute_exists(#latest)"),
            "hold" if has(delete, CONDITION, "(#hold)") => remove_condition(delete),
            "purge-condition" if sort_key(delete) == LATEST_KEY => remove_condition(delete),
            _ => {}
        }
    }
}

fn change_put(mutation: Mutation, put: &mut Value) {
    let key = sort_key(put).to_owned();
    let is_condition = match mutation {
        "ledger" => key.starts_with("request#"),
        "condition" => is_version_key(&key),
        "revive" => key == LATEST_KEY,
        "marker-order" => key == purge_marker::SORT_KEY,
        // Such a redrive reads other versions than those in the marker, and so does a purge that raises them.
        "redrive-marker" => key == purge_marker::SORT_KEY && has(put, CONDITION, "#Purged = :Purged"),
        _ => false,
    };
    if is_condition {
        remove_condition(put);
    }
    let item = &mut put["Item"];
    match mutation {
        "forced-compression" if has_to_be_compressed(item) => item[IMAGE_DEFLATE] = too_large(),
        "incarnation" if item.pointer("/V0Id/S").is_some() => item["V0Id"] = json!({"S": SAME}),
        "quarantine" => {
            if let Some(rest) = key.strip_prefix(PREFIX) {
                item["SK"] = json!({"S": format!("lost#{rest}")});
            }
        }
        "revived-requests" if key == LATEST_KEY && item.get("RecentRequests").is_some() => {
            item["RecentRequests"] = json!({"M": {}});
            for name in ["RequestsSince", "RequestsDropped"] {
                remove(item, name);
            }
        }
        _ => {}
    }
}

fn change_update(mutation: Mutation, is_single: bool, update: &mut Value) {
    let raises = has(update, UPDATE, "#latest = :to");
    let marks = has(update, UPDATE, "#pinned") || has(update, UPDATE, "#ttl = :expires");
    // Other requests than those of updates can have a condition of the same text.
    let is_update = has(update, UPDATE, "#request = :request");
    match mutation {
        "requests-since" | "requests-dropped" if has(update, UPDATE, OLDEST) => {
            let name = mutation.trim_start_matches("requests-");
            let kept = format!("#{name} = if_not_exists(#{name}, :zero)");
            replace(update, UPDATE, &format!("#{name} = :{name}"), &kept);
        }
        "eviction" if has(update, UPDATE, OLDEST) => replace(update, UPDATE, ENTRY, ""),
        "sent-time" => {
            let sent: Option<i64> = text(&update[VALUES], "/:sent/N").parse().ok();
            if let Some(millis) = sent.filter(|_| has(update, CONDITION, GUARD)) {
                update[VALUES][":sent"] = json!({"N": (millis + YOUNGER).to_string()});
            }
        }
        "fingerprint" => {
            let values = &mut update[VALUES];
            let entries = values.pointer_mut("/:requests/M").and_then(Value::as_object_mut);
            let entries = entries.into_iter().flat_map(|entries| entries.values_mut());
            entries.for_each(remove_check_digits);
            values.get_mut(":entry").into_iter().for_each(remove_check_digits);
        }
        "incarnation" if update[VALUES][":incarnation"].is_object() => {
            update[VALUES][":incarnation"] = json!({"S": SAME});
        }
        "author" => {
            // The removed attributes have the placeholders `#c0`, `#c1`, …
            let names = update[NAMES].as_object_mut().into_iter().flatten();
            let is_removed = |placeholder: &str| placeholder.strip_prefix("#c")?.parse::<u8>().ok();
            for (_, name) in names.filter(|(placeholder, _)| is_removed(placeholder).is_some()) {
                *name = json!(format!("No{}", name.as_str().unwrap_or_default()));
            }
        }
        "raise" if raises => {
            weaken(update, "#latest = :from", "attribute_exists(#latest)");
            weaken(update, "attribute_not_exists(#latest)", "attribute_exists(#latest)");
        }
        "revived-requests" if raises => {
            update[VALUES][":requests"] = json!({"M": {}});
            update[VALUES][":since"] = json!({"N": "0"});
            update[NAMES]["#none"] = json!("None");
            let kept = "#dropped = if_not_exists(#none, :since)";
            replace(update, UPDATE, "#dropped = :to", kept);
        }
        "time-sequence" => replace(update, UPDATE, "#begin = :to,", ""),
        "floor" => weaken(update, "#floor < :floor", "#floor >= :floor"),
        "hold" => weaken(update, "attribute_not_exists(#hold)", "attribute_exists(#hold)"),
        "pin" => weaken(update, "attribute_not_exists(#pinned)", "attribute_exists(#pinned)"),
        "mark" if marks => weaken(update, "attribute_exists(#pk)", "attribute_not_exists(#pk)"),
        "adopt" if has(update, UPDATE, "#latest = :one") => {
            weaken(update, "attribute_not_exists(#latest)", "attribute_exists(#latest)");
        }
        _ if !is_update && !OF_TOMBSTONES.contains(&mutation) => {}
        "guard" | "clock" if !is_single => {}
        "stale-read" if is_single => {}
        "other-form" => negate(update, mutation),
        "expected-version" => {
            if has(update, CONDITION, "attribute_not_exists(#pk)") {
                // Such an update creates the map.
                disable(update, "map-creation");
            }
            disable(update, mutation);
        }
        rule if is_rule(rule) => disable(update, rule),
        _ => {}
    }
}

/// Removes the check digits of the payload from an entry of the recent requests.
fn remove_check_digits(entry: &mut Value) {
    if let Some((version, _)) = entry["N"].as_str().and_then(|number| number.split_once('.')) {
        *entry = json!({"N": version});
    }
}

pub(super) fn change_delayed(mutation: Mutation, operation: &str, body: &mut Value) {
    if mutation == "delay" && operation == "UpdateItem" {
        for rule in ["clock", "retry-guard"] {
            disable(body, rule);
        }
    }
}

pub(super) fn puts(mutation: Mutation, operation: &str, body: &Value) -> Option<Vec<Value>> {
    match (mutation, operation) {
        ("condition", "BatchExecuteStatement") => body.get("Statements")?.as_array()?.iter().map(put_of).collect(),
        _ => None,
    }
}

/// Returns `true` if a compressed version does not fit into an item otherwise.
fn has_to_be_compressed(item: &Value) -> bool {
    if item.get(IMAGE_DEFLATE).is_none() {
        return false;
    }
    let item: Item = serde_json::from_value(item.clone()).unwrap_or_default();
    let flat = version_item(item);
    let levels = flat.values().map(levels).max();
    of_item(&flat) + RESERVE > MAX_ITEM_BYTES || levels >= Some(MAX_LEVELS)
}

/// Returns a value that fits into no item.
fn too_large() -> Value {
    json!({"B": "A".repeat(MAX_ITEM_BYTES / 3 * 4 + 4)})
}

/// Changes the transaction of a change set, the only one that updates several items.
fn change_set(mutation: Mutation, body: &mut Value) {
    let updates = writes("Update", "TransactWriteItems", body);
    if updates.len() < 2 {
        return;
    }
    if mutation == "set-time"
        && let Some(last) = updates.into_iter().last()
        && let Some(Value::String(time)) = last.pointer_mut("/ExpressionAttributeValues/:recorded/S")
    {
        *time = time.replace("000Z", "001Z");
    } else if mutation == "whole-set"
        && let Some(items) = body["TransactItems"].as_array_mut()
    {
        let is_update = |item: &Value| item.get("Update").is_some();
        let last = items.iter().rposition(is_update).unwrap_or_default();
        items.truncate(last);
    }
}
