//! Change sets: one transaction updates the latest items of several entities, all or none.
//!
//! ```text
//! BatchGetItem        all latest items, with a ledger also the markers
//!   applied before?   one entity has the request: all have it, since the transaction is atomic
//!   refused?          one update is: nothing is written
//! TransactWriteItems  each latest item, on condition that it has the version that was read
//! ```
//!
//! The conditions, changes and version items are those of [single updates](super::transaction). All versions get one `RecordedAt`, later
//! than that of each latest item; the condition requires it. After a failed condition, all items are read and decided again. So an
//! attempt that was applied without a response is a duplicate.
//!
//! History is [searched](super::earlier_delivery) for the request only where a latest item can have lost it since the set was sent.

use std::collections::HashMap;

use futures::future::{join_all, try_join_all};
use shared::{
    config::{Idempotency, WriteMode, WriteOptions},
    domain::{
        Item,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        names,
        recorded_at::RecordedAt,
        size,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        cancellation::{self, OPERATION},
    },
};

use crate::{
    counter::{
        checked::Checked,
        completion::complete,
        decision::decide,
        earlier_delivery::{EarlierDeliveries, Search, find_earlier_delivery},
        ledger::{Marker, applied_version, sort_key, version_in_ledger},
        outcome::{WriteError, WriteOutcome},
        race::{SetRace, set_race},
        stamp::Stamp,
        transaction::Plan,
        uncounted::counted_instead,
    },
    update::{Update, set::ENTITIES},
};

/// Maximum number of attempts, if concurrent updates win. Most invocations end before.
const MAX_ATTEMPTS: u32 = 100;
/// Maximum size of the items of a transaction, see
/// [`TransactWriteItems`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Outcome of a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOutcome {
    /// It created these versions, in the order of its updates.
    Written(Vec<Version>),
    /// It was applied before, and created these versions. Nothing changed.
    Duplicate(Vec<Version>),
    /// One of its updates conflicts or is stale. Nothing changed.
    Refused {
        /// Index of the update.
        update: usize,
        /// Its outcome.
        outcome: WriteOutcome,
    },
}

/// Error of a change set, with the index of the update that failed, if it is one.
pub type SetError = (Option<usize>, WriteError);

/// Applies the updates of a change set: all or none.
///
/// # Errors
///
/// Returns [`WriteError`] with the index of the update that failed.
pub async fn write(store: &Store, set: &[Update], options: WriteOptions) -> Result<SetOutcome, SetError> {
    store.check_writable(OPERATION).map_err(of_all)?;
    let has_ledger = options.idempotency == Idempotency::Ledger;
    let actions = 1 + usize::from(has_ledger) + usize::from(options.mode == WriteMode::Transaction);
    let (entities, max) = (set.len(), ENTITIES.end() / actions);
    if entities > max {
        return Err(of_all(WriteError::TooManyActions { entities, max }));
    }
    let first = store.now();
    let members = set.iter().map(|update| Member::new(update, first, has_ledger));
    let mut members: Vec<_> = members.collect();
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(store.backoff(attempt)).await;
            // A transaction that counts as lost may have been applied.
            for member in &mut members {
                member.earlier.unanswered = Some(first);
            }
        }
        read(store, &mut members, has_ledger).await?;
        if let Some(versions) = applied(store, &mut members, options).await? {
            return Ok(SetOutcome::Duplicate(versions));
        }
        for (update, member) in members.iter().enumerate() {
            if let Some(outcome) = decide(member.update, member.stored.as_ref()).map_err(of(update))? {
                return Ok(SetOutcome::Refused { update, outcome });
            }
        }
        let Some(plans) = plans(store, &mut members, options).await? else {
            continue;
        };
        let bytes = plans.iter().zip(&members).map(|(plan, member)| member.bytes(plan));
        if bytes.sum::<usize>() > MAX_BYTES {
            return Err(of_all(WriteError::TooLargeTogether));
        }
        let items: Vec<_> = plans
            .iter()
            .map(|plan| plan.items(store))
            .collect::<Result<_, _>>()
            .map_err(of_all)?;
        let lengths: Vec<_> = items.iter().map(Vec::len).collect();
        if lengths.iter().sum::<usize>() > *ENTITIES.end() {
            // Versions in several parts.
            return Err(of_all(WriteError::TooManyActions {
                entities,
                max: entities - 1,
            }));
        }
        let items = items.into_iter().flatten().collect();
        let request = store.client().transact_write_items().set_transact_items(Some(items));
        let Err(error) = request.send().await else {
            let versions = plans.iter().map(Plan::version).collect();
            // All are completed, also if one fails.
            let completed = join_all(plans.into_iter().map(|plan| plan.complete(store, options.mode))).await;
            for (update, completed) in completed.into_iter().enumerate() {
                completed.map_err(of(update))?;
            }
            return Ok(SetOutcome::Written(versions));
        };
        match set_race(&error, &lengths, has_ledger) {
            Some(SetRace::Lost) => {}
            _ if cancellation::exceeds_size(&error) => return Err(of_all(WriteError::TooLargeTogether)),
            Some(SetRace::Taken(update)) => {
                let version = plans[update].version();
                return Err((Some(update), WriteError::Taken { version }));
            }
            Some(SetRace::Rejected(update)) => return Err(of(update)(cancellation::service_error(&error))),
            None => return Err(of_all(cancellation::service_error(&error))),
        }
    }
    Err(of_all(WriteError::Contended { attempts: MAX_ATTEMPTS }))
}

fn of_all(error: impl Into<WriteError>) -> SetError {
    (None, error.into())
}

fn of<E: Into<WriteError>>(update: usize) -> impl FnOnce(E) -> SetError {
    move |error| (Some(update), error.into())
}

/// Update of a set, with what was read of its entity.
struct Member<'a> {
    update: &'a Update,
    stored: Option<Item>,
    marker: Option<Marker>,
    earlier: EarlierDeliveries,
    has_no_versions: bool,
}

impl<'a> Member<'a> {
    fn new(update: &'a Update, now: RecordedAt, has_ledger: bool) -> Self {
        Self {
            update,
            stored: None,
            marker: None,
            earlier: match has_ledger {
                true => EarlierDeliveries::default(),
                false => EarlierDeliveries::of(update, now),
            },
            has_no_versions: false,
        }
    }

    /// Returns the version that an earlier delivery created, if the latest item or a marker shows it.
    fn applied(&self) -> Result<Option<Version>, WriteError> {
        match (decide(self.update, self.stored.as_ref()), &self.marker) {
            (Ok(Some(WriteOutcome::Duplicate { version })), _) => Ok(Some(version)),
            (Err(error @ WriteError::RequestIdReused { .. }), _) => Err(error),
            (_, Some(marker)) => applied_version(self.update, marker).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the size of its items in a transaction, as far as it is known.
    fn bytes(&self, plan: &Plan) -> usize {
        let requests = self
            .stored
            .as_ref()
            .and_then(|stored| stored.get(names::RECENT_REQUESTS));
        let latest = size::of_item(plan.version_item.item()) + requests.map_or(0, size::of_value);
        latest + plan.parts.version_items.iter().map(size::of_item).sum::<usize>()
    }
}

/// Reads the latest items, and with a ledger the markers.
async fn read(store: &Store, members: &mut [Member<'_>], has_ledger: bool) -> Result<(), SetError> {
    let keys = members.iter().flat_map(|Member { update, .. }| {
        let marker = has_ledger.then(|| sort_key(&update.request_id));
        let keys = [Some(LATEST_KEY.to_owned()), marker].into_iter().flatten();
        keys.map(move |key| (&update.entity, key))
    });
    let items = store.batch_get_only(&[], keys, true).await.map_err(of_all)?;
    let of_keys = |item: Item| {
        Some((
            (partition_key_of(&item)?.to_owned(), sort_key_of(&item)?.to_owned()),
            item,
        ))
    };
    let mut items: HashMap<_, _> = items.into_iter().filter_map(of_keys).collect();
    for member in members.iter_mut() {
        let entity = member.update.entity.as_str();
        let mut take = |key: &str| items.remove(&(entity.to_owned(), key.to_owned()));
        member.stored = take(LATEST_KEY);
        member.marker = take(&sort_key(&member.update.request_id))
            .as_ref()
            .and_then(Marker::from_item);
    }
    let counted = members.iter_mut().enumerate().map(async |(update, member)| {
        let entity = &member.update.entity;
        let counted = counted_instead(store, entity, member.stored.as_ref(), &mut member.has_no_versions);
        if let Some(counted) = counted.await.map_err(of(update))? {
            member.stored = Some(counted);
        }
        Ok::<_, SetError>(())
    });
    try_join_all(counted).await.map(|_| ())
}

/// Returns the versions that an earlier delivery of the set created. If one entity has the request, all have it.
async fn applied(
    store: &Store,
    members: &mut [Member<'_>],
    options: WriteOptions,
) -> Result<Option<Vec<Version>>, SetError> {
    let mut known = Vec::new();
    for (update, member) in members.iter().enumerate() {
        known.push(member.applied().map_err(of(update))?);
    }
    if known.iter().all(Option::is_none) {
        let Some((update, version)) = search(store, members).await? else {
            return Ok(None);
        };
        known[update] = Some(version);
    }
    let mut versions = Vec::new();
    for (update, (member, known)) in members.iter_mut().zip(known).enumerate() {
        let version = match known {
            Some(version) => version,
            None => version_of(store, member, options).await.map_err(of(update))?,
        };
        let (outcome, latest) = (WriteOutcome::Duplicate { version }, member.stored.take());
        let completed = complete(store, member.update, options.mode, outcome, latest);
        Box::pin(completed).await.map_err(of(update))?;
        versions.push(version);
    }
    Ok(Some(versions))
}

/// Searches the history of each entity whose latest item can have lost the request. Returns the update and the version that have it.
/// An entity whose search fails does not matter if another one shows that the set was not applied.
async fn search(store: &Store, members: &mut [Member<'_>]) -> Result<Option<(usize, Version)>, SetError> {
    let (mut is_proved, mut failed) = (false, None);
    for (update, member) in members.iter_mut().enumerate() {
        if !member
            .stored
            .as_ref()
            .is_some_and(|stored| stored.contains_key(names::LATEST))
        {
            continue;
        }
        if member.earlier.is_complete_in(member.stored.as_ref()) {
            is_proved = true;
            continue;
        }
        let mut known = Checked::default();
        let found = find_earlier_delivery(store, member.update, member.stored.clone(), &member.earlier, &mut known);
        match Box::pin(found).await {
            Ok(Search::Applied(version)) => return Ok(Some((update, version))),
            Ok(Search::NotApplied(newest)) => {
                member.stored = newest;
                is_proved = true;
            }
            Err(error @ WriteError::RequestIdReused { .. }) => return Err((Some(update), error)),
            Err(error) => failed = Some((Some(update), error)),
        }
    }
    match failed.filter(|_| !is_proved) {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// Returns the version of an entity that a set created, which another entity shows.
async fn version_of(store: &Store, member: &mut Member<'_>, options: WriteOptions) -> Result<Version, WriteError> {
    // It can have been read before the set was applied.
    member.stored = store.get(&member.update.entity, LATEST_KEY, true).await?;
    if let Some(version) = member.applied()? {
        return Ok(version);
    }
    if options.idempotency == Idempotency::Ledger
        && let Some(version) = version_in_ledger(store, member.update).await?
    {
        return Ok(version);
    }
    match Box::pin(find_earlier_delivery(
        store,
        member.update,
        member.stored.clone(),
        &EarlierDeliveries::default(),
        &mut Checked::default(),
    ))
    .await?
    {
        Search::Applied(version) => Ok(version),
        Search::NotApplied(_) => Err(WriteError::VersionUnknown),
    }
}

/// Plans all updates, with one time. `None` if the latest items have to be read again.
async fn plans<'a>(
    store: &Store,
    members: &mut [Member<'a>],
    options: WriteOptions,
) -> Result<Option<Vec<Plan<'a>>>, SetError> {
    let now = store.now();
    let time = Stamp::common_time(now, members.iter().filter_map(|member| member.stored.as_ref()));
    let (mut plans, mut has_changed) = (Vec::new(), false);
    for (update, member) in members.iter_mut().enumerate() {
        let stored = member.stored.as_ref();
        if let Some(stored) = stored
            && RecordedAt::of_latest(stored).is_some_and(|last| last.is_ahead_of(now))
        {
            let version = latest_of(stored).map_err(of(update))?;
            return Err((Some(update), WriteError::FarAhead { version }));
        }
        if options.idempotency != Idempotency::Ledger {
            member.earlier = member.earlier.after_check(stored).map_err(of(update))?;
        }
        let stamp = Stamp::fitting(time, stored);
        let plan = Plan::new(store, member.update, stored, options, (now, stamp))
            .await
            .map_err(of(update))?;
        has_changed |= plan.remove_ended_state(store, stored).await.map_err(of(update))?;
        plans.push(plan);
    }
    Ok((!has_changed).then_some(plans))
}
