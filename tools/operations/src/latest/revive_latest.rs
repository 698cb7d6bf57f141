//! Repair of a deleted latest item: one `PutItem` on condition that there is none.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::put_item::{PutItemError, builders::PutItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use shared::{
    config::Window,
    domain::{
        AttributeValue, Item, attributes::same_item, entity::EntityId, keys::LATEST_KEY, names,
        recorded_at::RecordedAt, version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
};
use writer_fn::counter::recent_requests;

use super::requests_from_history;

const OPERATION: &str = "PutItem";
const OF_REQUESTS: [&str; 3] = [names::RECENT_REQUESTS, names::REQUESTS_SINCE, names::REQUESTS_DROPPED];

/// Puts a latest item with the requests of the newest versions, as many as the window. Returns `false` if a different one exists.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn revive_latest(
    store: &Store,
    entity: &EntityId,
    version: Version,
    latest: &Item,
    window: Window,
) -> Result<bool, ServiceError> {
    store.check_writable(OPERATION)?;
    let latest = with_requests(store, entity, version, latest, window).await?;
    match request(&latest, store.latest_table()).send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) => match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                // The response to an earlier attempt was lost, or another repair had the same result. Its recent
                // requests may have changed.
                let without_requests = |item: &Item| {
                    let mut item = item.clone();
                    item.retain(|name, _| !OF_REQUESTS.contains(&name.as_str()));
                    item
                };
                let stored = stored.as_ref().map(without_requests);
                Ok(stored.is_some_and(|stored| same_item(&stored, &without_requests(&latest))))
            }
            _ => Err(ServiceError::new(OPERATION, &error)),
        },
    }
}

/// Adds the requests of the newest versions to a latest item, as many as the window.
async fn with_requests(
    store: &Store,
    entity: &EntityId,
    version: Version,
    latest: &Item,
    window: Window,
) -> Result<Item, ServiceError> {
    let requests = requests_from_history(store, entity, version, window).await?;
    let newest = requests.newest.map_or(store.now(), |newest| newest.max(store.now()));
    let since = recent_requests::since_all(None, newest).get().to_string();
    let values = [
        AttributeValue::M(requests.entries),
        AttributeValue::N(since),
        AttributeValue::N(version.to_string()),
    ];
    let mut latest = latest.clone();
    for (name, value) in OF_REQUESTS.into_iter().zip(values) {
        latest.insert(name.to_owned(), value);
    }
    Ok(latest)
}

/// Builds the request.
pub fn request(latest: &Item, table: &str) -> PutItemInputBuilder {
    PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(latest.clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// Returns a tombstone without attributes, for an entity whose state is not known.
pub fn without_state(entity: &EntityId, version: Version, now: RecordedAt) -> Item {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = AttributeValue::N(version.to_string());
    let members = [
        (names::PK, text(entity.as_str())),
        (names::SK, text(LATEST_KEY)),
        (names::LATEST, number.clone()),
        (names::DELETED, AttributeValue::Bool(true)),
        (names::RECORDED_AT, text(&now.to_string())),
        (names::RECORDED_VERSION, number),
    ];
    Item::from(HashMap::from(members.map(|(name, value)| (name.to_owned(), value))))
}
