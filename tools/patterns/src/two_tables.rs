//! Client-side row versioning in two tables: one with the latest row of each resource, one with all rows.
//!
//! ```text
//! resource            resource-history
//! hash      version   hash      version
//! 1c5815b2  2         1c5815b2  2
//!                     1c5815b2  1
//! ```
//!
//! History is written first, then the resource, on condition that its version has not changed. A row of history is pending,
//! marked by `WriteId`, until the transaction that writes its resource removes the mark. A crash between the two writes
//! leaves a pending row, which reads ignore and the next write replaces. Of two concurrent writers, only the one that owns
//! the pending row can write the resource. Therefore a row without the mark is a version, and reads of old versions need not
//! read the resource.
//!
//! A rollback writes the attributes of an old version as the next version. `docs/library.md` has the capacity units of each
//! call.
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use patterns::two_tables::TwoTables;
//! use shared::domain::{AttributeValue, Item, version::Version};
//!
//! let tables = TwoTables::new(client, "resource", "resource-history");
//! let row = |value: &str| Item::from(std::collections::HashMap::from([("attr1".to_owned(), AttributeValue::S(value.into()))]));
//! tables.create("1c5815b2", row("some old values"), "write-1").await?;
//! tables.update("1c5815b2", row("some values"), "write-2").await?;
//! assert_eq!(tables.read("1c5815b2").await?.map(|resource| resource.version.get()), Some(2));
//! tables.rollback("1c5815b2", Version::FIRST, "write-3").await?;
//! let old = tables.version("1c5815b2", Version::FIRST).await?.map(|row| row.attributes);
//! assert!(tables.read("1c5815b2").await?.map(|resource| resource.attributes) == old);
//! # Ok(())
//! # }
//! ```

use aws_sdk_dynamodb::{
    Client,
    error::{BuildError, SdkError},
    operation::{
        delete_item::builders::DeleteItemInputBuilder,
        get_item::builders::GetItemInputBuilder,
        put_item::{PutItemError, builders::PutItemInputBuilder},
        query::builders::QueryInputBuilder,
        transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    },
    types::{Put, TransactWriteItem, Update},
};

use shared::{
    domain::{AttributeValue, Item, number::Decimal, version::Version},
    dynamodb::client::error::ServiceError,
};

use crate::{n, s};

/// Partition key of both tables.
pub const HASH: &str = "hash";
/// Sort key of the history, and attribute of the resource.
pub const VERSION: &str = "version";
/// Mark of a pending row of history.
pub const WRITE_ID: &str = "WriteId";

/// Table of resources with the table of their history.
#[derive(Debug, Clone)]
pub struct TwoTables {
    client: Client,
    resource: String,
    history: String,
}

/// Row of either table.
#[derive(Clone, PartialEq)]
pub struct Row {
    /// Version of the row.
    pub version: Version,
    /// Attributes without key and version.
    pub attributes: Item,
}

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The new version was written.
    Written(Version),
    /// The resource does not exist or, for a create, it exists.
    Refused,
    /// The version to which a rollback should return does not exist.
    UnknownVersion,
    /// A concurrent write won.
    Conflict,
}

impl TwoTables {
    /// Creates the pair of tables.
    pub fn new(client: Client, resource: impl Into<String>, history: impl Into<String>) -> Self {
        Self {
            client,
            resource: resource.into(),
            history: history.into(),
        }
    }

    /// Creates a resource. The versions of a deleted resource continue. `write_id` must be unique for each write.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn create(&self, hash: &str, row: Item, write_id: &str) -> Result<Outcome, ServiceError> {
        if self.read(hash).await?.is_some() {
            return Ok(Outcome::Refused);
        }
        let next = self.next_in_history(hash).await?;
        self.write(hash, None, next, row, write_id).await
    }

    /// Replaces the row of a resource with its next version.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn update(&self, hash: &str, row: Item, write_id: &str) -> Result<Outcome, ServiceError> {
        match self.read(hash).await? {
            Some(read) => {
                self.write(hash, Some(read.version), read.version.get() + 1, row, write_id)
                    .await
            }
            None => Ok(Outcome::Refused),
        }
    }

    /// Replaces the row of a resource with its next version, which has the attributes of version `to`.
    ///
    /// It has the same conflicts as [`update`](Self::update). A deleted resource is refused: create it with the attributes of
    /// its old [`version`](Self::version).
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn rollback(&self, hash: &str, to: Version, write_id: &str) -> Result<Outcome, ServiceError> {
        let Some(read) = self.read(hash).await? else {
            return Ok(Outcome::Refused);
        };
        let Some(old) = self.version(hash, to).await? else {
            return Ok(Outcome::UnknownVersion);
        };
        let next = read.version.get() + 1;
        self.write(hash, Some(read.version), next, old.attributes, write_id)
            .await
    }

    /// Executes the first write, which leaves a pending row.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn write_history(
        &self,
        hash: &str,
        version: Version,
        row: Item,
        write_id: &str,
    ) -> Result<Outcome, ServiceError> {
        let request = history_request(hash, version, row, write_id, &self.history);
        match request.send_with(&self.client).await {
            Ok(_) => Ok(Outcome::Written(version)),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => Ok(Outcome::Conflict),
                _ => Err(ServiceError::new("PutItem", &error)),
            },
        }
    }

    async fn write(
        &self,
        hash: &str,
        read: Option<Version>,
        next: u64,
        row: Item,
        write_id: &str,
    ) -> Result<Outcome, ServiceError> {
        let Some(version) = Version::new(next) else {
            return Ok(Outcome::Conflict);
        };
        if self.write_history(hash, version, row.clone(), write_id).await? == Outcome::Conflict {
            return Ok(Outcome::Conflict);
        }
        let request = resource_request(hash, read, version, row, write_id, &self.resource, &self.history);
        let sent = match request {
            Ok(request) => request.send_with(&self.client).await,
            Err(error) => Err(SdkError::construction_failure(error)),
        };
        match sent {
            Ok(_) => Ok(Outcome::Written(version)),
            Err(error) if is_lost(&error) => Ok(Outcome::Conflict),
            Err(error) => Err(ServiceError::new("TransactWriteItems", &error)),
        }
    }

    /// Reads the latest row of a resource.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn read(&self, hash: &str) -> Result<Option<Row>, ServiceError> {
        let request = GetItemInputBuilder::default()
            .table_name(&self.resource)
            .key(HASH, s(hash));
        Ok(self.get(request).await?.and_then(row))
    }

    /// Reads one version of a resource, also after the deletion of the resource. A pending row is not returned.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn version(&self, hash: &str, version: Version) -> Result<Option<Row>, ServiceError> {
        let request = GetItemInputBuilder::default()
            .table_name(&self.history)
            .key(HASH, s(hash))
            .key(VERSION, n(version));
        let item = self.get(request).await?;
        Ok(item.filter(|item| !item.contains_key(WRITE_ID)).and_then(row))
    }

    async fn get(&self, request: GetItemInputBuilder) -> Result<Option<Item>, ServiceError> {
        let output = request.consistent_read(true).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
        Ok(output.item.map(Item::from))
    }

    /// Returns the number after the last version of a resource. It reads one row: only the last one can be pending, and the
    /// next write replaces it.
    async fn next_in_history(&self, hash: &str) -> Result<u64, ServiceError> {
        let output = last_request(hash, &self.history).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new("Query", &error))?;
        let last = output.items.unwrap_or_default().pop().map(Item::from);
        let is_pending = last.as_ref().is_some_and(|last| last.contains_key(WRITE_ID));
        let last = last.and_then(row).map_or(0, |last| last.version.get());
        Ok(if is_pending { last } else { last + 1 })
    }

    /// Reads all versions of a resource in descending order.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn history(&self, hash: &str) -> Result<Vec<Row>, ServiceError> {
        let (mut rows, mut start) = (Vec::new(), None);
        loop {
            let request = QueryInputBuilder::default()
                .table_name(&self.history)
                .key_condition_expression("#hash = :hash")
                .filter_expression("attribute_not_exists(#write)")
                .expression_attribute_names("#hash", HASH)
                .expression_attribute_names("#write", WRITE_ID)
                .expression_attribute_values(":hash", s(hash))
                .scan_index_forward(false)
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let output = request.send_with(&self.client).await;
            let page = output.map_err(|error| ServiceError::new("Query", &error))?;
            rows.extend(
                page.items
                    .unwrap_or_default()
                    .into_iter()
                    .map(Item::from)
                    .filter_map(row),
            );
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Deletes a resource, but not its history.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn delete(&self, hash: &str) -> Result<(), ServiceError> {
        let request = DeleteItemInputBuilder::default()
            .table_name(&self.resource)
            .key(HASH, s(hash));
        let output = request.send_with(&self.client).await;
        output
            .map(drop)
            .map_err(|error| ServiceError::new("DeleteItem", &error))
    }
}

/// Builds the first request: a pending row, if there is no row or a pending one.
pub fn history_request(hash: &str, version: Version, row: Item, write_id: &str, history: &str) -> PutItemInputBuilder {
    let mut item = full(hash, version, row);
    item.insert(WRITE_ID.to_owned(), AttributeValue::S(write_id.to_owned()));
    PutItemInputBuilder::default()
        .table_name(history)
        .set_item(Some(item.into()))
        .condition_expression("attribute_not_exists(#hash) OR attribute_exists(#write)")
        .expression_attribute_names("#hash", HASH)
        .expression_attribute_names("#write", WRITE_ID)
}

/// Builds the request for the last row of a history: its version and whether it is pending.
pub fn last_request(hash: &str, history: &str) -> QueryInputBuilder {
    QueryInputBuilder::default()
        .table_name(history)
        .key_condition_expression("#hash = :hash")
        .projection_expression("#version, #write")
        .expression_attribute_names("#hash", HASH)
        .expression_attribute_names("#version", VERSION)
        .expression_attribute_names("#write", WRITE_ID)
        .expression_attribute_values(":hash", s(hash))
        .scan_index_forward(false)
        .limit(1)
        .consistent_read(true)
}

/// Builds the second request: writes the resource if it has not changed, and removes the mark if it is this write's.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn resource_request(
    hash: &str,
    read: Option<Version>,
    version: Version,
    row: Item,
    write_id: &str,
    resource: &str,
    history: &str,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let put = Put::builder()
        .table_name(resource)
        .set_item(Some(full(hash, version, row).into()));
    let put = match read {
        Some(read) => put
            .condition_expression("#version = :read")
            .expression_attribute_names("#version", VERSION)
            .expression_attribute_values(":read", n(read)),
        None => put
            .condition_expression("attribute_not_exists(#hash)")
            .expression_attribute_names("#hash", HASH),
    };
    let settle = Update::builder()
        .table_name(history)
        .key(HASH, s(hash))
        .key(VERSION, n(version))
        .update_expression("REMOVE #write")
        .condition_expression("#write = :write")
        .expression_attribute_names("#write", WRITE_ID)
        .expression_attribute_values(":write", s(write_id));
    Ok(TransactWriteItemsInputBuilder::default()
        .transact_items(TransactWriteItem::builder().put(put.build()?).build())
        .transact_items(TransactWriteItem::builder().update(settle.build()?).build()))
}

fn full(hash: &str, version: Version, mut row: Item) -> Item {
    row.insert(HASH.to_owned(), AttributeValue::S(hash.to_owned()));
    row.insert(VERSION.to_owned(), AttributeValue::N(version.to_string()));
    row
}

fn row(mut item: Item) -> Option<Row> {
    item.remove(HASH);
    let Some(AttributeValue::N(version)) = item.remove(VERSION) else {
        return None;
    };
    let version = Version::new(Decimal::parse(&version).ok()?.to_u64()?)?;
    Some(Row {
        version,
        attributes: item,
    })
}

fn is_lost<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled
            .cancellation_reasons()
            .iter()
            .any(|reason| matches!(reason.code(), Some("ConditionalCheckFailed" | "TransactionConflict"))),
        _ => false,
    }
}
