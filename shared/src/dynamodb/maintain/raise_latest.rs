//! Repair of a counter that was set back: one `UpdateItem` that raises `Latest`, on condition that it has not changed.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    domain::{
        AttributeValue, Item, entity::EntityId, keys::LATEST_KEY, names, recent_requests, version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, n, s},
};

const OPERATION: &str = "UpdateItem";

impl Store {
    /// Raises the latest item to a higher version, and returns the new item. `None` if it no longer has the version `from`: a
    /// writer or another repair changed it.
    ///
    /// The latest item is then a new version, which stream-fn or the caller puts. Recent requests since the counter was set
    /// back are stored with that version, and older ones with the versions that they created.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn raise_latest(
        &self,
        entity: &EntityId,
        from: Version,
        to: Version,
    ) -> Result<Option<Item>, ServiceError> {
        let mut requests = match Version::new(to.get() - 1) {
            Some(before) => self.requests_from_history(entity, before).await?,
            None => HashMap::new(),
        };
        if let Some(stored) = self.get(entity, LATEST_KEY, true).await? {
            let since = recent_requests::requests_of(&stored)
                .into_iter()
                .flatten()
                .map(|(hash, _)| hash.clone());
            let last = recent_requests::last_request(&stored).map(|hash| hash.as_str().to_owned());
            for hash in since.chain(last) {
                // A request of a version in history keeps that version.
                let version = AttributeValue::N(to.to_string());
                requests.entry(hash).or_insert(version);
            }
        }
        let request = request(entity, from, to, requests, &self.table);
        match request.send_with(&self.client).await {
            Ok(output) => Ok(Some(Item::from(output.attributes.unwrap_or_default()))),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                    let stored = failure.item().map(|item| Item::from(item.clone()));
                    // The response to an earlier attempt was lost, or another repair had the same result.
                    Ok(stored.filter(|stored| latest_of(stored) == Ok(to)))
                }
                _ => Err(ServiceError::new(OPERATION, &error)),
            },
        }
    }
}

/// Builds the request.
pub fn request(
    entity: &EntityId,
    from: Version,
    to: Version,
    requests: HashMap<String, AttributeValue>,
    table: &str,
) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .update_expression("SET #latest = :to, #recent = :requests")
        .condition_expression("#latest = :from")
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#recent", names::RECENT_REQUESTS)
        .expression_attribute_values(":requests", AttributeValue::M(requests).into())
        .expression_attribute_values(":from", n(from))
        .expression_attribute_values(":to", n(to))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}
