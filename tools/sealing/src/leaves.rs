//! Leaves of versions and of operations.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seal::format::leaf::{Kind, Leaf};
use shared::{
    domain::{entity::EntityId, marks::is_expired, recorded_at::RecordedAt, time_index::LATE, view::VersionView},
    dynamodb::Store,
};

use crate::{
    candidates::Candidate,
    error::SealError,
    members::{Content, leaf, members_of, operation_members},
    sealer::{ATTEMPTS, Appended, Head, Sealed, Sealer, Table},
    staged::Known,
    state::{Operation, kind_of},
};

/// Time for which sealed versions are remembered: what is read again, and a minute for times that are ahead.
const REMEMBERED: Duration = Duration::from_secs(LATE.as_secs() + 60);
/// Maximum number of versions that are read together.
const CHUNK: usize = 100;
const CONCURRENCY: usize = 4;

impl Sealer {
    /// Seals versions as one batch. `None` if another instance was faster.
    pub(crate) async fn seal_versions(
        &self,
        head: Head,
        table: &Table,
        (candidates, seen): (&[Candidate], &[Known]),
        cursor: Option<RecordedAt>,
        sealed: &mut Sealed,
    ) -> Result<Option<Head>, SealError> {
        let chunks = candidates.chunks(CHUNK).map(|chunk| self.leaves_of(table, chunk));
        let leaves: Vec<Vec<Leaf>> = stream::iter(chunks).buffered(CONCURRENCY).try_collect().await?;
        let leaves: Vec<_> = leaves.into_iter().flatten().map(|leaf| (leaf, None)).collect();
        if leaves.is_empty() {
            // All of them were removed since the index showed them.
            return Ok(Some(head));
        }
        let mut cursors = head.state.cursors.clone();
        cursors.extend(cursor.map(|cursor| (table.arn.clone(), cursor)));
        let since = cursors
            .get(&table.arn)
            .map_or(0, |cursor| millis(cursor.before(REMEMBERED)));
        let mut known = head.known.clone().unwrap_or_default();
        let of_table = known.entry(table.arn.clone()).or_default();
        // One that was removed and inserted again is remembered since then.
        of_table.extend(
            seen.iter()
                .copied()
                .chain(candidates.iter().map(|candidate| candidate.known)),
        );
        of_table.sort_unstable_by_key(|known| (known.key, Reverse(known.inserted)));
        of_table.dedup_by_key(|known| known.key);
        of_table.retain(|known| known.inserted >= since);
        let inserted = || candidates.iter().map(|candidate| candidate.inserted.clone());
        let batch = Appended {
            leaves,
            inserted: (
                inserted().min().unwrap_or_default(),
                inserted().max().unwrap_or_default(),
            ),
            known,
            cursors,
            operations: Vec::new(),
        };
        self.append(head, batch, sealed).await
    }

    /// Returns the leaves of at most [`CHUNK`] versions. Those that do not exist any more have none.
    pub(crate) async fn leaves_of(&self, table: &Table, candidates: &[Candidate]) -> Result<Vec<Leaf>, SealError> {
        let mut left: Vec<_> = candidates.iter().collect();
        let mut leaves = Vec::with_capacity(left.len());
        for _ in 0..ATTEMPTS {
            let entities: BTreeSet<_> = left.iter().map(|candidate| candidate.entity.clone()).collect();
            let entities: Vec<_> = entities.into_iter().collect();
            // Keys first: if a value is erased in between, they cannot be stored.
            let mut keys = self.keys.read(&table.arn, &entities).await?;
            // In an order that does not vary, so that a simulated run can be repeated.
            let mut versions: BTreeMap<EntityId, Vec<VersionView>> = BTreeMap::new();
            for view in self.versions(&table.store, &left).await? {
                versions.entry(view.entity.clone()).or_default().push(view);
            }
            let mut again = HashSet::new();
            for (entity, views) in versions {
                let Some(keys) = keys.get_mut(&entity) else { continue };
                let versions: Vec<_> = views
                    .iter()
                    .map(|view| (view.version.get(), members_of(&table.arn, view)))
                    .collect();
                // An erased value has its commitment.
                let members = versions.iter().flat_map(|(_, members)| members);
                let values = members.filter(|member| matches!(member.content, Content::Value(_)));
                let paths = values.map(|member| &member.path);
                if keys.add(paths)? && !self.keys.store(keys).await? {
                    again.insert(entity);
                    continue;
                }
                for (version, members) in versions {
                    match leaf(Kind::Version, &members, keys, version, None) {
                        Ok(leaf) => leaves.extend(leaf),
                        // DynamoDB stores no such value. The others are sealed; the audit reports this one.
                        Err(error) => tracing::error!(table = table.arn, version, %error, "a version cannot be sealed"),
                    }
                }
            }
            left.retain(|candidate| again.contains(&candidate.entity));
            if left.is_empty() {
                return Ok(leaves);
            }
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Reads versions, without those that do not exist or have expired.
    pub(crate) async fn versions(
        &self,
        store: &Store,
        candidates: &[&Candidate],
    ) -> Result<Vec<VersionView>, SealError> {
        let keys = candidates
            .iter()
            .map(|candidate| (&candidate.entity, store.digits().version_key(candidate.version)));
        let items = store.batch_get_only(&[], keys, true).await?;
        let now = self.clock.now();
        let view = |item| {
            let entity = EntityId::new(shared::domain::keys::partition_key_of(&item)?).ok()?;
            let version = store.digits().version_of_item(&item)?;
            Some(store.view(&entity, version, item))
        };
        Ok(items
            .into_iter()
            .filter(|item| !is_expired(item, now))
            .filter_map(view)
            .collect())
    }

    /// Seals operations as one batch. `None` if another instance was faster.
    pub(crate) async fn seal_operations(
        &self,
        head: Head,
        operations: Vec<Operation>,
        sealed: &mut Sealed,
    ) -> Result<Option<Head>, SealError> {
        let mut leaves = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            let leaf = self.leaf_of_operation(operation).await?;
            leaves.push((leaf, Some(number)));
        }
        let now = RecordedAt::since_epoch(self.clock.now()).to_string();
        let batch = Appended {
            leaves,
            inserted: (now.clone(), now),
            known: head.known.clone().unwrap_or_default(),
            cursors: head.state.cursors.clone(),
            operations,
        };
        self.append(head, batch, sealed).await
    }

    pub(crate) async fn leaf_of_operation(&self, operation: &Operation) -> Result<Leaf, SealError> {
        let entity = EntityId::new(operation.entity.clone());
        let entity = entity.map_err(|_| SealError::Unreadable("an operation to seal".to_owned()))?;
        let metadata = operation
            .metadata()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let members = operation_members(metadata.collect());
        for _ in 0..ATTEMPTS {
            let mut keys = self.keys.read(&operation.table, std::slice::from_ref(&entity)).await?;
            let Some(keys) = keys.get_mut(&entity) else { continue };
            if keys.add(members.iter().map(|member| &member.path))? && !self.keys.store(keys).await? {
                continue;
            }
            let version = operation.versions.0;
            if let Some(leaf) = leaf(kind_of(operation), &members, keys, version, Some(operation.id))? {
                return Ok(leaf);
            }
        }
        Err(SealError::Contended(ATTEMPTS))
    }
}

fn millis(time: RecordedAt) -> u64 {
    u64::try_from(time.to_duration().as_millis()).unwrap_or(u64::MAX)
}
