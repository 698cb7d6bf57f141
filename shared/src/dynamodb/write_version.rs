//! The next version of an entity: one `UpdateItem` of its latest item.

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use thiserror::Error;

use super::{Store, error::ServiceError, n, s};
use crate::domain::{
    AttributeValue, Item,
    keys::VersionDigits,
    names,
    number::Decimal,
    update::{Change, ExpectedVersion, Update},
    version::Version,
    version_item::latest_of,
};

const OPERATION: &str = "UpdateItem";

// The parts of the condition. Each holds for an entity that does not exist yet, but for the last.

/// A retry, by the SDK, Lambda or a queue, of the update that was applied last must not count again: the counter is
/// not idempotent (DynamoDB developer guide, "Atomic counters").
const NOT_THE_LAST_REQUEST: &str = "(attribute_not_exists(#request) OR #request <> :request)";
/// A ratchet: what is older than the stored state changes nothing. Equal is allowed.
const NOT_OLDER: &str = "(attribute_not_exists(#timestamp) OR #timestamp <= :timestamp)";
/// The state that upstream expects to meet: none.
const ABSENT: &str = "attribute_not_exists(#pk)";
/// The state that upstream expects to meet: one version.
const EXPECTED: &str = "#latest = :expected";

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is this version.
    Written {
        /// The version it made.
        version: Version,
    },
    /// It had been applied before, and nothing was changed.
    Duplicate {
        /// The version it made then.
        version: Version,
    },
    /// It is older than what is stored, and nothing was changed.
    Stale {
        /// The latest version.
        version: Version,
    },
    /// The latest version is not the one it expected, and nothing was changed.
    Conflict {
        /// The expected one, 0 for none.
        expected: u64,
        /// The one that was met, 0 for none.
        latest: u64,
    },
}

impl Store {
    /// Applies an update to its entity's latest item, and counts it, unless it was the last to be applied.
    pub async fn write_version(&self, update: &Update) -> Result<WriteOutcome, WriteError> {
        let answer = request(update, &self.table, self.digits).send_with(&self.client).await;
        outcome(update, answer)
    }
}

/// The request.
pub fn request(update: &Update, table: &str, digits: VersionDigits) -> UpdateItemInputBuilder {
    let mut builder = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(update.entity.as_str()))
        .key(names::SK, s(digits.latest_key()))
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#request", names::REQUEST_ID)
        .expression_attribute_names("#deleted", names::DELETED)
        .expression_attribute_values(":zero", n(0))
        .expression_attribute_values(":one", n(1))
        .expression_attribute_values(":request", s(update.request_id.as_str()));
    let mut set = vec![
        "#latest = if_not_exists(#latest, :zero) + :one".to_owned(),
        "#request = :request".to_owned(),
    ];
    let mut remove = Vec::new();
    let mut condition = vec![NOT_THE_LAST_REQUEST];

    if update.deleted {
        set.push("#deleted = :deleted".to_owned());
        builder = builder.expression_attribute_values(":deleted", aws_sdk_dynamodb::types::AttributeValue::Bool(true));
    } else {
        remove.push("#deleted".to_owned());
    }
    if let Some(timestamp) = update.timestamp {
        set.push("#timestamp = :timestamp".to_owned());
        condition.push(NOT_OLDER);
        builder = builder
            .expression_attribute_names("#timestamp", names::TIMESTAMP)
            .expression_attribute_values(":timestamp", n(timestamp.get()));
    }
    match update.expected {
        None => {}
        Some(ExpectedVersion::Absent) => {
            condition.push(ABSENT);
            builder = builder.expression_attribute_names("#pk", names::PK);
        }
        Some(ExpectedVersion::Is(version)) => {
            condition.push(EXPECTED);
            builder = builder.expression_attribute_values(":expected", n(version));
        }
    }
    // Short placeholders: an expression has at most 4 KB.
    for (index, (name, change)) in update.changes.iter().enumerate() {
        builder = builder.expression_attribute_names(format!("#{index}"), name);
        match change {
            Change::Set(value) => {
                set.push(format!("#{index}=:{index}"));
                builder = builder.expression_attribute_values(format!(":{index}"), value.clone().into());
            }
            Change::Remove => remove.push(format!("#{index}")),
        }
    }

    let mut expression = format!("SET {}", set.join(","));
    if !remove.is_empty() {
        expression = format!("{expression} REMOVE {}", remove.join(","));
    }
    builder
        .update_expression(expression)
        .condition_expression(condition.join(" AND "))
}

/// What the answer to the request means.
pub fn outcome<R>(
    update: &Update,
    answer: Result<UpdateItemOutput, SdkError<UpdateItemError, R>>,
) -> Result<WriteOutcome, WriteError>
where
    R: std::fmt::Debug,
    SdkError<UpdateItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match answer {
        Ok(output) => {
            let new = Item::from(output.attributes.unwrap_or_default());
            let version = latest_of(&new).map_err(|_| WriteError::NoVersion)?;
            Ok(WriteOutcome::Written { version })
        }
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                refused(update, failure.item().map(|item| Item::from(item.clone())).as_ref())
            }
            _ => Err(WriteError::Service(ServiceError::new(OPERATION, &error))),
        },
    }
}

/// Which part of the condition the stored item failed. One's own earlier success comes first: after it, the others
/// may fail as well.
fn refused(update: &Update, stored: Option<&Item>) -> Result<WriteOutcome, WriteError> {
    let latest = stored.and_then(|item| latest_of(item).ok());
    let is_last_request = stored.and_then(|item| item.get(names::REQUEST_ID))
        == Some(&AttributeValue::S(update.request_id.as_str().to_owned()));
    if is_last_request {
        let version = latest.ok_or(WriteError::NoVersion)?;
        return Ok(WriteOutcome::Duplicate { version });
    }
    if let Some(expected) = update.expected {
        let met = match expected {
            ExpectedVersion::Absent => stored.is_none(),
            ExpectedVersion::Is(version) => latest == Some(version),
        };
        if !met {
            return Ok(WriteOutcome::Conflict {
                expected: expected.number(),
                latest: latest.map_or(0, Version::get),
            });
        }
    }
    if let (Some(timestamp), Some(AttributeValue::N(stored))) =
        (update.timestamp, stored.and_then(|item| item.get(names::TIMESTAMP)))
    {
        let newer =
            Decimal::parse(stored).is_ok_and(|stored| stored.to_i64().is_none_or(|millis| millis > timestamp.get()));
        if newer {
            let version = latest.ok_or(WriteError::NoVersion)?;
            return Ok(WriteOutcome::Stale { version });
        }
    }
    Err(WriteError::Unexplained)
}

/// Why an update could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The request failed.
    #[error("failed to write the version")]
    Service(#[source] ServiceError),
    /// The latest item carries no version that can be read: something else than this library wrote it.
    #[error("the latest item has no version that can be read")]
    NoVersion,
    /// The condition failed on an item that fulfils it: something else than this library wrote the item, such as a
    /// `Timestamp` that is no number.
    #[error("the condition failed on an item that fulfils it")]
    Unexplained,
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::update::Ordering;

    fn update(json: Value, ordering: Ordering) -> Update {
        Update::parse(json, "r-default", ordering).unwrap()
    }

    fn answer_to(update: &Update, stored: Option<Value>) -> Result<WriteOutcome, WriteError> {
        let item = stored.map(|item| serde_json::from_value::<Item>(item).unwrap().into());
        let failure = ConditionalCheckFailedException::builder().set_item(item).build();
        let error = UpdateItemError::ConditionalCheckFailedException(failure);
        outcome::<aws_sdk_dynamodb::config::http::HttpResponse>(update, Err(SdkError::service_error(error, empty())))
    }

    fn empty() -> aws_sdk_dynamodb::config::http::HttpResponse {
        aws_sdk_dynamodb::config::http::HttpResponse::new(400.try_into().unwrap(), "".into())
    }

    #[test]
    fn a_failed_condition_is_told_apart_by_the_item_it_met() {
        let plain = json!({"ID": "E", "RequestId": "r-2"});
        let expects_1 = json!({"ID": "E", "RequestId": "r-2", "ExpectedVersion": 1});
        let expects_0 = json!({"ID": "E", "RequestId": "r-2", "ExpectedVersion": 0});
        let at_5 = json!({"ID": "E", "RequestId": "r-2", "Timestamp": 5});
        let stored = |request: &str, latest: &str| {
            Some(json!({"RequestId": {"S": request}, "Latest": {"N": latest}, "Timestamp": {"N": "7"}}))
        };
        let version = |number| Version::new(number).unwrap();
        let duplicate = |number| {
            Ok(WriteOutcome::Duplicate {
                version: version(number),
            })
        };
        let stale = |number| {
            Ok(WriteOutcome::Stale {
                version: version(number),
            })
        };
        let conflict = |expected, latest| Ok(WriteOutcome::Conflict { expected, latest });
        for (json, ordering, stored, expected) in [
            (&plain, Ordering::Arrival, stored("r-2", "4"), duplicate(4)),
            // One's own earlier success, though by now the version is another than the expected one.
            (&expects_1, Ordering::Arrival, stored("r-2", "2"), duplicate(2)),
            (&expects_0, Ordering::Arrival, stored("r-2", "1"), duplicate(1)),
            (&expects_1, Ordering::Arrival, stored("r-1", "2"), conflict(1, 2)),
            (&expects_1, Ordering::Arrival, None, conflict(1, 0)),
            (&expects_0, Ordering::Arrival, stored("r-1", "3"), conflict(0, 3)),
            (&at_5, Ordering::Time, stored("r-1", "3"), stale(3)),
            (&at_5, Ordering::Time, stored("r-2", "3"), duplicate(3)),
            (
                &plain,
                Ordering::Arrival,
                stored("r-1", "3"),
                Err(WriteError::Unexplained),
            ),
            (
                &plain,
                Ordering::Arrival,
                Some(json!({"RequestId": {"S": "r-2"}})),
                Err(WriteError::NoVersion),
            ),
            (
                &at_5,
                Ordering::Time,
                Some(json!({"Timestamp": {"S": "7"}})),
                Err(WriteError::Unexplained),
            ),
        ] {
            assert_eq!(
                answer_to(&update(json.clone(), ordering), stored.clone()),
                expected,
                "{json} {stored:?}"
            );
        }
    }

    #[test]
    fn the_largest_update_fits_an_expression() {
        let members =
            (0..crate::domain::update::MAX_ATTRIBUTES).map(|index| (format!("Attribute{index}"), json!(index)));
        let members = members.chain([("ID".to_owned(), json!("E")), ("ExpectedVersion".to_owned(), json!(1))]);
        let update = update(Value::Object(members.collect()), Ordering::Arrival);
        let request = request(&update, "T", VersionDigits::default());
        // 4 KB is the limit of one expression (DynamoDB's service quotas).
        assert!(request.get_update_expression().as_ref().unwrap().len() <= 4096);
    }
}
