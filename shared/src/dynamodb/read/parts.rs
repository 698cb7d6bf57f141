//! Further parts of [versions in parts](crate::domain::layout): `GetItem` of each, after a read that returned the version item.

use crate::{
    domain::{Item, keys::partition_key_of, layout},
    dynamodb::{Store, client::error::ServiceError},
};

impl Store {
    /// Converts items of a table to ones whose attributes are flat, in their order. The parts of versions are read consistently and
    /// joined: few versions of nearly 400 KB have some, so nearly all reads need no further request.
    ///
    /// A version without all of its parts stays as it is: it is being purged or moved, or DynamoDB has deleted a part that
    /// had expired. An expired version that is complete is joined, because a record that is delivered again is compared with it.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn flat_all(
        &self,
        items: impl IntoIterator<Item = impl Into<Item>>,
        table: &str,
    ) -> Result<Vec<Item>, ServiceError> {
        let mut items: Vec<Item> = items.into_iter().map(Into::into).collect();
        for item in &mut items {
            let is_version = self.digits.version_of_item(item).is_some();
            let keys = if is_version {
                layout::part_keys(item)
            } else {
                Vec::new()
            };
            if !keys.is_empty() {
                // Boxed, to keep the future of a read small.
                Box::pin(self.join(item, keys, table)).await?;
            }
        }
        Ok(items.into_iter().map(|item| self.flat(item, table)).collect())
    }

    /// Joins a version item with the parts that have these sort keys, if they exist.
    async fn join(&self, item: &mut Item, keys: Vec<String>, table: &str) -> Result<(), ServiceError> {
        let mut further = Vec::with_capacity(keys.len());
        for key in keys {
            // Writers and readers of every kind may use this operation.
            let entity = partition_key_of(item).unwrap_or_default();
            match self.get_stored(entity, &key, true, table).await? {
                Some(part) => further.push(part),
                None => return Ok(()),
            }
        }
        layout::join(item, further);
        Ok(())
    }
}
