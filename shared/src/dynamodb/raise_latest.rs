//! A counter that was set back goes on from where it was: one `UpdateItem` of the latest item, on condition that nothing came
//! in between.

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use super::{Store, error::ServiceError, n, s};
use crate::domain::{Item, entity::EntityId, keys::VersionDigits, names, version::Version, version_item::latest_of};

const OPERATION: &str = "UpdateItem";

impl Store {
    /// Makes the latest item count from a higher version, and returns it as it is then. `None` where it is not at the version
    /// that it was at: a writer, or another repair, was faster.
    ///
    /// Its state is that of a new version then, which the stream, or the caller, writes down.
    pub async fn raise_latest(
        &self,
        entity: &EntityId,
        from: Version,
        to: Version,
    ) -> Result<Option<Item>, ServiceError> {
        let request = request(entity, from, to, &self.table, self.digits);
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
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(digits.latest_key()))
        .update_expression("SET #latest = :to")
        .condition_expression("#latest = :from")
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_values(":from", n(from))
        .expression_attribute_values(":to", n(to))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}
