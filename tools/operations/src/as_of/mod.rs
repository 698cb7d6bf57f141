//! The version that was the latest at a time: binary search by `RecordedAt`.
//!
//! The result is the highest version that was recorded at that time or before. The times of versions that writer-fn wrote
//! strictly increase, so that each of them divides the history. A time that comes from the stream, of a version that another
//! program wrote, divides it in one direction only: it is later than the version of writer-fn before it, but can also be later
//! than the one after it.
//!
//! A repair of a time that was far ahead begins a new sequence of times at a version, which each later version names. So the
//! search never compares versions of two sequences, except that a time before the whole sequence is searched in the one before.
//!
//! In an attached table, the result is the last version by place in the stream whose `RecordedAt` is not later:
//!
//! ```text
//! versions in order   v1 ── v2 ───── v3 ───── v5     bisected by RecordedAt, which never decreases along them
//! late versions           v6    v4                   late entries, which sort by RecordedAt and place: one Query
//! time                               ^               v2 and v4, of which v4 has the higher place
//! ```
//!
//! A late version is stored between versions that are later than it. It names the last version in order before it, so a probe that
//! meets it divides the history there.

pub mod effective_at;

use shared::{
    domain::{
        Item,
        attached::{
            change::Place,
            item::{dividing, late_entries_until, late_entry_of},
        },
        attributes,
        entity::EntityId,
        names,
        recorded_at::RecordedAt,
        version::Version,
        view::VersionView,
    },
    dynamodb::{
        Store,
        read::{query_items::Range, versions::ReadError},
    },
};

/// Search for the version of an entity at a time.
struct Search<'a> {
    store: &'a Store,
    entity: &'a EntityId,
    time: RecordedAt,
    consistent: bool,
}

/// Version that was read, or that a late version names: without its item.
type Found = (Version, Option<Item>);

/// Result of reading a version.
enum Probe {
    /// It was recorded at the time or before.
    Earlier(Found),
    /// It was recorded later, and so were all versions from this one on.
    Later(Version),
    /// It was recorded later, by a time from the stream.
    LaterByStream,
}

/// Reads the version that was the latest at a time: the highest one that was recorded at that time or before. `None` if
/// the entity did not exist yet.
///
/// It uses binary search, since versions are dense: log2 N reads and one of the latest item; in an attached table, 4 more, with any
/// number of late versions. More reads are needed if the search reaches pruned versions, versions that another program wrote, or an
/// earlier sequence of times.
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
    let Some((version, item)) = store.newest(entity, consistent).await? else {
        return Ok(None);
    };
    let search = Search {
        store,
        entity,
        time,
        consistent,
    };
    // Boxed, to keep the future of a read small.
    let found = Box::pin(search.from(version, item)).await?;
    Ok(found.map(|(version, item)| store.view(entity, version, item)))
}

impl Search<'_> {
    /// Searches all versions up to the newest one.
    async fn from(&self, mut newest: Version, mut item: Item) -> Result<Option<(Version, Item)>, ReadError> {
        if self.is_attached() {
            let found = self.bisect(Version::FIRST, newest, item).await;
            return self.last_by_place(found?).await;
        }
        loop {
            let since = recorded_since(&item).min(newest);
            let found = self.bisect(since, newest, item).await?;
            // A time before the whole sequence is searched in the one before.
            match (found, Version::new(since.get() - 1)) {
                (Some(found), _) => return self.read(found).await.map(Some),
                (None, Some(before)) => (newest, item) = self.read((before, None)).await?,
                (None, None) => return Ok(None),
            }
        }
    }

    /// Searches the versions from `since` to the newest one of the same sequence of times.
    async fn bisect(&self, since: Version, newest: Version, item: Item) -> Result<Option<Found>, ReadError> {
        // Every version below `low` is not later or was pruned. Every version from `high` on is later, or undecided.
        let (mut low, mut high) = (since.get(), newest.get() + 1);
        let (mut found, mut pruned, mut undecided) = (None, None, None);
        let (mut next, mut item) = (newest.get(), Some(item));
        while let Some(version) = Version::new(next).filter(|_| low < high) {
            match self.probe(version, item.take()).await {
                Ok(Probe::Earlier(earlier)) => {
                    low = version.get() + 1;
                    // Its item can be known from an earlier probe.
                    found = found.filter(|found: &Found| found.0 == earlier.0).or(Some(earlier));
                }
                Ok(Probe::Later(from)) => (high, undecided) = (from.get(), None),
                Ok(Probe::LaterByStream) => match self.earlier_after(version, high).await {
                    Ok(Some(earlier)) => (low, found) = (earlier.0.get() + 1, Some(earlier)),
                    Ok(None) => (high, undecided) = (version.get(), None),
                    Err(ReadError::Service(error)) => return Err(error.into()),
                    // A version above this one is not known. One below it can still decide.
                    Err(unknown) => (high, undecided) = (version.get(), Some(unknown)),
                },
                Err(ReadError::Service(error)) => return Err(error.into()),
                Err(unknown) => {
                    let floor = self.store.floor(self.entity, self.consistent).await?;
                    if floor <= version {
                        (high, undecided) = (version.get(), Some(unknown));
                    } else {
                        (low, found, pruned) = (floor.get(), None, Some(floor));
                    }
                }
            }
            next = low + high.saturating_sub(low) / 2;
        }
        match (undecided, found, pruned) {
            (Some(unknown), _, _) => Err(unknown),
            (None, None, Some(floor)) => Err(ReadError::Pruned { floor }),
            // Without a floor, the first version was read and is later.
            (None, found, _) => Ok(found),
        }
    }

    /// Compares the time of a version, which is read unless its item is known and has a time: the latest item of another program has
    /// none, but its version item has.
    async fn probe(&self, version: Version, item: Option<Item>) -> Result<Probe, ReadError> {
        let known = item.map(|item| self.compare(version, item)).and_then(Result::ok);
        if let Some(probe) = known {
            return Ok(probe);
        }
        let item = self.store.version_item(self.entity, version, self.consistent).await?;
        self.compare(version, item.ok_or(ReadError::Missing { version })?)
    }

    fn compare(&self, version: Version, item: Item) -> Result<Probe, ReadError> {
        let (divides, recorded, is_by_stream) = if self.is_attached() {
            let (divides, recorded) = dividing(version, &item);
            (divides, recorded, false)
        } else {
            let view = self.store.view(self.entity, version, item.clone());
            (version, view.recorded_at, view.recorded_by_stream)
        };
        let recorded = recorded.ok_or(ReadError::NotRecordedAt { version: divides })?;
        Ok(match (recorded <= self.time, is_by_stream) {
            (true, _) => Probe::Earlier((divides, (divides == version).then_some(item))),
            (false, false) => Probe::Later(divides),
            (false, true) => Probe::LaterByStream,
        })
    }

    /// Returns the first version after `from` and below `high` that is not later, up to the next version of writer-fn.
    async fn earlier_after(&self, from: Version, high: u64) -> Result<Option<Found>, ReadError> {
        for version in (from.get() + 1..high).filter_map(Version::new) {
            match self.probe(version, None).await? {
                Probe::Earlier(earlier) => return Ok(Some(earlier)),
                Probe::Later(_) => break,
                Probe::LaterByStream => {}
            }
        }
        Ok(None)
    }

    /// Returns the last version by place: the last late one that is not later than the time, or the last one in order.
    async fn last_by_place(&self, in_order: Option<Found>) -> Result<Option<(Version, Item)>, ReadError> {
        let in_order = match in_order {
            Some(found) => Some(self.read(found).await?),
            None => None,
        };
        let place = in_order.as_ref().and_then(|(_, item)| Place::of(item));
        let (from, to) = late_entries_until(self.time);
        let range = Range {
            from,
            to,
            reversed: true,
            limit: Some(1),
            consistent: self.consistent,
        };
        let (items, _) = self.store.query_page(self.entity, &range, None).await?;
        let late = items.first().and_then(late_entry_of);
        match late.filter(|(_, late)| Some(late) > place.as_ref()) {
            Some((version, _)) => self.read((version, None)).await.map(Some),
            None => Ok(in_order),
        }
    }

    /// Reads a version that exists, or was pruned, unless its item is known.
    async fn read(&self, (version, item): Found) -> Result<(Version, Item), ReadError> {
        let read = match item {
            Some(item) => Some(item),
            None => self.store.version_item(self.entity, version, self.consistent).await?,
        };
        match read {
            Some(item) => Ok((version, item)),
            None => Err(why_missing(self.store, self.entity, version, self.consistent).await),
        }
    }

    fn is_attached(&self) -> bool {
        self.store.attached_table().is_some()
    }
}

/// Returns why history does not have a version.
async fn why_missing(store: &Store, entity: &EntityId, version: Version, consistent: bool) -> ReadError {
    match store.floor(entity, consistent).await {
        Ok(floor) if version < floor => ReadError::Pruned { floor },
        Ok(_) => ReadError::Missing { version },
        Err(error) => error.into(),
    }
}

/// Returns the first version of the sequence of times to which an item belongs.
fn recorded_since(item: &Item) -> Version {
    attributes::version(item, names::RECORDED_SINCE).unwrap_or(Version::FIRST)
}
