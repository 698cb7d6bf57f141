//! Update of the latest item: one `UpdateItem` that increments the version and applies the changes.
//!
//! The condition rejects duplicate, stale and conflicting updates. DynamoDB returns the item that failed the condition, and
//! [`decide`] explains the failure. If the item satisfies all rules, the request had a form that does not fit the item, and
//! is sent again in the [`Form`] that fits.
//!
//! The SDK does not retry this request; this module does, with the retry settings and the operation timeout of the client.
//! After a request without a response, the update may have been applied, or may still be applied. The identical request is sent
//! again: its condition fails after either. The [guard](crate::counter::earlier_delivery) of later requests excludes a second application.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput},
    types::ReturnValue,
};
use shared::{
    config::Window,
    domain::{Item, keys::LATEST_KEY, version_item::latest_of},
    dynamodb::{
        Store,
        client::{error::ServiceError, failure::Failure},
    },
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    counter::{
        decision::{check_maps, decide},
        earlier_delivery::{Earlier, find_earlier_delivery},
        ended_state::{end_state, remove_ended_state},
        form::{self, Form, removes_ended_state},
        lifetime::Lifetime,
        outcome::{WriteError, WriteOutcome},
        recent_requests::form::RecentRequests,
        uncounted::counted_instead,
    },
    update::{ExpectedVersion, Update},
};

const OPERATION: &str = "UpdateItem";
/// Maximum number of attempts, if the latest item changes between attempts.
const MAX_ATTEMPTS: u32 = 20;

/// Applies an update to the latest item, unless it is a duplicate. stream-fn puts the version item.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub(super) async fn write(store: &Store, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
    let (outcome, _) = bump(store, update, window, ReturnValue::UpdatedNew).await?;
    Ok(outcome)
}

/// Applies an update, and returns the outcome with the new item, or with the item that decided against the update.
///
/// It sends one request if the update is newer than the latest item, and if the recent requests have room for one more.
/// Otherwise the condition fails, and the request is sent again in the form that fits the returned item.
///
/// A deletion reads the latest item before, and removes the attributes that it had, see [`lifetime`](crate::counter::lifetime).
pub(crate) async fn bump(
    store: &Store,
    update: &Update,
    window: Window,
    returns: ReturnValue,
) -> Result<(WriteOutcome, Option<Item>), WriteError> {
    let returns = if update.deleted { ReturnValue::AllNew } else { returns };
    let (outcome, item) = send_update(store, update, window, returns).await?;
    if let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }, Some(latest)) = (outcome, &item) {
        Box::pin(end_state(store, update, version, latest)).await?;
    }
    Ok((outcome, item))
}

async fn send_update(
    store: &Store,
    update: &Update,
    window: Window,
    returns: ReturnValue,
) -> Result<(WriteOutcome, Option<Item>), WriteError> {
    store.check_writable(OPERATION)?;
    let mut now = store.now();
    let mut form = Form::assumed(update, window, now);
    if update.deleted || update.is_wide() {
        if update.deleted {
            // It starts from an item without state, and the condition does not say so.
            check_maps(update, None)?;
        }
        let stored = Box::pin(store.get(&update.entity, LATEST_KEY, true)).await?;
        form.lifetime = Lifetime::fitting(update, stored.as_ref());
    }
    // An update that expects no latest item creates it with the first request.
    let is_first = update.expected == Some(ExpectedVersion::Absent);
    let mut has_no_versions = is_first && !Box::pin(store.has_history(&update.entity, true)).await?;
    if is_first && !has_no_versions {
        form.recent_requests = RecentRequests::assumed_existing(update, window, now);
    }
    // No request has an earlier time: then the first one can no longer be applied, if it is still on its way.
    let first = now;
    let mut failures = 0;
    let mut end = store.operation_end();
    for _ in 0..MAX_ATTEMPTS {
        let request = form::request(update, &form, store.latest_table()).return_values(returns.clone());
        // Boxed, to keep the future of an update small.
        let output = before(end, Box::pin(request.send_with(store.client_without_retries()))).await;
        if let Some(failure) = output.as_ref().err().and_then(Failure::of) {
            failures += 1;
            let wait = store.backoff(failures);
            let is_in_time = end.is_none_or(|end| Instant::now() + wait < end);
            if failures < store.max_attempts() && is_in_time {
                if failure == Failure::Unanswered {
                    form.guard = form.guard.after_unanswered(first);
                }
                sleep(wait).await;
                continue;
            }
        }
        let error = match output {
            Ok(output) => {
                let latest = Item::from(output.attributes.unwrap_or_default());
                let version = latest_of(&latest)?;
                return Ok((WriteOutcome::Written { version }, Some(latest)));
            }
            Err(error) => error,
        };
        let Some(UpdateItemError::ConditionalCheckFailedException(failure)) = error.as_service_error() else {
            return Err(ServiceError::new(OPERATION, &error).into());
        };
        let rejecting = failure.item().cloned().map(Item::from);
        let counted = Box::pin(counted_instead(
            store,
            &update.entity,
            rejecting.as_ref(),
            &mut has_no_versions,
        ))
        .await?;
        let is_rejecting = counted.is_none();
        let mut stored = counted.or(rejecting);
        let decision = decide(update, stored.as_ref());
        if decision == Ok(None) && is_rejecting && form::expression(update, &form).holds(stored.as_ref()) {
            return Err(WriteError::Unexplained);
        }
        // An update that was applied before can violate the rules by now.
        let may_be_applied = match &decision {
            Ok(None | Some(WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. })) => true,
            Ok(Some(_)) => false,
            Err(error) => matches!(error, WriteError::NoMap { .. }),
        };
        if may_be_applied && !form.guard.is_complete_in(stored.as_ref()) {
            match Box::pin(find_earlier_delivery(store, update, stored, form.guard)).await? {
                Earlier::Applied(version) => return Ok((WriteOutcome::Duplicate { version }, None)),
                Earlier::NotApplied(newest) => stored = newest,
            }
        }
        if let Some(refusal) = decision? {
            return Ok((refusal, stored));
        }
        now = store.now().max(first);
        form.fit(update, window, now, first, stored.as_ref())?;
        if let Some(stored) = stored.as_ref().filter(|_| !update.deleted)
            && !removes_ended_state(update, &form)
            && Box::pin(remove_ended_state(store, &update.entity, stored)).await?
        {
            // The condition fails for the tombstone, which DynamoDB then returns without these attributes.
            form.lifetime = Lifetime::default();
        }
        // The response ended the operation; the next form is a new one.
        end = store.operation_end();
    }
    Err(WriteError::Contended { attempts: MAX_ATTEMPTS })
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
