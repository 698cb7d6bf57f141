//! Erasure of values from one version, which gets their commitments.

use std::collections::{BTreeSet, HashMap};

use operations::erase::version::replace_version;
use seal::{
    Hash,
    format::{commitment::commitment, member::Path},
};
use shared::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        erase::erase_paths,
        erased::{ErasedPath, ErasedValue, Erasure},
        names,
        version::Version,
    },
    dynamodb::Store,
};

use super::{ATTEMPTS, error::EraseError};
use crate::{
    error::SealError,
    keys::{EntityKeys, KeysTable},
    members::{Content, members_of, path_of},
    place::Place,
};

/// Erases values from versions of an entity, with the keys of their commitments.
pub(super) struct Rewriter<'a> {
    store: &'a Store,
    entity: &'a EntityId,
    place: Option<&'a Place>,
    keys: Option<EntityKeys>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(store: &'a Store, entity: &'a EntityId, place: Option<&'a Place>) -> Self {
        Self {
            store,
            entity,
            place,
            keys: None,
        }
    }

    /// Erases the values at these paths from a version. Returns `false` if it has none of them, or does not exist.
    pub(super) async fn erase(
        &mut self,
        version: Version,
        paths: &BTreeSet<ErasedPath>,
        erasure: &Erasure,
    ) -> Result<bool, EraseError> {
        let (store, table) = (self.store, self.store.history_table());
        let attached = store.attached_table();
        let sort_key = store.digits().version_key(version);
        for _ in 0..ATTEMPTS {
            let found = store.get_stored(self.entity.as_str(), &sort_key, true, table).await?;
            let Some(old) = found else { return Ok(false) };
            let Some(flat) = store.flat_all([old.clone()], table).await?.pop() else {
                return Ok(false);
            };
            let mut erased = flat.clone();
            let members = erase_paths(&mut erased, paths, attached, |_, _| erasure.value())?;
            if members.is_empty() || flat.contains_key(names::PARTS) {
                // A version without all of its parts is being purged.
                return Ok(false);
            }
            let paths_of_members = members.into_iter().map(|(path, _)| path);
            let Some(commitments) = self.commitments(version, &flat, paths_of_members).await? else {
                continue;
            };
            let value_of = |path: &ErasedPath, _: &AttributeValue| ErasedValue {
                commitment: commitments.get(path).copied(),
                ..erasure.value()
            };
            erased = flat;
            erase_paths(&mut erased, paths, attached, value_of)?;
            if replace_version(store, &old, erased).await? {
                return Ok(true);
            }
            // Its marks have changed, or the response to an earlier attempt was lost.
        }
        Err(SealError::Contended(ATTEMPTS).into())
    }

    /// Returns the commitments of members, as the leaf has them or will have them. `None` if others have changed the keys: then the version can
    /// be another one by now.
    async fn commitments(
        &mut self,
        version: Version,
        flat: &Item,
        erased: impl Iterator<Item = ErasedPath>,
    ) -> Result<Option<HashMap<ErasedPath, Hash>>, EraseError> {
        let Some(place) = self.place else {
            return Ok(Some(HashMap::new()));
        };
        let view = self.store.view(self.entity, version, flat.clone());
        let members = members_of(&place.table, &view).into_iter();
        let values = members.filter_map(|member| match member.content {
            Content::Value(value) => Some((member.path, value)),
            Content::Erased(_) => None,
        });
        let mut values: HashMap<Path, AttributeValue> = values.collect();
        let erased = erased.filter_map(|path| {
            let member = path_of(&path);
            let value = values.remove(&member)?;
            Some((path, member, value))
        });
        let erased: Vec<_> = erased.collect();
        let table = KeysTable::new(self.store.client().clone(), &place.keys);
        if self.keys.is_none() {
            let mut read = table.read(&place.table, std::slice::from_ref(self.entity)).await?;
            self.keys = read.remove(self.entity);
        }
        let Some(keys) = &mut self.keys else { return Ok(None) };
        if keys.add(erased.iter().map(|(_, member, _)| member))? && !table.store(keys).await? {
            self.keys = None;
            return Ok(None);
        }
        let mut all = HashMap::new();
        for (path, member, value) in erased {
            if let Some(key) = keys.of(&member).map_err(SealError::from)? {
                let salt = key.salt(&place.table, version.get());
                let hash = commitment(&salt, &member, &value).map_err(SealError::from)?;
                all.insert(path, hash);
            }
        }
        Ok(Some(all))
    }
}
