//! Writes in one transaction: the latest item with its version item, the marker of a ledger, or both.
//!
//! The latest item is read first, and the transaction requires that it has not changed. A concurrent update makes the
//! transaction fail; then the item is read again.

use aws_sdk_dynamodb::types::TransactWriteItem;
use shared::{
    config::{Idempotency, MARKER_RETENTION, WriteMode, WriteOptions},
    domain::{Item, keys::LATEST_KEY, recorded_at::RecordedAt, version::Version, version_item::VersionItem},
    dynamodb::{
        Store,
        cancellation::{self, OPERATION},
        client::error::ServiceError,
        key, n,
        write::Write,
    },
};

use crate::{
    counter::{
        checked::Checked,
        completion::{complete, end_state, put_with_retries},
        decision::{apply, decide, unchanged_version},
        earlier_delivery::{EarlierDeliveries, Search, find_earlier_delivery},
        ended_state::remove_ended_state,
        form::{self, Form},
        ledger::{self, version_in_ledger},
        lifetime::Lifetime,
        order::Order,
        outcome::{WriteError, WriteOutcome},
        race::{Race, race},
        recent_requests::change::{Contention, RecentRequests},
        rules,
        stamp::Stamp,
        uncounted::counted_instead,
    },
    update::Update,
};

/// Maximum number of attempts, if concurrent updates win.
const MAX_ATTEMPTS: u32 = 10;

/// Reads the latest item, and writes it together with the version item in [`WriteMode::Transaction`] and the marker of a
/// ledger, on condition that the latest item has not changed. It retries after concurrent updates, with jitter.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub(super) async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    let has_ledger = options.idempotency == Idempotency::Ledger;
    let mut earlier = match has_ledger {
        true => EarlierDeliveries::default(),
        false => EarlierDeliveries::of(update, store.now()),
    };
    let first = (!has_ledger).then(|| store.now());
    let mut has_no_versions = false;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(store.backoff(attempt)).await;
        }
        let mut stored = store.get(&update.entity, LATEST_KEY, true).await?;
        let counted = counted_instead(store, &update.entity, stored.as_ref(), &mut has_no_versions);
        let counted = Box::pin(counted).await?;
        stored = counted.or(stored);
        // Also before a conflict: after an earlier delivery, the update can violate the rules.
        let is_duplicate = matches!(
            decide(update, stored.as_ref()),
            Ok(Some(WriteOutcome::Duplicate { .. }))
        );
        if !earlier.is_complete_in(stored.as_ref()) && !is_duplicate {
            match find_earlier_delivery(store, update, stored, &earlier, &mut Checked::default()).await? {
                Search::Applied(version) => return Ok(WriteOutcome::Duplicate { version }),
                Search::NotApplied(newest) => stored = newest,
            }
        }
        if let Some(outcome) = refused(store, update, stored.as_ref(), options).await? {
            return Ok(outcome);
        }
        if !has_ledger {
            // A transaction that counts as lost may have been applied, or may still be applied.
            earlier = earlier.after_check(stored.as_ref())?;
        }
        store.check_writable(OPERATION)?;
        let now = store.now();
        let stamp = Stamp::fitting(now, stored.as_ref());
        let plan = Plan::new(store, update, stored.as_ref(), options, (now, stamp)).await?;
        if plan.remove_ended_state(store, stored.as_ref()).await? {
            continue;
        }
        let items = plan.items(store)?;
        let request = store.client().transact_write_items().set_transact_items(Some(items));
        let Err(error) = request.send().await else {
            return plan.complete(store, options.mode).await;
        };
        let parts = &plan.parts;
        let version = plan.version();
        match race(&error, parts.marker_expires.is_some(), !parts.version_items.is_empty()) {
            // As after no response: an earlier attempt of the SDK can still be applied.
            Some(Race::Lost | Race::InProgress) => earlier.unanswered = first,
            Some(Race::AlreadyApplied(marker)) => {
                let applied = match marker {
                    Some(marker) => Some(ledger::applied_version(update, &marker)?),
                    None => version_in_ledger(store, update).await?,
                };
                if let Some(version) = applied {
                    return complete(store, update, options.mode, WriteOutcome::Duplicate { version }, stored).await;
                }
            }
            Some(Race::Taken) => return Err(WriteError::Taken { version }),
            None => return Err(cancellation::service_error(&error).into()),
        }
    }
    Err(WriteError::Contended { attempts: MAX_ATTEMPTS })
}

/// Update that a transaction applies to the latest item that was read.
pub(super) struct Plan<'a> {
    update: &'a Update,
    pub(super) parts: Parts,
    pub(super) version_item: VersionItem,
    /// `true` if the transaction removes all attributes whose state has ended.
    removes_all: bool,
}

impl<'a> Plan<'a> {
    /// Plans an update at a time of the writer's clock, with the stamp of its version.
    pub(super) async fn new(
        store: &Store,
        update: &'a Update,
        stored: Option<&Item>,
        options: WriteOptions,
        (now, stamp): (RecordedAt, Stamp),
    ) -> Result<Self, WriteError> {
        let version_item = VersionItem::from_image(apply(update, stored, &stamp)?, store.digits())?;
        let recent_requests = match options.idempotency {
            Idempotency::Ledger => RecentRequests::in_marker(update, now, stored),
            Idempotency::Recent(window) => RecentRequests::fitting(update, window, now, stored, Contention::None)?,
        };
        // It needs no earlier deliveries: the transaction requires the version that was checked.
        let form = Form {
            stamp,
            lifetime: Lifetime::fitting(update, stored),
            order: Order::fitting(stored),
            ..Form::first(recent_requests, now)
        };
        let has_ledger = options.idempotency == Idempotency::Ledger;
        Ok(Self {
            update,
            removes_all: form::removes_ended_state(update, &form),
            parts: Parts {
                form,
                is_absent: stored.is_none(),
                marker_expires: has_ledger.then(|| (now.to_duration() + MARKER_RETENTION).as_secs()),
                version_items: match options.mode {
                    WriteMode::Transaction => store.stored(&version_item).await?,
                    _ => Vec::new(),
                },
            },
            version_item,
        })
    }

    pub(super) fn version(&self) -> Version {
        self.version_item.version()
    }

    /// Removes ended attributes of a tombstone for which the transaction has no room. Returns `true` if there were some: then the latest
    /// item is read again.
    pub(super) async fn remove_ended_state(&self, store: &Store, stored: Option<&Item>) -> Result<bool, WriteError> {
        match stored.filter(|_| !self.removes_all && !self.update.deleted) {
            Some(stored) => Ok(Box::pin(remove_ended_state(store, &self.update.entity, stored)).await?),
            None => Ok(false),
        }
    }

    /// Returns the writes of the transaction.
    pub(super) fn items(&self, store: &Store) -> Result<Vec<TransactWriteItem>, ServiceError> {
        let (latest, history) = (store.latest_table(), store.history_table());
        items(self.update, self.version(), &self.parts, latest, history)
    }

    /// Sends the requests that follow the transaction, and returns the outcome.
    pub(super) async fn complete(self, store: &Store, mode: WriteMode) -> Result<WriteOutcome, WriteError> {
        let version = self.version();
        if !self.removes_all
            && let Some(latest) = store.get(&self.update.entity, LATEST_KEY, true).await?
        {
            Box::pin(end_state(store, self.update, version, &latest)).await?;
        }
        if mode == WriteMode::Inline {
            put_with_retries(store, version, self.version_item).await?;
        }
        Ok(WriteOutcome::Written { version })
    }
}

/// Returns the outcome of an update that is not applied, or that was applied before and violates the rules now: the ledger
/// detects it.
async fn refused(
    store: &Store,
    update: &Update,
    stored: Option<&Item>,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, WriteError> {
    let refusal = refusal(store, update, stored, options);
    let is_refused = matches!(&refusal, Ok(Some(_)) | Err(WriteError::NoMap { .. }));
    let in_ledger = match options.idempotency {
        Idempotency::Ledger if is_refused => version_in_ledger(store, update).await?,
        _ => None,
    };
    let refusal = match in_ledger {
        Some(version) => Some(WriteOutcome::Duplicate { version }),
        None => refusal?,
    };
    match refusal {
        Some(refusal) => complete(store, update, options.mode, refusal, stored.cloned())
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// Returns the outcome of an update that is not applied.
pub fn refusal(
    store: &Store,
    update: &Update,
    stored: Option<&Item>,
    options: WriteOptions,
) -> Result<Option<WriteOutcome>, WriteError> {
    if let Some(refusal) = decide(update, stored)? {
        return Ok(Some(refusal));
    }
    let skipped = match stored {
        Some(stored) if options.skip_unchanged => unchanged_version(update, stored, store.now())?,
        _ => None,
    };
    Ok(skipped.map(|version| WriteOutcome::Unchanged { version }))
}

/// Parts of the transaction in addition to the update.
#[derive(Debug)]
pub struct Parts {
    /// Form of the update.
    pub form: Form,
    /// `true` if there was no latest item. Otherwise, the first version can begin with an item of another program.
    pub is_absent: bool,
    /// Expiry of the request's marker in epoch seconds, with a ledger.
    pub marker_expires: Option<u64>,
    /// Version item as its table stores it, and its further parts, in [`WriteMode::Transaction`].
    pub version_items: Vec<Item>,
}

/// Returns the writes of the transaction: latest item, marker, and the items of the version.
///
/// # Errors
///
/// Returns [`ServiceError`] if the SDK rejects a part.
pub fn items(
    update: &Update,
    version: Version,
    parts: &Parts,
    table: &str,
    history_table: &str,
) -> Result<Vec<TransactWriteItem>, ServiceError> {
    let mut expression = form::expression(update, &parts.form);
    // The decision holds only for the version that was read.
    let same = match version.get() {
        1 if parts.is_absent => rules::STILL_ABSENT,
        1 => rules::STILL_UNCOUNTED,
        next => {
            expression.value(":read", n(next - 1));
            rules::SAME_VERSION
        }
    };
    same.add_to(&mut expression);
    let latest = Write::update(table, key(update.entity.as_str(), LATEST_KEY), expression);
    let marker = parts
        .marker_expires
        .map(|expires| ledger::put(update, version, expires, table));
    let items = parts.version_items.iter().cloned();
    let items = items.map(|item| Write::insert(history_table, item));
    let writes = [latest].into_iter().chain(marker).chain(items);
    writes.map(Write::into_transaction).collect()
}
