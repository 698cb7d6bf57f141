//! Update of the latest item: one `UpdateItem` that increments the version and applies the changes.
//!
//! The condition rejects duplicate, stale and conflicting updates. DynamoDB returns the item that failed the condition, and
//! [`decide`] explains the failure. If the item satisfies all rules, its recent requests are stored in another form than
//! assumed, and the request is sent again in the form that fits.

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput, builders::UpdateItemInputBuilder},
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    domain::{
        Item,
        decision::{Decision, decide},
        keys::VersionDigits,
        names,
        recent_requests::Window,
        update::{ExpectedVersion, Update},
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        n, s,
        write::{
            expression::Expression,
            outcome::{WriteError, WriteOutcome},
            recent_requests::RecentRequests,
        },
    },
};

const OPERATION: &str = "UpdateItem";
/// Maximum number of attempts, if the recent requests of the latest item change between attempts.
const MAX_ATTEMPTS: u32 = 10;

// Parts of the condition. All but the last hold for an entity that does not exist. See also `recent_requests`.

/// Rejects a retry, by the SDK, Lambda or a queue, of the last update: the counter is not idempotent, see
/// [Atomic counters](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html).
const NOT_THE_LAST_REQUEST: &str = "(attribute_not_exists(#request) OR #request <> :request)";
/// Rejects an update that is older than the latest item. Equal times are accepted.
const NOT_OLDER: &str = "(attribute_not_exists(#timestamp) OR #timestamp <= :timestamp)";
/// Requires that the entity does not exist.
const ABSENT: &str = "attribute_not_exists(#pk)";
/// Requires the expected version.
const EXPECTED: &str = "#latest = :expected";

impl Store {
    /// Applies an update to the latest item, unless it is a duplicate within the window. stream-fn puts the version item.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError`], see its variants.
    pub async fn write_version(&self, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
        let (outcome, _) = self.bump(update, window, ReturnValue::UpdatedNew).await?;
        Ok(outcome)
    }

    /// Applies an update, and returns the outcome with the new item, or with the item that failed the condition.
    ///
    /// It sends one request if the recent requests have room for one more. Otherwise the condition fails, and the request is
    /// sent again in the form that fits the returned item.
    pub(crate) async fn bump(
        &self,
        update: &Update,
        window: Window,
        returns: ReturnValue,
    ) -> Result<(WriteOutcome, Option<Item>), WriteError> {
        let mut recent_requests = RecentRequests::assumed(update, window);
        for _ in 0..MAX_ATTEMPTS {
            let request = request(update, &recent_requests, &self.table, self.digits).return_values(returns.clone());
            let output = request.send_with(&self.client).await;
            match outcome(update, output)? {
                Attempt::Decided(outcome, item) => return Ok((outcome, item)),
                Attempt::Retry(stored) => {
                    let fitting = RecentRequests::fitting(update, window, stored.as_ref())?;
                    if fitting == recent_requests {
                        return Err(WriteError::Unexplained);
                    }
                    recent_requests = fitting;
                }
            }
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS })
    }
}

/// Builds the request.
pub fn request(
    update: &Update,
    recent_requests: &RecentRequests,
    table: &str,
    digits: VersionDigits,
) -> UpdateItemInputBuilder {
    let request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(update.entity.as_str()))
        .key(names::SK, s(digits.latest_key()))
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    expression(update, recent_requests).apply_to_request(request)
}

/// Builds the changes of the latest item and their condition.
pub(crate) fn expression(update: &Update, recent_requests: &RecentRequests) -> Expression {
    let mut expression = Expression::default();
    expression
        .name("#latest", names::LATEST)
        .name("#request", names::REQUEST_ID)
        .name("#deleted", names::DELETED)
        .value(":zero", n(0))
        .value(":one", n(1))
        .value(":request", s(update.request_id.as_str()))
        .set("#latest = if_not_exists(#latest, :zero) + :one")
        .set("#request = :request")
        .condition(NOT_THE_LAST_REQUEST);
    recent_requests.add_to(&mut expression);
    if update.deleted {
        expression
            .set("#deleted = :deleted")
            .value(":deleted", AttributeValue::Bool(true));
    } else {
        expression.remove("#deleted");
    }
    if let Some(timestamp) = update.timestamp {
        expression
            .set("#timestamp = :timestamp")
            .condition(NOT_OLDER)
            .name("#timestamp", names::TIMESTAMP)
            .value(":timestamp", n(timestamp.get()));
    }
    match update.expected {
        None => {}
        Some(ExpectedVersion::Absent) => {
            expression.condition(ABSENT).name("#pk", names::PK);
        }
        Some(ExpectedVersion::Is(version)) => {
            expression.condition(EXPECTED).value(":expected", n(version));
        }
    }
    expression.changes(&update.changes);
    expression
}

/// Result of one request.
#[derive(Debug, PartialEq)]
pub enum Attempt {
    /// The outcome, with the item that decided it.
    Decided(WriteOutcome, Option<Item>),
    /// The condition failed only because the item stores its recent requests in another form.
    Retry(Option<Item>),
}

/// Returns the result of the request's output.
///
/// # Errors
///
/// Returns [`WriteError::Latest`] if the stored item has no valid version, [`WriteError::Service`] for every error except a
/// failed condition.
pub fn outcome<R>(
    update: &Update,
    output: Result<UpdateItemOutput, SdkError<UpdateItemError, R>>,
) -> Result<Attempt, WriteError>
where
    R: std::fmt::Debug,
    SdkError<UpdateItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match output {
        Ok(output) => {
            let new = Item::from(output.attributes.unwrap_or_default());
            let version = latest_of(&new)?;
            Ok(Attempt::Decided(WriteOutcome::Written { version }, Some(new)))
        }
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                let decision: Decision = decide(update, stored.as_ref())?;
                Ok(match decision.refusal() {
                    Some(refusal) => Attempt::Decided(refusal, stored),
                    None => Attempt::Retry(stored),
                })
            }
            _ => Err(WriteError::Service(ServiceError::new(OPERATION, &error))),
        },
    }
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
    fn a_failed_condition_is_explained_by_the_returned_item() {
        let attempt = |stored: Value| {
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
        let outcome = |attempt: Result<Attempt, WriteError>| match attempt {
            Ok(Attempt::Decided(outcome, Some(_))) => Some(outcome),
            _ => None,
        };
        assert_eq!(
            outcome(attempt(stored("r-default"))),
            Some(WriteOutcome::Duplicate { version })
        );
        assert!(matches!(attempt(stored("another")), Ok(Attempt::Retry(Some(_)))));
        let no_version = attempt(json!({"RequestId": {"S": "r-default"}}));
        assert_eq!(no_version, Err(WriteError::Latest(InvalidImage::NoLatest)));
    }

    #[test]
    fn the_largest_update_fits_an_expression() {
        let members =
            (0..crate::domain::update::MAX_ATTRIBUTES).map(|index| (format!("Attribute{index}"), json!(index)));
        let members = members.chain([("ID".to_owned(), json!("E")), ("ExpectedVersion".to_owned(), json!(1))]);
        let update = update(Value::Object(members.collect()), Ordering::Arrival);
        let requests = (1..=Window::MAX).map(|number| (format!("hash-{number:06}"), json!({"N": number.to_string()})));
        let stored =
            json!({"Latest": {"N": "1"}, "RecentRequests": {"M": requests.collect::<serde_json::Map<_, _>>()}});
        let window = Window::new(Window::MAX / 2).unwrap();
        let recent_requests =
            RecentRequests::fitting(&update, window, Some(&serde_json::from_value(stored).unwrap())).unwrap();
        let request = request(&update, &recent_requests, "T", VersionDigits::default());
        // The maximum length of an expression is 4 KB.
        assert!(request.get_update_expression().as_ref().unwrap().len() <= 4096);
        assert!(request.get_condition_expression().as_ref().unwrap().len() <= 4096);
    }
}
