//! Mutations of requests of the functions. Each disables a part of a condition, or of a change.

use serde_json::{Value, json};
use shared::domain::{
    Item,
    keys::LATEST_KEY,
    layout::{IMAGE_DEFLATE, version_item},
    quarantine::PREFIX,
    size::{MAX_ITEM_BYTES, MAX_LEVELS, levels, of_item},
};

use super::{
    Mutation,
    expressions::{CONDITION, disable, has, negate, remove, remove_condition, replace, sort_key, writes},
};
use crate::requests::put_of;

const UPDATE: &str = "UpdateExpression";
/// Removal of the oldest request from the map.
const OLDEST: &str = "#recent.#f0";
/// Guard of an update that may have been sent before.
const GUARD: &str = "#since < :sent";
/// Incarnation of every latest item.
const SAME: &str = "same";
/// Bytes that an item without compression leaves free.
const RESERVE: usize = 1100;
/// Milliseconds by which a message looks younger.
const YOUNGER: i64 = 5000;
pub(super) fn change(mutation: Mutation, operation: &str, body: &mut Value) {
    if mutation == Mutation::AttachedConsistent && operation == "Query" && body["ConsistentRead"] == true {
        body["ConsistentRead"] = json!(false);
    }
    if mutation == Mutation::ForcedCompression {
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
    for update in writes("Update", operation, body) {
        change_update(mutation, operation, update);
    }
    for put in writes("Put", operation, body) {
        let is_mutated = match mutation {
            Mutation::Ledger => sort_key(put).starts_with("request#"),
            Mutation::Condition => is_version_key(sort_key(put)),
            _ => false,
        };
        if is_mutated {
            remove_condition(put);
        }
        if mutation == Mutation::ForcedCompression && has_to_be_compressed(&put["Item"]) {
            put["Item"][IMAGE_DEFLATE] = too_large();
        }
        if mutation == Mutation::Incarnation && put.pointer("/Item/V0Id/S").is_some() {
            put["Item"]["V0Id"] = json!({"S": SAME});
        }
        if mutation == Mutation::Quarantine
            && let Some(key) = put.pointer_mut("/Item/SK/S")
            && let Some(rest) = key.as_str().and_then(|key| key.strip_prefix(PREFIX))
        {
            *key = json!(format!("lost#{rest}"));
        }
    }
}

fn change_update(mutation: Mutation, operation: &str, update: &mut Value) {
    let is_single = operation == "UpdateItem";
    match mutation {
        Mutation::Removal => disable(update, "removal"),
        Mutation::RequestsSince if has(update, UPDATE, OLDEST) => {
            replace(
                update,
                UPDATE,
                "#since = :since",
                "#since = if_not_exists(#since, :zero)",
            );
        }
        Mutation::RequestsDropped if has(update, UPDATE, OLDEST) => {
            replace(
                update,
                UPDATE,
                "#dropped = :dropped",
                "#dropped = if_not_exists(#dropped, :zero)",
            );
        }
        Mutation::Eviction if has(update, UPDATE, OLDEST) => {
            let entry = "#recent.#hash = if_not_exists(#latest, :zero) + :entry,";
            if has(update, UPDATE, entry) {
                replace(update, UPDATE, entry, "");
                remove(&mut update["ExpressionAttributeValues"], ":entry");
            }
        }
        Mutation::SentTime if has(update, CONDITION, GUARD) => {
            if let Some(sent) = update.pointer_mut("/ExpressionAttributeValues/:sent/N")
                && let Some(millis) = sent.as_str().and_then(|millis| millis.parse::<i64>().ok())
            {
                *sent = json!((millis + YOUNGER).to_string());
            }
        }
        Mutation::Fingerprint => {
            let values = &mut update["ExpressionAttributeValues"];
            let entries = values.pointer_mut("/:requests/M").and_then(Value::as_object_mut);
            entries
                .into_iter()
                .flat_map(|entries| entries.values_mut())
                .for_each(remove_check_digits);
            if let Some(entry) = values.get_mut(":entry") {
                remove_check_digits(entry);
            }
        }
        Mutation::Incarnation if update["ExpressionAttributeValues"][":incarnation"].is_object() => {
            update["ExpressionAttributeValues"][":incarnation"] = json!({"S": SAME});
        }
        Mutation::Author => {
            // The removed attributes have the placeholders `#c0`, `#c1`, …
            let names = update["ExpressionAttributeNames"].as_object_mut().into_iter().flatten();
            let is_removed = |placeholder: &str| placeholder.strip_prefix("#c")?.parse::<u8>().ok();
            for (_, name) in names.filter(|(placeholder, _)| is_removed(placeholder).is_some()) {
                *name = json!(format!("No{}", name.as_str().unwrap_or_default()));
            }
        }
        // Other requests than those of updates can have a condition of the same text.
        _ if !has(update, UPDATE, "#request = :request") => {}
        Mutation::Guard | Mutation::Clock if !is_single => {}
        Mutation::StaleRead if is_single => {}
        Mutation::OtherForm => negate(update, "other-form"),
        Mutation::ExpectedVersion => {
            if has(update, CONDITION, "attribute_not_exists(#pk)") {
                // Such an update creates the map.
                disable(update, "map-creation");
            }
            disable(update, "expected-version");
        }
        Mutation::Guard
        | Mutation::RetryGuard
        | Mutation::MapCreation
        | Mutation::Clock
        | Mutation::Ratchet
        | Mutation::MaximumVersion
        | Mutation::EndedState
        | Mutation::Tombstone
        | Mutation::Staged
        | Mutation::StaleRead => disable(update, &mutation.name()),
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
    if mutation == Mutation::Delay && operation == "UpdateItem" {
        disable(body, "clock");
        disable(body, "retry-guard");
    }
}

pub(super) fn puts(mutation: Mutation, operation: &str, body: &Value) -> Option<Vec<Value>> {
    let statements = match (mutation, operation) {
        (Mutation::Condition, "BatchExecuteStatement") => body.get("Statements")?.as_array()?,
        _ => return None,
    };
    statements.iter().map(put_of).collect()
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

/// Returns `true` for the sort key of a version item, of any width.
fn is_version_key(key: &str) -> bool {
    let digits = key.strip_prefix('v').unwrap_or_default();
    key != LATEST_KEY && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
