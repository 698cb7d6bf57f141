//! Timestamp writes: an older write never overwrites a newer item, in any order of arrival. Therefore a write can be
//! [hedged](crate::hedge).
//!
//! ```text
//! PK      SK       Rating  Timestamp      Deleted  TTL
//! User#1  Movie#A  5       1721770090000
//! User#2  Movie#Z          1721757900000  true     1722362700    <- a tombstone, kept for 7 days
//! ```
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use patterns::ratchet::{Key, Outcome, Ratchet};
//!
//! let ratings = Ratchet::new(client, "Ratings");
//! let key = Key::new("User#2", "Movie#Z");
//! ratings.delete(&key, 1_721_757_900_000).await?;
//! // A late put with an older timestamp changes nothing.
//! let late = ratings.put(&key, 1_721_757_100_000, serde_dynamo::Item::from(std::collections::HashMap::<String, serde_dynamo::AttributeValue>::new())).await?;
//! assert!(matches!(late, Outcome::Stale { .. }));
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use shared::{
    domain::{AttributeValue, Item, attributes, keys::VersionDigits, names, tombstone::is_deleted},
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key, n,
        read::batch_get_items::{MAX_KEYS, Tables},
        s,
        write::Write,
    },
};

use crate::{get, query_all};

/// Retention of a tombstone in seconds. No older write may arrive after it.
pub const RETENTION: i64 = 7 * 24 * 60 * 60;

/// Table in which an item is only replaced by one with the same or a later timestamp.
///
/// The timestamp can be any increasing number. If it is not a time, delete with [`delete_until`](Ratchet::delete_until).
#[derive(Debug, Clone)]
pub struct Ratchet {
    store: Store,
}

/// Key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    /// Creates a key.
    pub fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self {
            pk: pk.into(),
            sk: sk.into(),
        }
    }
}

/// Outcome of a put or a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The write was applied.
    Applied,
    /// The write is older than the stored item; nothing changed.
    Stale {
        /// Stored timestamp, if it is valid.
        stored: Option<i64>,
    },
}

impl Ratchet {
    /// Creates the ratchet of a table, with [`RETENTION`] for tombstones.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        let store = Store::new(client, table, VersionDigits::default());
        Self { store }
    }

    /// Stores an item, unless a newer one exists. `timestamp` is in epoch milliseconds. An equal timestamp is accepted, because
    /// a retry has the timestamp of its first attempt.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn put(&self, key: &Key, timestamp: i64, mut item: Item) -> Result<Outcome, ServiceError> {
        item.remove(names::DELETED);
        item.remove(names::TTL);
        self.write(key, timestamp, item).await
    }

    /// Replaces an item with a tombstone, unless a newer item exists.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn delete(&self, key: &Key, timestamp: i64) -> Result<Outcome, ServiceError> {
        let expires = (timestamp / 1000).saturating_add(RETENTION);
        self.delete_until(key, timestamp, expires).await
    }

    /// Replaces an item with a tombstone that expires at a time in epoch seconds.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn delete_until(&self, key: &Key, timestamp: i64, expires: i64) -> Result<Outcome, ServiceError> {
        let tombstone = HashMap::from([
            (names::DELETED.to_owned(), AttributeValue::Bool(true)),
            (names::TTL.to_owned(), attributes::n(expires)),
        ]);
        self.write(key, timestamp, Item::from(tombstone)).await
    }

    async fn write(&self, key: &Key, timestamp: i64, mut item: Item) -> Result<Outcome, ServiceError> {
        item.insert(names::PK.to_owned(), attributes::s(&key.pk));
        item.insert(names::SK.to_owned(), attributes::s(&key.sk));
        item.insert(names::TIMESTAMP.to_owned(), attributes::n(timestamp));
        let mut expression = Expression::default();
        expression
            .condition("attribute_not_exists(#timestamp) OR :timestamp >= #timestamp")
            .name("#timestamp", names::TIMESTAMP)
            .value(":timestamp", n(timestamp));
        let put = Write::put(self.store.latest_table(), item, expression);
        Ok(match put.send(self.store.client()).await? {
            Ok(_) => Outcome::Applied,
            Err(failed) => Outcome::Stale {
                stored: failed
                    .stored
                    .and_then(|stored| attributes::number(&stored, names::TIMESTAMP)?.to_i64()),
            },
        })
    }

    /// Reads an item. A tombstone is not returned.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn get(&self, key: &Key, consistent: bool) -> Result<Option<Item>, ServiceError> {
        let (client, table) = (self.store.client(), self.store.latest_table());
        let item = get(client, table, self::key(&key.pk, &key.sk), consistent).await?;
        Ok(item.filter(|item| !is_deleted(item)))
    }

    /// Reads the items of a partition key with these sort keys, without tombstones, in any order.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn batch_get(&self, pk: &str, sks: &[String], consistent: bool) -> Result<Vec<Item>, ServiceError> {
        let mut items = Vec::new();
        for sks in sks.chunks(MAX_KEYS) {
            let keys = sks.iter().map(|sk| key(pk, sk)).collect();
            let tables = Tables::from([(self.store.latest_table().to_owned(), keys)]);
            items.extend(self.store.read_all(&[], tables, consistent).await?);
        }
        items.retain(|item| !is_deleted(item));
        Ok(items)
    }

    /// Reads all items of a partition key, without tombstones.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn query(&self, pk: &str, consistent: bool) -> Result<Vec<Item>, ServiceError> {
        let query = self.store.client().query();
        let query = query
            .table_name(self.store.latest_table())
            .key_condition_expression("#pk = :pk")
            .filter_expression("attribute_not_exists(#deleted)")
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_names("#deleted", names::DELETED)
            .expression_attribute_values(":pk", s(pk))
            .consistent_read(consistent);
        query_all(query).await
    }
}
