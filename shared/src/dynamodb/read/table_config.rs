//! Layout of a table: the width of its version keys and the table of its history, stored in the table under `PK` `#vzero`, `SK`
//! `config`.
//!
//! The writer claims its layout before its first write, so that two writers with different layouts cannot write to one table. A
//! table without a stored layout has its history in the table itself, and width 1 or the one that its keys show, or is empty. Only
//! `operations::table::adopt` changes the layout of a table with items.
//!
//! A layout names its table by [`TableIdentity`]. A backup, an export or a script copies the layout with the other items: the
//! layout of a copy names the history table of the original, and is refused until
//! `operations::table::adopt` replaces it.

use std::{fmt::Display, future::Future};

use crate::{
    clock::Deadline,
    domain::{
        AttributeValue, Item,
        attributes::text,
        entity::EntityId,
        keys::{VersionDigits, Widths, partition_key_of, sort_key_of},
        layout, names, time_index,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key, n,
        read::{layout_error::LayoutError, scan_items, table_identity::TableIdentity},
        s,
        write::Write,
    },
};

/// Partition key of the library's own items.
pub const PARTITION_KEY: &str = crate::domain::entity::RESERVED;
/// Sort key of the layout.
pub const SORT_KEY: &str = "config";
/// Attribute of the width.
pub const VERSION_DIGITS: &str = "VersionDigits";
/// Attribute with the id of the table that the layout belongs to.
pub const TABLE_ID: &str = "TableId";
/// Attribute with the name of this table.
pub const TABLE_NAME: &str = "TableName";
/// Attribute with the name of the history table, absent if history is in the table itself.
pub const HISTORY_TABLE: &str = "HistoryTable";
/// Number of items by which the width of a table without a layout is recognized.
const FIRST_ITEMS: i32 = 100;

/// Layout that a table stores, and the table that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Width of version keys.
    pub digits: VersionDigits,
    /// Table of history, `None` if history is in the table itself.
    pub history: Option<String>,
    /// Table that stored the layout. The layout of a copy has the original. `None` if another program removed it.
    pub table: Option<TableIdentity>,
}

impl Store {
    /// Reads the stored layout, `None` if the table stores none.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if a request fails, [`LayoutError::Unreadable`] if the stored layout is invalid,
    /// [`LayoutError::Copy`] or [`LayoutError::GlobalTable`] if the table shares the layout with another one.
    pub async fn stored_layout(&self) -> Result<Option<Layout>, LayoutError> {
        let (table, stored) = self.identity_and_layout().await?;
        stored.map(|stored| stored.of(&table)).transpose()
    }

    /// Checks that the table stores the layout of this store. Returns `false` if it stores none and this one is the default: a
    /// writer can still store another one.
    ///
    /// # Errors
    ///
    /// As [`Self::stored_layout`], and returns [`LayoutError::Absent`] if no layout is stored and this one is not the default,
    /// [`LayoutError::Width`] or [`LayoutError::History`] if another one is stored.
    pub async fn check_layout(&self) -> Result<bool, LayoutError> {
        match self.stored_layout().await? {
            Some(stored) => self.check(stored.digits, stored.history.as_deref()).map(|()| true),
            // Only other programs may write the latest items, so that no writer claims a layout.
            None if self.has_default_layout() => Ok(false),
            None => Err(LayoutError::Absent {
                table: self.table.clone(),
            }),
        }
    }

    /// Checks that the table has no other layout, and stores this one if none is stored. It sends two reads, and before the layout is stored a few requests more: a history table gets
    /// its [owner](crate::dynamodb::read::history_owner) first.
    ///
    /// # Errors
    ///
    /// As [`Self::stored_layout`], and returns [`LayoutError::Width`] or [`LayoutError::History`] if the table has another
    /// layout, [`LayoutError::Owned`] if the history table belongs to another table.
    pub async fn claim_layout(&self) -> Result<(), LayoutError> {
        let (table, stored) = self.identity_and_layout().await?;
        if let Some(stored) = stored {
            let stored = stored.of(&table)?;
            return self.check(stored.digits, stored.history.as_deref());
        }
        let keys = match self.first_keys().await {
            // By a role of an earlier release. The keys of each entity are checked before its first version.
            Err(error) if self.has_default_layout() && error.code.as_deref() == Some("AccessDeniedException") => {
                Vec::new()
            }
            keys => keys?,
        };
        self.check_keys(&keys)?;
        if !keys.is_empty() {
            // A table with items but without a stored layout has its history in the table itself.
            self.check(self.digits, None)?;
        }
        if self.has_own_history() {
            self.claim_history(&table).await?;
        }
        let claimed = Layout {
            digits: self.digits,
            history: self.own_history().map(|history| layout::table_name(history).to_owned()),
            table: Some(table),
        };
        match self.store_layout(&claimed, None).await? {
            true => Ok(()),
            // Another client has stored one just now, or an earlier attempt of the request had no response.
            false => self.check_layout().await.map(drop),
        }
    }

    /// Reads the identity of the table and its stored layout, which a copy has of its original.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError`] if a request fails.
    pub async fn identity_and_layout(&self) -> Result<(TableIdentity, Option<Layout>), LayoutError> {
        let reserved = EntityId::reserved();
        let (config, table) = tokio::join!(self.get(&reserved, SORT_KEY, true), self.identity());
        let stored = config?.filter(is_layout).map(|config| layout_of(&config)).transpose()?;
        Ok((table?, stored))
    }

    /// Stores a layout if the stored one is still what was read. Returns `false` if it is not.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError`] if a request fails.
    pub async fn store_layout(&self, layout: &Layout, read: Option<&Layout>) -> Result<bool, LayoutError> {
        let (key, expression) = (key(PARTITION_KEY, SORT_KEY), expression(layout, read));
        let write = Write::update(&self.table, key, expression);
        Ok(write.send(&self.client).await?.is_ok())
    }

    /// Compares this store's layout with the stored one.
    fn check(&self, digits: VersionDigits, history: Option<&str>) -> Result<(), LayoutError> {
        if digits != self.digits {
            return Err(self.width_error(digits));
        }
        let stored = history.unwrap_or(layout::table_name(&self.table));
        let requested = layout::table_name(self.history_table());
        match stored == requested {
            true => Ok(()),
            false => Err(LayoutError::History {
                table: layout::table_name(&self.table).to_owned(),
                stored: stored.to_owned(),
                requested: requested.to_owned(),
            }),
        }
    }

    /// Returns `true` if this store has the layout of a table that stores none.
    fn has_default_layout(&self) -> bool {
        !self.has_own_history() && self.digits == VersionDigits::default()
    }

    /// Reads the sort keys of the table's first items, besides its settings.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn first_keys(&self) -> Result<Vec<String>, ServiceError> {
        let request = scan_items::request(&self.table, None).limit(FIRST_ITEMS);
        let output = request.send_with(&self.client).await;
        let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        // The time since which the index by time exists can be there before the layout.
        let others = items.filter(|item| partition_key_of(item) != Some(PARTITION_KEY));
        Ok(others
            .map(|item| sort_key_of(&item).unwrap_or_default().to_owned())
            .collect())
    }

    /// Checks the sort keys of items in a table without a layout.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::OtherWidth`] if there are versions of another width, and [`LayoutError::Width`] if no key shows that
    /// the items have this one, which is not the default.
    pub fn check_keys(&self, keys: &[String]) -> Result<(), LayoutError> {
        let (widths, default) = (Widths::of(keys.iter().map(String::as_str)), VersionDigits::default());
        self.check_widths(&widths)?;
        match keys.is_empty() || self.digits == default || widths.padded().is_some() {
            true => Ok(()),
            false => Err(self.width_error(default)),
        }
    }

    /// Checks that keys show no other width.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::OtherWidth`].
    pub fn check_widths(&self, widths: &Widths) -> Result<(), LayoutError> {
        let Some(found) = widths.other_than(self.digits) else {
            return Ok(());
        };
        let table = layout::table_name(&self.table).to_owned();
        Err(LayoutError::OtherWidth {
            adopt: adopt_width_command(&table, found),
            table,
            found,
            requested: self.digits,
        })
    }

    /// Returns the error of a store whose width is not the stored one.
    pub fn width_error(&self, stored: VersionDigits) -> LayoutError {
        LayoutError::Width {
            stored,
            requested: self.digits,
            adopt: adopt_width_command(layout::table_name(&self.table), self.digits.get()),
        }
    }
}

/// Waits for the check of a layout until the deadline of an invocation.
///
/// # Errors
///
/// Returns the error of the check, or [`LayoutError::NotInTime`].
pub async fn in_time<T>(
    check: impl Future<Output = Result<T, LayoutError>>,
    deadline: Deadline,
) -> Result<T, LayoutError> {
    let checked = tokio::time::timeout_at(deadline.finish_by, check).await;
    checked.unwrap_or(Err(LayoutError::NotInTime))
}

impl Layout {
    /// Returns `true` if the layout belongs to this table.
    pub fn is_of(&self, table: &TableIdentity) -> bool {
        self.table.as_ref().is_some_and(|owner| owner.id == table.id)
    }

    /// Returns the layout if it belongs to this table.
    fn of(self, table: &TableIdentity) -> Result<Self, LayoutError> {
        if self.is_of(table) {
            return Ok(self);
        }
        let (name, has_history) = (table.name.clone(), self.history.is_some());
        Err(match self.table {
            Some(original) => LayoutError::Copy {
                adopt: adopt_command(&name, has_history.then(|| format!("{name}-history")).as_deref()),
                table: name,
                original: original.name,
            },
            None => LayoutError::NoTable {
                adopt: adopt_command(&name, self.history.as_deref()),
                table: name,
            },
        })
    }
}

/// Returns the change that stores a layout if the stored one is still what was read.
fn expression(layout: &Layout, read: Option<&Layout>) -> Expression {
    let mut expression = Expression::default();
    expression
        .name("#digits", VERSION_DIGITS)
        .name("#id", TABLE_ID)
        .name("#name", TABLE_NAME)
        .name("#history", HISTORY_TABLE)
        .set("#digits = :digits")
        .value(":digits", n(layout.digits));
    if let Some(table) = &layout.table {
        expression.set("#id = :id").value(":id", s(&table.id));
        expression.set("#name = :name").value(":name", s(&table.name));
    }
    match &layout.history {
        Some(history) => expression.set("#history = :history").value(":history", s(history)),
        None => expression.remove("#history"),
    };
    if let Some(read) = read {
        expression
            .condition("#digits = :readDigits")
            .value(":readDigits", n(read.digits));
        match &read.table {
            Some(table) => expression.condition("#id = :readId").value(":readId", s(&table.id)),
            None => expression
                .condition("NOT (attribute_type(#id, :text) AND attribute_type(#name, :text))")
                .value(":text", s("S")),
        };
        match &read.history {
            Some(history) => expression
                .condition("#history = :readHistory")
                .value(":readHistory", s(history)),
            None => expression.condition("attribute_not_exists(#history)"),
        };
    } else {
        expression.condition("attribute_not_exists(#digits)");
    }
    expression
}

/// Returns the command that gives a table a layout of its own.
pub(crate) fn adopt_command(table: &str, history: Option<&str>) -> String {
    let history = history.map_or_else(String::new, |history| format!(" --history-table {history}"));
    format!("vzero --table {table} admin table adopt{history}")
}

/// Returns `false` for an item that has only the time since which the index by time exists, or had it.
pub fn is_layout(config: &Item) -> bool {
    config
        .keys()
        .any(|name| ![names::PK, names::SK, time_index::SINCE].contains(&name.as_str()))
}

fn adopt_width_command(table: &str, digits: impl Display) -> String {
    format!("vzero --table {table} --version-digits {digits} admin table adopt")
}

fn layout_of(config: &Item) -> Result<Layout, LayoutError> {
    let digits = match config.get(VERSION_DIGITS) {
        Some(AttributeValue::N(digits)) => digits.parse().map_err(|_| LayoutError::Unreadable)?,
        _ => return Err(LayoutError::Unreadable),
    };
    let history = match config.get(HISTORY_TABLE) {
        Some(AttributeValue::S(name)) => Some(name.clone()),
        None => None,
        Some(_) => return Err(LayoutError::Unreadable),
    };
    Ok(Layout {
        digits,
        history,
        table: table_of(config),
    })
}

/// Returns the table that an item names, `None` if it names none.
pub(crate) fn table_of(item: &Item) -> Option<TableIdentity> {
    let text = |name| text(item, name).map(str::to_owned);
    Some(TableIdentity {
        id: text(TABLE_ID)?,
        name: text(TABLE_NAME)?,
    })
}
