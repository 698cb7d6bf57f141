//! Optimistic locking for any serde type with a version field.
//!
//! A new value is saved as version 1. A loaded value is saved, updated or deleted only if the stored version has not changed.
//! The methods return the new value and do not change the argument: a second call with the same argument is a conflict.
//!
//! | method | attributes that the type does not name |
//! |---|---|
//! | [`save`](Locked::save) | are removed: the value replaces the item |
//! | [`update`](Locked::update) | are kept: only the fields of the value change |
//!
//! The SDK retries a request without a response. If the first attempt was applied, the condition of the next one fails on
//! the call's own item. Such a failure is a success only if an earlier attempt of the same call was not answered, and if the
//! stored item is the one that the call writes. Otherwise it is a conflict, even if another client saved identical content.
//! Two cases remain ambiguous. If the unanswered attempt was not applied, and another client saved identical content in
//! between, both calls succeed, and the item is the one that both wanted. If it was applied, and another client has changed
//! the item since, the call is a conflict. A call that fails with [`SaveError::Service`] can have been applied, too: a
//! repeated call is then a conflict with its own value. DynamoDB detects a retry of a transaction by its
//! [client request token](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
//!
//! Numbers must have Rust's numeric types: this crate makes `serde_json::Number` a text (feature `arbitrary_precision`).
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use serde::{Deserialize, Serialize};
//! use patterns::optimistic_lock::{Check, Locked, SaveError};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Book { #[serde(rename = "ISBN")] isbn: String, title: String, version: Option<u64> }
//!
//! let books = Locked::<Book>::new(client, "Books", &["ISBN"], "version");
//! let new = Book { isbn: "978-3-16-148410-0".into(), title: "Old Title".into(), version: None };
//! let saved = books.save(&new, Check::Version).await?;
//! assert_eq!((new.version, saved.version), (None, Some(1)));
//! match books.save(&Book { title: "New Title".into(), ..saved }, Check::Version).await {
//!     Ok(book) => assert_eq!(book.version, Some(2)),
//!     Err(SaveError::Conflict { stored }) => println!("a concurrent save won: {:?}", stored.map(|book| book.title)),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```

use std::{collections::HashMap, marker::PhantomData};

use aws_sdk_dynamodb::{Client, types::TransactWriteItem};
use serde::{Serialize, de::DeserializeOwned};
use serde_dynamo::from_item;
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{same_item, same_value, whole},
        change::Change,
    },
    dynamodb::{
        cancellation,
        client::error::ServiceError,
        expression::Expression,
        n,
        write::{Failed, Write},
    },
};
use thiserror::Error;

use crate::get;

/// Table of values with optimistic locking.
#[derive(Debug)]
pub struct Locked<T> {
    client: Client,
    table: String,
    keys: Vec<String>,
    version: String,
    values: PhantomData<fn() -> T>,
}

/// Check of the stored version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The stored version must be that of the value.
    Version,
    /// The stored value is replaced or deleted without a check. A save or an update stores the version of the value plus one.
    Clobber,
}

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// See [`Locked::save`].
    Save,
    /// See [`Locked::update`].
    Update,
    /// See [`Locked::delete`].
    Delete,
}

/// Save, update or deletion, prepared for a transaction.
pub struct Prepared<T> {
    /// Part of the transaction.
    pub item: TransactWriteItem,
    /// Stored value if the transaction succeeds, `None` for a deletion.
    pub value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Locked<T> {
    /// Creates the table. `keys` are the key fields, `version` is the version field: a number, absent for a new value.
    pub fn new(client: Client, table: impl Into<String>, keys: &[&str], version: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            version: version.into(),
            values: PhantomData,
        }
    }

    /// Reads a value by its key fields, with a strongly consistent read.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn load(&self, key: &impl Serialize) -> Result<Option<T>, SaveError<T>> {
        let key = self.key_of(&serde_dynamo::to_item(key)?)?;
        let item = get(&self.client, &self.table, key.into(), true).await?;
        Ok(item.map(from_item).transpose()?)
    }

    /// Replaces the stored item with a value, and returns the value with its new version.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save(&self, value: &T, check: Check) -> Result<T, SaveError<T>> {
        Ok(from_item(self.send(Action::Save, value, check).await?)?)
    }

    /// Sets the fields of a value, and returns the stored value with its new version.
    ///
    /// Attributes that the value does not name are kept. A field that serializes as null is removed. Without a stored item, a
    /// new value creates it.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn update(&self, value: &T, check: Check) -> Result<T, SaveError<T>> {
        Ok(from_item(self.send(Action::Update, value, check).await?)?)
    }

    /// Deletes a value.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn delete(&self, value: &T, check: Check) -> Result<(), SaveError<T>> {
        self.send(Action::Delete, value, check).await.map(drop)
    }

    /// Prepares a write for a transaction. The value of an update has the fields as the argument has them, because a transaction does not
    /// return the stored item.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare(&self, action: Action, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let (write, next) = self.write(action, value, check)?;
        let value = (action != Action::Delete).then(|| from_item(next)).transpose()?;
        Ok(Prepared {
            item: write.into_transaction()?,
            value,
        })
    }

    /// Saves several values in one transaction, and returns the stored values.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save_all(&self, values: &[&T], check: Check) -> Result<Vec<T>, SaveError<T>> {
        let (mut items, mut saved) = (Vec::new(), Vec::new());
        for value in values {
            let prepared = self.prepare(Action::Save, value, check)?;
            items.push(prepared.item);
            saved.extend(prepared.value);
        }
        match cancellation::send(&self.client, items, &[cancellation::CONDITION]).await? {
            Ok(()) => Ok(saved),
            Err(stored) => Err(conflict(stored)),
        }
    }

    /// Sends a write, and returns the stored item.
    async fn send(&self, action: Action, value: &T, check: Check) -> Result<Item, SaveError<T>> {
        let (write, next) = self.write(action, value, check)?;
        let sent = write.send(&self.client).await?;
        let is_own = |failed: &Failed| match (action, &failed.stored) {
            (Action::Delete, stored) => stored.is_none(),
            (Action::Save, Some(stored)) => same_item(stored, &next),
            (Action::Update, Some(stored)) => is_set(&next, stored),
            (_, None) => false,
        };
        let stored = match sent {
            Err(failed) if !failed.was_unanswered || !is_own(&failed) => return Err(conflict(failed.stored)),
            Ok(stored) | Err(Failed { stored, .. }) => stored,
        };
        Ok(match action {
            Action::Update => stored.unwrap_or_default(),
            Action::Save | Action::Delete => next,
        })
    }

    /// Builds a write, and returns the item of the value, with its next version unless it is deleted.
    fn write(&self, action: Action, value: &T, check: Check) -> Result<(Write, Item), SaveError<T>> {
        let mut next: Item = serde_dynamo::to_item(value)?;
        let current = self.version_of(&next)?;
        if action != Action::Delete {
            let version = current.unwrap_or(0).checked_add(1).ok_or(SaveError::Version)?;
            next.insert(self.version.clone(), AttributeValue::N(version.to_string()));
        }
        let mut expression = Expression::default();
        if check == Check::Version {
            expression.name("#version", &self.version);
            match current {
                None => expression.condition("attribute_not_exists(#version)"),
                Some(version) => expression
                    .condition("#version = :version")
                    .value(":version", n(version)),
            };
        }
        let write = match action {
            Action::Save => Write::put(&self.table, next.clone(), expression),
            Action::Update => {
                let key = self.key_of(&next)?;
                let fields = next.iter().filter(|(name, _)| !key.contains_key(*name));
                let changes = fields.map(|(name, value)| match value {
                    AttributeValue::Null(_) => (name.clone(), Change::Remove),
                    value => (name.clone(), Change::Set(value.clone())),
                });
                expression.changes(&changes.collect());
                Write::update(&self.table, key, expression)
            }
            Action::Delete => Write::delete(&self.table, self.key_of(&next)?, expression),
        };
        Ok((write, next))
    }

    /// Returns `None` for a new value.
    fn version_of(&self, item: &Item) -> Result<Option<u64>, SaveError<T>> {
        match item.get(&self.version) {
            None | Some(AttributeValue::Null(_)) => Ok(None),
            Some(_) => whole(item, &self.version).map(Some).ok_or(SaveError::Version),
        }
    }

    fn key_of(&self, item: &Item) -> Result<Item, SaveError<T>> {
        let part = |name: &String| Some((name.clone(), item.get(name)?.clone()));
        let key: Option<HashMap<_, _>> = self.keys.iter().map(part).collect();
        key.map(Item::from).ok_or(SaveError::Key)
    }
}

fn conflict<T: DeserializeOwned>(stored: Option<Item>) -> SaveError<T> {
    match stored.map(from_item).transpose() {
        Ok(stored) => SaveError::Conflict { stored },
        Err(error) => error.into(),
    }
}

/// Returns `true` if the stored item has the result of an update. An update removes fields that are null.
fn is_set(next: &Item, stored: &Item) -> bool {
    next.iter().all(|(name, value)| match (value, stored.get(name)) {
        (AttributeValue::Null(_), stored) => stored.is_none(),
        (value, stored) => stored.is_some_and(|stored| same_value(value, stored)),
    })
}

/// Reason why a value was not saved, deleted or loaded.
#[derive(Error)]
pub enum SaveError<T> {
    /// The stored version has changed.
    #[error("the stored version has changed")]
    Conflict {
        /// Stored value, `None` if there is none.
        stored: Option<T>,
    },
    /// The version field is not a whole number.
    #[error("the version field is not a whole number")]
    Version,
    /// A key field is missing.
    #[error("a key field is missing")]
    Key,
    /// The value cannot be turned into an item, or the item into a value.
    #[error("the value and the item do not fit")]
    Serde(#[from] serde_dynamo::Error),
    /// A request failed.
    #[error("failed to reach the table")]
    Service(#[from] ServiceError),
}

// A conflict holds attribute values.
impl<T> std::fmt::Debug for SaveError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SaveError({self})")
    }
}
