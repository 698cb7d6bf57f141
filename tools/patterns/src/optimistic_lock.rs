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
//! repeated call is then a conflict with its own value.
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

mod transaction;

use std::{
    collections::{BTreeMap, HashMap},
    marker::PhantomData,
};

use aws_sdk_dynamodb::{
    Client,
    operation::{
        delete_item::DeleteItemError, get_item::builders::GetItemInputBuilder, put_item::PutItemError,
        update_item::UpdateItemError,
    },
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use serde::{Serialize, de::DeserializeOwned};
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{same_item, same_value},
        change::Change,
        number::Decimal,
    },
    dynamodb::{
        client::{error::ServiceError, failure::UnansweredAttempts},
        expression::Expression,
    },
};
use thiserror::Error;

use crate::n;

pub use self::transaction::Prepared;

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
    /// The stored value is replaced or deleted without a check. A save or an update stores the version of the value plus one.
    Clobber,
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

    /// Replaces the stored item with a value, and returns the value with its new version.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save(&self, value: &T, check: Check) -> Result<T, SaveError<T>> {
        let (next, current) = self.next(value)?;
        let condition = self.condition(current, check);
        let unanswered = UnansweredAttempts::default();
        let operation = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(next.clone().into()))
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(_) => Ok(serde_dynamo::from_item(next)?),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                    let stored = failure.item().map(|item| Item::from(item.clone()));
                    let is_written = stored.as_ref().is_some_and(|stored| same_item(stored, &next));
                    if unanswered.any() && is_written {
                        return Ok(serde_dynamo::from_item(next)?);
                    }
                    conflict(stored)
                }
                _ => Err(ServiceError::new("PutItem", &error).into()),
            },
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
        let changes = self.changes(value)?;
        let unanswered = UnansweredAttempts::default();
        let operation = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(changes.key.clone().into()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let operation = self.update_expression(&changes, check).apply_to_operation(operation);
        match operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(output) => Ok(serde_dynamo::from_item(Item::from(
                output.attributes.unwrap_or_default(),
            ))?),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                    match failure.item().map(|item| Item::from(item.clone())) {
                        Some(stored) if unanswered.any() && changes.are_in(&stored) => {
                            Ok(serde_dynamo::from_item(stored)?)
                        }
                        stored => conflict(stored),
                    }
                }
                _ => Err(ServiceError::new("UpdateItem", &error).into()),
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
        let condition = self.condition(self.version_of(&item)?, check);
        let unanswered = UnansweredAttempts::default();
        let operation = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(self.key_of(&item)?.into()))
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(failure)) => match failure.item() {
                    None if unanswered.any() => Ok(()),
                    stored => conflict(stored.map(|item| Item::from(item.clone()))),
                },
                _ => Err(ServiceError::new("DeleteItem", &error).into()),
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

    /// Returns the changes that an update makes.
    fn changes(&self, value: &T) -> Result<Changes, SaveError<T>> {
        let (next, current) = self.next(value)?;
        let key = self.key_of(&next)?;
        let fields = next.iter().filter(|(name, _)| !key.contains_key(name.as_str()));
        let attributes = fields.map(|(name, value)| {
            let change = match value {
                AttributeValue::Null(_) => Change::Remove,
                value => Change::Set(value.clone()),
            };
            (name.clone(), change)
        });
        let attributes = attributes.collect();
        Ok(Changes {
            key,
            next,
            current,
            attributes,
        })
    }

    /// Builds the expression of an update, with its condition.
    fn update_expression(&self, changes: &Changes, check: Check) -> Expression {
        let mut expression = Expression::default();
        expression.changes(&changes.attributes);
        let condition = self.condition(changes.current, check);
        if let Some(part) = condition.expression {
            expression.condition(part);
        }
        for (placeholder, name) in condition.names.into_iter().flatten() {
            expression.name(placeholder, name);
        }
        for (placeholder, value) in condition.values.into_iter().flatten() {
            expression.value(placeholder, value);
        }
        expression
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

/// Changes of an update.
struct Changes {
    key: Item,
    /// Item of the value, with its new version.
    next: Item,
    /// Expected version, `None` for a new value.
    current: Option<u64>,
    /// All attributes of `next` except the key.
    attributes: BTreeMap<String, Change>,
}

impl Changes {
    /// Returns `true` if the stored item has the result of all changes.
    fn are_in(&self, stored: &Item) -> bool {
        let is_in = |(name, change): (&String, &Change)| match (change, stored.get(name)) {
            (Change::Set(value), Some(stored)) => same_value(value, stored),
            (Change::Remove, None) => true,
            _ => false,
        };
        self.attributes.iter().all(is_in)
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
