//! Owner of a history table: the table of latest items whose versions it contains, in the item with `PK` `#vzero`, `SK` `owner`.
//!
//! Two tables that write one history overwrite and purge each other's versions. A layout names the history table, but not the
//! other way round: without the owner, two copies of a table, whose original no longer exists, could select the same history
//! table. The claim of a layout inserts the owner before it stores the layout, and
//! `operations::table::adopt` replaces an owner that no longer exists. Both conditions are checked by
//! DynamoDB, so only one of two simultaneous claims succeeds.
//!
//! The item names the history table too, because a backup of it copies the item: the owner of a copy is that of the original.

use std::collections::HashMap;

use crate::{
    domain::{
        Item,
        attributes::{s, text},
        entity::EntityId,
        layout::{table_beside, table_name},
        names,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            layout_error::LayoutError,
            table_config::{PARTITION_KEY, TABLE_ID, TABLE_NAME, adopt_command, table_of},
            table_identity::TableIdentity,
        },
    },
};

/// Sort key of the owner.
pub const SORT_KEY: &str = "owner";
/// Attribute with the id of the history table.
pub const HISTORY_TABLE_ID: &str = "HistoryTableId";

/// Owner of a history table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Table of latest items.
    pub table: TableIdentity,
    /// Id of the history table that stored the owner. That of a copy is another one.
    pub history_id: String,
}

impl Owner {
    /// Returns the owner in an item, `None` if the item is incomplete.
    fn of(item: &Item) -> Option<Self> {
        Some(Self {
            table: table_of(item)?,
            history_id: text(item, HISTORY_TABLE_ID)?.to_owned(),
        })
    }

    /// Returns `true` if both tables are the same as those of another owner, whatever their names.
    pub fn is_same(&self, other: &Self) -> bool {
        self.table.id == other.table.id && self.history_id == other.history_id
    }

    /// Returns the item of the owner.
    pub fn item(&self) -> Item {
        let attributes = [
            (names::PK, PARTITION_KEY),
            (names::SK, SORT_KEY),
            (TABLE_ID, &self.table.id),
            (TABLE_NAME, &self.table.name),
            (HISTORY_TABLE_ID, &self.history_id),
        ];
        HashMap::from(attributes.map(|(name, value)| (name.to_owned(), s(value)))).into()
    }
}

impl Store {
    /// Inserts the owner of this store's history table. An INSERT, because the role of the functions cannot replace items of
    /// history.
    pub(crate) async fn claim_history(&self, table: &TableIdentity) -> Result<(), LayoutError> {
        let history = self.beside(self.history_table());
        let owner = Owner {
            table: table.clone(),
            history_id: history.identity().await?.id,
        };
        if self.insert_one(&owner.item(), &history.table).await? {
            return Ok(());
        }
        let found = history.stored_owner().await?;
        match found {
            Some(found) if found.is_same(&owner) => Ok(()),
            found => {
                let name = table_name(&history.table).to_owned();
                Err(LayoutError::Owned {
                    owner: found.map_or_else(|| "without a name".to_owned(), |found| found.table.name),
                    adopt: adopt_command(&table.name, Some(&name)),
                    history: name,
                })
            }
        }
    }

    /// Reads the owner of this store's table, a history table. `None` if it has none, or an incomplete one.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn stored_owner(&self) -> Result<Option<Owner>, ServiceError> {
        let item = self.get(&EntityId::reserved(), SORT_KEY, true).await?;
        Ok(item.as_ref().and_then(Owner::of))
    }

    /// Returns the store of another table of the same account and Region.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let table = table_beside(&self.table, name);
        Self::new(self.client.clone(), table, self.digits)
    }
}
