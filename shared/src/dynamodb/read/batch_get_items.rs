//! Many items by their keys: `BatchGetItem`, repeated for unprocessed keys.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::batch_get_item::builders::BatchGetItemInputBuilder,
    types::{AttributeValue, KeysAndAttributes},
};

use crate::{
    domain::{Item, entity::EntityId, keys::LATEST_KEY},
    dynamodb::{Store, client::error::ServiceError, key},
};

const OPERATION: &str = "BatchGetItem";
/// Maximum number of keys in a request, see
/// [`BatchGetItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html).
pub const MAX_KEYS: usize = 100;
/// Maximum number of consecutive responses without items before the request counts as throttled.
const MAX_EMPTY_RESPONSES: u32 = 6;
/// Wait before unprocessed keys are requested again; it doubles.
const INITIAL_WAIT: Duration = Duration::from_millis(50);

/// Keys of items of one table.
pub type Keys = Vec<HashMap<String, AttributeValue>>;
/// Keys of items by the name of their table.
pub type Tables = BTreeMap<String, Keys>;

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
        self.batch_get_only(&[], keys, consistent).await
    }

    /// Reads some attributes of items of several entities, or all if there are no names. The consumed capacity is the same.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn batch_get_only(
        &self,
        only: &[&str],
        keys: impl Iterator<Item = (&EntityId, impl AsRef<str>)>,
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        let mut tables = Tables::default();
        let mut latest = Vec::new();
        for (entity, sort_key) in keys {
            // The latest item of an attached table is its newest version.
            if self.attached.is_some() && sort_key.as_ref() == LATEST_KEY {
                latest.extend(Box::pin(self.attached_latest(entity, consistent)).await?);
                continue;
            }
            let (sort_key, key) = (sort_key.as_ref(), key(entity.as_str(), sort_key.as_ref()));
            tables.entry(self.table_of(sort_key).to_owned()).or_default().push(key);
        }
        let mut items = self.read_all(only, tables, consistent).await?;
        items.extend(latest);
        Ok(items)
    }

    /// Reads items of any tables.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn read_all(
        &self,
        only: &[&str],
        mut tables: Tables,
        consistent: bool,
    ) -> Result<Vec<Item>, ServiceError> {
        let mut items = Vec::new();
        let mut empty_responses = 0;
        while !tables.is_empty() {
            let request = request(tables, only, consistent).map_err(|_| ServiceError::not_built(OPERATION))?;
            let output = request.send_with(&self.client).await;
            let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
            let found = items.len();
            for (table, of_table) in output.responses.unwrap_or_default() {
                items.extend(self.flat_all(of_table, &table).await?);
            }
            let unprocessed = output.unprocessed_keys.unwrap_or_default().into_iter();
            tables = unprocessed
                .map(|(table, left)| (table, left.keys))
                .filter(|(_, keys)| !keys.is_empty())
                .collect();
            empty_responses = if found == items.len() { empty_responses + 1 } else { 0 };
            if !tables.is_empty() {
                if empty_responses == MAX_EMPTY_RESPONSES {
                    return Err(ServiceError::unprocessed(OPERATION));
                }
                tokio::time::sleep(INITIAL_WAIT * (1 << empty_responses)).await;
            }
        }
        Ok(items)
    }
}

/// Builds the request for keys by table.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects the keys.
pub fn request(tables: Tables, only: &[&str], consistent: bool) -> Result<BatchGetItemInputBuilder, BuildError> {
    let (expression, names) = projection(only);
    let is_whole = only.is_empty();
    let mut request = BatchGetItemInputBuilder::default();
    for (table, keys) in tables {
        let keys = KeysAndAttributes::builder()
            .set_projection_expression((!is_whole).then(|| expression.clone()))
            .set_expression_attribute_names((!is_whole).then(|| names.clone()))
            .set_keys(Some(keys))
            .consistent_read(consistent)
            .build()?;
        request = request.request_items(table, keys);
    }
    Ok(request)
}

/// Returns the projection of these attributes, with the names of its placeholders: `#pk` for `PK`.
pub fn projection(attributes: &[&str]) -> (String, HashMap<String, String>) {
    let placeholders: Vec<_> = attributes
        .iter()
        .map(|name| format!("#{}", name.to_lowercase()))
        .collect();
    let names = attributes.iter().map(|name| (*name).to_owned());
    (placeholders.join(", "), placeholders.into_iter().zip(names).collect())
}
