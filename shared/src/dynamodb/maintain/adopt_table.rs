//! Adoption of a table that does not own the layout it stores: a copy of another table, or a table whose history table does not
//! exist because its deployment was rolled back.
//!
//! | layout stored by | history table of the layout | may be replaced |
//! |---|---|---|
//! | another table, which exists | its own | yes, and must be: two tables would write one history |
//! | another table, which does not exist | its own | yes, or kept |
//! | this table | does not exist, or is empty | yes |
//! | this table | has items | no |

use thiserror::Error;

use crate::{
    domain::{entity::EntityId, keys::VersionDigits, layout::table_name},
    dynamodb::{
        HistoryTable, Store,
        client::error::ServiceError,
        maintain::{
            create_table::{CreateOutcome, CreateTableError},
            table_settings::{Misfit, TableSettings},
        },
        read::{
            scan_items,
            table_config::{LayoutError, SORT_KEY, StoredLayout},
        },
    },
};

/// Layout of an adopted table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Layout that the table stores now.
    pub layout: StoredLayout,
    /// Layout that it stored before, `None` if there was none.
    pub before: Option<StoredLayout>,
    /// `true` if the history table was created.
    pub has_new_history: bool,
}

impl Store {
    /// Stores a layout that belongs to this table. `history` is the history table, created if it does not exist; this table
    /// itself if history is in it; `None` for that of a layout without one. A new table of `digits` is the last resort.
    ///
    /// # Errors
    ///
    /// Returns [`AdoptError`] if the history table is or could be in use, is no history table, or a request fails.
    pub async fn adopt_table(
        &self,
        history: Option<&str>,
        digits: Option<VersionDigits>,
    ) -> Result<Adopted, AdoptError> {
        let (table, before) = self.identity_and_layout().await?;
        let stored = before.as_ref().and_then(|before| before.history.as_ref());
        let history = match (history.map(table_name), stored) {
            (Some(name), _) => Some(name).filter(|name| *name != table.name),
            (None, None) => None,
            (None, Some(stored)) => return Err(AdoptError::NotNamed(stored.name.clone())),
        };
        let digits = match (before.as_ref().map(|before| before.digits), digits) {
            (Some(stored), Some(requested)) if stored != requested => {
                return Err(LayoutError::Width { stored, requested }.into());
            }
            (stored, requested) => stored.or(requested).unwrap_or_default(),
        };
        if let Some(before) = &before {
            self.check_replaced(before, before.table.id == table.id, history)
                .await?;
        }
        let has_new_history = match history {
            Some(history) => self.create_history(history).await?,
            None => false,
        };
        let is_migrating = match stored {
            Some(stored) => stored.is_migrating,
            None => !self.has_no_entities().await?,
        };
        let layout = StoredLayout {
            digits,
            history: history.map(|name| HistoryTable {
                name: name.to_owned(),
                is_migrating,
            }),
            table,
        };
        match self.store_layout(&layout, before.as_ref()).await? {
            true => Ok(Adopted {
                layout,
                before,
                has_new_history,
            }),
            false => Err(AdoptError::Changed),
        }
    }

    /// Checks that no table loses or shares a history if this one replaces a layout.
    async fn check_replaced(
        &self,
        before: &StoredLayout,
        is_own: bool,
        history: Option<&str>,
    ) -> Result<(), AdoptError> {
        let Some(stored) = &before.history else {
            return Ok(());
        };
        let is_kept = history == Some(stored.name.as_str());
        if is_own && !is_kept && self.beside(&stored.name).has_items().await? {
            return Err(AdoptError::HasVersions(stored.name.clone()));
        }
        if !is_own && is_kept && self.beside(&before.table.name).exists(&before.table).await? {
            return Err(AdoptError::InUse {
                history: stored.name.clone(),
                table: before.table.name.clone(),
            });
        }
        Ok(())
    }

    /// Creates a history table if it does not exist. Returns `true` if it did not.
    async fn create_history(&self, name: &str) -> Result<bool, AdoptError> {
        let (history, settings) = (self.beside(name), TableSettings::of_history());
        let outcome = history.create_table(&settings).await?;
        if let Some(state) = history.table_state().await? {
            settings.check(&state).map_err(|misfit| AdoptError::Misfit {
                table: name.to_owned(),
                misfit,
            })?;
        }
        match history.get(&EntityId::reserved(), SORT_KEY, true).await? {
            Some(_) => Err(AdoptError::NoHistory(name.to_owned())),
            None => Ok(matches!(outcome, CreateOutcome::Created(_))),
        }
    }

    /// Returns the store of another table of the same account and Region.
    fn beside(&self, name: &str) -> Self {
        let table = crate::domain::layout::table_beside(&self.table, name);
        Self::new(self.client.clone(), table, self.digits)
    }

    /// Returns `false` if the table does not exist or has no items.
    async fn has_items(&self) -> Result<bool, ServiceError> {
        if self.described().await?.is_none() {
            return Ok(false);
        }
        let output = scan_items::request(&self.table, None)
            .limit(1)
            .send_with(&self.client)
            .await;
        let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
        Ok(page.items.is_some_and(|items| !items.is_empty()))
    }
}

/// Reason why a table was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdoptError {
    /// The layout has a history table, and no other was named.
    #[error(
        "name the history table with --history-table: a new table, or a copy of {0}. The name of the table itself selects \
         history beside the latest items"
    )]
    NotNamed(String),
    /// The original writes the history.
    #[error(
        "the table {table} writes the history table {history}: name a new table, or a copy of {history}, which AWS restores from \
         a backup"
    )]
    InUse {
        /// History table.
        history: String,
        /// Table of latest items that stored the layout.
        table: String,
    },
    /// The layout belongs to the table, and its history table has items.
    #[error(
        "the history table {0} of this table has items: deploy with it. To move to another one, restore a backup of {0} under the \
         other name, and delete {0} first"
    )]
    HasVersions(String),
    /// The history table has a layout of its own.
    #[error("the table {0} is a table of latest items, and no history table")]
    NoHistory(String),
    /// The history table has other keys.
    #[error("the table {table} is no history table: {misfit}")]
    Misfit {
        /// History table.
        table: String,
        /// Difference.
        misfit: Misfit,
    },
    /// Another client changed the layout.
    #[error("the layout was changed in the meantime: repeat the command")]
    Changed,
    /// The layout cannot be read or stored.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The history table cannot be created.
    #[error(transparent)]
    Create(#[from] CreateTableError),
    /// A request failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}
