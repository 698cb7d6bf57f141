//! Repair of a counter that was set back, or that is missing: one `UpdateItem` that sets `Latest`, on condition that it has
//! not changed.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attribution::{self, Writer},
        entity::EntityId,
        keys::LATEST_KEY,
        names,
        recorded_at::RecordedAt,
        time::EpochMillis,
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
    let (mut entries, mut newest) = (HashMap::new(), None);
    if let Some(before) = Version::new(to.get() - 1) {
        let history = requests_from_history(store, entity, before, Window::default()).await?;
        (entries, newest) = (history.entries, history.newest);
    }
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
    let is_stale = matches!(Writer::of(&stored, from.unwrap_or(to)), Writer::Stale(version) if version != to);
    let raised = Raised {
        from,
        to,
        requests: entries,
        since: of_item.map_or(since, |of_item| of_item.max(since)),
        // A version that history has keeps its time.
        recorded: match store.version_item(entity, to, true).await? {
            Some(_) => None,
            None => Some(recorded),
        },
        begins_times: is_ahead,
        is_stale: is_stale || (is_ahead && from.is_some_and(|from| from < to)),
    };
    store.check_writable(OPERATION)?;
    let request = request(entity, raised, store.latest_table());
    match request.send_with(store.client()).await {
        Ok(output) => Ok(Some(Item::from(output.attributes.unwrap_or_default()))),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                // The response to an earlier attempt was lost, or another repair had the same result.
                Ok(stored.filter(|stored| latest_of(stored) == Ok(to)))
            }
            _ => Err(ServiceError::new(OPERATION, &error)),
        },
    }
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
    let keys: BTreeSet<_> = since
        .iter()
        .map(|(_, entry)| digits.version_key(entry.version))
        .collect();
    let items = match keys.is_empty() {
        true => Vec::new(),
        false => store.batch_get(entity, &Vec::from_iter(keys), true).await?,
    };
    let is_of_another = |key: &str, version: Version| {
        let mut of_version = items
            .iter()
            .filter(|item| digits.version_of_item(item) == Some(version));
        of_version.any(|item| recent_requests::last_request(item).is_none_or(|request| request.key() != key))
    };
    let new = Entry {
        version: to,
        check: 0,
        sent: SentCode::UNKNOWN,
    };
    for (key, entry) in since {
        let entry = if is_of_another(&key, entry.version) { new } else { entry };
        entries.insert(key, entry.value());
    }
    if let Some(last) = recent_requests::last_request(latest) {
        entries.entry(last.key().to_owned()).or_insert(new.value());
    }
    Ok(())
}

/// Change of a latest item that is raised.
#[derive(Debug, Clone, PartialEq)]
pub struct Raised {
    /// Current version, `None` if the item has no `Latest`.
    pub from: Option<Version>,
    /// New version.
    pub to: Version,
    /// Recent requests.
    pub requests: HashMap<String, AttributeValue>,
    /// Time before which the requests of all versions were sent.
    pub since: EpochMillis,
    /// Time of the new version. `None` to keep the time of the item.
    pub recorded: Option<RecordedAt>,
    /// `true` if the new version begins a new sequence of times, because the one before is far ahead.
    pub begins_times: bool,
    /// `true` if the item has author and request of an older version, which the new one must not have.
    pub is_stale: bool,
}

/// Builds the request.
pub fn request(entity: &EntityId, raised: Raised, table: &str) -> UpdateItemInputBuilder {
    let mut expression = Expression::default();
    expression
        .name("#latest", names::LATEST)
        .name("#version", names::RECORDED_VERSION)
        .name("#recent", names::RECENT_REQUESTS)
        .name("#since", names::REQUESTS_SINCE)
        .name("#dropped", names::REQUESTS_DROPPED)
        .value(":to", n(raised.to))
        .value(":requests", AttributeValue::M(raised.requests).into())
        .value(":since", n(raised.since.get()))
        .set("#latest = :to")
        .set("#version = :to")
        .set("#recent = :requests")
        .set("#since = :since")
        .set("#dropped = :to");
    match raised.from {
        Some(from) => expression.condition("#latest = :from").value(":from", n(from)),
        None => expression
            .condition("attribute_exists(#pk) AND attribute_not_exists(#latest)")
            .name("#pk", names::PK),
    };
    if let Some(recorded) = raised.recorded {
        expression
            .set("#recorded = :recorded")
            .remove("#tick")
            .name("#recorded", names::RECORDED_AT)
            .name("#tick", names::RECORDED_TICK)
            .value(":recorded", s(recorded.to_string()));
        if raised.begins_times {
            expression
                .set("#begin = :to")
                .name("#begin", names::RECORDED_SINCE)
                .set("#reason = :reason")
                .name("#reason", names::REASON)
                .value(":reason", s(REASON_AHEAD));
        }
    }
    if raised.is_stale {
        let all = attribution::OF_CLIENT.into_iter().chain(attribution::OF_WRITER);
        // The order of updates by time stays.
        let is_kept = |name: &str| [names::REASON, names::TIME, names::TIMESTAMP].contains(&name);
        let is_removed = |name: &&str| !(raised.begins_times && raised.recorded.is_some() && is_kept(name));
        for (index, name) in all.chain(attribution::OF_REQUEST).filter(is_removed).enumerate() {
            expression.remove(format!("#c{index}")).name(format!("#c{index}"), name);
        }
    }
    let request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    expression.apply_to_request(request)
}
