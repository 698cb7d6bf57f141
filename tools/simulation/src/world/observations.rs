//! What can be observed once the mapping has read everything.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use fastrand::Rng;
use operations::{
    as_of::as_of,
    read::history::{History, HistoryQuery},
};
use serde_json::Value;
use shared::{
    domain::{Item, entity::EntityId, keys::LATEST_KEY, quarantine, recorded_at::RecordedAt},
    dynamodb::read::versions::ReadError,
};

use crate::{
    caller::lock,
    error::SimulationError,
    evidence::AsOf,
    mapping::records_of,
    requests::{flat_all, text},
    schedule::{HISTORY, MALFORMED, TABLE},
    world::{World, deliveries::MAX_ATTEMPTS},
};

/// The versions of an entity that a reader sees, with their attributes.
type Read = Result<Vec<(u64, Item)>, ReadError>;

impl World {
    /// Waits until the mapping has read everything, and notes what can be observed then.
    pub(crate) async fn observe(&self) -> Result<(), SimulationError> {
        let connector = &self.connector;
        let settled = connector.settle().await;
        let (read, as_of) = (self.read().await?, self.read_as_of().await?);
        let documents = lock(&self.bucket.0);
        let is_old = |document: &&Value| document["requestContext"]["condition"] == "RecordAgeExceeded";
        let dropped: Vec<_> = documents.dropped.iter().flat_map(records_of).collect();
        for (name, count) in [
            ("record-age-exceeded", documents.kept.iter().filter(is_old).count()),
            ("record-dropped", dropped.len()),
            ("trimmed", connector.stream.trimmed().len()),
        ] {
            (0..count).for_each(|_| connector.count(name));
        }
        let items = self.items()?;
        let parsed = items
            .iter()
            .filter_map(|item| serde_json::from_value(item.clone()).ok());
        let quarantined = quarantine::records_of(parsed);
        let quarantined = quarantined.iter().map(|kept| serde_json::from_str(&kept.record));
        let mut seen = lock(&self.seen);
        seen.quarantined = quarantined.collect::<Result<_, _>>()?;
        seen.items = items.into_iter().collect();
        (seen.settled, seen.recovered_from) = (settled, connector.stream.len());
        (seen.documents, seen.dropped) = (documents.kept.clone(), dropped);
        (seen.read, seen.as_of) = (read, as_of);
        Ok(())
    }

    /// Returns the updates that were sent and have no answer.
    pub(crate) fn unanswered(&self) -> Vec<usize> {
        let seen = lock(&self.seen);
        let answered: HashSet<_> = seen.answers.iter().map(|answer| answer.update).collect();
        let mut sent: Vec<_> = seen.deliveries.keys().copied().collect();
        sent.sort_unstable();
        sent.retain(|update| !answered.contains(update));
        sent
    }

    /// Reads the versions of each entity. Faults of these reads leave keys unprocessed.
    async fn read(&self) -> Result<BTreeMap<String, Read>, SimulationError> {
        let mut read = BTreeMap::new();
        // A latest item that an operator wrote has no version.
        let is_latest = |item: &&Value| item["SK"]["S"] == LATEST_KEY && item.get("Latest").is_some();
        for item in self.items()?.iter().filter(is_latest) {
            let name = text(item, "/PK/S");
            let Some(entity) = EntityId::new(name).ok().filter(|_| !name.starts_with(MALFORMED)) else {
                continue;
            };
            let mut seen = Ok(Vec::new());
            let observe = async |_| {
                seen = self.history(&entity).await;
                seen.is_ok().then_some(())
            };
            self.connector.retry(MAX_ATTEMPTS, observe).await;
            read.insert(name.to_owned(), seen);
        }
        Ok(read)
    }

    async fn history(&self, entity: &EntityId) -> Read {
        let history = History::read(&self.store, entity, HistoryQuery::default()).await?;
        let views = match history {
            Some(history) => history.collect().await?,
            None => Vec::new(),
        };
        let read = views.into_iter().map(|view| (view.version.get(), view.attributes));
        Ok(read.collect())
    }

    /// Reads the entities as of the times of some of their versions, and as of times near them.
    async fn read_as_of(&self) -> Result<Vec<AsOf>, SimulationError> {
        const SAMPLES: usize = 4;
        let mut items = self.items()?;
        items.retain(|item| {
            let is_version = self.digits.version_of(text(item, "/SK/S")).is_some();
            is_version && item.get("RecordedAt").is_some()
        });
        self.connector.draw(|rng| rng.shuffle(&mut items));
        let mut read = Vec::new();
        for item in items.iter().take(SAMPLES) {
            let (name, time) = (text(item, "/PK/S"), RecordedAt::parse(text(item, "/RecordedAt/S")));
            let (Ok(entity), Ok(time)) = (EntityId::new(name), time) else {
                continue;
            };
            let other = self.connector.draw(|rng| near(rng, time));
            for time in [time, other] {
                let view = as_of(&self.store, &entity, time, true).await;
                read.push(AsOf {
                    entity: name.to_owned(),
                    time: time.to_string(),
                    version: view.map(|view| view.map(|view| view.version.get())),
                });
            }
        }
        Ok(read)
    }

    /// Returns the items of the table and of that of history, whose attributes are flat.
    pub(crate) fn items(&self) -> Result<Vec<Value>, SimulationError> {
        let mut items = flat_all(self.connector.scan(TABLE)?, false)?;
        if self.schedule.settings.own_history {
            items.extend(flat_all(self.connector.scan(HISTORY)?, true)?);
        }
        Ok(items)
    }
}

/// Returns a time near another one: between the versions of an entity, before the first, or after the last.
fn near(rng: &mut Rng, time: RecordedAt) -> RecordedAt {
    let span = [1_000, 1_000_000, 1_000_000_000, 3_600_000_000_000][rng.usize(..4)];
    let nanos = Duration::from_nanos(rng.u64(1..=span));
    match rng.bool() {
        true => time.after(nanos),
        false => RecordedAt::since_epoch(time.to_duration().saturating_sub(nanos)),
    }
}
