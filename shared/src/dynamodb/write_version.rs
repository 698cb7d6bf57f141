//! The next version of an entity: one `UpdateItem` of its latest item.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput, builders::UpdateItemInputBuilder},
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use super::{
    Store,
    error::ServiceError,
    n, s,
    write::{WriteError, WriteOutcome},
};
use crate::domain::{
    Item,
    decision::decide,
    keys::VersionDigits,
    names,
    update::{Change, ExpectedVersion, Update},
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

impl Store {
    /// Applies an update to its entity's latest item, and counts it, unless it was the last to be applied. The version
    /// item is left to the stream.
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
        builder = builder.expression_attribute_values(":deleted", AttributeValue::Bool(true));
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
            let version = latest_of(&new)?;
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

/// The item that a failed condition met.
pub(super) fn stored(error: &UpdateItemError) -> Option<&HashMap<String, AttributeValue>> {
    match error {
        UpdateItemError::ConditionalCheckFailedException(failure) => failure.item(),
        _ => None,
    }
}

/// Which part of the condition the stored item failed.
fn refused(update: &Update, stored: Option<&Item>) -> Result<WriteOutcome, WriteError> {
    decide(update, stored)?.refusal().ok_or(WriteError::Unexplained)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{config::http::HttpResponse, types::error::ConditionalCheckFailedException};
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{update::Ordering, version::Version, version_item::InvalidImage};

    fn update(json: Value, ordering: Ordering) -> Update {
        Update::parse(json, "r-default", ordering).unwrap()
    }

    #[test]
    fn a_failed_condition_is_explained_by_the_item_it_met() {
        let answer = |stored: Value| {
            let item: Item = serde_json::from_value(stored).unwrap();
            let failure = ConditionalCheckFailedException::builder()
                .set_item(Some(item.into()))
                .build();
            let error = UpdateItemError::ConditionalCheckFailedException(failure);
            let response = HttpResponse::new(400.try_into().unwrap(), "".into());
            outcome(
                &update(json!({"ID": "E"}), Ordering::Arrival),
                Err(SdkError::service_error(error, response)),
            )
        };
        let version = Version::new(4).unwrap();
        let stored = |request: &str| json!({"RequestId": {"S": request}, "Latest": {"N": "4"}});
        assert_eq!(answer(stored("r-default")), Ok(WriteOutcome::Duplicate { version }));
        assert_eq!(answer(stored("another")), Err(WriteError::Unexplained));
        let no_version = answer(json!({"RequestId": {"S": "r-default"}}));
        assert_eq!(no_version, Err(WriteError::Latest(InvalidImage::NoLatest)));
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
