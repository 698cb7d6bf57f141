//! Adoption of a table that does not own the layout it stores: a copy of another table, or a table whose history table does not
//! exist because its deployment was rolled back.
//!
//! A table gets a history table only if no other table writes it. The [owner](shared::dynamodb::read::history_owner) decides:
//!
//! | owner in the history table | may be selected |
//! |---|---|
//! | this table | yes |
//! | another table, which exists | no: two tables would write one history |
//! | another table, which does not exist | yes |
//! | the owner of another history table, because the table is a copy | yes |
//! | none | unless the table that stored the layout, or another one with its name, has a layout with this history table |
//!
//! If the layout belongs to this table, the items of its earlier history table are [copied](super::copy_history) first. So is history
//! beside the latest items, which is deleted after the layout was changed.

use thiserror::Error;

use crate::segments::scan::page;
use crate::table::{
    copy_history::{CopyError, copy_from_beside, copy_table, delete_copied},
    create::{CreateOutcome, CreateTableError, create_table},
    owner::{delete_owner, is_owner, store_owner},
    settings::TableSettings,
    state::table_state,
};
use shared::{
    domain::{entity::EntityId, keys::VersionDigits, layout::table_name},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            history_owner::Owner,
            layout_error::LayoutError,
            scan_items,
            table_config::{SORT_KEY, StoredLayout},
            table_identity::TableIdentity,
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
    /// Number of items of history that were copied from the earlier history table, or from beside the latest items.
    pub copied: u64,
}

/// Stores a layout that belongs to this table. `history` is the history table, created if it does not exist; this table
/// itself if history is in it; `None` for that of a layout without one. A new table of `digits` is the last resort.
///
/// # Errors
///
/// Returns [`AdoptError`] if the history table is or could be in use, is no history table, or a request fails.
pub async fn adopt_table(
    store: &Store,
    history: Option<&str>,
    digits: Option<VersionDigits>,
) -> Result<Adopted, AdoptError> {
    let (table, before) = store.identity_and_layout().await?;
    let stored = before.as_ref().and_then(|before| before.history.as_ref());
    let history = match (history.map(table_name), stored) {
        (Some(name), _) => Some(name).filter(|name| *name != table.name),
        (None, None) => None,
        (None, Some(stored)) => return Err(AdoptError::NotNamed(stored.clone())),
    };
    let digits = match (before.as_ref().map(|before| before.digits), digits) {
        (Some(stored), Some(requested)) if stored != requested => {
            return Err(LayoutError::Width { stored, requested }.into());
        }
        (stored, requested) => stored.or(requested).unwrap_or_default(),
    };
    let is_own = before.as_ref().is_some_and(|before| before.is_of(&table));
    let left = stored.filter(|stored| is_own && history != Some(stored.as_str()));
    let left = left.map(|stored| store.beside(stored));
    let has_items = match &left {
        Some(left) => has_items(left).await?,
        None => false,
    };
    // History is beside the latest items, or was until another run of this command.
    let latest = Store::new(store.client().clone(), store.latest_table(), digits);
    let mut has_new_history = false;
    let mut copied = 0;
    match (history, left.as_ref().filter(|_| has_items)) {
        (Some(history), left) => {
            has_new_history = create_history(store, history).await?;
            let history = store.beside(history);
            take_history(store, &table, &history, before.as_ref()).await?;
            copied = match (left, stored) {
                (Some(left), _) => copy_table(left, &history).await?,
                (None, None) => copy_from_beside(&latest, &history).await?,
                (None, Some(_)) => 0,
            };
        }
        (None, Some(left)) => return Err(AdoptError::HasVersions(table_name(left.latest_table()).to_owned())),
        (None, None) => {}
    }
    let layout = StoredLayout {
        digits,
        history: history.map(str::to_owned),
        table: Some(table.clone()),
    };
    if !store.store_layout(&layout, before.as_ref()).await? {
        return Err(AdoptError::Changed);
    }
    if let Some(left) = left {
        delete_owner(&left, &table).await?;
    }
    if let Some(history) = history
        && (stored.is_none() || is_own)
    {
        delete_copied(&latest, &store.beside(history)).await?;
    }
    Ok(Adopted {
        layout,
        before,
        has_new_history,
        copied,
    })
}

/// Makes this table the owner of a history table, unless another table is.
async fn take_history(
    store: &Store,
    table: &TableIdentity,
    history: &Store,
    before: Option<&StoredLayout>,
) -> Result<(), AdoptError> {
    let owner = Owner {
        table: table.clone(),
        history_id: history.identity().await?.id,
    };
    let name = table_name(history.latest_table());
    let in_use = |table: &TableIdentity| AdoptError::InUse {
        history: name.to_owned(),
        table: table.name.clone(),
    };
    let stored = history.stored_owner().await?;
    match &stored {
        Some(stored) if stored.is_same(&owner) => return Ok(()),
        Some(stored) if stored.history_id == owner.history_id => {
            if stored.table.id != table.id && store.beside(&stored.table.name).exists(&stored.table).await? {
                return Err(in_use(&stored.table));
            }
        }
        Some(_) => {}
        None => {
            let named = before.and_then(|before| before.table.as_ref());
            if let Some(named) = named.filter(|named| named.name != table.name)
                && names_history(&store.beside(&named.name), name).await?
            {
                return Err(in_use(named));
            }
        }
    }
    match store_owner(history, &owner, stored.as_ref()).await? {
        true => Ok(()),
        false => Err(AdoptError::Changed),
    }
}

/// Returns `true` if the table exists and its layout names this history table, whatever table stored the layout.
async fn names_history(store: &Store, history: &str) -> Result<bool, LayoutError> {
    if store.described().await?.is_none() {
        return Ok(false);
    }
    let (_, stored) = store.identity_and_layout().await?;
    let named = stored.and_then(|stored| stored.history);
    Ok(named.as_deref() == Some(history))
}

/// Creates a history table if it does not exist. Returns `true` if it did not.
async fn create_history(store: &Store, name: &str) -> Result<bool, AdoptError> {
    let (history, settings) = (store.beside(name), TableSettings::of_history());
    let outcome = create_table(&history, &settings).await?;
    if let Some(state) = table_state(&history).await? {
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

/// Returns `false` if the table, a history table, does not exist or has no items but its owner.
async fn has_items(store: &Store) -> Result<bool, ServiceError> {
    if store.described().await?.is_none() {
        return Ok(false);
    }
    let request = scan_items::request(store.latest_table(), None).limit(2);
    let others = page(store, request, |item| (!is_owner(&item)).then_some(())).await?;
    Ok(!others.items.is_empty())
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
    /// Another table writes the history.
    #[error(
        "the table {table} writes the history table {history}: name a new table, or a copy of {history}, which AWS restores from \
         a backup"
    )]
    InUse { history: String, table: String },
    /// The layout belongs to the table, and its history table has items.
    #[error(
        "the history table {0} of this table has items: deploy with it, or name another history table, into which they are copied"
    )]
    HasVersions(String),
    #[error("the table {0} is a table of latest items, and no history table")]
    NoHistory(String),
    #[error("the table {table} is no history table: {misfit}")]
    Misfit { table: String, misfit: String },
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// Another client changed the layout, or the owner of the history table.
    #[error("the layout was changed in the meantime: repeat the command")]
    Changed,
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Create(#[from] CreateTableError),
    #[error(transparent)]
    Service(#[from] ServiceError),
}
