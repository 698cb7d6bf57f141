//! Records in quarantine: those of one entity, and the entities of the table that have any.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;

use crate::segments::scan::{self, Page, page};
use shared::{
    domain::{
        entity::EntityId,
        keys::partition_key_of,
        names,
        quarantine::{END, PREFIX, QuarantinedRecord, records_of},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::query_items::{Cursor, Range},
        s,
    },
};

/// Reads the records of an entity that are in quarantine, by sequence number, with strongly consistent reads.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn quarantined(store: &Store, entity: &EntityId) -> Result<Vec<QuarantinedRecord>, ServiceError> {
    let range = Range {
        from: PREFIX.to_owned(),
        to: END.to_owned(),
        ..Range::all_versions(None)
    };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let (items, next) = store.query_page(entity, &range, cursor).await?;
        found.extend(items);
        cursor = next;
        if cursor.is_none() {
            return Ok(records_of(found));
        }
    }
}

/// Reads one page of at most `limit` items of all kinds, and returns the entities with records in quarantine, each once. The
/// first one can also be the last one of the page before.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_quarantined(
    store: &Store,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<Page<EntityId>, ServiceError> {
    let request = request(start, limit, store.history_table());
    let entity = |item| EntityId::new(partition_key_of(&item)?).ok();
    let mut page = page(store, request, entity).await?;
    // The items of an entity are adjacent in a scan.
    page.items.dedup();
    Ok(page)
}

/// Builds the eventually consistent request for one page.
pub fn request(start: Option<Cursor>, limit: Option<i32>, table: &str) -> ScanInputBuilder {
    scan::request(None, start, limit, table)
        .projection_expression("#pk")
        .filter_expression("begins_with(#sk, :prefix)")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":prefix", s(PREFIX))
}
