//! Optimistic locking for any serde type with a version field.
//!
//! A new value is saved as version 1. A loaded value is saved or deleted only if the stored version has not changed. `save`
//! returns the new value and does not change the argument, so that the call can be repeated.
//!
//! Numbers must have Rust's numeric types: this crate makes `serde_json::Number` a text (feature `arbitrary_precision`).
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use serde::{Deserialize, Serialize};
//! use shared::optimistic_lock::{Check, Locked, SaveError};
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
    error::SdkError,
    operation::{
        delete_item::{DeleteItemError, builders::DeleteItemInputBuilder},
        get_item::builders::GetItemInputBuilder,
        put_item::{PutItemError, builders::PutItemInputBuilder},
        transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    },
    types::{CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem},
};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{
    domain::{AttributeValue, Item, attributes::same_item, number::Decimal},
    dynamodb::{client::error::ServiceError, n},
};

type SdkItem = HashMap<String, aws_sdk_dynamodb::types::AttributeValue>;

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
    /// The stored value is replaced without a check. The version is incremented.
    Clobber,
}

/// Save or deletion, prepared for a transaction.
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
        let request = GetItemInputBuilder::default()
            .table_name(&self.table)
            .set_key(Some(key.into()))
            .consistent_read(true);
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
        Ok(output
            .item
            .map(|item| serde_dynamo::from_item(Item::from(item)))
            .transpose()?)
    }

    /// Saves a value, and returns the stored value.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save(&self, value: &T, check: Check) -> Result<T, SaveError<T>> {
        let (next, current) = self.next(value)?;
        let request = PutItemInputBuilder::default()
            .table_name(&self.table)
            .set_item(Some(next.clone().into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(current, check);
        let request = request
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        match request.send_with(&self.client).await {
            Ok(_) => Ok(serde_dynamo::from_item(next)?),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                    let stored = failure.item().map(|item| Item::from(item.clone()));
                    // A previous attempt succeeded, but its response was lost and the SDK retried.
                    if stored.as_ref().is_some_and(|stored| same_item(stored, &next)) {
                        return Ok(serde_dynamo::from_item(next)?);
                    }
                    conflict(stored)
                }
                _ => Err(ServiceError::new("PutItem", &error).into()),
            },
        }
    }

    /// Deletes a value.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn delete(&self, value: &T, check: Check) -> Result<(), SaveError<T>> {
        let item: Item = serde_dynamo::to_item(value)?;
        let request = DeleteItemInputBuilder::default()
            .table_name(&self.table)
            .set_key(Some(self.key_of(&item)?.into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(self.version_of(&item)?, check);
        let request = request
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        match request.send_with(&self.client).await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(failure)) => {
                    conflict(failure.item().map(|item| Item::from(item.clone())))
                }
                _ => Err(ServiceError::new("DeleteItem", &error).into()),
            },
        }
    }

    /// Prepares a save for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_save(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let (next, current) = self.next(value)?;
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(next.clone().into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(current, check);
        let put = put
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let put = put.build().map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        Ok(Prepared {
            item: TransactWriteItem::builder().put(put).build(),
            value: Some(serde_dynamo::from_item(next)?),
        })
    }

    /// Prepares a deletion for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_delete(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let item: Item = serde_dynamo::to_item(value)?;
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(self.key_of(&item)?.into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(self.version_of(&item)?, check);
        let delete = delete
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let delete = delete
            .build()
            .map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        Ok(Prepared {
            item: TransactWriteItem::builder().delete(delete).build(),
            value: None,
        })
    }

    /// Saves several values in one transaction, and returns the stored values.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save_all(&self, values: &[&T], check: Check) -> Result<Vec<T>, SaveError<T>> {
        let prepared: Vec<_> = values
            .iter()
            .map(|value| self.prepare_save(value, check))
            .collect::<Result<_, _>>()?;
        let (items, saved): (Vec<_>, Vec<_>) = prepared
            .into_iter()
            .map(|prepared| (prepared.item, prepared.value))
            .unzip();
        let request = TransactWriteItemsInputBuilder::default().set_transact_items(Some(items));
        match request.send_with(&self.client).await {
            Ok(_) => Ok(saved.into_iter().flatten().collect()),
            Err(error) => match failed_condition(&error) {
                Some(reason) => conflict(reason.item.map(Item::from)),
                None => Err(ServiceError::new("TransactWriteItems", &error).into()),
            },
        }
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

    fn condition(&self, current: Option<u64>, check: Check) -> Condition {
        let expression = match (check, current) {
            (Check::Clobber, _) => return Condition::default(),
            (Check::Version, None) => "attribute_not_exists(#version)",
            (Check::Version, Some(_)) => "#version = :version",
        };
        Condition {
            expression: Some(expression.to_owned()),
            names: Some(HashMap::from([("#version".to_owned(), self.version.clone())])),
            values: current.map(|version| HashMap::from([(":version".to_owned(), n(version))])),
        }
    }

    fn key_of(&self, item: &Item) -> Result<Item, SaveError<T>> {
        let part = |name: &String| Some((name.clone(), item.get(name)?.clone()));
        let key: Option<HashMap<_, _>> = self.keys.iter().map(part).collect();
        key.map(Item::from).ok_or(SaveError::Key)
    }
}

/// Condition of a save or a deletion, empty for [`Check::Clobber`].
#[derive(Default)]
struct Condition {
    expression: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<SdkItem>,
}

fn conflict<T: DeserializeOwned, R>(stored: Option<Item>) -> Result<R, SaveError<T>> {
    let stored = stored.map(serde_dynamo::from_item).transpose()?;
    Err(SaveError::Conflict { stored })
}

/// Returns the first failed condition of a cancelled transaction.
fn failed_condition<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<CancellationReason> {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return None;
    };
    let mut reasons = cancelled.cancellation_reasons().iter();
    reasons
        .find(|reason| reason.code() == Some("ConditionalCheckFailed"))
        .cloned()
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
