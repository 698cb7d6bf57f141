//! A counter that was set back goes on from where it was: one `UpdateItem` of the latest item, on condition that nothing came
//! in between.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    domain::{
        AttributeValue, Item, entity::EntityId, keys::VersionDigits, names, recent_requests, version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, n, s},
};

const OPERATION: &str = "UpdateItem";

impl Store {
    /// Makes the latest item count from a higher version, and returns it as it is then. `None` where it is not at the version
    /// that it was at: a writer, or another repair, was faster.
    ///
    /// Its state is that of a new version then, which the stream, or the caller, writes down. The requests that led to it since
    /// the counter was set back are remembered as that version, and those before it as the versions they made.
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
        if let Some(stored) = self.get(entity, &self.digits.latest_key(), true).await? {
            let since = recent_requests::requests_of(&stored)
                .into_iter()
                .flatten()
                .map(|(hash, _)| hash.clone());
            let last = recent_requests::last_request(&stored).map(|hash| hash.as_str().to_owned());
            for hash in since.chain(last) {
                // A request whose version is in the history made that one.
                let version = AttributeValue::N(to.to_string());
                requests.entry(hash).or_insert(version);
            }
        }
        let request = request(entity, from, to, requests, &self.table, self.digits);
        match request.send_with(&self.client).await {
            Ok(output) => Ok(Some(Item::from(output.attributes.unwrap_or_default()))),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                    let stored = failure.item().map(|item| Item::from(item.clone()));
                    // The answer to an earlier attempt was lost, or another repair came to the same.
                    Ok(stored.filter(|stored| latest_of(stored) == Ok(to)))
                }
                _ => Err(ServiceError::new(OPERATION, &error)),
            },
        }
    }
}

/// The request.
pub fn request(
    entity: &EntityId,
    from: Version,
    to: Version,
    requests: HashMap<String, AttributeValue>,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(digits.latest_key()))
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
