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
//! A table whose versions other programs wrote gets the width of their keys, unless they have several. A width that was stored before
//! can be replaced if no version has it.
//!
//! If the layout belongs to this table, the items of its earlier history table are copied first. So is history
//! beside the latest items, which is deleted after the layout was changed.

use attach::attachable::attachable_table;
use shared::{
    domain::{
        entity::EntityId,
        keys::{VersionDigits, Widths, sort_key_of},
        layout::table_name,
        names,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            history_owner::Owner,
            layout_error::LayoutError,
            scan_items,
            table_config::{Layout, SORT_KEY, is_layout},
            table_identity::TableIdentity,
        },
    },
};

use crate::{
    error::OperationError,
    segments::scan::page,
    table::{
        copy_history::{copy_from_beside, copy_table, delete_copied},
        create::create_table,
        owner::{delete_owner, is_setting, store_owner},
        settings::TableSettings,
    },
};

/// Layout of an adopted table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Layout that the table stores now.
    pub layout: Layout,
    /// Layout that it stored before, `None` if there was none.
    pub before: Option<Layout>,
    /// `true` if the history table was created.
    pub has_new_history: bool,
    /// Number of items of history that were copied from the earlier history table, or from beside the latest items.
    pub copied: u64,
}

impl Adopted {
    /// Returns `true` if other programs wrote the versions, or if the width was changed.
    pub fn has_new_width(&self) -> bool {
        self.before
            .as_ref()
            .is_none_or(|before| before.digits != self.layout.digits)
    }
}

/// Stores a layout that belongs to this table. `history` is the history table, created if it does not exist; this table
/// itself if history is in it; `None` for a layout without one. `requested` is the width of version keys; by default the stored
/// one, or the one of the versions. A dry run checks, and changes nothing.
///
/// # Errors
///
/// Returns [`OperationError`] if the history table is or could be in use, is no history table, the versions have keys of another width,
/// or a request fails.
pub async fn adopt_table(
    store: &Store,
    history: Option<&str>,
    requested: Option<VersionDigits>,
    is_dry: bool,
) -> Result<Adopted, OperationError> {
    let (table, before) = store.identity_and_layout().await?;
    let stored = before.as_ref().and_then(|before| before.history.as_ref());
    let history = match (history.map(table_name), stored) {
        (Some(name), _) => Some(name).filter(|name| *name != table.name),
        (None, None) => None,
        (None, Some(stored)) => {
            return Err(OperationError::Invalid(format!(
                "name the history table with --history-table: a new table, or a copy of {stored}. The name of the table itself \
                 selects history beside the latest items"
            )));
        }
    };
    let digits = match before.as_ref().map(|before| before.digits) {
        Some(digits) if requested.is_none_or(|requested| requested == digits) => digits,
        Some(digits) if stored.is_some() => {
            return Err(OperationError::Refused(format!(
                "the version keys in the history table have {digits} digits, which cannot be changed"
            )));
        }
        _ => width(store, requested).await?,
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
            has_new_history = create_history(store, history, is_dry).await?;
            let history = latest.beside(history).with_time_index(None);
            if !is_dry || !has_new_history {
                take_history(store, &table, &history, before.as_ref(), is_dry).await?;
            }
            copied = match (left, stored) {
                _ if is_dry => 0,
                (Some(left), _) => copy_table(left, &history).await?,
                (None, None) => copy_from_beside(&latest, &history).await?,
                (None, Some(_)) => 0,
            };
        }
        (None, Some(left)) => {
            return Err(OperationError::Refused(format!(
                "the history table {} of this table has items: deploy with it, or name another history table, into which they \
                 are copied",
                table_name(left.latest_table())
            )));
        }
        (None, None) => {}
    }
    let layout = Layout {
        digits,
        history: history.map(str::to_owned),
        table: Some(table.clone()),
    };
    if !is_dry && !store.store_layout(&layout, before.as_ref()).await? {
        return Err(changed());
    }
    if let Some(left) = left.filter(|_| !is_dry) {
        delete_owner(&left, &table).await?;
    }
    if let Some(history) = history
        && (stored.is_none() || is_own)
        && !is_dry
    {
        delete_copied(&latest, &latest.beside(history).with_time_index(None)).await?;
    }
    Ok(Adopted {
        layout,
        before,
        has_new_history,
        copied,
    })
}

/// Returns the width that the version keys of a table have, which must be the requested one. It reads the whole table.
async fn width(store: &Store, requested: Option<VersionDigits>) -> Result<VersionDigits, OperationError> {
    let (mut widths, mut start) = (Widths::default(), None);
    loop {
        let request = scan_items::request(store.latest_table(), start)
            .projection_expression("#sk")
            .expression_attribute_names("#sk", names::SK);
        let page = page(store, request, |item| sort_key_of(&item).map(str::to_owned)).await?;
        page.items.iter().for_each(|key| widths.add(key));
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    if widths.are_mixed() {
        return Err(OperationError::Refused(format!(
            "the table {} has versions whose keys have different numbers of digits: `vzero audit --all` lists them",
            table_name(store.latest_table())
        )));
    }
    let digits = requested.or_else(|| widths.padded()).unwrap_or_default();
    let store = Store::new(store.client().clone(), store.latest_table(), digits);
    store.check_widths(&widths)?;
    Ok(digits)
}

/// Makes this table the owner of a history table, unless another table is.
async fn take_history(
    store: &Store,
    table: &TableIdentity,
    history: &Store,
    before: Option<&Layout>,
    is_dry: bool,
) -> Result<(), OperationError> {
    let owner = Owner {
        table: table.clone(),
        history_id: history.identity().await?.id,
    };
    let name = table_name(history.latest_table());
    let in_use = |table: &TableIdentity| {
        OperationError::Refused(format!(
            "the table {} writes the history table {name}: name a new table, or a copy of {name}, which AWS restores from a backup",
            table.name
        ))
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
    match is_dry || store_owner(history, &owner, stored.as_ref()).await? {
        true => Ok(()),
        false => Err(changed()),
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
async fn create_history(store: &Store, name: &str, is_dry: bool) -> Result<bool, OperationError> {
    let (history, settings) = (store.beside(name), TableSettings::of_history());
    let is_new = match is_dry {
        true => history.described().await?.is_none(),
        false => create_table(&history, &settings).await?.is_some(),
    };
    if is_dry && is_new {
        return Ok(true);
    }
    if let Some(table) = attachable_table(&history).await? {
        let fits = settings.check(&table);
        fits.map_err(|misfit| OperationError::Refused(format!("the table {name} is no history table: {misfit}")))?;
    }
    match history.get(&EntityId::reserved(), SORT_KEY, true).await? {
        Some(config) if is_layout(&config) => Err(OperationError::Refused(format!(
            "the table {name} is a table of latest items, and no history table"
        ))),
        _ => Ok(is_new),
    }
}

/// Returns `false` if the table, a history table, does not exist or has no items but its settings.
async fn has_items(store: &Store) -> Result<bool, ServiceError> {
    if store.described().await?.is_none() {
        return Ok(false);
    }
    // There are two settings at most.
    let request = scan_items::request(store.latest_table(), None).limit(3);
    let others = page(store, request, |item| (!is_setting(&item)).then_some(())).await?;
    Ok(!others.items.is_empty())
}

/// Returns the error of a layout, or the owner of a history table, that another client changed.
fn changed() -> OperationError {
    OperationError::Refused("the layout was changed in the meantime: repeat the command".to_owned())
}
