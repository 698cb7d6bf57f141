//! Range of an entity's items: `Query`, page by page.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::{operation::query::builders::QueryInputBuilder, types::AttributeValue};

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, sort_key_of},
        layout, names, quarantine,
    },
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "Query";

/// Range of an entity's sort keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Lowest sort key.
    pub from: String,
    /// Greatest sort key.
    pub to: String,
    /// `true` for descending order.
    pub reversed: bool,
    /// Maximum number of items of one page.
    pub limit: Option<i32>,
    /// `true` for strongly consistent reads.
    pub consistent: bool,
}

impl Range {
    /// Returns the range of the floor, the latest item, all version items, and the items of other programs between them. The
    /// floor comes first.
    pub(crate) fn from_floor(limit: Option<i32>) -> Self {
        Self {
            from: FLOOR_KEY.to_owned(),
            ..Self::all_versions(limit)
        }
    }

    /// Returns `true` if the range is one of items that are part of history, and perhaps of the latest item.
    fn is_of_history(&self) -> bool {
        self.from == FLOOR_KEY || self.from.starts_with('v') || self.from.starts_with(quarantine::PREFIX)
    }

    /// Returns the range of all version items, oldest key first, read consistently. In a table without a history of its own, it
    /// contains the latest item.
    pub(crate) fn all_versions(limit: Option<i32>) -> Self {
        Self {
            from: "v".to_owned(),
            to: "w".to_owned(),
            reversed: false,
            limit,
            consistent: true,
        }
    }
}

/// Key after which the next page starts.
pub type Cursor = HashMap<String, AttributeValue>;

impl Store {
    /// Reads one page of the table that has the range, and returns the cursor of the next page if there may be one. The latest
    /// item is part of a page only if history is in the same table.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn query_page(
        &self,
        entity: &EntityId,
        range: &Range,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        if self.attached.is_none() && !range.is_of_history() {
            return self.query_table(&self.table, entity, range, start).await;
        }
        let page = self
            .query_table(self.history_table(), entity, range, start.clone())
            .await?;
        if !self.is_migrating() {
            return Ok(page);
        }
        let (mut earlier, next) = self.query_table(&self.table, entity, range, start).await?;
        earlier.retain(|item| sort_key_of(item).is_some_and(|key| layout::is_history(key, self.digits)));
        Ok(merge(page, (earlier, next), range.reversed))
    }

    /// Returns `true` if the history table has a floor, a version, or a record in quarantine of an entity, whatever the table of latest items
    /// has.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub(crate) async fn is_in_history_table(&self, entity: &EntityId) -> Result<bool, ServiceError> {
        let range = Range::from_floor(Some(1));
        let (items, _) = self.query_table(self.history_table(), entity, &range, None).await?;
        Ok(!items.is_empty())
    }

    async fn query_table(
        &self,
        table: &str,
        entity: &EntityId,
        range: &Range,
        start: Option<Cursor>,
    ) -> Result<Page, ServiceError> {
        let output = request(entity, range, start, table).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let items = self.flat_all(output.items.into_iter().flatten(), table).await?;
        Ok((items, output.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

/// Items of a page, and the cursor of the next one.
type Page = (Vec<Item>, Option<Cursor>);

/// Merges the pages that two tables return for one range: up to the key at which the first of them ends. If both have an item, the
/// one of the first page is returned.
fn merge((items, next): Page, (others, other_next): Page, reversed: bool) -> Page {
    let key = |cursor: &Cursor| cursor.get(names::SK).and_then(|key| key.as_s().ok().cloned());
    let ends = [next, other_next].into_iter().flatten();
    let next = match reversed {
        true => ends.max_by_key(key),
        false => ends.min_by_key(key),
    };
    let end = next.as_ref().and_then(key);
    let mut merged = BTreeMap::new();
    for item in others.into_iter().chain(items) {
        if let Some(key) = sort_key_of(&item).map(str::to_owned) {
            merged.insert(key, item);
        }
    }
    let is_in = |key: &String| match &end {
        Some(end) if reversed => key >= end,
        Some(end) => key <= end,
        None => true,
    };
    let mut items: Vec<_> = merged
        .into_iter()
        .filter(|(key, _)| is_in(key))
        .map(|(_, item)| item)
        .collect();
    if reversed {
        items.reverse();
    }
    (items, next)
}

/// Builds the request for one page.
pub fn request(entity: &EntityId, range: &Range, start: Option<Cursor>, table: &str) -> QueryInputBuilder {
    QueryInputBuilder::default()
        .table_name(table)
        .key_condition_expression("#pk = :pk AND #sk BETWEEN :from AND :to")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":pk", s(entity.as_str()))
        .expression_attribute_values(":from", s(&range.from))
        .expression_attribute_values(":to", s(&range.to))
        .scan_index_forward(!range.reversed)
        .set_limit(range.limit)
        .consistent_read(range.consistent)
        .set_exclusive_start_key(start)
}
