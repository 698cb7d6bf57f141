//! Mutations of stream records.

use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, quarantine::PREFIX};

use super::Mutation;

pub(super) fn change(mutation: Mutation, record: &mut Value) {
    match mutation {
        // Without an end, if the record of an item in quarantine were quarantined, too.
        Mutation::Filter => {
            if let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
                && !key["S"].as_str().is_some_and(|key| key.starts_with(PREFIX))
            {
                *key = json!({"S": LATEST_KEY});
            }
        }
        Mutation::AttachedOldImage => {
            if record.pointer("/dynamodb/Keys/PK").is_none()
                && let Some(change) = record["dynamodb"].as_object_mut()
            {
                change.remove("OldImage");
            }
        }
        Mutation::StreamTime => {
            let image = &record["dynamodb"]["NewImage"];
            if image["RecordedVersion"] != image["Latest"]
                && let Some(change) = record["dynamodb"].as_object_mut()
            {
                change.remove("ApproximateCreationDateTime");
            }
        }
        Mutation::OwnVersion => {
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
