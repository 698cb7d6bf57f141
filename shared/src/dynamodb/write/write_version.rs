//! Update of the latest item: one `UpdateItem` that increments the version and applies the changes.
//!
//! The condition rejects duplicate, stale and conflicting updates. DynamoDB returns the item that failed the condition, and
//! [`decide`] explains the failure. If the item satisfies all rules, the request had a form that does not fit the item, and
//! is sent again in the [`Form`] that fits.
//!
//! The SDK does not retry this request; this module does, with the retry settings and the operation timeout of the client.
//! After a request without a response, the update may have been applied, or may still be applied. The next request has a
//! guard that detects the former, and a later time, which excludes the latter.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput, builders::UpdateItemInputBuilder},
    types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    domain::{
        Item, attribution,
        decision::decide,
        keys::LATEST_KEY,
        names,
        recent_requests::Window,
        recorded_at::RecordedAt,
        stamp::Stamp,
        update::{ExpectedVersion, Update},
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::{error::ServiceError, failure::Failure},
        n, s,
        write::{
            earlier_delivery::{Earlier, Guard},
            expression::Expression,
            lifetime::Lifetime,
            order::Order,
            outcome::{WriteError, WriteOutcome},
            recent_requests::RecentRequests,
        },
    },
};

const OPERATION: &str = "UpdateItem";
/// Maximum number of attempts, if the latest item changes between attempts.
const MAX_ATTEMPTS: u32 = 20;

// Parts of the condition. All but the last hold for an entity that does not exist. See also `Form`.

/// Rejects a repetition of the last update: the counter is not idempotent, see
/// [Atomic counters](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html).
const NOT_THE_LAST_REQUEST: &str = "(attribute_not_exists(#request) OR #request <> :request)";
/// Requires that the entity does not exist.
const ABSENT: &str = "attribute_not_exists(#pk)";
/// Requires the expected version.
const EXPECTED: &str = "#latest = :expected";

/// Form of an update, which depends on the latest item.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Form in which the request is stored.
    pub recent_requests: RecentRequests,
    /// Time of the version.
    pub stamp: Stamp,
    /// Protection against a second application.
    pub guard: Guard,
    /// Lifetime of the latest item.
    pub lifetime: Lifetime,
    /// Order by time.
    pub order: Order,
}

impl Form {
    /// Returns the form that most latest items need.
    fn assumed(update: &Update, window: Window, now: RecordedAt) -> Self {
        Self {
            recent_requests: RecentRequests::assumed(update, window),
            stamp: Stamp::At(now),
            guard: Guard::of(update),
            lifetime: Lifetime::assumed(now),
            order: Order::ByTimestamp,
        }
    }

    /// Returns `true` if the conditions hold for the stored latest item.
    fn holds_for(&self, update: &Update, stored: Option<&Item>) -> bool {
        self.recent_requests.holds_for(stored)
            && self.stamp.holds_for(stored)
            && self.guard.holds_for(stored)
            && self.lifetime.holds_for(stored)
            && (self.lifetime.is_expired() || self.order.holds_for(update, stored))
    }
}

impl Store {
    /// Applies an update to the latest item, unless it is a duplicate. stream-fn puts the version item.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError`], see its variants.
    pub async fn write_version(&self, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
        let (outcome, _) = self.bump(update, window, ReturnValue::UpdatedNew).await?;
        Ok(outcome)
    }

    /// Applies an update, and returns the outcome with the new item, or with the item that decided against the update.
    ///
    /// It sends one request if the update is newer than the latest item, and if the recent requests have room for one more.
    /// Otherwise the condition fails, and the request is sent again in the form that fits the returned item.
    pub(crate) async fn bump(
        &self,
        update: &Update,
        window: Window,
        returns: ReturnValue,
    ) -> Result<(WriteOutcome, Option<Item>), WriteError> {
        let mut now = self.now();
        let mut form = Form::assumed(update, window, now);
        // An update that expects no latest item creates it with the first request.
        let is_first = update.expected == Some(ExpectedVersion::Absent);
        let mut has_no_versions = is_first && self.newest_in_history(&update.entity, true).await?.is_none();
        if is_first && !has_no_versions {
            form.recent_requests = RecentRequests::assumed_existing(update, window);
        }
        // Requests without a response cannot be applied to an item of this time.
        let mut fence = now;
        let mut failures = 0;
        let mut end = self.operation_end();
        for _ in 0..MAX_ATTEMPTS {
            let request = request(update, &form, &self.table).return_values(returns.clone());
            // Boxed, to keep the future of an update small.
            let output = before(end, Box::pin(request.send_with(&self.client_without_retries))).await;
            if let Some(failure) = output.as_ref().err().and_then(Failure::of) {
                failures += 1;
                let wait = self.backoff(failures);
                let is_in_time = end.is_none_or(|end| Instant::now() + wait < end);
                if failures < self.max_attempts() && is_in_time {
                    if failure == Failure::Unanswered {
                        form.guard = form.guard.after_unanswered(now);
                        fence = fence.max(form.stamp.end());
                    }
                    sleep(wait).await;
                    now = self.now().max(fence);
                    form.stamp = Stamp::At(now);
                    continue;
                }
            }
            let uncounted = rejected(&output).filter(|stored| !stored.as_ref().is_some_and(is_counted));
            let counted = match uncounted {
                Some(_) if !has_no_versions => self.counted_latest(&update.entity).await?,
                _ => None,
            };
            has_no_versions |= uncounted.is_some() && counted.is_none();
            let mut stored = match outcome(update, output, counted, now)? {
                Attempt::Decided(outcome, item) => {
                    return self.unless_applied_before(update, outcome, item, form.guard).await;
                }
                Attempt::Retry(stored) => stored,
            };
            if form.holds_for(update, stored.as_ref()) {
                return Err(WriteError::Unexplained);
            }
            if !form.guard.holds_for(stored.as_ref()) {
                match self.find_earlier_delivery(update, stored, form.guard).await? {
                    Earlier::Applied(version) => return Ok((WriteOutcome::Duplicate { version }, None)),
                    Earlier::NotApplied { stored: newest, guard } => (stored, form.guard) = (newest, guard),
                }
            }
            now = self.now().max(fence);
            form.recent_requests = RecentRequests::fitting(update, window, now, stored.as_ref())?;
            form.stamp = form.stamp.after_failure(now, fence, stored.as_ref());
            form.lifetime = Lifetime::fitting(update, now, stored.as_ref());
            form.order = Order::fitting(stored.as_ref());
            // The response ended the operation; the next form is a new one.
            end = self.operation_end();
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS })
    }

    /// Replaces a conflict, or a stale update, if an earlier delivery applied the update: afterwards it can violate the rules.
    async fn unless_applied_before(
        &self,
        update: &Update,
        outcome: WriteOutcome,
        item: Option<Item>,
        guard: Guard,
    ) -> Result<(WriteOutcome, Option<Item>), WriteError> {
        let is_refused = matches!(outcome, WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. });
        if !is_refused || guard.holds_for(item.as_ref()) {
            return Ok((outcome, item));
        }
        Ok(match self.find_earlier_delivery(update, item, guard).await? {
            Earlier::Applied(version) => (WriteOutcome::Duplicate { version }, None),
            Earlier::NotApplied { stored, .. } => (outcome, stored),
        })
    }
}

type Output = Result<UpdateItemOutput, SdkError<UpdateItemError, HttpResponse>>;

/// Waits for the output of an attempt until the end of its operation.
async fn before(end: Option<Instant>, attempt: impl Future<Output = Output>) -> Output {
    match end {
        None => attempt.await,
        Some(end) => match timeout_at(end, attempt).await {
            Ok(output) => output,
            Err(elapsed) => Err(SdkError::timeout_error(elapsed)),
        },
    }
}

/// Builds the request.
pub fn request(update: &Update, form: &Form, table: &str) -> UpdateItemInputBuilder {
    let request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(update.entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    expression(update, form).apply_to_request(request)
}

/// Builds the changes of the latest item and their condition.
pub(crate) fn expression(update: &Update, form: &Form) -> Expression {
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
    form.recent_requests.add_to(&mut expression);
    form.guard.add_to(&mut expression);
    form.lifetime.add_to(&mut expression, update);
    add_record(&mut expression, update, &form.stamp);
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
            .name("#timestamp", names::TIMESTAMP)
            .value(":timestamp", n(timestamp.get()));
    }
    // An expired latest item is treated as absent.
    if !form.lifetime.is_expired() {
        if update.timestamp.is_some() {
            form.order.add_to(&mut expression);
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
    }
    expression.changes(&update.changes);
    expression
}

/// Adds the attributes that describe the new version, and removes those of the version before.
fn add_record(expression: &mut Expression, update: &Update, stamp: &Stamp) {
    expression
        .name("#recorded", names::RECORDED_AT)
        .name("#version", names::RECORDED_VERSION)
        .name("#tick", names::RECORDED_TICK)
        .name("#payload", names::REQUEST_PAYLOAD)
        .value(":payload", s(update.payload().short()))
        .set("#version = if_not_exists(#latest, :zero) + :one")
        .set("#payload = :payload");
    match stamp {
        Stamp::At(time) => expression
            .set("#recorded = :recorded")
            .remove("#tick")
            .condition("(attribute_not_exists(#recorded) OR #recorded < :recorded)")
            .value(":recorded", s(time.to_string())),
        Stamp::Tick { from, before } => expression
            .set("#tick = if_not_exists(#tick, :zero) + :one")
            .condition(
                "#recorded >= :recorded AND #recorded < :end AND (attribute_not_exists(#tick) OR #tick < :ticks)",
            )
            .value(":recorded", s(from.to_string()))
            .value(":end", s(before.to_string()))
            .value(":ticks", n(RecordedAt::MAX_TICKS)),
    };
    for (index, name) in attribution::OF_CLIENT.into_iter().enumerate() {
        let is_set = update.changes.contains_key(name) || (name == names::TIMESTAMP && update.timestamp.is_some());
        if !is_set {
            let placeholder = format!("#c{index}");
            expression.remove(&placeholder).name(placeholder, name);
        }
    }
    let restored_from = update.restored_from.map(n);
    for (placeholder, name, value) in [
        ("sender", names::SENDER, update.sender.as_ref().map(s)),
        ("restored", names::RESTORED_FROM, restored_from),
    ] {
        let path = format!("#{placeholder}");
        match value {
            Some(value) => expression
                .set(format!("#{placeholder} = :{placeholder}"))
                .value(format!(":{placeholder}"), value),
            None => expression.remove(&path),
        };
        expression.name(path, name);
    }
}

/// Result of one request.
#[derive(Debug, PartialEq)]
pub enum Attempt {
    /// The outcome, with the item that decided it.
    Decided(WriteOutcome, Option<Item>),
    /// The condition failed only because the form of the update does not fit the item.
    Retry(Option<Item>),
}

/// Returns the latest item that failed the condition, `Some(None)` if there is none, `None` if the condition did not fail.
fn rejected<R>(output: &Result<UpdateItemOutput, SdkError<UpdateItemError, R>>) -> Option<Option<Item>> {
    match output.as_ref().err()?.as_service_error()? {
        UpdateItemError::ConditionalCheckFailedException(failure) => {
            Some(failure.item().map(|item| Item::from(item.clone())))
        }
        _ => None,
    }
}

fn is_counted(latest: &Item) -> bool {
    latest.contains_key(names::LATEST)
}

/// Returns the result of the request's output. `counted` replaces the latest item that failed the condition.
///
/// # Errors
///
/// Returns [`WriteError::Latest`] if the stored item has no valid version, [`WriteError::RequestIdReused`] if the request id
/// belongs to another update, [`WriteError::Unordered`] if the time of the stored item cannot be read,
/// [`WriteError::Service`] for every error except a failed condition.
pub fn outcome<R>(
    update: &Update,
    output: Result<UpdateItemOutput, SdkError<UpdateItemError, R>>,
    counted: Option<Item>,
    now: RecordedAt,
) -> Result<Attempt, WriteError>
where
    R: std::fmt::Debug,
    SdkError<UpdateItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    if let Some(stored) = rejected(&output) {
        let stored = counted.or(stored);
        return Ok(match decide(update, stored.as_ref(), now)?.refusal()? {
            Some(refusal) => Attempt::Decided(refusal, stored),
            None => Attempt::Retry(stored),
        });
    }
    let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    let new = Item::from(output.attributes.unwrap_or_default());
    let version = latest_of(&new)?;
    Ok(Attempt::Decided(WriteOutcome::Written { version }, Some(new)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
                None,
                RecordedAt::since_epoch(Duration::from_secs(1)),
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
        let members = members.chain([("Timestamp".to_owned(), json!(1))]);
        let update = update(Value::Object(members.collect()), Ordering::Time);
        let requests =
            (1..=2 * u32::from(Window::MAX)).map(|number| (format!("h{number:07}"), json!({"N": number.to_string()})));
        let stored =
            json!({"Latest": {"N": "1"}, "RecentRequests": {"M": requests.collect::<serde_json::Map<_, _>>()}});
        let window = Window::new(Window::MAX / 2).unwrap();
        let now = RecordedAt::since_epoch(std::time::Duration::from_secs(1));
        let stored: Item = serde_json::from_value(stored).unwrap();
        let form = Form {
            recent_requests: RecentRequests::fitting(&update, window, now, Some(&stored)).unwrap(),
            stamp: Stamp::Tick { from: now, before: now },
            guard: Guard::Since(now.floor_millis()),
            lifetime: Lifetime::assumed(now),
            order: Order::ByTimestamp,
        };
        let request = request(&update, &form, "T");
        // The maximum length of an expression is 4 KB.
        assert!(request.get_update_expression().as_ref().unwrap().len() <= 4096);
        assert!(request.get_condition_expression().as_ref().unwrap().len() <= 4096);
    }
}
