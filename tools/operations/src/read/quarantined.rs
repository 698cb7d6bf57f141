//! Records in quarantine: those of one entity, and the entities of the table that have any.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;

use shared::{
    domain::{
        Item,
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

const OPERATION: &str = "Scan";

/// Page of a scan for entities with records in quarantine.
#[derive(Debug, Clone, PartialEq)]
pub struct QuarantinePage {
    /// Entities, each once. The first one can also be the last one of the page before.
    pub entities: Vec<EntityId>,
    /// Number of items of all kinds that were read.
    pub read: u64,
    /// Cursor of the next page, if there may be one.
    pub next: Option<Cursor>,
}

/// Reads the records of an entity that are in quarantine, by sequence number, with strongly consistent reads.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn quarantined(store: &Store, entity: &EntityId) -> Result<Vec<QuarantinedRecord>, ServiceError> {
    let range = Range {
        from: PREFIX.to_owned(),
        to: END.to_owned(),
        reversed: false,
        limit: None,
        consistent: true,
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

/// Reads one page of at most `limit` items of all kinds, and returns the entities with records in quarantine. Items that the
/// filter excludes consume capacity too.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_quarantined(
    store: &Store,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<QuarantinePage, ServiceError> {
    let output = request(start, limit, store.history_table())
        .send_with(store.client())
        .await;
    let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    let items = page.items.unwrap_or_default().into_iter().map(Item::from);
    let mut entities: Vec<_> = items
        .filter_map(|item| EntityId::new(partition_key_of(&item)?).ok())
        .collect();
    // The items of an entity are adjacent in a scan.
    entities.dedup();
    Ok(QuarantinePage {
        entities,
        read: u64::try_from(page.scanned_count).unwrap_or_default(),
        next: page.last_evaluated_key.filter(|key| !key.is_empty()),
    })
}

/// Builds the eventually consistent request for one page.
pub fn request(start: Option<Cursor>, limit: Option<i32>, table: &str) -> ScanInputBuilder {
    ScanInputBuilder::default()
        .table_name(table)
        .set_limit(limit)
        .set_exclusive_start_key(start)
        .projection_expression("#pk")
        .filter_expression("begins_with(#sk, :prefix)")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":prefix", s(PREFIX))
}
