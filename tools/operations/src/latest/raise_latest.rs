//! Repair of a counter that was set back, or that is missing: one `UpdateItem` that sets `Latest`, on condition that it has
//! not changed.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemInputBuilder,
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attributes::text,
        attribution::{self, Writer},
        entity::EntityId,
        keys::LATEST_KEY,
        names,
        recorded_at::RecordedAt,
        request_id::RequestId,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, n, s},
};
use writer_fn::{
    counter::recent_requests::{self, Entry, SentCode},
    update::sent_at::{MAX_CLOCK_DIFFERENCE, MAX_DELAY, after},
};

use super::requests_from_history;
use crate::condition::outcome;

const OPERATION: &str = "UpdateItem";
/// `Reason` of a version that begins a new sequence of times.
const REASON_AHEAD: &str = "RecordedAt of the version before was ahead of the clock";

/// Raises the latest item to a higher version, and returns the new item. `None` if it no longer has the version `from`, or
/// no `Latest` if `from` is `None`: a writer or another repair changed it.
///
/// The latest item is then a new version, which stream-fn or the caller puts, unless history has the same version already.
/// Recent requests are stored with the versions that they created. If the number of such a version belongs to another one in
/// history, because the counter was set back, its request is stored with the new version. All requests up to the new version
/// count as dropped.
///
/// If the time of the latest item is far ahead of the clock, the new version begins a new sequence of times, which
/// [`RECORDED_SINCE`](names::RECORDED_SINCE) marks.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn raise_latest(
    store: &Store,
    entity: &EntityId,
    from: Option<Version>,
    to: Version,
) -> Result<Option<Item>, ServiceError> {
    let Some(stored) = store.get(entity, LATEST_KEY, true).await? else {
        return Ok(None);
    };
    let (mut entries, newest) = match Version::new(to.get() - 1) {
        Some(before) => requests_from_history(store, entity, before, Window::default()).await?,
        None => Default::default(),
    };
    add_requests(store, entity, &stored, to, &mut entries).await?;
    let now = store.now();
    let known = RecordedAt::of_latest(&stored).max(newest);
    let is_ahead = known.is_some_and(|known| known.is_ahead_of(now));
    let recorded = match known {
        // A new sequence of times begins. A first attempt of another writer can still be on its way, with a time by its clock.
        _ if is_ahead => now.after(2 * MAX_CLOCK_DIFFERENCE),
        // The time does not decrease.
        Some(known) => known.next_micro().max(now),
        None => now,
    };
    // Nor does this one, unless it was taken from a time far ahead: a claimed time can be later than the clock.
    let since = recent_requests::since_all(Some(&stored).filter(|_| !is_ahead), recorded);
    let of_item = recent_requests::since(&stored).max(recent_requests::ahead(&stored));
    let of_item = of_item.map(|of_item| of_item.min(after(recorded.next_milli(), MAX_DELAY)));
    let since = of_item.map_or(since, |of_item| of_item.max(since));
    let is_stale = matches!(Writer::of(&stored, from.unwrap_or(to)), Writer::Stale(version) if version != to);
    // A version that history has keeps its time.
    let recorded = match store.version_item(entity, to, true).await? {
        Some(_) => None,
        None => Some(recorded),
    };
    let mut raised = numbered(from, to, ":to");
    raised
        .name("#recent", names::RECENT_REQUESTS)
        .name("#since", names::REQUESTS_SINCE)
        .name("#dropped", names::REQUESTS_DROPPED)
        .value(":requests", AttributeValue::M(entries).into())
        .value(":since", n(since.get()))
        .set("#recent = :requests")
        .set("#since = :since")
        .set("#dropped = :to");
    if let Some(recorded) = recorded {
        set_time(&mut raised, recorded);
        if is_ahead {
            raised
                .set("#begin = :to")
                .name("#begin", names::RECORDED_SINCE)
                .set("#reason = :reason")
                .name("#reason", names::REASON)
                .value(":reason", s(REASON_AHEAD));
        }
    }
    // The item has author and request of an older version, which the new one must not have.
    if is_stale || (is_ahead && from.is_some_and(|from| from < to)) {
        let all = attribution::OF_CLIENT.into_iter().chain(attribution::OF_WRITER);
        // The order of updates by time stays.
        let is_kept = |name: &str| [names::REASON, names::TIME, names::TIMESTAMP].contains(&name);
        let is_removed = |name: &&str| !(is_ahead && recorded.is_some() && is_kept(name));
        for (index, name) in all.chain(attribution::OF_REQUEST).filter(is_removed).enumerate() {
            raised.remove(format!("#c{index}")).name(format!("#c{index}"), name);
        }
    }
    // The response to an earlier attempt was lost, or another repair had the same result.
    send(store, entity, raised, |stored| latest_of(stored) == Ok(to)).await
}

/// Makes an existing latest item version 1, and returns the item. `None` if it has `Latest`. A request id of its own is kept.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
pub(crate) async fn count_first(
    store: &Store,
    entity: &EntityId,
    request_id: &RequestId,
) -> Result<Option<Item>, ServiceError> {
    let now = store.now();
    let mut first = numbered(None, Version::FIRST, ":one");
    set_time(&mut first, now);
    first
        .condition("attribute_not_exists(#ttl)")
        .name("#ttl", names::TTL)
        .set("#request = if_not_exists(#request, :request)")
        .name("#request", names::REQUEST_ID)
        .value(":request", s(request_id.as_str()));
    // The response to an earlier attempt was lost.
    let is_ours = |stored: &Item| {
        latest_of(stored) == Ok(Version::FIRST) && text(stored, names::RECORDED_AT) == Some(now.to_string().as_str())
    };
    send(store, entity, first, is_ours).await
}

/// Returns the change of a latest item with one number, `None` for none, to another one, which has this placeholder.
fn numbered(from: Option<Version>, to: Version, placeholder: &str) -> Expression {
    let mut numbered = Expression::default();
    numbered
        .name("#latest", names::LATEST)
        .name("#version", names::RECORDED_VERSION)
        .value(placeholder, n(to))
        .set(format!("#latest = {placeholder}"))
        .set(format!("#version = {placeholder}"));
    match from {
        Some(from) => numbered.condition("#latest = :from").value(":from", n(from)),
        None => numbered
            .condition("attribute_exists(#pk) AND attribute_not_exists(#latest)")
            .name("#pk", names::PK),
    };
    numbered
}

fn set_time(numbered: &mut Expression, recorded: RecordedAt) {
    numbered
        .set("#recorded = :recorded")
        .remove("#tick")
        .name("#recorded", names::RECORDED_AT)
        .name("#tick", names::RECORDED_TICK)
        .value(":recorded", s(recorded.to_string()));
}

/// Sends a change, and returns the new item. If the condition fails, returns the stored item if it is the result of this change.
async fn send(
    store: &Store,
    entity: &EntityId,
    change: Expression,
    is_result: impl Fn(&Item) -> bool,
) -> Result<Option<Item>, ServiceError> {
    store.check_writable(OPERATION)?;
    let request = UpdateItemInputBuilder::default()
        .table_name(store.latest_table())
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let sent = change.apply_to_request(request).send_with(store.client()).await;
    Ok(match outcome(OPERATION, sent)? {
        Ok(output) => Some(Item::from(output.attributes.unwrap_or_default())),
        Err(stored) => stored.filter(is_result),
    })
}

/// Adds the requests of the latest item that history does not have among its newest versions. A request keeps its number, unless
/// another version has it in history.
async fn add_requests(
    store: &Store,
    entity: &EntityId,
    latest: &Item,
    to: Version,
    entries: &mut HashMap<String, AttributeValue>,
) -> Result<(), ServiceError> {
    let of_latest = recent_requests::requests_of(latest).into_iter().flatten();
    let since: Vec<_> = of_latest
        .filter(|(key, _)| !entries.contains_key(*key))
        .filter_map(|(key, value)| Some((key.clone(), Entry::from_value(value)?)))
        .collect();
    let digits = store.digits();
    let numbers: BTreeSet<_> = since.iter().map(|(_, entry)| entry.version.get()).collect();
    let items = match numbers.is_empty() {
        true => Vec::new(),
        false => store.batch_get(entity, &digits.version_keys(numbers), true).await?,
    };
    let owner = |item: &Item| {
        let request = recent_requests::last_request(item);
        Some((
            digits.version_of_item(item)?,
            request.map(|request| request.key().to_owned()),
        ))
    };
    let owners: HashMap<_, _> = items.iter().filter_map(owner).collect();
    let new = Entry {
        version: to,
        check: 0,
        sent: SentCode::UNKNOWN,
    };
    for (key, entry) in since {
        let owner = owners.get(&entry.version);
        let is_of_another = owner.is_some_and(|owner| owner.as_ref() != Some(&key));
        entries.insert(key, if is_of_another { new } else { entry }.value());
    }
    if let Some(last) = recent_requests::last_request(latest) {
        entries.entry(last.key().to_owned()).or_insert(new.value());
    }
    Ok(())
}
