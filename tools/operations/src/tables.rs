//! Tables with a history: the kind of one table, and all tables of an account or endpoint.
//!
//! | kind | recognized by | requests |
//! |---|---|---|
//! | versioned | its layout, in the table itself | `GetItem` and `DescribeTable` at the same time |
//! | attached | the given history table, the table `TABLE-history`, or a parameter with its name | also `Query` and `DescribeTable` |
//! | foreign | none of these | also `Query` |
//!
//! A table with the keys `PK` and `SK` and without a layout can be a new one, an attached one, or a foreign one. Its first item decides,
//! which [`check_new`] reads: before the first write, and after a read that found nothing.

use attach::find::{self, NotAttached};
use aws_sdk_dynamodb::{Client, operation::list_tables::builders::ListTablesInputBuilder};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use shared::{
    domain::{
        attached::AttachedTable,
        attributes::text,
        keys::{ItemKind, VersionDigits, Widths},
        layout::table_name,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            layout_error::LayoutError,
            table_config::{HISTORY_TABLE, Layout},
        },
    },
    json,
    logging::chain,
};

use crate::error::OperationError;

/// Maximum number of tables that [`list`] looks into.
pub const MAX_TABLES: usize = 300;
const CONCURRENCY: usize = 8;

/// Kind of a table with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// This project writes the table. History is in the table itself, or in another one.
    Own { history: Option<String> },
    /// Other programs write the table.
    Attached(AttachedTable),
}

/// Settings that decide how a table is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Versioned(Layout),
    Attached(AttachedTable),
    /// The table has no layout, and can get one.
    New,
}

/// Opens a table by its name or ARN, as [`found`] finds it without a parameter.
///
/// # Errors
///
/// As [`found`], and returns [`OperationError::NoTable`] if there is no such table.
pub async fn open(client: &Client, name: &str, history_table: Option<&str>) -> Result<Store, OperationError> {
    let store = Store::new(client.clone(), name, VersionDigits::default());
    let found = match found(&store, history_table, async |_| Ok(None)).await {
        Err(OperationError::Service(error)) if error.code.as_deref() == Some("ResourceNotFoundException") => {
            return Err(OperationError::NoTable(name.to_owned()));
        }
        found => found?,
    };
    let opened = match found {
        Found::Attached(table) => store.with_attached(table),
        Found::Versioned(layout) => Store::new(client.clone(), name, layout.digits).with_history(layout.history),
        Found::New => store,
    };
    Ok(opened.with_time_index(None))
}

/// Finds the kind of a table. `history_table` is the name that the user gives. `parameter` reads the definition of the table with this name
/// from elsewhere; its error is the reason in one line.
///
/// # Errors
///
/// Returns [`OperationError::NoHistory`] if other programs write the table, and no history is found, and [`OperationError::Refused`] if the
/// table is the history of another one.
pub async fn found(
    store: &Store,
    history_table: Option<&str>,
    parameter: impl AsyncFnOnce(&str) -> Result<Option<String>, String>,
) -> Result<Found, OperationError> {
    let (can_be_new, denied) = match store.stored_layout().await {
        Ok(Some(layout)) => return Ok(Found::Versioned(layout)),
        Ok(None) => (history_table.is_none(), None),
        Err(LayoutError::GlobalTable { .. }) => (false, None),
        Err(LayoutError::Service(error)) => match error.code.as_deref() {
            // The key of the layout does not match the key schema.
            Some("ValidationException") => (false, None),
            // Readers of the history need no access to the items.
            Some("AccessDeniedException") => (false, Some(error)),
            _ => return Err(error.into()),
        },
        Err(error) => return Err(error.into()),
    };
    let (table, mut reasons) = (table_name(store.latest_table()).to_owned(), Vec::new());
    let found = Box::pin(attached(store, can_be_new, history_table, parameter, &mut reasons)).await?;
    match found {
        Some(table) => Ok(Found::Attached(table)),
        None if can_be_new => match find::settings(store).await?.definition {
            Some(definition) => {
                let of = attach::parse(&definition).map_or_else(|_| String::new(), |other| other.table().to_owned());
                Err(OperationError::Refused(format!(
                    "{table} is the history of {of}: use --table {of}"
                )))
            }
            None => Ok(Found::New),
        },
        None if let Some(error) = denied => Err(error.into()),
        None => Err(OperationError::NoHistory { table, reasons }),
    }
}

/// Checks that other programs do not write a table that [`found`] takes for a new one: it is empty, its first item is of a kind that
/// this project writes, or it has versions of the store's width. A table whose items cannot be read passes.
///
/// # Errors
///
/// Returns [`OperationError::NoHistory`] if other programs write the table, and the errors of [`Store::check_keys`] and of the read.
pub async fn check_new(store: &Store) -> Result<(), OperationError> {
    let keys = match store.first_keys().await {
        Err(error) if error.code.as_deref() == Some("AccessDeniedException") => return Ok(()),
        keys => keys?,
    };
    let is_other = keys.first().map(|key| store.digits().kind_of(key)) == Some(ItemKind::Other);
    if is_other && Widths::of(keys.iter().map(String::as_str)) == Widths::default() {
        return Err(OperationError::NoHistory {
            table: table_name(store.latest_table()).to_owned(),
            reasons: Vec::new(),
        });
    }
    Ok(store.check_keys(&keys)?)
}

/// Returns the attached table, or adds the reasons why what was found is not its history.
async fn attached(
    store: &Store,
    is_required: bool,
    history_table: Option<&str>,
    parameter: impl AsyncFnOnce(&str) -> Result<Option<String>, String>,
    reasons: &mut Vec<String>,
) -> Result<Option<AttachedTable>, OperationError> {
    let table = table_name(store.latest_table());
    let usual = format!("{table}-history");
    let found = settle(
        find::find(store, history_table.unwrap_or(&usual), is_required).await,
        reasons,
    )?;
    if let Some(history) = history_table {
        if found.is_none() && reasons.is_empty() {
            reasons.push(format!("there is no table {history}"));
        }
        return Ok(found);
    }
    if found.is_some() {
        return Ok(found);
    }
    let definition = parameter(table).await.unwrap_or_else(|reason| {
        reasons.push(reason);
        None
    });
    let Some(definition) = definition else {
        return Ok(None);
    };
    let definition = json::parse(&definition).unwrap_or_default();
    let history = definition.get("HistoryTable").and_then(Value::as_str).unwrap_or(&usual);
    let found = settle(find::find(store, history, false).await, reasons)?;
    reasons.extend(
        found
            .is_none()
            .then(|| format!("the parameter of the table names {history}")),
    );
    Ok(found)
}

/// Adds the reason why a table is not the history, unless a later attempt can succeed.
fn settle(
    found: Result<Option<AttachedTable>, NotAttached>,
    reasons: &mut Vec<String>,
) -> Result<Option<AttachedTable>, OperationError> {
    match found {
        Err(NotAttached::Service(error)) if error.code.as_deref() != Some("AccessDeniedException") => Err(error.into()),
        Err(NotAttached::Layout(error)) => Err(error.into()),
        Err(error) => {
            reasons.push(chain(&error));
            Ok(None)
        }
        Ok(found) => Ok(found),
    }
}

/// Lists the tables with a history by name. Tables that cannot be read are left out.
///
/// # Errors
///
/// Returns [`ServiceError`] if the tables cannot be listed.
pub async fn list(client: &Client) -> Result<Vec<(String, Kind)>, ServiceError> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let output = list_request(after).send_with(client).await;
        let page = output.map_err(|error| ServiceError::new("ListTables", &error))?;
        names.extend(page.table_names.unwrap_or_default());
        after = page.last_evaluated_table_name;
        if after.is_none() || names.len() >= MAX_TABLES {
            break;
        }
    }
    names.truncate(MAX_TABLES);
    let read = stream::iter(names).map(async |name| {
        let store = Store::new(client.clone(), &name, VersionDigits::default());
        (find::settings(&store).await.unwrap_or_default(), name)
    });
    let read: Vec<_> = read.buffered(CONCURRENCY).collect().await;
    let tables = read.into_iter().filter_map(|(settings, name)| {
        if let Some(layout) = settings.layout {
            let history = text(&layout, HISTORY_TABLE).map(str::to_owned);
            return Some((name, Kind::Own { history }));
        }
        let table = attach::parse(&settings.definition?).ok()?;
        (table.history_table() == name).then(|| (table.table().to_owned(), Kind::Attached(table)))
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by(|(a, _), (b, _)| a.cmp(b));
    tables.dedup_by(|(a, _), (b, _)| a == b);
    Ok(tables)
}

/// Builds the request for a page of the names of tables.
pub fn list_request(after: Option<String>) -> ListTablesInputBuilder {
    ListTablesInputBuilder::default().set_exclusive_start_table_name(after)
}
