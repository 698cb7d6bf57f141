//! Erasure of values from all versions of an entity, so that proofs of everything else still hold.
//!
//! ```text
//! current item ─▶ erase marker ─▶ wait ─▶ versions, hashes, quarantine ─▶ failure documents ─▶ operation to seal ─▶ keys
//! ```
//!
//! An erased value is replaced by its commitment, which the leaf of the version contains. Once the key of its path is deleted, no guess of the value
//! can be tested. Until then, a version that seal-fn seals meanwhile gets the same commitment from the key.
//!
//! Each step can be repeated. An erasure that was interrupted goes on at the time of its marker.

mod error;
mod version;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use self::error::EraseError;
use self::version::Rewriter;
use crate::{
    error::SealError,
    keys::KeysTable,
    members::{ALWAYS, Content, members_of, path_of},
    place::Place,
    state::{Operation, StateTable},
};
use operations::{
    erase::{clean_latest, clean_ledger, clean_quarantine, is_current},
    hold,
    purge::mark_erased,
    sealed,
};
use seal::format::member::{self, Path};
use sha2::{Digest as _, Sha256};
use shared::{
    domain::{
        Item,
        attached::AttachedTable,
        entity::EntityId,
        erase::{erase_paths, with_all_copies},
        erased::{Erased, ErasedPath, ErasedValue, Erasure, Erasures, InsideList, Namespace},
        names,
        recorded_at::{CLOCK_TOLERANCE, RecordedAt},
        version::Version,
        view::VersionView,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Range},
};

/// Number of times that versions which are written meanwhile are erased, too.
const ATTEMPTS: u32 = 20;
/// Metadata of operations, besides those of every leaf.
const OF_OPERATIONS: [&str; 5] = [names::RECORDED_AT, names::REASON, "To", "Role", "Paths"];

/// Erasure of paths from one entity.
#[derive(Debug)]
pub struct Erasing<'a> {
    store: &'a Store,
    entity: &'a EntityId,
    /// `None` if the versions are not sealed.
    place: Option<Place>,
    paths: BTreeSet<ErasedPath>,
    is_all: bool,
    erasure: Erasure,
    is_marked: bool,
    /// Role that erases them, empty if it is not known.
    pub role: String,
    /// Number of versions that have one of the values.
    pub versions: u64,
    /// `true` if the current item has one of them.
    pub is_current: bool,
}

/// What an erasure has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Versions.
    pub versions: u64,
    /// Records in quarantine.
    pub quarantined: u64,
    /// Other items: the latest item and the ledger.
    pub others: u64,
    /// `true` if keys were deleted.
    pub keys: bool,
}

impl<'a> Erasing<'a> {
    /// Plans the erasure of these paths, as those of a proof, without one of all that can be erased.
    ///
    /// # Errors
    ///
    /// [`EraseError`] if a path cannot be erased, or a request fails; [`Held`](operations::error::OperationError::Held) if the entity is on hold.
    pub async fn plan(
        store: &'a Store,
        entity: &'a EntityId,
        paths: &[Vec<String>],
        reason: &str,
    ) -> Result<Self, EraseError> {
        hold::check(store, entity).await?;
        let newest = store.newest(entity, true).await.map_err(SealError::from)?;
        let (newest, _) = newest.ok_or(EraseError::NoVersion)?;
        let table = store.attached_table();
        let is_all = paths.is_empty();
        let mut candidates = BTreeSet::new();
        for names in paths {
            if table.is_some_and(|table| is_key(table, &names[0])) {
                return Err(EraseError::Key(names.clone()));
            }
            candidates.extend(of_names(names));
        }
        let mut erasing = Self {
            store,
            entity,
            place: Place::of(store).await?,
            paths: candidates,
            is_all,
            erasure: Erasure {
                at: store.now(),
                to: newest,
                reason: reason.to_owned(),
            },
            is_marked: false,
            role: String::new(),
            versions: 0,
            is_current: false,
        };
        let mut used = BTreeSet::new();
        for (version, item) in erasing.history().await? {
            let erased = Erased::of(&item);
            if is_all {
                let view = store.view(entity, version, item.clone());
                erasing.paths.extend(all_of(table, &view));
            }
            let members = erasing.members(&item)?;
            erasing.versions += u64::from(!members.is_empty());
            let all: BTreeSet<_> = members.iter().chain(erased.paths()).collect();
            let is_used = |path: &&ErasedPath| all.iter().any(|member| path.covers(member));
            used.extend(erasing.paths.iter().filter(is_used).cloned());
        }
        for path in std::mem::take(&mut erasing.paths).into_iter().filter(|_| !is_all) {
            erasing.paths = BTreeSet::from([path.clone()]);
            if is_current(store, entity, &erasing.erasures()).await? {
                used.insert(path);
            }
        }
        let is_unused = |names: &&Vec<String>| !used.iter().any(|path| path.names() == names.as_slice());
        if let Some(names) = paths.iter().find(is_unused) {
            return Err(EraseError::NoPath(names.clone()));
        }
        if used.is_empty() {
            return Err(EraseError::Nothing);
        }
        erasing.paths = match table {
            Some(table) => with_all_copies(table, &used),
            None => used,
        };
        erasing.is_current = is_current(store, entity, &erasing.erasures()).await?;
        erasing.resume().await?;
        Ok(erasing)
    }

    /// Goes on at the time of the erasure that was marked before, if there is no later version.
    async fn resume(&mut self) -> Result<(), ServiceError> {
        let removed = self.store.removed([self.entity], false).await?;
        let marked = |path| removed.erasures(self.entity).and_then(|erasures| erasures.0.get(path));
        let marked: Option<Vec<_>> = self.paths.iter().map(marked).collect();
        let marked = marked.filter(|all| all.iter().all(|erasure| erasure.to >= self.erasure.to));
        if let Some(erasure) = marked.and_then(|all| all.into_iter().max_by_key(|erasure| erasure.at).cloned()) {
            (self.erasure, self.is_marked) = (erasure, true);
        }
        Ok(())
    }

    /// Returns what is erased.
    pub fn erasures(&self) -> Erasures {
        let erasure = |path: &ErasedPath| (path.clone(), self.erasure.clone());
        Erasures(self.paths.iter().map(erasure).collect())
    }

    /// Returns the place of the log, `None` if the versions are not sealed.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Reads all versions, also those that have expired.
    async fn history(&self) -> Result<BTreeMap<Version, Item>, ServiceError> {
        let mut all = BTreeMap::new();
        let add = |items: Vec<Item>| {
            let versions = items.into_iter();
            all.extend(versions.filter_map(|item| Some((self.store.digits().version_of_item(&item)?, item))));
            true
        };
        self.store
            .each_page(self.entity, Range::all_versions(None), add)
            .await?;
        Ok(all)
    }

    /// Returns the members of a version that are to be erased.
    fn members(&self, item: &Item) -> Result<Vec<ErasedPath>, InsideList> {
        let value = |_: &ErasedPath, _: &_| ErasedValue {
            commitment: None,
            ..self.erasure.value()
        };
        let members = erase_paths(&mut item.clone(), &self.paths, self.store.attached_table(), value)?;
        Ok(members.into_iter().map(|(path, _)| path).collect())
    }

    /// Erases the values from the versions, the hashes of requests, and the quarantine. `wait` is the time for records that are in the stream;
    /// `on_wait` is called with what is left of it.
    ///
    /// # Errors
    ///
    /// A request fails, or the entity is [on hold](operations::error::OperationError::Held). The erasure can be repeated.
    pub async fn run(
        &mut self,
        wait: Duration,
        also_current: bool,
        on_wait: impl FnOnce(Duration),
    ) -> Result<Changed, EraseError> {
        hold::check(self.store, self.entity).await?;
        if !self.is_marked {
            mark_erased(self.store, self.entity, &self.erasures()).await?;
        }
        let end = self.erasure.at.after(wait).to_duration();
        let left = end.saturating_sub(self.store.clock().now()).min(wait);
        if !left.is_zero() {
            on_wait(left);
            tokio::time::sleep(left).await;
        }
        hold::check(self.store, self.entity).await?;
        if self.place.is_none() {
            // seal-fn can have started, and have sealed the values, since the erasure was planned.
            self.place = Place::of(self.store).await?;
        }
        let versions = self.erase_versions().await?;
        let erasures = self.erasures();
        let is_clean = !clean_latest(self.store, self.entity, &erasures, also_current).await?;
        Ok(Changed {
            versions,
            quarantined: clean_quarantine(self.store, self.entity, &erasures, false).await?,
            others: clean_ledger(self.store, self.entity).await? + u64::from(!is_clean),
            keys: false,
        })
    }

    /// Returns the number of records in quarantine that have one of the values.
    ///
    /// # Errors
    ///
    /// A request fails.
    pub async fn quarantined(&self) -> Result<u64, ServiceError> {
        clean_quarantine(self.store, self.entity, &self.erasures(), true).await
    }

    /// Erases the values from all versions. Those that are written meanwhile, and can be sealed with the same keys, are erased too.
    async fn erase_versions(&mut self) -> Result<u64, EraseError> {
        let mut erased = 0;
        for _ in 0..ATTEMPTS {
            let mut left = self.history().await?;
            let mut members = BTreeMap::new();
            for (version, item) in &left {
                members.insert(*version, self.members(item)?);
            }
            left.retain(|version, _| members.get(version).is_some_and(|members| !members.is_empty()));
            if left.is_empty() {
                return Ok(erased);
            }
            if left.iter().any(|(version, item)| !self.covers(*version, item)) {
                let newest = left.keys().max().copied().unwrap_or(self.erasure.to);
                (self.erasure.at, self.erasure.to) = (self.store.now(), newest.max(self.erasure.to));
                mark_erased(self.store, self.entity, &self.erasures()).await?;
            }
            let mut rewriter = Rewriter::new(self.store, self.entity, self.place.as_ref());
            for version in left.into_keys() {
                erased += u64::from(rewriter.erase(version, &self.paths, &self.erasure).await?);
            }
        }
        Err(SealError::Contended(ATTEMPTS).into())
    }

    /// Returns `true` if the marker covers a version: of an attached table, its number is given on arrival.
    fn covers(&self, version: Version, item: &Item) -> bool {
        match self.store.attached_table() {
            Some(_) => RecordedAt::of(item).is_none_or(|time| time <= self.erasure.at.after(CLOCK_TOLERANCE)),
            None => version <= self.erasure.to,
        }
    }

    /// Stores the operation to seal, and deletes the keys of the erased paths. Returns what was changed.
    ///
    /// # Errors
    ///
    /// A request fails. The erasure can be repeated.
    pub async fn finish(&mut self) -> Result<Changed, EraseError> {
        let mut changed = Changed {
            versions: self.erase_versions().await?,
            ..Changed::default()
        };
        let Some(place) = self.place.clone() else {
            return Ok(changed);
        };
        let client = self.store.client();
        let state = StateTable::new(client.clone(), &place.state);
        let operation = self.operation(&place);
        if !state.has_operation(&operation).await? {
            state.add_operation(&operation).await?;
        }
        let (mut erased, mut in_versions) = (BTreeSet::new(), BTreeSet::new());
        for (version, item) in self.history().await? {
            let paths = Erased::of(&item).0.into_keys();
            erased.extend(paths.filter(|path| self.paths.iter().any(|outer| outer.covers(path))));
            let mut members = members_of(&place.table, &self.store.view(self.entity, version, item));
            members.retain(|member| matches!(member.content, Content::Value(_)));
            in_versions.extend(members.into_iter().map(|member| member.path));
        }
        erased.extend(self.paths.iter().cloned());
        let mut erased: BTreeSet<_> = erased.iter().map(path_of).collect();
        // Values that are written meanwhile, and operations.
        erased.retain(|path| !in_versions.contains(path));
        let of_operations = ALWAYS.into_iter().chain(OF_OPERATIONS).map(|name| Path {
            namespace: member::Namespace::Metadata,
            names: vec![name.to_owned()],
        });
        in_versions.extend(of_operations.filter(|path| !erased.contains(path)));
        let keys = KeysTable::new(client.clone(), &place.keys);
        for _ in 0..ATTEMPTS {
            let mut of_entity = keys.read(&place.table, std::slice::from_ref(self.entity)).await?;
            let Some(of_entity) = of_entity.get_mut(self.entity).filter(|keys| keys.is_stored()) else {
                return Ok(changed);
            };
            let mut is_left = self.is_all && of_entity.remove_others(in_versions.iter()).map_err(SealError::from)?;
            for path in &erased {
                is_left |= of_entity.remove(path).map_err(SealError::from)?;
            }
            if !is_left {
                return Ok(changed);
            }
            if keys.store(of_entity).await? {
                changed.keys = true;
                return Ok(changed);
            }
        }
        Err(SealError::Contended(ATTEMPTS).into())
    }

    /// Returns the operation to seal, whose id is the same if the erasure is repeated.
    fn operation(&self, place: &Place) -> Operation {
        let paths: Vec<_> = self.paths.iter().map(ToString::to_string).collect();
        let recorded_at = self.erasure.at.to_string();
        let texts = [&place.table, self.entity.as_str(), &recorded_at].into_iter();
        let texts: Vec<_> = texts.chain(paths.iter().map(String::as_str)).collect();
        let digest: [u8; 32] = Sha256::digest(serde_json::json!(texts).to_string()).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Operation {
            id,
            kind: sealed::Kind::Erase,
            table: place.table.clone(),
            entity: self.entity.as_str().to_owned(),
            versions: (Version::FIRST.get(), self.erasure.to.get()),
            role: self.role.clone(),
            reason: self.erasure.reason.clone(),
            recorded_at,
            paths,
            index: None,
        }
    }
}

fn is_key(table: &AttachedTable, name: &str) -> bool {
    table.keys().any(|key| key.name == name)
}

/// Returns the paths of all attributes that a version has or had, besides keys, and of the metadata that can be erased.
fn all_of(table: Option<&AttachedTable>, view: &VersionView) -> BTreeSet<ErasedPath> {
    let is_attribute = |path: &&ErasedPath| path.namespace() == Namespace::Attribute;
    let erased = view
        .erased
        .paths()
        .filter(is_attribute)
        .filter_map(|path| path.names().first());
    let names = view.attributes.keys().chain(erased);
    let names = names.filter(|name| !table.is_some_and(|table| is_key(table, name)));
    let attributes = names.filter_map(|name| ErasedPath::attribute([name]).ok());
    attributes.chain(ErasedPath::all_metadata()).collect()
}

/// Returns the attribute with these names, and the metadata with this name.
fn of_names(names: &[String]) -> impl Iterator<Item = ErasedPath> {
    let metadata = match names {
        [name] => ErasedPath::metadata(name).ok(),
        _ => None,
    };
    ErasedPath::attribute(names).ok().into_iter().chain(metadata)
}
