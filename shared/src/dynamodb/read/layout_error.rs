//! Reasons why a layout is refused.

use thiserror::Error;

use crate::{
    domain::{attached::definition::InvalidDefinition, keys::VersionDigits},
    dynamodb::client::error::ServiceError,
};

/// Error of a table's layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The version keys have another width, according to the stored layout.
    #[error(
        "the table's version keys have {stored} digits, not {requested}: use VersionDigits={stored}, or, if it has no such versions, \
         `{adopt}`"
    )]
    Width {
        /// Width that the table was created with.
        stored: VersionDigits,
        /// Width that was requested.
        requested: VersionDigits,
        /// Command that replaces the width.
        adopt: String,
    },
    /// Another program has written versions with keys of another width. New versions would be a second history.
    #[error(
        "the table {table} has versions whose keys have {found} digits, not {requested}: deploy with VersionDigits={found}, and run \
         `{adopt}`"
    )]
    OtherWidth {
        /// Table.
        table: String,
        /// Width of the versions.
        found: usize,
        /// Width that was requested.
        requested: VersionDigits,
        /// Command that stores the width of the versions.
        adopt: String,
    },
    /// History is in another table.
    #[error(
        "the history of the table {table} is in the table {stored}, not in {requested}: use the settings of the earlier \
         deployment, or move it: `vzero --table {table} admin table adopt --history-table {requested}`"
    )]
    History {
        /// Table of latest items.
        table: String,
        /// Table of the stored layout.
        stored: String,
        /// Table that was requested.
        requested: String,
    },
    /// The table was restored from a backup of another table, or copied otherwise.
    #[error(
        "the table {table} is a copy of {original}, whose layout was copied with its items: `{adopt}` gives it a layout of its \
         own"
    )]
    Copy {
        /// Copy.
        table: String,
        /// Table that stored the layout.
        original: String,
        /// Command that replaces the layout.
        adopt: String,
    },
    /// The layout does not name the table that it belongs to.
    #[error("the layout of the table {table} has no TableId or no TableName: `{adopt}` stores both")]
    NoTable {
        /// Table.
        table: String,
        /// Command that replaces the layout.
        adopt: String,
    },
    /// The history table belongs to another table of latest items, or was copied from another history table.
    #[error(
        "the history table {history} belongs to another table ({owner}): select another history table. If {owner} does not \
         exist any more, `{adopt}` selects {history}"
    )]
    Owned {
        /// History table.
        history: String,
        /// Table of latest items.
        owner: String,
        /// Command that replaces the owner.
        adopt: String,
    },
    /// The table has replicas, which share its layout and lose versions of concurrent updates.
    #[error("the table {table} is a global table, {replicas}: only attached tables can be global tables")]
    GlobalTable {
        /// Table.
        table: String,
        /// Regions of its replicas, or version of global tables.
        replicas: String,
    },
    /// The attached table does not fit to the settings.
    #[error("the table cannot be attached with these settings")]
    Attached(#[from] InvalidDefinition),
    /// The writer has not claimed a layout yet.
    #[error(
        "the table {table} has no layout yet: writer-fn stores it before its first update, and so does `vzero put`"
    )]
    Absent {
        /// Table.
        table: String,
    },
    /// The stored layout is invalid.
    #[error("the table's layout cannot be read")]
    Unreadable,
    /// The invocation ended first.
    #[error("the table's layout was not read before the deadline of the invocation")]
    NotInTime,
    /// A request failed.
    #[error("failed to read the table's layout")]
    Service(#[from] ServiceError),
}
