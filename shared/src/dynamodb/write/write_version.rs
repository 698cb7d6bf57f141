//! The next version of an entity: one `UpdateItem` of its latest item.

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
/// How often the request is sent in another form, when the latest item is not as it was taken to be.
const MAX_ATTEMPTS: u32 = 10;

// The parts of the condition. Each holds for an entity that does not exist yet, but for the last. What the latest item
// remembers of requests has parts of its own, see `recent_requests`.

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
    /// Applies an update to its entity's latest item, and counts it, unless it was among the window's last to be
    /// applied. The version item is left to the stream.
    pub async fn write_version(&self, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
        let (outcome, _) = self.bump(update, window, ReturnValue::UpdatedNew).await?;
        Ok(outcome)
    }

    /// The outcome, and the item that decided it: what the request returned, or what the failed condition met.
    ///
    /// One request where the latest item remembers requests and has room for one more. Otherwise the condition fails and
    /// brings the item back, and the request is sent again in the form that fits it.
    pub(crate) async fn bump(
        &self,
        update: &Update,
        window: Window,
        returns: ReturnValue,
    ) -> Result<(WriteOutcome, Option<Item>), WriteError> {
        let mut recent_requests = RecentRequests::presumed(update, window);
        for _ in 0..MAX_ATTEMPTS {
            let request = request(update, &recent_requests, &self.table, self.digits).return_values(returns.clone());
            let answer = request.send_with(&self.client).await;
            match outcome(update, answer)? {
                Answer::Done(outcome, item) => return Ok((outcome, item)),
                Answer::Unremarkable(stored) => {
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

/// What the answer to the request means.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// The update is decided, by the item that came back.
    Done(WriteOutcome, Option<Item>),
    /// The condition failed on an item that nothing is wrong with: it remembers requests in another way than it was taken
    /// to.
    Unremarkable(Option<Item>),
}

/// Reads the answer to the request.
pub fn outcome<R>(
    update: &Update,
    answer: Result<UpdateItemOutput, SdkError<UpdateItemError, R>>,
) -> Result<Answer, WriteError>
where
    R: std::fmt::Debug,
    SdkError<UpdateItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match answer {
        Ok(output) => {
            let new = Item::from(output.attributes.unwrap_or_default());
            let version = latest_of(&new)?;
            Ok(Answer::Done(WriteOutcome::Written { version }, Some(new)))
        }
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                let decision: Decision = decide(update, stored.as_ref())?;
                Ok(match decision.refusal() {
                    Some(refusal) => Answer::Done(refusal, stored),
                    None => Answer::Unremarkable(stored),
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
        let outcome = |answer: Result<Answer, WriteError>| match answer {
            Ok(Answer::Done(outcome, Some(_))) => Some(outcome),
            _ => None,
        };
        assert_eq!(
            outcome(answer(stored("r-default"))),
            Some(WriteOutcome::Duplicate { version })
        );
        assert!(matches!(answer(stored("another")), Ok(Answer::Unremarkable(Some(_)))));
        let no_version = answer(json!({"RequestId": {"S": "r-default"}}));
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
        // 4 KB is the limit of one expression (DynamoDB's service quotas).
        assert!(request.get_update_expression().as_ref().unwrap().len() <= 4096);
        assert!(request.get_condition_expression().as_ref().unwrap().len() <= 4096);
    }
}
