//! Records in quarantine, entity by entity: of the entities that are named, or of the whole table, page by page.

use std::collections::VecDeque;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{scan::builders::ScanInputBuilder, transact_write_items::builders::TransactWriteItemsInputBuilder},
    types::{Delete, TransactWriteItem},
};
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId,
        keys::partition_key_of,
        names,
        quarantine::{END, MAX_TOGETHER, PREFIX, QuarantinedRecord, records_of},
    },
    dynamodb::{
        Store, cancellation,
        client::error::ServiceError,
        read::query_items::{Cursor, Range},
        s,
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

/// Removes a record from quarantine. The item by which readers find it is deleted first.
pub async fn delete_quarantined(store: &Store, record: &QuarantinedRecord) -> Result<(), ServiceError> {
    for keys in record.sort_keys().chunks(MAX_TOGETHER) {
        let request = delete_request(&record.entity, keys, store.history_table());
        let request = request.map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        let output = request.send_with(store.client()).await;
        output.map_err(|error| cancellation::service_error(&error))?;
    }
    Ok(())
}

/// Builds the request that removes items of a record from quarantine.
pub(crate) fn delete_request(
    entity: &EntityId,
    keys: &[String],
    table: &str,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut request = TransactWriteItemsInputBuilder::default();
    for key in keys {
        let delete = Delete::builder()
            .table_name(table)
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(key))
            .build()?;
        request = request.transact_items(TransactWriteItem::builder().delete(delete).build());
    }
    Ok(request)
}

pub struct Quarantine {
    store: Store,
    limiter: RateLimiter,
    found: VecDeque<EntityId>,
    last: Option<EntityId>,
    /// Start of the next page, `None` at the end.
    next: Option<Start>,
    read: u64,
}

/// `None` at the beginning of the table.
type Start = Option<Cursor>;

impl Quarantine {
    /// Returns the records of these entities, in their order.
    pub fn named(store: Store, entities: impl IntoIterator<Item = EntityId>) -> Self {
        Self {
            store,
            limiter: RateLimiter::unlimited(),
            found: entities.into_iter().collect(),
            last: None,
            next: None,
            read: 0,
        }
    }

    /// Scans the table.
    pub fn of_table(store: Store, limiter: RateLimiter) -> Self {
        Self {
            limiter,
            next: Some(None),
            ..Self::named(store, [])
        }
    }

    /// Returns the records of the next entity, `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<QuarantinedRecord>>, ServiceError> {
        loop {
            if let Some(entity) = self.found.pop_front() {
                // Its items are adjacent in a scan, and can be on two pages.
                if self.last.as_ref() == Some(&entity) {
                    continue;
                }
                let records = quarantined(&self.store, &entity).await?;
                self.last = Some(entity);
                return Ok(Some(records));
            }
            let Some(start) = self.next.take() else {
                return Ok(None);
            };
            let (limit, table) = (self.limiter.page_limit(), self.store.history_table());
            let scan = async || {
                let request = scan_request(start.clone(), limit, table);
                page(&self.store, request, |item| {
                    EntityId::new(partition_key_of(&item)?).ok()
                })
                .await
            };
            let page = self.limiter.run(scan).await?;
            self.read += page.read;
            self.found.extend(page.items);
            self.next = page.next.map(Some);
        }
    }

    /// Returns the number of items that were read so far.
    pub fn read(&self) -> u64 {
        self.read
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
