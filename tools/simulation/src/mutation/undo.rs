//! Mutations of an undo: its writes, their responses, and the history that it reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::domain::request_id::{RequestHash, RequestId};

use crate::{
    http::Response,
    mutation::{
        Mutation,
        expressions::{CONDITION, NAMES, UPDATE, VALUES, disable, has, remove_unused, sort_key, writes},
    },
    requests::text,
    schedule::{AUTHOR, KEY},
};

/// Beginning of the request id of an undo.
const REQUEST: &str = "undo#";

/// Changes a write of an undo.
pub(super) fn change(mutation: Mutation, operation: &str, body: &mut Value) {
    let is_of_item = body.pointer(&format!("/Key/{KEY}")).is_some() && body.get(CONDITION).is_some();
    match mutation {
        "undo-attributes" | "undo-version-attribute" if is_of_item => drop_comparisons(mutation, body),
        "undo-expected" | "undo-request" => {
            for update in writes("Update", operation, body) {
                let request = text(&update[VALUES], "/:request/S").to_owned();
                if !request.starts_with(REQUEST) || !has(update, UPDATE, "#request = :request") {
                    continue;
                }
                if mutation == "undo-expected" {
                    disable(update, "expected-version");
                    continue;
                }
                let again = format!("{request}#again");
                if let Some(hash) = RequestId::new(again.as_str()).ok().map(|again| RequestHash::of(&again))
                    && update[NAMES].get("#hash").is_some()
                {
                    update[NAMES]["#hash"] = json!(hash.as_str());
                }
                update[VALUES][":request"] = json!({"S": again});
            }
            for put in writes("Put", operation, body) {
                let key = sort_key(put).to_owned();
                if mutation == "undo-request" && key.starts_with(&format!("request#{REQUEST}")) {
                    put["Item"]["SK"] = json!({"S": format!("{key}#again")});
                }
            }
        }
        _ => {}
    }
}

/// Removes the comparison with the version attribute, or those with all others.
fn drop_comparisons(mutation: Mutation, body: &mut Value) {
    let names = body[NAMES].clone();
    let is_kept = |part: &&str| {
        let placeholder = part.split_once('=').map_or("", |(placeholder, _)| placeholder);
        let is_version = names[placeholder] == AUTHOR[2];
        !placeholder.starts_with("#c") || is_version != (mutation == "undo-version-attribute")
    };
    let parts = text(body, &format!("/{CONDITION}")).split(" AND ");
    let parts: Vec<_> = parts.filter(is_kept).collect();
    body[CONDITION] = json!(parts.join(" AND "));
    remove_unused(body);
}

/// Makes the history that an undo reads look complete: a version that is missing below the newest one looks like the one before it.
pub(super) fn change_history(operation: &str, request: &Value, response: &mut Value) {
    let number = |key: &Value| {
        let digits = text(key, "/S").strip_prefix('v')?;
        digits.parse::<u64>().ok().map(|number| (number, digits.len()))
    };
    let Some(items) = response
        .get_mut("Items")
        .and_then(Value::as_array_mut)
        .filter(|_| operation == "Query" && request["ScanIndexForward"] == false && request["ConsistentRead"] == true)
        // That of an attached table ends with the newest state, and is read up to the greatest number.
        .filter(|_| !text(&request[VALUES], "/:pk/S").starts_with('{'))
    else {
        return;
    };
    let newest = number(&request[VALUES][":to"]).map_or(0, |(newest, _)| newest);
    let mut found: BTreeMap<_, _> = items
        .iter()
        .filter_map(|item| Some((number(&item["SK"])?.0, item.clone())))
        .collect();
    let Some((lowest, width)) = items.iter().filter_map(|item| number(&item["SK"])).min() else {
        return;
    };
    for missing in lowest..newest {
        if let Some(before) = found.get(&(missing.max(1) - 1)).cloned() {
            let copy = json!({"S": format!("v{missing:0width$}")});
            let missing = found.entry(missing).or_insert_with(|| before);
            missing["SK"] = copy;
        }
    }
    *items = found.into_values().rev().collect();
    response["Count"] = json!(response["Items"].as_array().map_or(0, Vec::len));
}

/// Makes a write of an undo whose condition fails look successful.
pub(super) fn succeed(request: &Value, response: &mut Response) -> bool {
    let is_of_item = request.pointer(&format!("/Key/{KEY}")).is_some();
    let is_failed = ["ConditionalCheckFailed", "TransactionCanceled"].map(|kind| response.body.contains(kind));
    if !is_failed.contains(&true) || !is_of_item && !request.to_string().contains(&format!("\"{REQUEST}")) {
        return false;
    }
    let failure: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let mut item = failure["Item"].clone();
    // The item can need another form of the request.
    if item["Latest"].is_object() && item["Latest"] == request[VALUES][":expected"] {
        return false;
    }
    if let Ok(latest) = text(&item, "/Latest/N").parse::<u64>() {
        item["Latest"] = json!({"N": (latest + 1).to_string()});
    }
    *response = Response::ok(&json!({"Attributes": item}));
    true
}
