//! The version that was in effect at a time by the client's own times: the highest version whose `Time` is not later.
//!
//! Clients' times can decrease from one version to the next, so versions are read from the newest one down, until one is old
//! enough. If updates are ordered by time, this is the version that was in effect at that time.

use shared::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        marks::is_expired,
        names,
        time::{ClientTime, InvalidTime},
        version::Version,
        view::{NoTime, VersionView, time_of},
    },
    dynamodb::{
        Store,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

use crate::read::version_run::version_run;

/// Number of versions in the first page.
const FIRST_PAGE: u64 = 10;

/// Reads the highest version whose client's time, `Time` or `Timestamp`, is not later than a time. Versions without a time
/// are skipped. It reads at most `limit` versions, and reports the number of versions after each page.
///
/// # Errors
///
/// Returns [`ReadError`]: `Limit` if none of the first `limit` versions is old enough, `Pruned` if older versions were
/// pruned, `Missing` or `NoTime` if a version is missing or has a time that cannot be read, `Service` or `Latest` as
/// [`Store::latest`] does.
pub async fn effective_at(
    store: &Store,
    entity: &EntityId,
    time: ClientTime,
    limit: u64,
    consistent: bool,
    progress: impl Fn(u64),
) -> Result<Option<VersionView>, ReadError> {
    let Some(latest) = store.newest_view(entity, consistent).await? else {
        return Ok(None);
    };
    let mut next = latest.version.get() - 1;
    if is_in_effect(&latest, time)? {
        return Ok(Some(latest));
    }
    let (mut read, mut page_size) = (1, FIRST_PAGE);
    progress(read);
    while let Some(to) = Version::new(next) {
        if read >= limit {
            return Err(ReadError::Limit { read });
        }
        let size = page_size.min(limit - read);
        let from = Version::new(to.get().saturating_sub(size - 1)).unwrap_or(Version::FIRST);
        let run = version_run(store, entity, from, to, 1, consistent).await?;
        for version in (run.from..=to.get()).rev().filter_map(Version::new) {
            // DynamoDB deletes expired items later, and a pruned version must not come back until then.
            let item = run.items.get(&version.get());
            let Some(item) = item.filter(|item| !is_expired(item, store.clock().now())) else {
                let floor = store.floor(entity, consistent).await?;
                return Err(match version < floor {
                    true => ReadError::Pruned { floor },
                    false => ReadError::Missing { version },
                });
            };
            let view = store.view(entity, version, item.clone());
            if is_in_effect(&view, time)? {
                return Ok(Some(view));
            }
            read += 1;
        }
        progress(read);
        next = run.from - 1;
        page_size = MAX_KEYS as u64;
    }
    Ok(None)
}

fn is_in_effect(view: &VersionView, time: ClientTime) -> Result<bool, ReadError> {
    match client_time_of(&view.attributes) {
        Ok(own) => Ok(own <= time),
        Err(NoTime::Absent) => Ok(false),
        Err(source) => Err(ReadError::NoTime {
            version: view.version,
            source,
        }),
    }
}

/// Returns the time that the client gave to a version, with all digits.
fn client_time_of(item: &Item) -> Result<ClientTime, NoTime> {
    let time = match item.get(names::TIME) {
        Some(AttributeValue::S(text)) => ClientTime::parse(text).ok(),
        _ => None,
    };
    match time {
        Some(time) => Ok(time),
        None => ClientTime::from_millis(time_of(item)?).ok_or(NoTime::Time(InvalidTime)),
    }
}
