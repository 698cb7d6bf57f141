//! Moves the history of a table to its own table, item by item: inserts the item into the history table, then deletes it from the
//! table of latest items.
//!
//! An item is in at least one of both tables at any time, and reads use both. An item that is there already was moved before, or
//! stream-fn stored it; it must be equal, and gets the marks of the one that is deleted.

use aws_sdk_dynamodb::operation::{
    delete_item::builders::DeleteItemInputBuilder, update_item::builders::UpdateItemInputBuilder,
};
use thiserror::Error;

use crate::{
    domain::{
        Item,
        audit::floor_of,
        entity::EntityId,
        keys::{ItemKind, partition_key_of, sort_key_of},
        layout::{self, IMAGE_DEFLATE},
        marks::{MARKS, is_pinned},
        names,
        version::Version,
        version_item::is_same_version,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        maintain::rate_limit::RateLimiter,
        put::insert_versions::{Insert, Inserted},
        read::get_item,
        s,
    },
};

/// Reason why an item cannot be moved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The history table has a different item under the same key.
    #[error("the history table has a different item under its key")]
    Conflict,
    /// DynamoDB rejects the item, for example because it would be too large.
    #[error("DynamoDB rejects it in the history table")]
    Rejected,
}

/// Outcome of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveOutcome {
    /// It is in the history table only.
    Moved,
    /// It is not part of history.
    Skipped,
    /// It stays in the table of latest items, and reads still find it there.
    Refused(Refusal),
}

/// Item of history in both of its forms.
struct Move {
    /// The item in the table of latest items.
    from: Item,
    /// The items that the history table stores: for a version, the version item and its further parts.
    to: Vec<Item>,
    keys: (String, String),
}

impl Store {
    /// Moves an item of the table of latest items, if it is part of history.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails. The move can be repeated.
    pub async fn move_to_history(&self, item: Item, limiter: &RateLimiter) -> Result<MoveOutcome, ServiceError> {
        let Some(item) = self.to_move(item) else {
            return Ok(MoveOutcome::Skipped);
        };
        if let Some(version) = self.digits.version_of_part(&item.keys.1) {
            return self.delete_part(&item.keys, version, limiter).await;
        }
        let refusal = self.move_item(&item, limiter).await?;
        Ok(refusal.map_or(MoveOutcome::Moved, MoveOutcome::Refused))
    }

    /// Returns `None` for an item that is not part of history.
    fn to_move(&self, from: Item) -> Option<Move> {
        let keys = (partition_key_of(&from)?.to_owned(), sort_key_of(&from)?.to_owned());
        if !layout::is_history(&keys.1, self.digits) {
            return None;
        }
        let to = match self.digits.kind_of(&keys.1) {
            ItemKind::Version => layout::stored(&from, self.compression),
            _ => vec![from.clone()],
        };
        Some(Move { from, to, keys })
    }

    async fn move_item(&self, item: &Move, limiter: &RateLimiter) -> Result<Option<Refusal>, ServiceError> {
        let mut inserted = self.insert_moved(&item.to, limiter).await?;
        let is_version = self.digits.version_of(&item.keys.1).is_some();
        if inserted == Inserted::Rejected && is_version && !item.to[0].contains_key(IMAGE_DEFLATE) {
            // DynamoDB counts a value differently.
            inserted = self.insert_moved(&layout::compact(&item.from), limiter).await?;
        }
        let refusal = match inserted {
            Inserted::Recorded => None,
            Inserted::Taken => limiter.run(async || self.merge(item).await).await?,
            _ => Some(Refusal::Rejected),
        };
        if refusal.is_none() {
            self.delete_moved(&item.keys, limiter).await?;
        }
        Ok(refusal)
    }

    async fn insert_moved(&self, items: &[Item], limiter: &RateLimiter) -> Result<Inserted, ServiceError> {
        let [item] = items else {
            let inserted = limiter.run(async || self.put_together(items).await).await;
            return match inserted {
                Ok(true) => Ok(Inserted::Recorded),
                Ok(false) => Ok(Inserted::Taken),
                Err(error) if error.kind == ErrorKind::Rejected => Ok(Inserted::Rejected),
                Err(error) => Err(error),
            };
        };
        let Some(insert) = Insert::new(item, self.history_table()) else {
            return Ok(Inserted::Rejected);
        };
        let inserted = limiter.run(async || match self.insert(&[&insert]).await.pop() {
            Some(Inserted::Retry(error) | Inserted::Failed(error)) => Err(error),
            inserted => Ok(inserted.unwrap_or(Inserted::Rejected)),
        });
        inserted.await
    }

    async fn delete_moved(&self, keys: &(String, String), limiter: &RateLimiter) -> Result<(), ServiceError> {
        let deleted = limiter.run(async || {
            let request = delete_request(keys, self.latest_table());
            let output = request.send_with(&self.client).await;
            output.map_err(|error| ServiceError::new("DeleteItem", &error))
        });
        deleted.await.map(drop)
    }

    /// Deletes a further part after its version item was moved with all parts. Until then, the part is skipped.
    async fn delete_part(
        &self,
        keys: &(String, String),
        version: Version,
        limiter: &RateLimiter,
    ) -> Result<MoveOutcome, ServiceError> {
        let version_key = self.digits.version_key(version);
        let whole = limiter.run(async || {
            let read = self.get_from(self.latest_table(), &keys.0, &version_key, true);
            read.await
        });
        if whole.await?.is_some() {
            return Ok(MoveOutcome::Skipped);
        }
        self.delete_moved(keys, limiter).await?;
        Ok(MoveOutcome::Moved)
    }

    /// Merges an item into the one that the history table has. Returns the reason if they differ in more than marks.
    async fn merge(&self, item: &Move) -> Result<Option<Refusal>, ServiceError> {
        let (partition_key, sort_key) = (&item.keys.0, &item.keys.1);
        let stored = self
            .get_from(self.history_table(), partition_key, sort_key, true)
            .await?;
        let kind = self.digits.kind_of(sort_key);
        if let (ItemKind::Floor, Some(floor), Ok(entity)) = (kind, floor_of(&item.from), EntityId::new(partition_key)) {
            self.raise_floor(&entity, floor).await?;
            return Ok(None);
        }
        let is_same = stored.as_ref().is_some_and(|stored| match kind {
            ItemKind::Version => is_same_version(stored, &item.from),
            _ => *stored == item.from,
        });
        if !is_same {
            return Ok(Some(Refusal::Conflict));
        }
        // stream-fn puts a version without marks.
        let stored = stored.unwrap_or_default();
        let is_missing = |name: &&str| item.from.contains_key(*name) && !stored.contains_key(*name);
        let missing: Vec<_> = MARKS.into_iter().filter(is_missing).collect();
        if !missing.is_empty() && !is_pinned(&stored) {
            // A part expires with its version. The version is last: without its mark, all of this is repeated.
            let parts = layout::part_keys(&self.version_item_as_stored(&item.keys).await?);
            let parts = parts.into_iter().filter(|_| missing.contains(&names::TTL));
            for key in parts.map(|key| (partition_key.clone(), key)) {
                self.add_marks(&item.from, &[names::TTL], &key).await?;
            }
            self.add_marks(&item.from, &missing, &item.keys).await?;
        }
        Ok(None)
    }

    async fn add_marks(&self, item: &Item, marks: &[&str], keys: &(String, String)) -> Result<(), ServiceError> {
        let request = marks_request(item, marks, keys, self.history_table());
        let output = request.send_with(&self.client).await;
        output.map_err(|error| ServiceError::new("UpdateItem", &error))?;
        Ok(())
    }

    /// Reads an item of the history table as it is stored.
    async fn version_item_as_stored(&self, (partition_key, sort_key): &(String, String)) -> Result<Item, ServiceError> {
        let request = get_item::request(partition_key, sort_key, true, self.history_table());
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
        Ok(output.item.map(Item::from).unwrap_or_default())
    }
}

/// Builds the request that deletes a moved item from the table of latest items.
pub fn delete_request((partition_key, sort_key): &(String, String), table: &str) -> DeleteItemInputBuilder {
    DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(partition_key))
        .key(names::SK, s(sort_key))
}

/// Builds the request that adds marks to a version.
pub fn marks_request(item: &Item, marks: &[&str], keys: &(String, String), table: &str) -> UpdateItemInputBuilder {
    let mut request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(&keys.0))
        .key(names::SK, s(&keys.1))
        .condition_expression("attribute_exists(#pk)")
        .expression_attribute_names("#pk", names::PK);
    let mut set = Vec::new();
    for (name, value) in marks.iter().filter_map(|name| Some((*name, item.get(*name)?))) {
        set.push(format!("#{name} = :{name}"));
        request = request
            .expression_attribute_names(format!("#{name}"), name)
            .expression_attribute_values(format!(":{name}"), value.clone().into());
    }
    request.update_expression(format!("SET {}", set.join(", ")))
}
