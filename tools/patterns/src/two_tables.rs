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

use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder};
use shared::{
    domain::{Item, attributes, version::Version},
    dynamodb::{
        cancellation,
        client::error::ServiceError,
        expression::Expression,
        n, s,
        write::{Attributes, Write},
    },
};

use crate::{get, query_all};

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
        self.write(hash, None, row, write_id).await
    }

    /// Replaces the row of a resource with its next version.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn update(&self, hash: &str, row: Item, write_id: &str) -> Result<Outcome, ServiceError> {
        match self.read(hash).await? {
            Some(read) => self.write(hash, Some(read.version), row, write_id).await,
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
        self.write(hash, Some(read.version), old.attributes, write_id).await
    }

    /// Executes the first write, which leaves a pending row, if there is no row or a pending one.
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
        let mut item = full(hash, version, row);
        item.insert(WRITE_ID.to_owned(), attributes::s(write_id));
        let mut expression = Expression::default();
        expression
            .condition("attribute_not_exists(#hash) OR attribute_exists(#write)")
            .name("#hash", HASH)
            .name("#write", WRITE_ID);
        let put = Write::put(&self.history, item, expression);
        Ok(match put.send(&self.client).await? {
            Ok(_) => Outcome::Written(version),
            Err(_) => Outcome::Conflict,
        })
    }

    /// Writes history, then the resource, if it has not changed, and removes the mark, if it is this write's.
    async fn write(
        &self,
        hash: &str,
        read: Option<Version>,
        row: Item,
        write_id: &str,
    ) -> Result<Outcome, ServiceError> {
        let next = match read {
            Some(read) => read.get() + 1,
            None => self.next_in_history(hash).await?,
        };
        let Some(version) = Version::new(next) else {
            return Ok(Outcome::Conflict);
        };
        if self.write_history(hash, version, row.clone(), write_id).await? == Outcome::Conflict {
            return Ok(Outcome::Conflict);
        }
        let (mut unchanged, mut settled) = (Expression::default(), Expression::default());
        match read {
            Some(read) => unchanged
                .condition("#version = :read")
                .name("#version", VERSION)
                .value(":read", n(read)),
            None => unchanged.condition("attribute_not_exists(#hash)").name("#hash", HASH),
        };
        let put = Write::put(&self.resource, full(hash, version, row), unchanged);
        settled
            .remove("#write")
            .condition("#write = :write")
            .name("#write", WRITE_ID)
            .value(":write", s(write_id));
        let settle = Write::update(&self.history, key(hash, Some(version)), settled);
        let items = vec![put.into_transaction()?, settle.into_transaction()?];
        let reasons = [cancellation::CONDITION, cancellation::CONFLICT];
        Ok(match cancellation::send(&self.client, items, &reasons).await? {
            Ok(()) => Outcome::Written(version),
            Err(_) => Outcome::Conflict,
        })
    }

    /// Reads the latest row of a resource.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn read(&self, hash: &str) -> Result<Option<Row>, ServiceError> {
        let item = get(&self.client, &self.resource, key(hash, None), true).await?;
        Ok(item.and_then(row))
    }

    /// Reads one version of a resource, also after the deletion of the resource. A pending row is not returned.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn version(&self, hash: &str, version: Version) -> Result<Option<Row>, ServiceError> {
        let item = get(&self.client, &self.history, key(hash, Some(version)), true).await?;
        Ok(item.filter(|item| !item.contains_key(WRITE_ID)).and_then(row))
    }

    /// Returns the query of a history, newest first, in which a placeholder is the mark of a pending row.
    fn query(&self, hash: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.history)
            .key_condition_expression("#hash = :hash")
            .expression_attribute_names("#hash", HASH)
            .expression_attribute_names("#write", WRITE_ID)
            .expression_attribute_values(":hash", s(hash))
            .scan_index_forward(false)
            .consistent_read(true)
    }

    /// Returns the number after the last version of a resource. It reads one row: only the last one can be pending, and the
    /// next write replaces it.
    async fn next_in_history(&self, hash: &str) -> Result<u64, ServiceError> {
        let last = self
            .query(hash)
            .projection_expression("#version, #write")
            .expression_attribute_names("#version", VERSION)
            .limit(1);
        let output = last.send().await.map_err(|error| ServiceError::new("Query", &error))?;
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
        let query = self.query(hash).filter_expression("attribute_not_exists(#write)");
        Ok(query_all(query).await?.into_iter().filter_map(row).collect())
    }

    /// Deletes a resource, but not its history.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn delete(&self, hash: &str) -> Result<(), ServiceError> {
        let delete = Write::delete(&self.resource, key(hash, None), Expression::default());
        // Without a condition, it cannot fail.
        delete.send(&self.client).await.map(drop)
    }
}

/// Returns the key of a resource, or of a version.
fn key(hash: &str, version: Option<Version>) -> Attributes {
    let version = version.map(|version| (VERSION.to_owned(), n(version)));
    [(HASH.to_owned(), s(hash))].into_iter().chain(version).collect()
}

fn full(hash: &str, version: Version, mut row: Item) -> Item {
    row.insert(HASH.to_owned(), attributes::s(hash));
    row.insert(VERSION.to_owned(), attributes::n(version));
    row
}

fn row(mut item: Item) -> Option<Row> {
    item.remove(HASH);
    let version = attributes::version(&item, VERSION)?;
    item.remove(VERSION);
    Some(Row {
        version,
        attributes: item,
    })
}
