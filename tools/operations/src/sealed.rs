//! What operations know of a table whose versions are sealed: where its log is, and the item that lets the log accept what they remove.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{n, s, text, whole},
        entity::{EntityId, RESERVED},
        names,
        recorded_at::RecordedAt,
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, write::Write},
};

use crate::error::OperationError;

/// Sort key of the item with the place. Its partition key is that of the table's own items.
const SORT_KEY: &str = "sealed";
const LOG: &str = "Log";
const KEYS_TABLE: &str = "KeysTable";
const STATE_TABLE: &str = "StateTable";
const VERIFIER_KEY: &str = "VerifierKey";
const TABLE_ARN: &str = "TableArn";
/// Partition key of operations in the state table that the log does not contain yet.
pub const PENDING: &str = "pending";

/// Place of a table's log, and of what belongs to it. seal-fn stores it at its start, beside the versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `s3://BUCKET`, or a folder.
    pub log: String,
    /// Name of the table with the random keys.
    pub keys: String,
    /// Name of the table with the state.
    pub state: String,
    /// Key that verifies checkpoints, as the table says. An auditor compares it with the one that he received.
    pub verifier: String,
    /// Id of the table in leaves.
    pub table: String,
}

impl Place {
    /// Reads the place that a table stores, `None` if its versions are not sealed.
    ///
    /// # Errors
    ///
    /// The request fails, or the item is not what seal-fn stores.
    pub async fn of(store: &Store) -> Result<Option<Self>, OperationError> {
        let item = store
            .get_stored(RESERVED, SORT_KEY, true, store.history_table())
            .await?;
        let Some(item) = item else { return Ok(None) };
        let get = |name| text(&item, name).map(str::to_owned);
        let place = || {
            Some(Self {
                log: get(LOG)?,
                keys: get(KEYS_TABLE)?,
                state: get(STATE_TABLE)?,
                verifier: get(VERIFIER_KEY)?,
                table: get(TABLE_ARN)?,
            })
        };
        let unreadable = || OperationError::Refused("the item #vzero/sealed is not what seal-fn stores".to_owned());
        place().map(Some).ok_or_else(unreadable)
    }

    /// Stores the place.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn store(&self, store: &Store) -> Result<(), ServiceError> {
        let attributes = [
            (names::PK, RESERVED),
            (names::SK, SORT_KEY),
            (LOG, &self.log),
            (KEYS_TABLE, &self.keys),
            (STATE_TABLE, &self.state),
            (VERIFIER_KEY, &self.verifier),
            (TABLE_ARN, &self.table),
        ];
        put(
            store,
            store.history_table(),
            attributes.map(|(name, value)| (name, s(value))),
        )
        .await
    }
}

/// What an operation removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    Prune,
    Purge,
    Erase,
}

const KINDS: [(Kind, &str); 3] = [(Kind::Prune, "prune"), (Kind::Purge, "purge"), (Kind::Erase, "erase")];

/// An operation that removes versions or values, which is sealed as a leaf.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Operation {
    /// Random id.
    pub id: [u8; 16],
    pub kind: Kind,
    /// Id of the table.
    pub table: String,
    /// Id of the entity.
    pub entity: String,
    /// First and last version.
    pub versions: (u64, u64),
    /// Role that it was run with, empty if it is not known.
    pub role: String,
    pub reason: String,
    /// Time by the clock of the operator.
    pub recorded_at: String,
    /// Paths of erased values.
    pub paths: Vec<String>,
    /// Index of its leaf, once it is sealed.
    pub index: Option<u64>,
}

impl Operation {
    /// Returns what its leaf commits to, by name.
    pub fn metadata(&self) -> Vec<(&'static str, AttributeValue)> {
        let kind = KINDS
            .iter()
            .find(|(kind, _)| *kind == self.kind)
            .map_or("", |(_, name)| name);
        let mut all = vec![
            ("Table", s(&self.table)),
            ("Entity", s(&self.entity)),
            ("Version", n(self.versions.0)),
            ("Kind", s(kind)),
            ("To", n(self.versions.1)),
            ("Role", s(&self.role)),
            ("Reason", s(&self.reason)),
            ("RecordedAt", s(&self.recorded_at)),
        ];
        if !self.paths.is_empty() {
            all.push(("Paths", AttributeValue::L(self.paths.iter().map(s).collect())));
        }
        all
    }

    /// Returns its item in a partition of the state table.
    pub fn item(&self, partition: &str) -> Item {
        let index = self.index.map(|index| ("Index", n(index)));
        let keys = [(names::PK, s(partition)), (names::SK, s(self.sort_key()))];
        let all = self.metadata().into_iter().chain(index).chain(keys);
        all.map(|(name, value)| (name.to_owned(), value))
            .collect::<HashMap<_, _>>()
            .into()
    }

    pub fn sort_key(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.id))
    }

    /// Parses an item. `None` if it is not one of an operation.
    pub fn of(item: &Item) -> Option<Self> {
        let get = |name| text(item, name).map(str::to_owned);
        let kind = text(item, "Kind")?;
        let path = |path: &AttributeValue| match path {
            AttributeValue::S(path) => Some(path.clone()),
            _ => None,
        };
        let paths = match item.get("Paths") {
            Some(AttributeValue::L(paths)) => paths.iter().map(path).collect::<Option<_>>()?,
            _ => Vec::new(),
        };
        Some(Self {
            id: u128::from_str_radix(text(item, names::SK)?, 16).ok()?.to_be_bytes(),
            kind: KINDS.iter().find(|(_, name)| *name == kind)?.0,
            table: get("Table")?,
            entity: get("Entity")?,
            versions: (whole(item, "Version")?, whole(item, "To")?),
            role: get("Role")?,
            reason: get("Reason")?,
            recorded_at: get("RecordedAt")?,
            paths,
            index: whole(item, "Index"),
        })
    }

    /// Stores the operation in the state table, so that seal-fn seals it.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn add(&self, store: &Store, state_table: &str) -> Result<(), ServiceError> {
        let item = self.item(PENDING);
        put(
            store,
            state_table,
            item.inner().iter().map(|(name, value)| (&**name, value.clone())),
        )
        .await
    }
}

/// Who removes versions of a sealed table, and why.
#[derive(Debug, Clone)]
pub struct Record {
    place: Place,
    role: String,
    reason: String,
}

impl Record {
    /// Returns what a removal from a table has to record, `None` if its versions are not sealed.
    ///
    /// # Errors
    ///
    /// As [`Place::of`].
    pub async fn of(store: &Store, reason: Option<&str>) -> Result<Option<Self>, OperationError> {
        let reason = reason.unwrap_or_default().to_owned();
        let role = String::new();
        Ok(Place::of(store).await?.map(|place| Self { place, role, reason }))
    }

    /// Names the role that removes them.
    #[must_use]
    pub fn with_role(self, role: String) -> Self {
        Self { role, ..self }
    }

    /// Records that versions of an entity will be removed. Nothing may be removed before.
    pub(crate) async fn add(
        &self,
        store: &Store,
        kind: Kind,
        entity: &EntityId,
        versions: (u64, u64),
    ) -> Result<(), ServiceError> {
        let time: Duration = store.clock().now();
        let operation = Operation {
            id: fastrand::u128(..).to_be_bytes(),
            kind,
            table: self.place.table.clone(),
            entity: entity.as_str().to_owned(),
            versions,
            role: self.role.clone(),
            reason: self.reason.clone(),
            recorded_at: RecordedAt::since_epoch(time).to_string(),
            paths: Vec::new(),
            index: None,
        };
        operation.add(store, &self.place.state).await
    }
}

async fn put<'a>(
    store: &Store,
    table: &str,
    attributes: impl IntoIterator<Item = (&'a str, AttributeValue)>,
) -> Result<(), ServiceError> {
    let item: HashMap<_, _> = attributes
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let put = Write::put(table, Item::from(item), Expression::default());
    // Without a condition, it cannot fail.
    let _ = put.send(store.client()).await?;
    Ok(())
}
