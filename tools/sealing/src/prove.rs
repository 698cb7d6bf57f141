//! Proofs: the versions of an entity as the table has them, with what the log needs to contain them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use operations::progress::Progress;
use seal::{
    format::{
        FormatError,
        commitment::{commitment, content_root},
        leaf::{Kind, Leaf},
        member::Namespace,
    },
    log::{checkpoint::Checkpoint, proof::Plan},
    proof::{
        document::{Digits, Disclosed, Document, ProvenLeaf},
        value::ShownValue,
    },
};
use shared::{
    domain::{
        AttributeValue, attributes::text, entity::EntityId, marks::is_expired, time_index::INSERTED_AT,
        version::Version, view::VersionView,
    },
    dynamodb::{Store, client::error::ServiceError},
};
use thiserror::Error;

use crate::{
    error::SealError,
    find::{Finder, Sealed},
    keys::{EntityKeys, KeysTable},
    log::Log,
    members::{Content, Member, members_of, operation_members},
    place::Place,
    state::{Operation, StateTable},
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
    pub unsealed: BTreeSet<u64>,
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
    #[error("{} was changed since it was sealed: the log has another content", numbers(.0))]
    Changed(BTreeSet<u64>),
    /// The log has versions that the table lacks, and that no operation has removed.
    #[error("{} was deleted since it was sealed, without a prune or purge in the log", numbers(.0))]
    Deleted(BTreeSet<u64>),
    /// A hidden path that no version has.
    #[error("no version of the proof has this path")]
    NoPath(Vec<String>),
    /// A hidden path below a list, and the path of the list.
    #[error("the path is below a list, which is sealed as a whole")]
    BelowList(Vec<String>, Vec<String>),
    /// The proof that was made does not hold.
    #[error("the proof does not hold: {0}")]
    Invalid(String),
}

impl From<FormatError> for ProveError {
    fn from(error: FormatError) -> Self {
        SealError::from(error).into()
    }
}

impl From<ServiceError> for ProveError {
    fn from(error: ServiceError) -> Self {
        SealError::from(error).into()
    }
}

/// Versions, and their marks of insertion.
type Page = (Vec<VersionView>, BTreeMap<u64, Option<String>>);

/// A leaf of the proof, before its place in the tree is proven.
struct Shown {
    leaf: Leaf,
    index: u64,
    disclosed: Vec<Disclosed>,
    withheld: Vec<Digits>,
}

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
        let published = self.log.published(&self.place.verifier).await?;
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
            operations = table.operations().await?;
            operations.retain(|operation| {
                let is_in_log = operation.index.is_some_and(|index| index < checkpoint.size);
                is_in_log && operation.table == keys.table && operation.entity == keys.entity
            });
        }
        let mut hiding = Hiding::new(hidden);
        let range = (oldest.get(), latest.get());
        let (views, sealed) = self.read((entity, keys), which, range, &finder, progress).await?;
        let (mut shown, unsealed) = compare(keys, &views, &sealed, &mut hiding)?;
        if which == Which::All {
            check_deleted(oldest.get(), &views, &sealed, &operations)?;
        }
        match unsealed.first() {
            Some(version) if shown.is_empty() => return Err(ProveError::Unsealed(*version)),
            _ => {}
        }
        for operation in &operations {
            shown.extend(of_operation(operation, keys, &mut hiding)?);
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
        read.verify(&self.place.verifier).map_err(|error| invalid(&error))?;
        Ok(Proof { text, unsealed })
    }

    /// Reads versions, and finds the leaves of their entity in the log.
    async fn read(
        &self,
        (entity, keys): (&EntityId, &EntityKeys),
        which: Which,
        (oldest, latest): (u64, u64),
        finder: &Finder<'_>,
        progress: &impl Progress,
    ) -> Result<(Vec<VersionView>, Vec<Sealed>), ProveError> {
        let tag = keys.tag()?;
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
    async fn page(&self, entity: &EntityId, numbers: RangeInclusive<u64>) -> Result<Page, ServiceError> {
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
) -> Result<(Vec<Shown>, BTreeSet<u64>), ProveError> {
    let mut in_log: BTreeMap<u64, Vec<&Sealed>> = BTreeMap::new();
    for found in sealed {
        in_log.entry(found.1.version).or_default().push(found);
    }
    let (mut shown, mut unsealed, mut changed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for view in views {
        let version = view.version.get();
        let Some(leaves) = in_log.get(&version) else {
            unsealed.insert(version);
            continue;
        };
        let of_table = shown_of(
            Kind::Version,
            version,
            &members_of(&keys.table, view),
            keys,
            None,
            hiding,
        )?;
        let of_both = of_table.and_then(|shown| {
            let (index, _) = leaves.iter().find(|(_, leaf)| *leaf == shown.leaf)?;
            Some(Shown { index: *index, ..shown })
        });
        match of_both {
            Some(found) => shown.push(found),
            None => drop(changed.insert(version)),
        }
    }
    match changed.is_empty() {
        true => Ok((shown, unsealed)),
        false => Err(ProveError::Changed(changed)),
    }
}

/// Checks that the table has the versions of the log, from the oldest on, unless an operation has removed them.
fn check_deleted(
    oldest: u64,
    views: &[VersionView],
    sealed: &[Sealed],
    operations: &[Operation],
) -> Result<(), ProveError> {
    let mut deleted: BTreeSet<_> = sealed.iter().map(|(_, leaf)| leaf.version).collect();
    for view in views {
        deleted.remove(&view.version.get());
    }
    deleted.retain(|version| {
        let covers = |operation: &Operation| {
            operation.kind != Kind::Erase && (operation.versions.0..=operation.versions.1).contains(version)
        };
        *version >= oldest && !operations.iter().any(covers)
    });
    match deleted.is_empty() {
        true => Ok(()),
        false => Err(ProveError::Deleted(deleted)),
    }
}

fn of_operation(
    operation: &Operation,
    keys: &EntityKeys,
    hiding: &mut Hiding<'_>,
) -> Result<Option<Shown>, ProveError> {
    let metadata = operation.metadata().into_iter();
    let members = operation_members(metadata.map(|(name, value)| (name.to_owned(), value)).collect());
    let (version, id) = (operation.versions.0, Some(operation.id));
    let shown = shown_of(operation.kind, version, &members, keys, id, hiding)?;
    Ok(shown
        .zip(operation.index)
        .map(|(shown, index)| Shown { index, ..shown }))
}

/// Returns the leaf of members with what of them is shown, `None` if a path has no key: then it was not there when the leaf was sealed.
fn shown_of(
    kind: Kind,
    version: u64,
    members: &[Member],
    keys: &EntityKeys,
    operation: Option<[u8; 16]>,
    hiding: &mut Hiding<'_>,
) -> Result<Option<Shown>, ProveError> {
    let (mut commitments, mut disclosed, mut withheld) = (Vec::with_capacity(members.len()), Vec::new(), Vec::new());
    for member in members {
        let is_hidden = hiding.hides(member)?;
        let value = match &member.content {
            Content::Erased(hash) => {
                commitments.push(*hash);
                withheld.push(Digits(*hash));
                continue;
            }
            Content::Value(value) => value,
        };
        let Some(key) = keys.of(&member.path)? else {
            return Ok(None);
        };
        let salt = match operation {
            Some(id) => key.salt_of_operation(&keys.table, version, id),
            None => key.salt(&keys.table, version),
        };
        let hash = commitment(&salt, &member.path, value)?;
        commitments.push(hash);
        match is_hidden {
            true => withheld.push(Digits(hash)),
            false => disclosed.push(Disclosed::new(member.path.clone(), salt, ShownValue(value.clone()))),
        }
    }
    withheld.sort_unstable();
    let leaf = Leaf {
        kind,
        tag: keys.tag()?,
        version,
        content: content_root(commitments),
    };
    Ok(Some(Shown {
        leaf,
        index: 0,
        disclosed,
        withheld,
    }))
}

/// Paths that are hidden, and which of them a version has.
struct Hiding<'a> {
    paths: Vec<(&'a [String], bool)>,
}

impl<'a> Hiding<'a> {
    fn new(paths: &'a [Vec<String>]) -> Self {
        let paths = paths.iter().map(|path| (path.as_slice(), false)).collect();
        Self { paths }
    }

    /// Returns `true` if a member is hidden: an attribute at a path or below it, or metadata of this name.
    fn hides(&mut self, member: &Member) -> Result<bool, ProveError> {
        let names = &member.path.names;
        let mut is_hidden = false;
        for (path, is_used) in &mut self.paths {
            let is_list = matches!(member.content, Content::Value(AttributeValue::L(_)));
            if is_list && path.len() > names.len() && path.starts_with(names) {
                return Err(ProveError::BelowList(path.to_vec(), names.clone()));
            }
            let is_below = match member.path.namespace {
                Namespace::Attribute => names.starts_with(path),
                Namespace::Metadata => names == path,
            };
            (is_hidden, *is_used) = (is_hidden || is_below, *is_used || is_below);
        }
        Ok(is_hidden)
    }

    fn check(self) -> Result<(), ProveError> {
        match self.paths.iter().find(|(_, is_used)| !is_used) {
            Some((path, _)) => Err(ProveError::NoPath(path.to_vec())),
            None => Ok(()),
        }
    }
}

fn numbers(versions: &BTreeSet<u64>) -> String {
    let texts: Vec<_> = versions.iter().take(5).map(u64::to_string).collect();
    let more = versions.len().saturating_sub(texts.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("version {}{more}", texts.join(", "))
}
