//! Which of the versions that the index shows the log lacks.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use seal::format::leaf::{Kind, Leaf};
use shared::domain::{entity::EntityId, recorded_at::RecordedAt, time_index::millis, version::Version};

use crate::{
    candidates::{Candidate, earliest},
    error::SealError,
    sealer::{Head, Sealer, Table},
    staged::Known,
    state::Batch,
};

impl Sealer {
    /// Returns the candidates that the log does not contain, in the order of their entities, and by what the others are known.
    pub(crate) async fn unsealed(
        &self,
        head: &Head,
        table: &Table,
        found: Vec<Candidate>,
    ) -> Result<(Vec<Candidate>, Vec<Known>), SealError> {
        let known = head.known.iter().filter_map(|known| known.get(&table.arn)).flatten();
        let known: HashMap<_, _> = known.map(|known| (known.key, known.inserted)).collect();
        let before = |candidate: &Candidate| known.get(&candidate.known.key).copied();
        let is_known =
            |candidate: &Candidate| before(candidate).is_some_and(|inserted| candidate.known.inserted <= inserted);
        let (seen, mut fresh): (Vec<_>, Vec<_>) = found.into_iter().partition(is_known);
        for candidate in &mut fresh {
            // It was removed and inserted again: by a redelivery, or because the entity was purged and began again.
            if let Some(inserted) = before(candidate) {
                let inserted = millis(RecordedAt::since_epoch(Duration::from_millis(inserted)));
                let since = candidate.since.take().unwrap_or_else(|| earliest(&candidate.inserted));
                candidate.since = Some(since.min(inserted));
            }
        }
        let is_unsure = |candidate: &&Candidate| candidate.since.is_some() || head.known.is_none();
        let unsure: Vec<_> = fresh.iter().filter(is_unsure).cloned().collect();
        let sealed = self.in_log(head.state.size, table, &unsure).await?;
        let is_sealed = |candidate: &mut Candidate| sealed.contains(&(candidate.entity.clone(), candidate.version));
        let sealed: Vec<_> = fresh.extract_if(.., is_sealed).collect();
        fresh.sort_unstable_by(|a, b| (&a.entity, a.version).cmp(&(&b.entity, b.version)));
        // A version has one entry in the index, but it can move while the index is read.
        fresh.dedup_by(|a, b| (&a.entity, a.version) == (&b.entity, b.version));
        let seen = seen.into_iter().chain(sealed).map(|candidate| candidate.known);
        Ok((fresh, seen.collect()))
    }

    /// Returns the candidates that the log contains: its entries from the first batch on that can have them are read.
    pub(crate) async fn in_log(
        &self,
        size: u64,
        table: &Table,
        candidates: &[Candidate],
    ) -> Result<HashSet<(EntityId, Version)>, SealError> {
        let since = |candidate: &Candidate| candidate.since.clone().unwrap_or_else(|| candidate.inserted.clone());
        let Some(since) = candidates.iter().map(since).min() else {
            return Ok(HashSet::new());
        };
        let entities: BTreeSet<_> = candidates.iter().map(|candidate| candidate.entity.clone()).collect();
        let keys = self
            .keys
            .read(&table.arn, &entities.into_iter().collect::<Vec<_>>())
            .await?;
        let mut wanted = HashMap::new();
        for candidate in candidates {
            if let Some(keys) = keys.get(&candidate.entity).filter(|keys| keys.is_stored()) {
                let version = candidate.version;
                wanted.insert((keys.tag()?, version.get()), (candidate.entity.clone(), version));
            }
        }
        let mut first = size;
        if !wanted.is_empty() {
            let add = |batch: Batch| {
                first = first.min(batch.first_index);
                true
            };
            self.state.each_batch(&since, add).await?;
        }
        let mut found = HashMap::new();
        let add = |_, entry: &[u8]| match Leaf::parse(entry) {
            Ok(leaf) if leaf.kind == Kind::Version => {
                let key = (leaf.tag, leaf.version);
                found.extend(wanted.get(&key).map(|version| (key, version.clone())));
            }
            // An entity that was purged begins again.
            Ok(leaf) if leaf.kind == Kind::Purge => found.retain(|(tag, _), _| *tag != leaf.tag),
            _ => {}
        };
        self.log.entries(size, (first, size), add).await?;
        Ok(found.into_values().collect())
    }
}
