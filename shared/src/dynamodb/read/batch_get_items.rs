//! Many items by their keys: `BatchGetItem`, repeated for unprocessed keys.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::batch_get_item::builders::BatchGetItemInputBuilder,
    types::{AttributeValue, KeysAndAttributes},
};

use crate::{
    domain::{Item, entity::EntityId, names},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        s,
    },
};

const OPERATION: &str = "BatchGetItem";
/// Maximum number of keys in a request, see
/// [`BatchGetItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html).
pub const MAX_KEYS: usize = 100;
/// Maximum number of consecutive responses without items before the request counts as throttled.
const MAX_EMPTY_RESPONSES: u32 = 6;
/// Wait before unprocessed keys are requested again; it doubles.
const INITIAL_WAIT: Duration = Duration::from_millis(50);

impl Store {
    /// Reads the items of an entity with these sort keys, at most [`MAX_KEYS`]. The order is undefined, and missing items are
    /// left out.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn batch_get(
        &self,
        entity: &EntityId,
        sort_keys: &[String],
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        let keys = sort_keys.iter().map(|sort_key| (entity, sort_key));
        self.batch_get_keys(keys, consistent).await
    }

    pub(crate) async fn batch_get_keys(
        &self,
        keys: impl Iterator<Item = (&EntityId, impl AsRef<str>)>,
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        self.batch_get_some(&[], keys, consistent).await
    }

    /// Reads some attributes of items of several entities. The consumed capacity is the same.
    pub(crate) async fn batch_get_only(
        &self,
        attributes: &[&str],
        keys: impl Iterator<Item = (&EntityId, impl AsRef<str>)>,
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        self.batch_get_some(attributes, keys, consistent).await
    }

    async fn batch_get_some(
        &self,
        only: &[&str],
        keys: impl Iterator<Item = (&EntityId, impl AsRef<str>)>,
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        let mut items = Vec::new();
        let mut empty_responses = 0;
        let mut keys: Vec<_> = keys.map(|(entity, sort_key)| key(entity, sort_key.as_ref())).collect();
        while !keys.is_empty() {
            let request =
                request(keys, only, consistent, &self.table).map_err(|_| ServiceError::not_built(OPERATION))?;
            let output = request.send_with(&self.client).await;
            let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            let found = output
                .responses
                .unwrap_or_default()
                .remove(&self.table)
                .unwrap_or_default();
            keys = output
                .unprocessed_keys
                .unwrap_or_default()
                .remove(&self.table)
                .map(|left| left.keys)
                .unwrap_or_default();
            empty_responses = if found.is_empty() { empty_responses + 1 } else { 0 };
            items.extend(found.into_iter().map(Item::from));
            if !keys.is_empty() {
                if empty_responses == MAX_EMPTY_RESPONSES {
                    return Err(ServiceError::not_built(OPERATION).with_reason(
                        ErrorKind::Throttled,
                        "UnprocessedKeys",
                        None,
                    ));
                }
                tokio::time::sleep(INITIAL_WAIT * (1 << empty_responses)).await;
            }
        }
        Ok(items)
    }
}

/// Builds the request.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects the keys.
pub fn request(
    keys: Vec<HashMap<String, AttributeValue>>,
    only: &[&str],
    consistent: bool,
    table: &str,
) -> Result<BatchGetItemInputBuilder, BuildError> {
    let names: Vec<_> = only
        .iter()
        .map(|name| (format!("#{}", name.to_lowercase()), (*name).to_owned()))
        .collect();
    let shown: Vec<_> = names.iter().map(|(placeholder, _)| placeholder.as_str()).collect();
    let is_whole = only.is_empty();
    let keys = KeysAndAttributes::builder()
        .set_projection_expression((!is_whole).then(|| shown.join(", ")))
        .set_expression_attribute_names((!is_whole).then(|| names.into_iter().collect()))
        .set_keys(Some(keys))
        .consistent_read(consistent)
        .build()?;
    Ok(BatchGetItemInputBuilder::default().request_items(table, keys))
}

fn key(entity: &EntityId, sort_key: &str) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (names::PK.to_owned(), s(entity.as_str())),
        (names::SK.to_owned(), s(sort_key)),
    ])
}
