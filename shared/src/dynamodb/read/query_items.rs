//! A run of an entity's items: `Query`, page by page.

use std::collections::HashMap;

use aws_sdk_dynamodb::{operation::query::builders::QueryInputBuilder, types::AttributeValue};

use crate::{
    domain::{Item, entity::EntityId, names},
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "Query";

/// Which items of an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// The least sort key.
    pub from: String,
    /// The greatest sort key.
    pub to: String,
    /// Whether the greatest comes first.
    pub reversed: bool,
    /// The most items of one page.
    pub limit: Option<i32>,
    /// Whether what was written before is sure to be read.
    pub consistent: bool,
}

impl Range {
    /// Returns the range of all version items and the latest item, oldest key first, read consistently.
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

/// Where the next page begins.
pub type Cursor = HashMap<String, AttributeValue>;

impl Store {
    /// Reads one page, and where the next one begins if there may be one.
    pub async fn query_page(
        &self,
        entity: &EntityId,
        range: &Range,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        let answer = request(entity, range, start, &self.table).send_with(&self.client).await;
        let output = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let items = output.items.unwrap_or_default().into_iter().map(Item::from).collect();
        Ok((items, output.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

/// The request for one page.
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
