//! The version that was in effect at a time by the client's own times: the highest version whose `Time` is not later.
//!
//! Clients' times can decrease from one version to the next, so versions are read from the newest one down, until one is old
//! enough. If updates are ordered by time, this is the version that was in effect at that time.

use shared::{
    domain::{
        Item,
        attributes::text,
        entity::EntityId,
        marks::is_expired,
        names,
        recorded_at::RecordedAt,
        time::{EpochMillis, InvalidTime},
        version::Version,
        view::{NoTime, VersionView, time_of},
    },
    dynamodb::{
        Store,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

use super::why_missing;
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
    time: RecordedAt,
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
                return Err(why_missing(store, entity, version, consistent).await);
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

fn is_in_effect(view: &VersionView, time: RecordedAt) -> Result<bool, ReadError> {
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
fn client_time_of(item: &Item) -> Result<RecordedAt, NoTime> {
    let time = text(item, names::TIME).and_then(|time| client_time(time).ok());
    time.map_or_else(|| Ok(RecordedAt::from_millis(time_of(item)?)), Ok)
}

/// Parses a time in one of the formats that an update can have: an ISO 8601 date and time, without an offset in UTC, or a number of
/// milliseconds since 1970-01-01T00:00:00Z.
pub fn client_time(text: &str) -> Result<RecordedAt, InvalidTime> {
    // A date without separators is a date.
    RecordedAt::parse(text).or_else(|error| {
        let millis = text.parse().map_err(|_| error)?;
        Ok(RecordedAt::from_millis(EpochMillis::new(millis)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_time_keeps_its_digits() {
        let parse = |text| client_time(text).unwrap();
        assert!(parse("2020-11-01T20:04:00.1234") < parse("2020-11-01T20:04:00.1239"));
        assert_eq!(parse("1604261040000"), parse("2020-11-01T20:04:00Z"));
        assert_eq!(parse("-1"), parse("1969-12-31T23:59:59.999Z"));
        assert_eq!(parse("20201101"), parse("2020-11-01"));
        for invalid in ["", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(client_time(invalid), Err(InvalidTime), "{invalid}");
        }
    }
}
