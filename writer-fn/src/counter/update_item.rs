//! Update of the latest item: one `UpdateItem` that increments the version and applies the changes.
//!
//! It sends one request if the update is newer than the latest item, and if the recent requests have room for one more. Otherwise
//! the condition fails, and [`decide`] explains the failure by the item that DynamoDB returns. If the item violates no rule of the
//! update, the request had a form that does not fit the item, and is sent again in the [`Form`] that fits.
//!
//! The SDK does not retry this request; this module does, with the retry settings and the operation timeout of the client.
//! After a request without a response, the update may have been applied, or may still be applied. The identical request is sent
//! again: its condition fails after either. The [earlier deliveries](crate::counter::earlier_delivery) in the condition of later
//! requests exclude a second application.
//!
//! A deletion reads the latest item before, and removes the attributes that it had, see [`lifetime`](crate::counter::lifetime). In the
//! write mode `inline`, `PutItem` of the version item follows.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::SdkError,
    operation::update_item::{UpdateItemError, UpdateItemOutput},
    types::ReturnValue,
};
use shared::{
    config::{Window, WriteMode},
    domain::{Item, keys::LATEST_KEY, version_item::latest_of},
    dynamodb::{
        Store,
        client::{error::ServiceError, failure::Failure},
    },
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    counter::{
        checked::Checked,
        completion::complete,
        decision::{check_maps, decide},
        earlier_delivery::{Search, find_earlier_delivery},
        ended_state::remove_ended_state,
        form::{self, Form, removes_ended_state},
        lifetime::Lifetime,
        outcome::{WriteError, WriteOutcome},
        recent_requests::change::RecentRequests,
        uncounted::counted_instead,
    },
    update::{ExpectedVersion, Update},
};

const OPERATION: &str = "UpdateItem";
/// Maximum number of attempts, if the latest item changes between attempts.
const MAX_ATTEMPTS: u32 = 20;

/// Applies an update to the latest item, unless it is a duplicate. In the write mode `stream`, stream-fn puts the version item.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub(super) async fn write(
    store: &Store,
    update: &Update,
    window: Window,
    mode: WriteMode,
    known: &mut Checked,
) -> Result<WriteOutcome, WriteError> {
    store.check_writable(OPERATION)?;
    let returns = match mode {
        WriteMode::Stream if !update.deleted => ReturnValue::UpdatedNew,
        _ => ReturnValue::AllNew,
    };
    let mut now = store.now();
    let mut form = Form::assumed(update, window, now);
    known.add_to(&mut form.earlier, update);
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
                    form.earlier.unanswered = Some(first);
                }
                sleep(wait).await;
                continue;
            }
        }
        let error = match output {
            Ok(output) => {
                let latest = Item::from(output.attributes.unwrap_or_default());
                let version = latest_of(&latest)?;
                known.written(update, version);
                return Box::pin(complete(
                    store,
                    update,
                    mode,
                    WriteOutcome::Written { version },
                    Some(latest),
                ))
                .await;
            }
            Err(error) => error,
        };
        let Some(UpdateItemError::ConditionalCheckFailedException(failure)) = error.as_service_error() else {
            return Err(ServiceError::new(OPERATION, &error).into());
        };
        let rejecting = failure.item().cloned().map(Item::from);
        let counted = counted_instead(store, &update.entity, rejecting.as_ref(), &mut has_no_versions);
        let counted = Box::pin(counted).await?;
        let is_rejecting = counted.is_none();
        let mut stored = counted.or(rejecting);
        let decision = decide(update, stored.as_ref());
        if decision == Ok(None) && is_rejecting && form::expression(update, &form).holds(stored.as_ref()) {
            return Err(WriteError::FailedWithoutViolation);
        }
        // An update that was applied before can violate the rules by now.
        let may_be_applied = match &decision {
            Ok(None | Some(WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. })) => true,
            Ok(Some(_)) => false,
            Err(error) => matches!(error, WriteError::NoMap { .. }),
        };
        known.compare(&mut form.earlier, stored.as_ref());
        if form.earlier.is_complete_in(stored.as_ref()) {
            known.observe(&form.earlier, stored.as_ref());
        } else if may_be_applied {
            match Box::pin(find_earlier_delivery(store, update, stored, &form.earlier, known)).await? {
                Search::Applied(version) => return Ok(WriteOutcome::Duplicate { version }),
                Search::NotApplied(newest) => stored = newest,
            }
        }
        if let Some(refusal) = decision? {
            return Box::pin(complete(store, update, mode, refusal, stored)).await;
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
