//! Proofs: the versions of an entity as the table has them, with what the log needs to contain them.

use std::{collections::BTreeMap, ops::RangeInclusive};

use operations::{progress::Progress, sealed};
use seal::{
    format::leaf::Kind,
    log::{checkpoint::Checkpoint, proof::Plan},
    proof::document::{Digits, Document, ProvenLeaf},
};
use shared::{
    domain::{
        attributes::text, entity::EntityId, marks::is_expired, time_index::INSERTED_AT, version::Version,
        view::VersionView,
    },
    dynamodb::Store,
};
use thiserror::Error;

use crate::{
    error::SealError,
    find::{Finder, Sealed},
    keys::{EntityKeys, KeysTable},
    log::Log,
    members::{members_of, operation_members},
    place::{Place, verifier},
    shown::{Hiding, NotShown, Shown},
    state::{Operation, StateTable, kind_of},
};

/// Number of versions that are read, and of leaves that are proven, at the same time.
const CHUNK: usize = 100;
/// Number of versions among which the newest sealed one is looked for at the same time.
const NEWEST: u64 = 10;

/// Makes proofs of the versions of a table.
pub struct Prover<'a> {
    /// The table.
    pub store: &'a Store,
    /// Where its log is.
    pub place: &'a Place,
    /// The log.
    pub log: &'a Log,
}

/// Versions of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest one that is sealed.
    Newest,
    /// One.
    One(Version),
    /// All that are sealed, and the operations of the entity.
    All,
}

/// A proof that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The document, with white space.
    pub text: String,
    /// Versions that are not sealed yet.
    pub unsealed: Vec<u64>,
}

/// Reason why there is no proof.
#[derive(Debug, Error)]
pub enum ProveError {
    /// The log, or what belongs to it, cannot be used.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The version is not in history.
    #[error("version {0} is not in the history")]
    NoVersion(Version),
    /// The log does not have the version yet.
    #[error("version {0} is not sealed yet: seal-fn seals versions within two minutes")]
    Unsealed(u64),
    /// The table has another content than the log.
    #[error("version {0} was changed since it was sealed: the log has another content")]
    Changed(u64),
    /// The log has a version that the table lacks, and that no operation has removed.
    #[error("version {0} was deleted since it was sealed, without a prune or purge in the log")]
    Deleted(u64),
    /// A leaf cannot be shown with the hidden paths.
    #[error(transparent)]
    Shown(#[from] NotShown),
    /// The proof that was made does not hold.
    #[error("the proof does not hold: {0}")]
    Invalid(String),
}

/// Versions, and their marks of insertion.
type Page = (Vec<VersionView>, BTreeMap<u64, Option<String>>);

impl Prover<'_> {
    /// Makes a proof of versions between the oldest and the latest one, without the members at the hidden paths, and verifies it.
    ///
    /// # Errors
    ///
    /// A request fails, a version is not sealed or was changed since, or a path cannot be hidden.
    pub async fn prove(
        &self,
        entity: &EntityId,
        which: Which,
        (oldest, latest): (Version, Version),
        hidden: &[Vec<String>],
        progress: &impl Progress,
    ) -> Result<Proof, ProveError> {
        let client = self.store.client();
        let keys = KeysTable::new(client.clone(), &self.place.keys);
        let keys = keys.read(&self.place.table, std::slice::from_ref(entity)).await?;
        let keys = keys.get(entity).filter(|keys| keys.is_stored());
        let verifier = verifier(self.place)?;
        let published = self.log.published(&verifier).await?;
        let table = StateTable::new(client.clone(), &self.place.state);
        let state = table.read().await?;
        if published.is_none() && state.size > 0 {
            return Err(SealError::Missing("checkpoint".to_owned()).into());
        }
        let (Some(keys), Some((note, checkpoint))) = (keys, published) else {
            return Err(ProveError::Unsealed(match which {
                Which::One(version) => version.get(),
                _ => latest.get(),
            }));
        };
        let finder = Finder {
            log: self.log,
            state: &table,
            size: checkpoint.size,
            cursor: state.cursors.get(&self.place.table).copied(),
        };
        let mut operations = Vec::new();
        if which == Which::All {
            let mut cursor = None;
            loop {
                let (mut page, next) = table.operations(true, cursor).await?;
                page.retain(|operation| {
                    let is_in_log = operation.index.is_some_and(|index| index < checkpoint.size);
                    is_in_log && operation.table == keys.table && operation.entity == keys.entity
                });
                operations.extend(page);
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        let mut hiding = Hiding::new(hidden);
        let range = (oldest.get(), latest.get());
        let read = self.read((entity, keys), which, range, (&finder, &operations), progress);
        let (views, sealed) = read.await?;
        let (mut shown, unsealed) = compare(keys, &views, &sealed, &mut hiding)?;
        if which == Which::All {
            check_deleted(range, &views, &sealed, &operations)?;
        }
        match unsealed.first() {
            Some(version) if shown.is_empty() => return Err(ProveError::Unsealed(*version)),
            _ => {}
        }
        for operation in &operations {
            let metadata = operation.metadata().into_iter();
            let members = operation_members(metadata.map(|(name, value)| (name.to_owned(), value)).collect());
            let leaf = (kind_of(operation), operation.versions.0, Some(operation.id));
            let found = Shown::new(leaf, &members, keys, &mut hiding)?.zip(operation.index);
            shown.extend(found.map(|(shown, index)| Shown { index, ..shown }));
        }
        hiding.check()?;
        shown.sort_unstable_by_key(|shown| shown.index);
        let leaves = self.leaves(shown, &checkpoint, progress).await?;
        let note = String::from_utf8_lossy(&note.bytes).into_owned();
        let (table, name) = (keys.table.clone(), keys.entity.clone());
        let document = Document::new(note, table, name, keys.random, leaves);
        let text = serde_json::to_string_pretty(&document).map_err(|error| ProveError::Invalid(error.to_string()))?;
        let invalid = |error: &dyn std::error::Error| ProveError::Invalid(error.to_string());
        let read = Document::parse(&text).map_err(|error| invalid(&error))?;
        read.verify(&verifier).map_err(|error| invalid(&error))?;
        Ok(Proof { text, unsealed })
    }

    /// Reads versions, and finds the leaves of their entity in the log.
    async fn read(
        &self,
        (entity, keys): (&EntityId, &EntityKeys),
        which: Which,
        (oldest, latest): (u64, u64),
        (finder, operations): (&Finder<'_>, &[Operation]),
        progress: &impl Progress,
    ) -> Result<(Vec<VersionView>, Vec<Sealed>), ProveError> {
        let tag = keys.tag().map_err(SealError::from)?;
        let find = async |marks: BTreeMap<_, _>| finder.versions(tag, &marks, progress).await;
        match which {
            Which::One(version) => {
                let (views, marks) = self.page(entity, version.get()..=version.get()).await?;
                match views.is_empty() {
                    true => Err(ProveError::NoVersion(version)),
                    false => Ok((views, find(marks).await?)),
                }
            }
            Which::All => {
                let (mut views, mut marks) = (Vec::new(), BTreeMap::new());
                for first in (oldest..=latest).step_by(CHUNK) {
                    let (some, of_some) = self.page(entity, first..=latest.min(first + CHUNK as u64 - 1)).await?;
                    views.extend(some);
                    marks.extend(of_some);
                    progress.at(views.len() as u64);
                }
                // One that was deleted was inserted after the version before it.
                let mut before = None;
                for version in oldest..=latest {
                    match marks.get(&version) {
                        Some(mark) => before.clone_from(mark),
                        None if is_removed(version, operations) => {}
                        None => drop(marks.insert(version, before.clone())),
                    }
                }
                let sealed = find(marks).await?;
                Ok((views, sealed))
            }
            Which::Newest => {
                let mut end = latest;
                while end >= oldest {
                    let first = oldest.max((end + 1).saturating_sub(NEWEST));
                    let (views, marks) = self.page(entity, first..=end).await?;
                    for view in views.into_iter().rev() {
                        let version = view.version.get();
                        let mark = marks.get(&version).cloned().flatten();
                        let mut sealed = find(BTreeMap::from([(version, mark)])).await?;
                        sealed.retain(|(_, leaf)| leaf.version == version);
                        if !sealed.is_empty() {
                            return Ok((vec![view], sealed));
                        }
                    }
                    end = first - 1;
                }
                Err(ProveError::Unsealed(latest))
            }
        }
    }

    /// Reads versions in their order, and their marks of insertion.
    async fn page(&self, entity: &EntityId, numbers: RangeInclusive<u64>) -> Result<Page, SealError> {
        let (digits, now) = (self.store.digits(), self.store.clock().now());
        let mut items = self
            .store
            .batch_get(entity, &digits.version_keys(numbers), true)
            .await?;
        items.retain(|item| !is_expired(item, now));
        let (mut views, mut marks) = (Vec::new(), BTreeMap::new());
        for item in items {
            if let Some(version) = digits.version_of_item(&item) {
                marks.insert(version.get(), text(&item, INSERTED_AT).map(str::to_owned));
                views.push(self.store.view(entity, version, item));
            }
        }
        views.sort_unstable_by_key(|view| view.version);
        Ok((views, marks))
    }

    /// Adds the hashes of the tree.
    async fn leaves(
        &self,
        shown: Vec<Shown>,
        checkpoint: &Checkpoint,
        progress: &impl Progress,
    ) -> Result<Vec<ProvenLeaf>, ProveError> {
        let mut leaves = Vec::with_capacity(shown.len());
        let mut shown = shown.into_iter().peekable();
        while shown.peek().is_some() {
            let chunk: Vec<_> = shown.by_ref().take(CHUNK).collect();
            let plan = |shown: &Shown| Plan::inclusion(checkpoint.size, shown.index);
            let plans: Option<Vec<_>> = chunk.iter().map(plan).collect();
            let proofs = self.log.proofs(&plans.unwrap_or_default()).await?;
            leaves.extend(chunk.into_iter().zip(proofs).map(|(shown, proof)| ProvenLeaf {
                kind: shown.leaf.kind,
                version: shown.leaf.version,
                index: shown.index,
                inclusion: proof.into_iter().map(Digits).collect(),
                disclosed: shown.disclosed,
                withheld: shown.withheld,
            }));
            progress.at(leaves.len() as u64);
        }
        Ok(leaves)
    }
}

/// Returns the leaves of versions, and the versions that the log lacks.
fn compare(
    keys: &EntityKeys,
    views: &[VersionView],
    sealed: &[Sealed],
    hiding: &mut Hiding<'_>,
) -> Result<(Vec<Shown>, Vec<u64>), ProveError> {
    let mut in_log: BTreeMap<u64, Vec<&Sealed>> = BTreeMap::new();
    for found in sealed {
        in_log.entry(found.1.version).or_default().push(found);
    }
    let (mut shown, mut unsealed) = (Vec::new(), Vec::new());
    for view in views {
        let version = view.version.get();
        let Some(leaves) = in_log.get(&version) else {
            unsealed.push(version);
            continue;
        };
        let members = members_of(&keys.table, view);
        let of_table = Shown::new((Kind::Version, version, None), &members, keys, hiding)?;
        let of_both = of_table.and_then(|shown| {
            let (index, _) = leaves.iter().find(|(_, leaf)| *leaf == shown.leaf)?;
            Some(Shown { index: *index, ..shown })
        });
        shown.push(of_both.ok_or(ProveError::Changed(version))?);
    }
    Ok((shown, unsealed))
}

/// Checks that the table has the versions of the log, from the oldest to the latest one, unless an operation has removed them.
fn check_deleted(
    (oldest, latest): (u64, u64),
    views: &[VersionView],
    sealed: &[Sealed],
    operations: &[Operation],
) -> Result<(), ProveError> {
    let is_deleted = |version: &u64| {
        let is_read = views.binary_search_by_key(version, |view| view.version.get()).is_ok();
        (oldest..=latest).contains(version) && !is_read && !is_removed(*version, operations)
    };
    let deleted = sealed.iter().map(|(_, leaf)| leaf.version).find(is_deleted);
    deleted.map_or(Ok(()), |version| Err(ProveError::Deleted(version)))
}

/// Returns `true` if an operation has removed a version.
fn is_removed(version: u64, operations: &[Operation]) -> bool {
    let mut removals = operations
        .iter()
        .filter(|operation| operation.kind != sealed::Kind::Erase);
    removals.any(|operation| (operation.versions.0..=operation.versions.1).contains(&version))
}
