//! Writes a purge marker: `PutItem` on condition that the marker has not changed since it was read. What it covers never
//! decreases.

use aws_sdk_dynamodb::operation::put_item::{PutItemError, builders::PutItemInputBuilder};

use shared::{
    domain::{
        entity::EntityId,
        names,
        purge_marker::{PurgeMarker, SORT_KEY},
    },
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "PutItem";
/// Maximum number of attempts, if the entity is purged concurrently.
const MAX_ATTEMPTS: u32 = 5;

/// Writes the marker of an entity, or raises the existing one.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails, or if the existing item is not a valid marker.
pub(crate) async fn mark_purged(store: &Store, entity: &EntityId, marker: &PurgeMarker) -> Result<(), ServiceError> {
    for _ in 0..MAX_ATTEMPTS {
        let markers = store.purge_markers([entity]).await?;
        let seen = markers.of(entity);
        let raised = seen.map_or_else(|| marker.clone(), |seen| seen.max(marker));
        let request = request(entity, &raised, seen, store.history_table());
        match request.send_with(store.client()).await {
            Ok(_) => return Ok(()),
            Err(error) => match error.as_service_error() {
                // The response to an earlier attempt was lost, or another purge changed it.
                Some(PutItemError::ConditionalCheckFailedException(_)) => {}
                _ => return Err(ServiceError::new(OPERATION, &error)),
            },
        }
    }
    let reason = "did not write the purge marker: other purges of the entity change it";
    Err(ServiceError::unusable(OPERATION, reason))
}

/// Builds the request. `seen` is the existing marker.
pub fn request(
    entity: &EntityId,
    marker: &PurgeMarker,
    seen: Option<&PurgeMarker>,
    table: &str,
) -> PutItemInputBuilder {
    let mut request = PutItemInputBuilder::default()
        .table_name(table)
        .item(names::PK, s(entity.of_purge_marker().as_str()))
        .item(names::SK, s(SORT_KEY));
    for (name, value) in marker.attributes() {
        request = request.item(name, value.into());
    }
    let Some(seen) = seen else {
        return request
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", names::PK);
    };
    let [at, purged] = seen.attributes();
    request = request.condition_expression("#at = :at AND #purged = :purged");
    for (placeholder, (name, value)) in [("at", at), ("purged", purged)] {
        request = request
            .expression_attribute_names(format!("#{placeholder}"), name)
            .expression_attribute_values(format!(":{placeholder}"), value.into());
    }
    request
}
