//! Repairs of a latest item: conditional writes, which change nothing if a writer or another repair comes first.
//!
//! | repair | write | condition |
//! |---|---|---|
//! | [`raise_latest`] of a counter that was set back, or is missing | `UpdateItem` that sets `Latest` | `Latest` has not changed |
//! | `count_first` of an item that never had a counter | `UpdateItem` that makes it version 1 | there is no `Latest` |
//! | [`revive_latest`] of a deleted item | `PutItem` | there is no item |
//! | [`move_latest`] from a padded key, such as `v00` | a transaction that puts it at `v0`, and deletes it there | both |

use std::collections::HashMap;

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attributes::{self, same_item, text},
        attribution::{self, WrittenBy},
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        names,
        recorded_at::RecordedAt,
        request_id::RequestId,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store, cancellation,
        client::error::ServiceError,
        expression::Expression,
        key, n, s,
        write::{Write, send_together},
    },
};
use writer_fn::{
    counter::recent_requests,
    update::sent_at::{MAX_CLOCK_DIFFERENCE, MAX_DELAY, after},
};

use super::requests;

/// `Reason` of a version that begins a new sequence of times.
const REASON_AHEAD: &str = "RecordedAt of the version before was ahead of the clock";
/// Maximum number of attributes that are compared: an expression is at most 4 KB long.
const MAX_COMPARED: usize = 250;
const OF_REQUESTS: [&str; 4] = [
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_AHEAD,
    names::REQUESTS_DROPPED,
];

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
        Some(before) => requests::from_history(store, entity, before, Window::default()).await?,
        None => Default::default(),
    };
    requests::add(store, entity, &stored, to, &mut entries).await?;
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
    let is_stale = matches!(WrittenBy::of(&stored, from.unwrap_or(to)), WrittenBy::Stale(version) if version != to);
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
    store.check_writable("UpdateItem")?;
    let update = Write::update(store.latest_table(), key(entity.as_str(), LATEST_KEY), change);
    Ok(match update.send(store.client()).await? {
        Ok(changed) => Some(changed.unwrap_or_default()),
        Err(failed) => failed.stored.filter(is_result),
    })
}

/// Puts a latest item with the requests of the newest versions, as many as the window. Returns `false` if a different one exists.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn revive_latest(
    store: &Store,
    entity: &EntityId,
    version: Version,
    latest: &Item,
    window: Window,
) -> Result<bool, ServiceError> {
    store.check_writable("PutItem")?;
    let (entries, newest) = requests::from_history(store, entity, version, window).await?;
    let newest = newest.map_or(store.now(), |newest| newest.max(store.now()));
    // No version shows which times in the future were claimed.
    let ahead = after(newest.next_milli(), MAX_DELAY).get();
    let values = [
        AttributeValue::M(entries),
        attributes::n(ahead),
        attributes::n(ahead),
        attributes::n(version),
    ];
    let mut revived = latest.clone();
    revived.extend(OF_REQUESTS.map(str::to_owned).into_iter().zip(values));
    let put = Write::insert(store.latest_table(), revived);
    // The response to an earlier attempt was lost, or another repair had the same result. Its recent requests may have changed.
    let is_revived = |mut stored: Item| {
        stored.retain(|name, _| !OF_REQUESTS.contains(&name.as_str()));
        same_item(&stored, latest)
    };
    Ok(match put.send(store.client()).await? {
        Ok(_) => true,
        Err(failed) => failed.stored.is_some_and(is_revived),
    })
}

/// Returns a tombstone without attributes, for an entity whose state is not known.
pub fn without_state(entity: &EntityId, version: Version, now: RecordedAt) -> Item {
    let members = [
        (names::PK, attributes::s(entity.as_str())),
        (names::SK, attributes::s(LATEST_KEY)),
        (names::LATEST, attributes::n(version)),
        (names::DELETED, AttributeValue::Bool(true)),
        (names::RECORDED_AT, now.value()),
        (names::RECORDED_VERSION, attributes::n(version)),
    ];
    Item::from(HashMap::from(members.map(|(name, value)| (name.to_owned(), value))))
}

/// Moves a latest item, on condition that its counter has not changed and that there is none at `v0`. Returns `false` if a
/// condition failed.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn move_latest(store: &Store, padded: &Item, latest: &Item) -> Result<bool, ServiceError> {
    store.check_writable(cancellation::OPERATION)?;
    let table = store.latest_table();
    let mut unchanged = Expression::default();
    unchanged.name("#latest", names::LATEST);
    match padded.get(names::LATEST) {
        Some(number) => unchanged
            .condition("#latest = :read")
            .value(":read", number.clone().into()),
        // Without a counter, a change by another program shows only in the attributes.
        None => unchanged
            .condition("attribute_exists(#pk) AND attribute_not_exists(#latest)")
            .name("#pk", names::PK)
            .compare(
                padded
                    .iter()
                    .filter(|(name, _)| ![names::PK, names::SK].contains(&name.as_str()))
                    .take(MAX_COMPARED),
            ),
    };
    let padded = key(
        partition_key_of(padded).unwrap_or_default(),
        sort_key_of(padded).unwrap_or_default(),
    );
    let writes = [
        Write::insert(table, latest.clone()),
        Write::delete(table, padded, unchanged),
    ];
    send_together(store.client(), writes).await
}
