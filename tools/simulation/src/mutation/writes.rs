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
    expressions::{CONDITION, has, remove, remove_condition, replace, sort_key, weaken, writes},
};
use crate::requests::put_of;

const UPDATE: &str = "UpdateExpression";
/// Removal of the oldest request from the map.
const OLDEST: &str = "#recent.#f0";
const ANY_LATEST: &str = "(attribute_exists(#latest) OR attribute_not_exists(#latest))";
/// Replaces conditions on `Latest`: it holds for all latest items.
const IS_ANY_LATEST: &str = "attribute_exists(#latest) OR attribute_not_exists(#latest)";
/// Guard of an update that may have been sent before.
const GUARD: &str = "#since < :sent";
/// Guard of an update after an item was read.
const BASE: &str = "#dropped <= :base";
/// Condition that the version is later than the one before.
const LATER: &str = "#recorded < :recorded";
/// Incarnation of every latest item.
const SAME: &str = "same";
/// Bytes that an item without compression leaves free.
const RESERVE: usize = 1100;
/// Milliseconds by which a message looks younger.
const YOUNGER: i64 = 5000;
/// Condition of an update that follows a deletion.
const TOMBSTONE: &str = "(#deleted = :deleted AND #latest = :tombstone)";
/// Condition of a request that removes ended attributes of a tombstone.
const REMOVAL: &str = "#latest = :latest AND #deleted = :deleted";

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
        Mutation::Guard if is_single => {
            weaken(update, "#request <> :request", "#request = :request");
            replace(update, CONDITION, "attribute_not_exists(#recent.#hash)", ANY_LATEST);
        }
        Mutation::RetryGuard => weaken(update, BASE, "#dropped > :base"),
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
        Mutation::MapCreation if has(update, UPDATE, "#recent = :requests") => {
            any_latest_exists(update);
            weaken(update, "attribute_not_exists(#recent)", "attribute_exists(#recent)");
            weaken(update, "#latest = :read", IS_ANY_LATEST);
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
        Mutation::Clock if is_single => weaken(update, LATER, "#recorded >= :recorded"),
        Mutation::OtherForm => replace(update, CONDITION, "#recorded = :stored", "#recorded <> :stored"),
        Mutation::Ratchet => weaken(update, "#timestamp <= :timestamp", "#timestamp > :timestamp"),
        Mutation::ExpectedVersion => {
            weaken(update, "#latest = :expected", IS_ANY_LATEST);
            let absent = "attribute_not_exists(#pk)";
            if has(update, CONDITION, absent) && has(update, UPDATE, "#request = :request") {
                weaken(update, absent, "attribute_exists(#pk)");
                any_latest_exists(update);
            }
        }
        Mutation::MaximumVersion => weaken(update, "NOT #latest >= :max", "#latest >= :max"),
        Mutation::EndedState => weaken(update, "#deleted <> :deleted", "#deleted = :deleted"),
        Mutation::Tombstone => weaken(update, TOMBSTONE, &format!("NOT ({TOMBSTONE})")),
        Mutation::Staged => weaken(update, "attribute_not_exists(#staged)", "attribute_exists(#staged)"),
        Mutation::Removal => weaken(update, REMOVAL, &format!("NOT ({REMOVAL})")),
        Mutation::StaleRead if !is_single => {
            weaken(update, "#latest = :read", IS_ANY_LATEST);
            let rest = " AND (attribute_not_exists(#request)";
            for first in [
                "attribute_not_exists(#pk)",
                "attribute_exists(#pk) AND attribute_not_exists(#latest)",
            ] {
                replace(
                    update,
                    CONDITION,
                    &format!("{first}{rest}"),
                    &format!("{ANY_LATEST}{rest}"),
                );
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
        _ => {}
    }
}

/// Removes the check digits of the payload from an entry of the recent requests.
fn remove_check_digits(entry: &mut Value) {
    if let Some((version, _)) = entry["N"].as_str().and_then(|number| number.split_once('.')) {
        *entry = json!({"N": version});
    }
}

/// Disables the condition of an update that creates the map of recent requests: the entity has no versions.
fn any_latest_exists(update: &mut Value) {
    let create = ") AND attribute_not_exists(#latest) AND (";
    replace(update, CONDITION, create, &format!(") AND {ANY_LATEST} AND ("));
}

pub(super) fn change_delayed(mutation: Mutation, operation: &str, body: &mut Value) {
    if mutation == Mutation::Delay && operation == "UpdateItem" {
        weaken(body, LATER, "#recorded >= :recorded");
        weaken(body, BASE, "#dropped > :base");
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
