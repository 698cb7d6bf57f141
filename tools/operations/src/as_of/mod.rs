//! The version that was the latest at a time: binary search by `RecordedAt`.
//!
//! The result is the highest version that was recorded at that time or before. The times of versions that writer-fn wrote
//! strictly increase, so that each of them divides the history. A time that comes from the stream, of a version that another
//! program wrote, divides it in one direction only: it is later than the version of writer-fn before it, but can also be later
//! than the one after it.
//!
//! A repair of a time that was far ahead begins a new sequence of times at a version, which each later version names. So the
//! search never compares versions of two sequences, except that a time before the whole sequence is searched in the one before.

mod attached;
pub mod effective_at;

use shared::{
    domain::{
        AttributeValue, Item, entity::EntityId, names, number::Decimal, recorded_at::RecordedAt, version::Version,
        view::VersionView,
    },
    dynamodb::{Store, read::versions::ReadError},
};

/// Newest version of a sequence of times.
enum Newest {
    /// It was recorded later than the time.
    Later(Version),
    /// It has to be read.
    Unknown(Version),
}

/// Result of reading a version.
enum Probe {
    /// It was recorded at the time or before.
    Earlier(Box<VersionView>),
    /// It was recorded later, and so were all following versions.
    Later,
    /// It was recorded later, by a time from the stream.
    LaterByStream,
}

/// Reads the version that was the latest at a time: the highest one that was recorded at that time or before. `None` if
/// the entity did not exist yet.
///
/// It uses binary search, since versions are dense: log2 N reads and one of the latest item. More reads are needed if the
/// search reaches pruned versions, versions that another program wrote, or an earlier sequence of times. In an attached table,
/// the state of a record that came late counts at its place.
///
/// # Errors
///
/// Returns [`ReadError`]: `Pruned` if the version was pruned, `Missing` or `NotRecordedAt` if a version that decides is
/// missing or has no time, `Service` or `Latest` as [`Store::latest`] does.
pub async fn as_of(
    store: &Store,
    entity: &EntityId,
    time: RecordedAt,
    consistent: bool,
) -> Result<Option<VersionView>, ReadError> {
    if store.attached_table().is_some() {
        return Box::pin(crate::as_of::attached::attached_as_of(store, entity, time, consistent)).await;
    }
    let Some((mut number, mut item)) = store.newest(entity, consistent).await? else {
        return Ok(None);
    };
    loop {
        let since = recorded_since(&item).min(number);
        let view = store.view(entity, number, item);
        // The latest item of another program has no time, but its version item has.
        let newest = match view.recorded_at {
            Some(recorded) if recorded <= time => return Ok(Some(view)),
            Some(_) => Newest::Later(number),
            None => Newest::Unknown(number),
        };
        // Boxed, to keep the future of a read small.
        let found = Box::pin(as_of_in_sequence(store, entity, since, newest, time, consistent)).await?;
        // A time before the whole sequence is searched in the one before.
        let (None, Some(before)) = (&found, Version::new(since.get() - 1)) else {
            return Ok(found);
        };
        let Some(earlier) = store.version_item(entity, before, consistent).await? else {
            let floor = store.floor(entity, consistent).await?;
            return Err(match floor > before {
                true => ReadError::Pruned { floor },
                false => ReadError::Missing { version: before },
            });
        };
        (number, item) = (before, earlier);
    }
}

/// Searches the versions from `since` to the newest one of the same sequence of times.
async fn as_of_in_sequence(
    store: &Store,
    entity: &EntityId,
    since: Version,
    newest: Newest,
    time: RecordedAt,
    consistent: bool,
) -> Result<Option<VersionView>, ReadError> {
    let (number, probed) = match newest {
        Newest::Later(number) => (number, Ok(Probe::Later)),
        Newest::Unknown(number) => (number, probe(store, entity, number, time, consistent).await),
    };
    let mut undecided = match probed {
        Ok(Probe::Earlier(view)) => return Ok(Some(*view)),
        Ok(Probe::Later | Probe::LaterByStream) => None,
        Err(ReadError::Service(error)) => return Err(error.into()),
        Err(unknown) => Some(unknown),
    };
    // Every version below `low` is not later or was pruned. Every version from `high` on is later, or undecided.
    let (mut low, mut high) = (since.get(), number.get());
    let (mut found, mut pruned) = (None, None);
    while low < high {
        let Some(middle) = Version::new(low + (high - low) / 2) else {
            break;
        };
        match probe(store, entity, middle, time, consistent).await {
            Ok(Probe::Earlier(view)) => (low, found) = (middle.get() + 1, Some(view)),
            Ok(Probe::Later) => (high, undecided) = (middle.get(), None),
            Ok(Probe::LaterByStream) => {
                match earlier_after(store, entity, middle, high, time, consistent).await {
                    Ok(Some(view)) => (low, found) = (view.version.get() + 1, Some(view)),
                    Ok(None) => (high, undecided) = (middle.get(), None),
                    Err(ReadError::Service(error)) => return Err(error.into()),
                    // A version above this one is not known. One below it can still decide.
                    Err(unknown) => (high, undecided) = (middle.get(), Some(unknown)),
                }
            }
            Err(ReadError::Service(error)) => return Err(error.into()),
            Err(unknown) => {
                let floor = store.floor(entity, consistent).await?;
                if floor <= middle {
                    (high, undecided) = (middle.get(), Some(unknown));
                } else {
                    (low, found, pruned) = (floor.get(), None, Some(floor));
                }
            }
        }
    }
    match (undecided, found, pruned) {
        (Some(unknown), _, _) => Err(unknown),
        (None, None, Some(floor)) => Err(ReadError::Pruned { floor }),
        // Without a floor, the first version was read and is later.
        (None, found, _) => Ok(found.map(|view| *view)),
    }
}

async fn probe(
    store: &Store,
    entity: &EntityId,
    version: Version,
    time: RecordedAt,
    consistent: bool,
) -> Result<Probe, ReadError> {
    let item = store.version_item(entity, version, consistent).await?;
    let view = store.view(entity, version, item.ok_or(ReadError::Missing { version })?);
    let recorded = view.recorded_at.ok_or(ReadError::NotRecordedAt { version })?;
    Ok(match (recorded <= time, view.recorded_by_stream) {
        (true, _) => Probe::Earlier(Box::new(view)),
        (false, false) => Probe::Later,
        (false, true) => Probe::LaterByStream,
    })
}

/// Returns the first version after `from` and below `high` that is not later, up to the next version of writer-fn.
async fn earlier_after(
    store: &Store,
    entity: &EntityId,
    from: Version,
    high: u64,
    time: RecordedAt,
    consistent: bool,
) -> Result<Option<Box<VersionView>>, ReadError> {
    for version in (from.get() + 1..high).filter_map(Version::new) {
        match probe(store, entity, version, time, consistent).await? {
            Probe::Earlier(view) => return Ok(Some(view)),
            Probe::Later => break,
            Probe::LaterByStream => {}
        }
    }
    Ok(None)
}

/// Returns the first version of the sequence of times to which an item belongs.
fn recorded_since(item: &Item) -> Version {
    let since = match item.get(names::RECORDED_SINCE) {
        Some(AttributeValue::N(since)) => Decimal::parse(since).ok().and_then(|since| since.to_u64()),
        _ => None,
    };
    since.and_then(Version::new).unwrap_or(Version::FIRST)
}
