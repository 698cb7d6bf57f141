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
        layout,
        marks::{MARKS, is_pinned},
        names,
        version_item::is_same_version,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::rate_limit::RateLimiter,
        put::insert_versions::{Insert, Inserted},
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
    /// The item that the history table stores.
    to: Item,
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
            ItemKind::Version => layout::stored(&from, self.compression)?,
            _ => from.clone(),
        };
        Some(Move { from, to, keys })
    }

    async fn move_item(&self, item: &Move, limiter: &RateLimiter) -> Result<Option<Refusal>, ServiceError> {
        let Some(insert) = Insert::new(&item.to, self.history_table()) else {
            return Ok(Some(Refusal::Rejected));
        };
        let inserted = limiter.run(async || match self.insert(&[&insert]).await.pop() {
            Some(Inserted::Retry(error) | Inserted::Failed(error)) => Err(error),
            inserted => Ok(inserted),
        });
        let refusal = match inserted.await? {
            Some(Inserted::Recorded) => None,
            Some(Inserted::Taken) => limiter.run(async || self.merge(item).await).await?,
            _ => Some(Refusal::Rejected),
        };
        if refusal.is_none() {
            let deleted = limiter.run(async || {
                let request = delete_request(&item.keys, self.latest_table());
                let output = request.send_with(&self.client).await;
                output.map_err(|error| ServiceError::new("DeleteItem", &error))
            });
            deleted.await?;
        }
        Ok(refusal)
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
            let request = marks_request(&item.from, &missing, &item.keys, self.history_table());
            let output = request.send_with(&self.client).await;
            output.map_err(|error| ServiceError::new("UpdateItem", &error))?;
        }
        Ok(None)
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
