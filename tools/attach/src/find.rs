//! Finds the definition of an attached table: beside its history, in the item with `PK` `#vzero`, `SK` `attached`, attribute
//! `Definition`, the JSON of [`parse`].
//!
//! An attachment of an older release has no such item: then the definition is the key schema of the table.

use serde_json::Value;
use shared::{
    domain::{
        Item,
        attached::{AttachedTable, definition::AttachedSettings},
        attributes::text,
        entity::EntityId,
        keys::sort_key_of,
        layout::table_name,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::{
            history_owner,
            layout_error::LayoutError,
            query_items::Range,
            stored_definition as definition,
            table_config::{self, is_layout},
        },
    },
    json,
    logging::chain,
};
use thiserror::Error;

use crate::definition::parse;

/// The library's own items of a table.
#[derive(Debug, Default)]
pub struct Settings {
    /// Layout, if this project writes the table.
    pub layout: Option<Item>,
    /// Owner, if the table is the history of a table that this project writes.
    pub owner: Option<Item>,
    /// Definition of the attached table, if the table is its history.
    pub definition: Option<String>,
}

/// Reads the library's own items of a table.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails. A table with other keys rejects it.
pub async fn settings(table: &Store) -> Result<Settings, ServiceError> {
    let range = Range {
        from: definition::SORT_KEY.to_owned(),
        to: history_owner::SORT_KEY.to_owned(),
        reversed: false,
        limit: None,
        consistent: true,
    };
    let (items, _) = table.query_page(&EntityId::reserved(), &range, None).await?;
    let mut settings = Settings::default();
    for item in items {
        match sort_key_of(&item) {
            Some(table_config::SORT_KEY) if is_layout(&item) => settings.layout = Some(item),
            Some(history_owner::SORT_KEY) => settings.owner = Some(item),
            Some(definition::SORT_KEY) => {
                settings.definition = Some(text(&item, definition::DEFINITION).unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
    Ok(settings)
}

/// Returns the table of a store, as attached to this history table. `None` if there is no such history table, or no definition in it
/// although one `is_required`.
///
/// # Errors
///
/// Returns [`NotAttached`] if a request fails, or if the history is that of another table.
pub async fn find(store: &Store, history: &str, is_required: bool) -> Result<Option<AttachedTable>, NotAttached> {
    let found = match settings(&store.beside(history)).await {
        Ok(found) => found,
        Err(error) if error.code.as_deref() == Some("ResourceNotFoundException") => return Ok(None),
        Err(error) if error.kind == ErrorKind::Rejected => {
            return Err(NotAttached::Other(format!("{history} is not a history table")));
        }
        Err(error) => return Err(error.into()),
    };
    let (name, history) = (table_name(store.latest_table()), table_name(history));
    let of_other = |owner: &str| Err(NotAttached::Other(format!("{history} belongs to the table {owner}")));
    if let Some(other) = found.owner.or(found.layout) {
        return of_other(text(&other, table_config::TABLE_NAME).unwrap_or_default());
    }
    let stored = found.definition;
    if stored.is_none() && is_required {
        return Ok(None);
    }
    let settings = AttachedSettings {
        table: name.to_owned(),
        history_table: Some(history.to_owned()),
        ..AttachedSettings::default()
    };
    let described = store.describe_attached(&settings).await?;
    let Some(stored) = stored else {
        return Ok(Some(described));
    };
    // A restored history table has another name than its original.
    let mut definition = json::parse(&stored).unwrap_or_default();
    if let Some(members) = definition.as_object_mut() {
        members.insert("HistoryTable".to_owned(), Value::from(history));
    }
    match parse(&definition.to_string()) {
        Ok(table) if table.table() != name => of_other(table.table()),
        Ok(table) if table.keys().eq(described.keys()) => Ok(Some(table)),
        Ok(_) => Err(NotAttached::Other(format!("the items in {history} have other keys"))),
        Err(error) => Err(NotAttached::Other(format!(
            "the definition in {history}: {}",
            chain(&error)
        ))),
    }
}

/// Reason why a table does not have the history of the attached table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAttached {
    #[error("{0}")]
    Other(String),
    #[error("the history table cannot be read")]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
