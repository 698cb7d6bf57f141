//! The [index by time](crate::domain::time_index) of the table that stores versions: whether it exists, and since when it is complete.
//!
//! The functions know it from their setting, `TIME_INDEX`. Tools ask the table once, before their first insert.

use std::{borrow::Cow, sync::Arc};

use tokio::sync::OnceCell;

use crate::{
    domain::{
        Item,
        entity::RESERVED,
        time_index::{INDEX_NAME, SINCE, mark},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        read::{stored_definition, table_config},
        s,
        write::Write,
    },
};

impl Store {
    /// Sets whether the table that stores versions has the index. With `None`, the first insert asks the table.
    #[must_use]
    pub fn with_time_index(mut self, has_index: Option<bool>) -> Self {
        self.time_index = Arc::new(OnceCell::new_with(has_index));
        self
    }

    /// Returns `true` if the table that stores versions has the index.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the table is not known yet, and the request fails.
    pub async fn has_time_index(&self) -> Result<bool, ServiceError> {
        let described = async || {
            let table = self.beside(self.history_table()).description().await?;
            let mut names = table.global_secondary_indexes().iter().map(|index| index.index_name());
            Ok(names.any(|name| name == Some(INDEX_NAME)))
        };
        // Boxed, to keep the futures of all inserts small.
        Box::pin(self.time_index.get_or_try_init(described)).await.copied()
    }

    /// Returns a version item as it is inserted now: with its marks if the table has the index.
    ///
    /// # Errors
    ///
    /// As [`Self::has_time_index`].
    pub async fn indexed<'a>(&self, item: &'a Item) -> Result<Cow<'a, Item>, ServiceError> {
        if !self.has_time_index().await? {
            return Ok(Cow::Borrowed(item));
        }
        let mut item = item.clone();
        mark(&mut item, self.clock.now());
        Ok(Cow::Owned(item))
    }

    /// Stores the time since which the index has all versions that are inserted, or removes it with `None`. A stored time stays. It is
    /// beside the layout, or beside the definition of an attached table, in the table that stores versions.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn store_time_index_since(&self, since: Option<&str>) -> Result<(), ServiceError> {
        let sort_key = match self.attached {
            Some(_) => stored_definition::SORT_KEY,
            None => table_config::SORT_KEY,
        };
        let table = self.history_table();
        let stored = self.get_stored(RESERVED, sort_key, true, table).await?;
        if stored.is_some_and(|stored| stored.contains_key(SINCE)) == since.is_some() {
            return Ok(());
        }
        let mut expression = Expression::default();
        expression.name("#since", SINCE);
        match since {
            Some(since) => expression
                .set("#since = if_not_exists(#since, :since)")
                .value(":since", s(since)),
            None => expression.remove("#since"),
        };
        let update = Write::update(table, key(RESERVED, sort_key), expression).without_result();
        update.send(&self.client).await.map(drop)
    }
}
