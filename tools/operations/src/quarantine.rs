//! Records in quarantine, entity by entity: of the entities that are named, or of the whole table, page by page.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId,
        keys::partition_key_of,
        names,
        quarantine::{END, MAX_TOGETHER, PREFIX, QuarantinedRecord, records_of},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        read::query_items::{Cursor, Range},
        s,
        write::{Write, send_together},
    },
};

use crate::{
    rate_limit::RateLimiter,
    segments::scan::{self, page},
};

/// Returns `{"ID": …, "SequenceNumber": …, "Kind": "Conflict", "Reason": …, "Version": 7, "QuarantinedAt": …, "Record": {…}}`.
pub fn to_json(record: &QuarantinedRecord) -> Value {
    json!({
        "ID": record.entity.as_str(), "SequenceNumber": record.number, "Kind": record.kind, "Reason": record.reason,
        "Version": record.version, "QuarantinedAt": record.at.map(|at| at.to_string()),
        "Record": stream_fn::record::to_json(&record.record),
    })
}

/// Reads the records of an entity that are in quarantine, by sequence number, with strongly consistent reads.
pub async fn quarantined(store: &Store, entity: &EntityId) -> Result<Vec<QuarantinedRecord>, ServiceError> {
    let range = Range {
        from: PREFIX.to_owned(),
        to: END.to_owned(),
        ..Range::all_versions(None)
    };
    let mut found = Vec::new();
    let add = |items| {
        found.extend(items);
        true
    };
    store.each_page(entity, range, add).await?;
    Ok(records_of(found))
}

/// Removes a record from quarantine. The item by which readers find it is deleted first.
pub async fn delete_quarantined(store: &Store, record: &QuarantinedRecord) -> Result<(), ServiceError> {
    for keys in record.sort_keys().chunks(MAX_TOGETHER) {
        let keys = keys.iter().map(|sort_key| key(record.entity.as_str(), sort_key));
        let deletions = keys.map(|key| Write::delete(store.history_table(), key, Expression::default()));
        send_together(store.client(), deletions).await?;
    }
    Ok(())
}

/// Passes the records of these entities, in their order, or of the whole table to `take`, entity by entity, with the number of items
/// that were scanned so far.
pub async fn each_quarantined<E: From<ServiceError>>(
    store: &Store,
    entities: Option<Vec<EntityId>>,
    limiter: &RateLimiter,
    mut take: impl AsyncFnMut(u64, Vec<QuarantinedRecord>) -> Result<(), E>,
) -> Result<(), E> {
    let mut is_at_end = entities.is_some();
    let (mut found, mut start, mut read) = (entities.unwrap_or_default(), None, 0);
    let mut last = None;
    loop {
        found.dedup();
        last = found.last().cloned().or(last);
        for entity in found {
            take(read, quarantined(store, &entity).await?).await?;
        }
        if is_at_end {
            return Ok(());
        }
        let scan = async || {
            let request = scan_request(start.clone(), limiter.page_limit(), store.history_table());
            page(store, request, |item| EntityId::new(partition_key_of(&item)?).ok()).await
        };
        let page = limiter.run(scan).await?;
        read += page.read;
        found = page.items;
        // The items of an entity are adjacent in a scan, and can be on two pages.
        found.retain(|entity| Some(entity) != last.as_ref());
        start = page.next;
        is_at_end = start.is_none();
    }
}

/// Builds the eventually consistent request for one page of at most `limit` items of all kinds.
pub(crate) fn scan_request(start: Option<Cursor>, limit: Option<i32>, table: &str) -> ScanInputBuilder {
    scan::request(None, start, limit, table)
        .projection_expression("#pk")
        .filter_expression("begins_with(#sk, :prefix)")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":prefix", s(PREFIX))
}
