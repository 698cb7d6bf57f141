//! Purge of an entity. [`entity::purge`] deletes it, and waits for the versions that are still in the stream.

pub mod entity;

use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::{
    domain::{entity::EntityId, keys::ItemKind},
    dynamodb::Store,
};

use crate::{
    connection::entity_of,
    error::OperationError,
    purge::entity::{ItemCounts, count_items, purge},
};

/// Purge of one entity.
#[derive(Debug)]
pub struct Purge {
    store: Store,
    entity: EntityId,
    existing: ItemCounts,
    deleted: ItemCounts,
}

impl Purge {
    /// Counts the items of an entity. Nothing is deleted yet.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::NoEntity`] if it has no items, or the error of a read.
    pub async fn of(store: &Store, id: &str) -> Result<Self, OperationError> {
        let entity = entity_of(store, id)?;
        let existing = count_items(store, &entity).await?;
        if existing.is_empty() {
            return Err(OperationError::NoEntity(id.to_owned()));
        }
        Ok(Self {
            store: store.clone(),
            entity,
            existing,
            deleted: ItemCounts::new(),
        })
    }

    /// Returns the items that the entity had.
    pub fn existing(&self) -> &ItemCounts {
        &self.existing
    }

    /// Returns the items that were deleted so far, also after an error.
    pub fn deleted(&self) -> &ItemCounts {
        &self.deleted
    }

    /// Deletes the entity. `on_wait` is called when the wait begins, with its remaining duration.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Purge`] if a request fails, or if the entity is written concurrently. The purge can be repeated.
    pub async fn run(&mut self, wait: Duration, on_wait: impl FnOnce(Duration)) -> Result<(), OperationError> {
        Ok(purge(&self.store, &self.entity, wait, on_wait, &mut self.deleted).await?)
    }
}

/// Returns the number of items of each kind: `{"v0": 1, "versions": 7}`.
pub fn to_json(counts: &ItemCounts) -> Value {
    let name = |kind: &ItemKind| match kind {
        ItemKind::Latest => "v0",
        ItemKind::Version => "versions",
        ItemKind::Part => "parts",
        ItemKind::Floor => "floor",
        ItemKind::Metadata => "metadata",
        ItemKind::Quarantined => "quarantined",
        ItemKind::Request => "requests",
        ItemKind::State => "states",
        ItemKind::Other => "other",
    };
    let members = counts.iter().map(|(kind, count)| (name(kind).to_owned(), json!(count)));
    Value::Object(members.collect::<Map<_, _>>())
}
