//! Mutations of requests of operators: repairs, prunings, backfills and purges.

use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, purge_marker};

use super::{
    Mutation,
    expressions::{CONDITION, has, remove, remove_condition, replace, sort_key, weaken, writes},
};

pub(super) fn change(mutation: Mutation, operation: &str, body: &mut Value) {
    for update in writes("Update", operation, body) {
        change_update(mutation, update);
    }
    for put in writes("Put", operation, body) {
        match (mutation, sort_key(put)) {
            (Mutation::Revive, LATEST_KEY) | (Mutation::MarkerOrder, purge_marker::SORT_KEY) => remove_condition(put),
            // Such a redrive reads other versions than those in the marker, and so does a purge that raises them.
            (Mutation::RedriveMarker, purge_marker::SORT_KEY) if has(put, CONDITION, "#purged = :purged") => {
                remove_condition(put);
            }
            (Mutation::RevivedRequests, LATEST_KEY) if put.pointer("/Item/RecentRequests").is_some() => {
                put["Item"]["RecentRequests"] = json!({"M": {}});
                remove(&mut put["Item"], "RequestsSince");
                remove(&mut put["Item"], "RequestsDropped");
            }
            _ => {}
        }
    }
    for delete in writes("Delete", operation, body) {
        match mutation {
            Mutation::Raise => weaken(delete, "#latest = :read", "attribute_exists(#latest)"),
            Mutation::PurgeCondition if sort_key(delete) == LATEST_KEY => remove_condition(delete),
            _ => {}
        }
    }
}

fn change_update(mutation: Mutation, update: &mut Value) {
    let raises = has(update, "UpdateExpression", "#latest = :to");
    let adopts = has(update, "UpdateExpression", "#latest = :one");
    let marks = has(update, "UpdateExpression", "#pinned") || has(update, "UpdateExpression", "#ttl = :expires");
    match mutation {
        Mutation::Raise if raises => {
            weaken(update, "#latest = :from", "attribute_exists(#latest)");
            weaken(update, "attribute_not_exists(#latest)", "attribute_exists(#latest)");
        }
        Mutation::RevivedRequests if raises => {
            update["ExpressionAttributeValues"][":requests"] = json!({"M": {}});
            update["ExpressionAttributeValues"][":since"] = json!({"N": "0"});
            replace(
                update,
                "UpdateExpression",
                "#dropped = :to",
                "#dropped = if_not_exists(#none, :since)",
            );
            update["ExpressionAttributeNames"]["#none"] = json!("None");
        }
        Mutation::TimeSequence if has(update, "UpdateExpression", "#begin = :to") => {
            replace(update, "UpdateExpression", "#begin = :to,", "");
            remove(&mut update["ExpressionAttributeNames"], "#begin");
        }
        Mutation::Floor => weaken(update, "#floor < :floor", "#floor >= :floor"),
        Mutation::Pin => weaken(update, "attribute_not_exists(#pinned)", "attribute_exists(#pinned)"),
        Mutation::Mark if marks => weaken(update, "attribute_exists(#pk)", "attribute_not_exists(#pk)"),
        Mutation::Adopt if adopts => weaken(update, "attribute_not_exists(#latest)", "attribute_exists(#latest)"),
        _ => {}
    }
}
