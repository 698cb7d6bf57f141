//! Range of an entity's items: `Query`, page by page.

use std::collections::HashMap;

use aws_sdk_dynamodb::{operation::query::builders::QueryInputBuilder, types::AttributeValue};

use crate::{
    domain::{Item, entity::EntityId, keys::FLOOR_KEY, names, quarantine},
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
    pub fn from_floor(limit: Option<i32>) -> Self {
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
    pub fn all_versions(limit: Option<i32>) -> Self {
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
        let table = match self.attached.is_some() || range.is_of_history() {
            true => self.history_table(),
            false => &self.table,
        };
        let output = request(entity, range, start, table).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let items = self.flat_all(output.items.into_iter().flatten(), table).await?;
        Ok((items, output.last_evaluated_key.filter(|key| !key.is_empty())))
    }
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
