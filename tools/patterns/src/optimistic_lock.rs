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

use aws_sdk_dynamodb::{
    Client,
    error::BuildError,
    operation::{
        delete_item::DeleteItemError, transact_write_items::TransactWriteItemsError, update_item::UpdateItemError,
    },
    types::{Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem, Update},
};
use serde::{Serialize, de::DeserializeOwned};
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{same_item, same_value},
        number::Decimal,
    },
    dynamodb::client::error::ServiceError,
};
use thiserror::Error;

use crate::{Failed, n, put};

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

/// Save, update or deletion, prepared for a transaction.
pub struct Prepared<T> {
    /// Part of the transaction.
    pub item: TransactWriteItem,
    /// Stored value if the transaction succeeds, `None` for a deletion.
    pub value: Option<T>,
}

/// Sets the check of the stored version on a builder of the SDK: the version field, its expected value, and the check.
macro_rules! checked {
    ($builder:expr, $locked:expr, $current:expr, $check:expr) => {{
        let builder = $builder.return_values_on_condition_check_failure(AllOld);
        match ($check, $current) {
            (Check::Clobber, _) => builder,
            (Check::Version, None) => builder
                .condition_expression("attribute_not_exists(#version)")
                .expression_attribute_names("#version", &$locked.version),
            (Check::Version, Some(version)) => builder
                .condition_expression("#version = :version")
                .expression_attribute_names("#version", &$locked.version)
                .expression_attribute_values(":version", n(version)),
        }
    }};
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
        let request = self.client.get_item().table_name(&self.table).consistent_read(true);
        let output = request.set_key(Some(key.into())).send().await;
        let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
        Ok(output.item.map(|item| value(Item::from(item))).transpose()?)
    }

    /// Replaces the stored item with a value, and returns the value with its new version.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save(&self, value: &T, check: Check) -> Result<T, SaveError<T>> {
        let (put, next) = self.put(value, check)?;
        match put_item!(self.client, put)? {
            Ok(_) => Ok(self::value(next)?),
            Err(Failed {
                stored: Some(stored),
                was_unanswered: true,
            }) if same_item(&stored, &next) => Ok(self::value(next)?),
            Err(failed) => conflict(failed.stored),
        }
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
        let (update, next) = self.set(value, check)?;
        let operation = self
            .client
            .update_item()
            .table_name(update.table_name)
            .set_key(Some(update.key))
            .update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_names(update.expression_attribute_names)
            .set_expression_attribute_values(update.expression_attribute_values)
            .set_return_values_on_condition_check_failure(update.return_values_on_condition_check_failure)
            .return_values(ReturnValue::AllNew);
        match conditional!(
            operation,
            "UpdateItem",
            UpdateItemError::ConditionalCheckFailedException
        )? {
            Ok(output) => Ok(self::value(Item::from(output.attributes.unwrap_or_default()))?),
            Err(Failed {
                stored: Some(stored),
                was_unanswered: true,
            }) if is_set(&next, &stored) => Ok(self::value(stored)?),
            Err(failed) => conflict(failed.stored),
        }
    }

    /// Deletes a value.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn delete(&self, value: &T, check: Check) -> Result<(), SaveError<T>> {
        let delete = self.removal(value, check)?;
        let operation = self
            .client
            .delete_item()
            .table_name(delete.table_name)
            .set_key(Some(delete.key))
            .set_condition_expression(delete.condition_expression)
            .set_expression_attribute_names(delete.expression_attribute_names)
            .set_expression_attribute_values(delete.expression_attribute_values)
            .set_return_values_on_condition_check_failure(delete.return_values_on_condition_check_failure);
        match conditional!(
            operation,
            "DeleteItem",
            DeleteItemError::ConditionalCheckFailedException
        )? {
            Ok(_)
            | Err(Failed {
                stored: None,
                was_unanswered: true,
            }) => Ok(()),
            Err(failed) => conflict(failed.stored),
        }
    }

    /// Prepares a save for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_save(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let (put, next) = self.put(value, check)?;
        let item = TransactWriteItem::builder().put(put).build();
        let value = Some(self::value(next)?);
        Ok(Prepared { item, value })
    }

    /// Prepares an update for a transaction. Its value has the fields as the argument has them, because a transaction does not
    /// return the stored item.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_update(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let (update, next) = self.set(value, check)?;
        let item = TransactWriteItem::builder().update(update).build();
        let value = Some(self::value(next)?);
        Ok(Prepared { item, value })
    }

    /// Prepares a deletion for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_delete(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let item = TransactWriteItem::builder().delete(self.removal(value, check)?).build();
        Ok(Prepared { item, value: None })
    }

    /// Saves several values in one transaction, and returns the stored values.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save_all(&self, values: &[&T], check: Check) -> Result<Vec<T>, SaveError<T>> {
        let (mut request, mut saved) = (self.client.transact_write_items(), Vec::new());
        for value in values {
            let prepared = self.prepare_save(value, check)?;
            request = request.transact_items(prepared.item);
            saved.extend(prepared.value);
        }
        let Err(error) = request.send().await else {
            return Ok(saved);
        };
        let failed = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                let mut reasons = cancelled.cancellation_reasons().iter();
                reasons.find(|reason| reason.code() == Some("ConditionalCheckFailed"))
            }
            _ => None,
        };
        match failed {
            Some(reason) => conflict(reason.item.clone().map(Item::from)),
            None => Err(ServiceError::new("TransactWriteItems", &error).into()),
        }
    }

    /// Builds the put of a value, and returns its item.
    fn put(&self, value: &T, check: Check) -> Result<(Put, Item), SaveError<T>> {
        let (next, current) = self.next(value)?;
        let put = checked!(put(&self.table, next.clone()), self, current, check);
        Ok((put.build().map_err(not_built)?, next))
    }

    /// Builds the update of a value, and returns its item.
    fn set(&self, value: &T, check: Check) -> Result<(Update, Item), SaveError<T>> {
        let (next, current) = self.next(value)?;
        let key = self.key_of(&next)?;
        let mut update = Update::builder().table_name(&self.table);
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        let mut fields: Vec<_> = next.iter().filter(|(name, _)| !key.contains_key(*name)).collect();
        fields.sort_by_key(|(name, _)| *name);
        for (index, (name, value)) in fields.into_iter().enumerate() {
            update = update.expression_attribute_names(format!("#{index}"), name);
            if matches!(value, AttributeValue::Null(_)) {
                remove.push(format!("#{index}"));
            } else {
                set.push(format!("#{index}=:{index}"));
                update = update.expression_attribute_values(format!(":{index}"), value.clone().into());
            }
        }
        // The version is always set.
        let remove = (!remove.is_empty()).then(|| format!(" REMOVE {}", remove.join(",")));
        let expression = format!("SET {}{}", set.join(","), remove.unwrap_or_default());
        let update = update.set_key(Some(key.into())).update_expression(expression);
        let update = checked!(update, self, current, check);
        Ok((update.build().map_err(not_built)?, next))
    }

    /// Builds the deletion of a value.
    fn removal(&self, value: &T, check: Check) -> Result<Delete, SaveError<T>> {
        let item: Item = serde_dynamo::to_item(value)?;
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(self.key_of(&item)?.into()));
        let delete = checked!(delete, self, self.version_of(&item)?, check);
        Ok(delete.build().map_err(not_built)?)
    }

    /// Returns the item to store, and the expected version.
    fn next(&self, value: &T) -> Result<(Item, Option<u64>), SaveError<T>> {
        let mut item: Item = serde_dynamo::to_item(value)?;
        let current = self.version_of(&item)?;
        let next = current.unwrap_or(0).checked_add(1).ok_or(SaveError::Version)?;
        item.insert(self.version.clone(), AttributeValue::N(next.to_string()));
        Ok((item, current))
    }

    /// Returns `None` for a new value.
    fn version_of(&self, item: &Item) -> Result<Option<u64>, SaveError<T>> {
        match item.get(&self.version) {
            None | Some(AttributeValue::Null(_)) => Ok(None),
            Some(AttributeValue::N(number)) => {
                let number = Decimal::parse(number).ok().and_then(|number| number.to_u64());
                number.map(Some).ok_or(SaveError::Version)
            }
            Some(_) => Err(SaveError::Version),
        }
    }

    fn key_of(&self, item: &Item) -> Result<Item, SaveError<T>> {
        let part = |name: &String| Some((name.clone(), item.get(name)?.clone()));
        let key: Option<HashMap<_, _>> = self.keys.iter().map(part).collect();
        key.map(Item::from).ok_or(SaveError::Key)
    }
}

fn value<T: DeserializeOwned>(item: Item) -> Result<T, serde_dynamo::Error> {
    serde_dynamo::from_item(item)
}

fn not_built(_: BuildError) -> ServiceError {
    ServiceError::not_built("TransactWriteItems")
}

/// Returns `true` if the stored item has the result of an update. An update removes fields that are null.
fn is_set(next: &Item, stored: &Item) -> bool {
    next.iter().all(|(name, value)| match (value, stored.get(name)) {
        (AttributeValue::Null(_), stored) => stored.is_none(),
        (value, stored) => stored.is_some_and(|stored| same_value(value, stored)),
    })
}

fn conflict<T: DeserializeOwned, R>(stored: Option<Item>) -> Result<R, SaveError<T>> {
    let stored = stored.map(value).transpose()?;
    Err(SaveError::Conflict { stored })
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
