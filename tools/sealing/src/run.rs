//! Sealing: what seal-fn does once a minute. Normal work and catching up after an outage are the same.
//!
//! Two instances can run at the same time, and each can be killed between any two requests:
//!
//! 1. The batch is staged, in a place without Object Lock.
//! 2. The state is swapped: size, root, cursors and the name of the staged batch. One instance wins.
//! 3. Tiles are written. They can exist from an attempt that was killed.
//! 4. The checkpoint is signed and published.
//!
//! Every run first finishes 3 and 4 of the last swap.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seal::{
    format::leaf::{Kind, Leaf},
    log::{
        checkpoint::Checkpoint,
        growth::{Edge, InvalidEdge},
        tile::Tile,
    },
};
use shared::{
    clock::Clock,
    domain::{
        entity::EntityId,
        marks::is_expired,
        recorded_at::RecordedAt,
        time_index::{self, LATE},
        version::Version,
        view::VersionView,
    },
    dynamodb::Store,
};
use tokio::time::Instant;

use crate::{
    candidates::{Candidate, candidates},
    error::SealError,
    keys::KeysTable,
    log::Log,
    members::{Content, leaf, members_of, operation_members},
    objects::Objects,
    signer::Signer,
    staged::{Known, Staged},
    state::{Batch, Operation, State, StateTable, kind_of},
};

/// Time before the cursor that each run reads again: an insert can take long, and clocks differ.
const READ_AGAIN: Duration = LATE;
/// Time for which sealed versions are remembered: what is read again, and a minute for times that are ahead.
const REMEMBERED: Duration = Duration::from_secs(LATE.as_secs() + 60);
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of versions that are read together.
const CHUNK: usize = 100;
const CONCURRENCY: usize = 4;
/// Number of attempts against other instances, and against erasures.
const ATTEMPTS: u32 = 20;

/// A table whose versions are sealed.
#[derive(Debug, Clone)]
pub struct Table {
    /// The table.
    pub store: Store,
    /// Its id in leaves.
    pub arn: String,
}

/// Numbers of versions that are handled together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// First batch of a run. It is small, so that a function that is killed again and again makes progress; the next ones are larger.
    pub first_batch: usize,
    /// Batch.
    pub batch: usize,
    /// Period of the index that is read at once. A longer outage is read in shorter periods.
    pub period: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_batch: 500,
            batch: 10_000,
            period: 200_000,
        }
    }
}

/// Seals the versions of tables in one log.
pub struct Sealer {
    /// Tables.
    pub tables: Vec<Table>,
    /// The log.
    pub log: Log,
    /// Staged batches.
    pub staging: Objects,
    /// State of the log.
    pub state: StateTable,
    /// Random keys.
    pub keys: KeysTable,
    /// Key of the log.
    pub signer: Signer,
    /// Clock.
    pub clock: Clock,
    /// Limits.
    pub limits: Limits,
}

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Number of leaves.
    pub leaves: u64,
    /// Size of the log.
    pub size: u64,
    /// Time of insertion of the oldest version that is known and not sealed.
    pub oldest: Option<String>,
    /// Time of the last batch.
    pub sealed_at: Option<RecordedAt>,
}

/// The log after the last swap was finished.
struct Head {
    state: State,
    edge: Edge,
    /// Versions that were sealed of late. `None` if the staged batch is lost.
    known: Option<BTreeMap<String, Vec<Known>>>,
}

/// Leaves that are appended together.
struct Appended {
    /// Each with the number of its operation, if it is one.
    leaves: Vec<(Leaf, Option<usize>)>,
    inserted: (String, String),
    known: BTreeMap<String, Vec<Known>>,
    cursors: BTreeMap<String, RecordedAt>,
    operations: Vec<Operation>,
}

impl Sealer {
    /// Seals all versions that the index shows, until the deadline.
    ///
    /// # Errors
    ///
    /// A request fails, or the log contradicts its state. What was sealed before stays sealed.
    pub async fn run(&self, deadline: Instant, sealed: &mut Sealed) -> Result<(), SealError> {
        for _ in 0..ATTEMPTS {
            let head = self.finish().await?;
            sealed.size = head.state.size;
            sealed.sealed_at = head.state.sealed_at;
            if self.seal(head, deadline, sealed).await? {
                return Ok(());
            }
            // Another instance has sealed a batch.
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Returns the log after the last swap, whose tiles and checkpoint are written if they are not yet.
    ///
    /// # Errors
    ///
    /// A request fails, or the log contradicts its state.
    async fn finish(&self) -> Result<Head, SealError> {
        let contradiction = |what: &str| SealError::Contradiction(what.to_owned());
        for _ in 0..ATTEMPTS {
            let state = self.state.read().await?;
            let published = self
                .log
                .published(self.signer.key())
                .await?
                .map(|(_, checkpoint)| checkpoint);
            let size = published.as_ref().map_or(0, |checkpoint| checkpoint.size);
            if size > state.size && self.state.read().await? == state {
                return Err(contradiction(
                    "the published checkpoint is larger than the state of the log, which was restored from a backup or deleted",
                ));
            }
            if published.is_some_and(|published| published.size == state.size && published.root != state.root) {
                return Err(contradiction(
                    "the published checkpoint has another root than the state of the log",
                ));
            }
            if size > state.size {
                continue;
            }
            if state.size == 0 {
                let edge = Edge::default();
                return Ok(Head {
                    state,
                    edge,
                    known: Some(BTreeMap::new()),
                });
            }
            let staged = self.staging.get(&state.staging).await?;
            let Some(staged) = staged.map(|object| Staged::parse(&object.bytes)).transpose()? else {
                if self.state.read().await? != state {
                    continue;
                }
                if size < state.size {
                    return Err(contradiction(
                        "the staged batch is missing, and its tiles may not be written: restore the object from a backup",
                    ));
                }
                let edge = self.edge(state.size).await?;
                return Ok(Head {
                    state,
                    edge,
                    known: None,
                });
            };
            let mut edge = staged.edge;
            let tiles = edge
                .append(&staged.entries)
                .map_err(|InvalidEdge| contradiction("a staged entry is too long"))?;
            if (edge.size(), edge.root()) != (state.size, state.root) {
                return Err(contradiction("the staged batch is not the one of the state of the log"));
            }
            if size < state.size {
                self.publish(&state, tiles).await?;
            }
            return Ok(Head {
                state,
                edge,
                known: Some(staged.known),
            });
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Reads the edge of the log from its tiles.
    async fn edge(&self, size: u64) -> Result<Edge, SealError> {
        let tiles = Edge::tiles(size);
        let mut read = self.log.tiles(tiles.iter().copied().collect()).await?;
        let bytes: Vec<_> = tiles.iter().map(|tile| read.remove(tile).unwrap_or_default()).collect();
        Edge::new(size, &bytes).map_err(|error| SealError::Contradiction(error.to_string()))
    }

    async fn publish(&self, state: &State, tiles: Vec<(Tile, Vec<u8>)>) -> Result<(), SealError> {
        self.log.write(tiles).await?;
        let checkpoint = Checkpoint {
            origin: self.signer.key().name().to_owned(),
            size: state.size,
            root: state.root,
        };
        self.log.publish(&checkpoint, &self.signer).await
    }

    /// Seals what is waiting. Returns `false` if another instance was faster.
    async fn seal(&self, head: Head, deadline: Instant, sealed: &mut Sealed) -> Result<bool, SealError> {
        let mut head = head;
        loop {
            let operations = self.state.pending().await?;
            if operations.is_empty() {
                break;
            }
            match self.seal_operations(head, operations, sealed).await? {
                Some(next) => head = next,
                None => return Ok(false),
            }
        }
        match self.seal_requested(head, sealed).await? {
            Some(next) => head = next,
            None => return Ok(false),
        }
        let mut is_complete = true;
        for table in &self.tables {
            match self.seal_table(head, table, deadline, sealed).await? {
                Some((next, is_whole)) => (head, is_complete) = (next, is_complete && is_whole),
                None => return Ok(false),
            }
        }
        if is_complete {
            sealed.oldest = None;
        }
        Ok(true)
    }

    /// Seals the versions that operators want to be sealed, unless the log contains them. `None` if another instance was faster.
    async fn seal_requested(&self, mut head: Head, sealed: &mut Sealed) -> Result<Option<Head>, SealError> {
        let requests = self.state.requests().await?;
        for table in &self.tables {
            let of_table = requests.iter().filter(|request| request.table == table.arn);
            let candidates: Vec<_> = of_table
                .map(|request| Candidate::requested(&table.store, request))
                .collect();
            if candidates.is_empty() {
                continue;
            }
            match self.seal_given(head, table, candidates, sealed).await? {
                Some(next) => head = next,
                None => return Ok(None),
            }
        }
        for request in &requests {
            self.state.remove_request(request).await?;
        }
        Ok(Some(head))
    }

    /// Seals the given versions that the log lacks. `None` if another instance was faster.
    async fn seal_given(
        &self,
        head: Head,
        table: &Table,
        candidates: Vec<Candidate>,
        sealed: &mut Sealed,
    ) -> Result<Option<Head>, SealError> {
        let (fresh, seen) = self.unsealed(&head, table, candidates).await?;
        match fresh.is_empty() {
            true => Ok(Some(head)),
            false => self.seal_versions(head, table, (&fresh, &seen), None, sealed).await,
        }
    }

    /// Seals the versions of a table. Returns the log, and `false` if the deadline has passed before; `None` if another instance was faster.
    async fn seal_table(
        &self,
        mut head: Head,
        table: &Table,
        deadline: Instant,
        sealed: &mut Sealed,
    ) -> Result<Option<(Head, bool)>, SealError> {
        let now = RecordedAt::since_epoch(self.clock.now());
        let mut start = head
            .state
            .cursors
            .get(&table.arn)
            .map_or(RecordedAt::since_epoch(Duration::ZERO), |cursor| {
                cursor.before(READ_AGAIN)
            });
        let (mut period, mut batch) = (None, self.limits.first_batch);
        loop {
            let end = period.map(|period| start.after(period)).filter(|end| *end < now);
            let is_shortest = period.is_some_and(|period| period <= SHORTEST_PERIOD);
            let limit = if is_shortest { usize::MAX } else { self.limits.period };
            let Some(found) = candidates(&table.store, start, end, limit).await? else {
                let length = end.unwrap_or(now).to_duration().saturating_sub(start.to_duration());
                period = Some((length / 2).max(SHORTEST_PERIOD));
                continue;
            };
            let is_small = found.len() < self.limits.period / 4;
            // A clock that is ahead, of this function or of a writer, does not move the cursor beyond both.
            let newest = found.iter().map(|candidate| candidate.known.inserted).max();
            let newest = newest.map(|millis| RecordedAt::since_epoch(Duration::from_millis(millis)));
            let cursor = newest.map(|newest| newest.min(end.unwrap_or(now)));
            let (fresh, seen) = self.unsealed(&head, table, found).await?;
            let oldest = fresh.iter().map(|candidate| &candidate.inserted).min();
            sealed.oldest = sealed.oldest.iter().chain(oldest).min().cloned();
            let mut left = fresh.as_slice();
            while !left.is_empty() {
                if Instant::now() >= deadline {
                    return Ok(Some((head, false)));
                }
                let chunk;
                (chunk, left) = left.split_at(batch.min(left.len()));
                batch = (batch * 4).min(self.limits.batch);
                let cursor = cursor.filter(|_| left.is_empty());
                match self.seal_versions(head, table, (chunk, &seen), cursor, sealed).await? {
                    Some(next) => head = next,
                    None => return Ok(None),
                }
            }
            let Some(end) = end else {
                return Ok(Some((head, true)));
            };
            start = end;
            period = period.map(|period| if is_small { period * 2 } else { period });
        }
    }

    /// Returns the candidates that the log does not contain, in the order of their entities, and by what the others are known.
    async fn unsealed(
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
                let inserted = RecordedAt::since_epoch(Duration::from_millis(inserted));
                candidate.since.get_or_insert(time_index::millis(inserted));
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
    async fn in_log(
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

    /// Seals versions as one batch. `None` if another instance was faster.
    async fn seal_versions(
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
    async fn leaves_of(&self, table: &Table, candidates: &[Candidate]) -> Result<Vec<Leaf>, SealError> {
        let mut left: Vec<_> = candidates.iter().collect();
        let mut leaves = Vec::with_capacity(left.len());
        for _ in 0..ATTEMPTS {
            let entities: BTreeSet<_> = left.iter().map(|candidate| candidate.entity.clone()).collect();
            let entities: Vec<_> = entities.into_iter().collect();
            // Keys first: if a value is erased in between, they cannot be stored.
            let mut keys = self.keys.read(&table.arn, &entities).await?;
            let mut versions: HashMap<EntityId, Vec<VersionView>> = HashMap::new();
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
    async fn versions(&self, store: &Store, candidates: &[&Candidate]) -> Result<Vec<VersionView>, SealError> {
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
    async fn seal_operations(
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

    async fn leaf_of_operation(&self, operation: &Operation) -> Result<Leaf, SealError> {
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

    /// Appends a batch to the log. `None` if another instance was faster.
    async fn append(&self, head: Head, batch: Appended, sealed: &mut Sealed) -> Result<Option<Head>, SealError> {
        let Appended {
            mut leaves,
            inserted,
            known,
            cursors,
            mut operations,
        } = batch;
        leaves.sort_unstable_by_key(|(leaf, _)| (leaf.tag, leaf.version, leaf.kind));
        let first_index = head.edge.size();
        for ((_, operation), index) in leaves.iter().zip(first_index..) {
            if let Some(operation) = operation.and_then(|number| operations.get_mut(number)) {
                operation.index = Some(index);
            }
        }
        let entries: Vec<_> = leaves.iter().map(|(leaf, _)| leaf.bytes().to_vec()).collect();
        let count = entries.len() as u64;
        let staged = Staged {
            edge: head.edge.clone(),
            entries,
            known,
        };
        let text = staged.text()?;
        let Staged {
            entries,
            known,
            mut edge,
        } = staged;
        let tiles = edge
            .append(&entries)
            .map_err(|error| SealError::Contradiction(error.to_string()))?;
        let state = State {
            size: edge.size(),
            root: edge.root(),
            staging: format!("staging/{:020}-{:016x}", edge.size(), fastrand::u64(..)),
            cursors,
            sealed_at: Some(RecordedAt::since_epoch(self.clock.now())),
        };
        self.staging.create(&state.staging, &text).await?;
        let batch = Batch {
            first_index,
            count,
            inserted,
        };
        if !self.state.swap(&head.state, &state, &batch, &operations).await? {
            self.staging.delete(&state.staging).await?;
            return Ok(None);
        }
        self.publish(&state, tiles).await?;
        if !head.state.staging.is_empty() {
            self.staging.delete(&head.state.staging).await?;
        }
        sealed.leaves += count;
        sealed.size = state.size;
        sealed.sealed_at = state.sealed_at;
        Ok(Some(Head {
            state,
            edge,
            known: Some(known),
        }))
    }
}

fn millis(time: RecordedAt) -> u64 {
    u64::try_from(time.to_duration().as_millis()).unwrap_or(u64::MAX)
}
