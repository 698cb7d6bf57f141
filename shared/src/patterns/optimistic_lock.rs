//! Optimistic locking for any serde type with a version field.
//!
//! A new value is saved as version 1. A loaded one is saved, or deleted, only if the stored version is still the one that
//! was loaded. `save` returns the new value and never changes the one passed in, so that the same call can be made
//! again.
//!
//! Numbers of the value are to be of Rust's own types: a `serde_json::Number` is not one here, since this crate has
//! `serde_json` keep numbers as texts.
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
//!     Err(SaveError::Conflict { stored }) => println!("somebody was faster: {:?}", stored.map(|book| book.title)),
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

/// A table of values that are saved under optimistic locking.
#[derive(Debug)]
pub struct Locked<T> {
    client: Client,
    table: String,
    keys: Vec<String>,
    version: String,
    values: PhantomData<fn() -> T>,
}

/// Whether the stored version matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It must be the one of the value passed in.
    Version,
    /// It does not: whatever is stored is replaced. The version is counted all the same.
    Clobber,
}

/// A value on its way into a transaction.
pub struct Prepared<T> {
    /// Its part of the transaction.
    pub item: TransactWriteItem,
    /// The value as it is stored if the transaction succeeds, `None` for a deletion.
    pub value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Locked<T> {
    /// The values of this table. `keys` are the fields of its key, `version` is the field of the version: a number, or
    /// none for a new value.
    pub fn new(client: Client, table: impl Into<String>, keys: &[&str], version: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            version: version.into(),
            values: PhantomData,
        }
    }

    /// Reads a value by its key fields, consistently.
    pub async fn load(&self, key: &impl Serialize) -> Result<Option<T>, SaveError<T>> {
        let key = self.key_of(&serde_dynamo::to_item(key)?)?;
        let request = GetItemInputBuilder::default()
            .table_name(&self.table)
            .set_key(Some(key.into()))
            .consistent_read(true);
        let answer = request.send_with(&self.client).await;
        let output = answer.map_err(|error| ServiceError::new("GetItem", &error))?;
        Ok(output
            .item
            .map(|item| serde_dynamo::from_item(Item::from(item)))
            .transpose()?)
    }

    /// Saves a value, and returns it as it is stored now.
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
                    // One's own success, whose answer was lost, before a retry by the SDK.
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

    /// A save as a part of a transaction, and the value as it is stored if that succeeds.
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

    /// A deletion as a part of a transaction.
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

    /// Saves several values, all or none, and returns them as they are stored now.
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

    /// The item to store, and the version that it has to meet.
    fn next(&self, value: &T) -> Result<(Item, Option<u64>), SaveError<T>> {
        let mut item: Item = serde_dynamo::to_item(value)?;
        let current = self.version_of(&item)?;
        let next = current.unwrap_or(0).checked_add(1).ok_or(SaveError::Version)?;
        item.insert(self.version.clone(), AttributeValue::N(next.to_string()));
        Ok((item, current))
    }

    /// `None` for a new value.
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

/// The condition of a save or a deletion, empty where there is none.
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

/// The reason of the first failed condition of a cancelled transaction.
fn failed_condition<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<CancellationReason> {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return None;
    };
    let mut reasons = cancelled.cancellation_reasons().iter();
    reasons
        .find(|reason| reason.code() == Some("ConditionalCheckFailed"))
        .cloned()
}

/// Why a value was not saved, deleted or loaded.
#[derive(Error)]
pub enum SaveError<T> {
    /// The stored version is another one.
    #[error("the stored version is another one")]
    Conflict {
        /// The stored value, `None` where there is none.
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
