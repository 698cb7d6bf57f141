//! Random keys: one for the tag of each entity, and one for each of its paths, from which the salts come.
//!
//! They are in a table of their own. seal-fn inserts them, and only an erasure deletes them: then no salt of the path can be computed any more,
//! and no guess of its value be tested.
//!
//! ```text
//! PK <SHA-256 of table and entity>   SK 0   Table, Entity, Random (B), Revision (N), Parts (N), Keys (B)
//! PK …                               SK 1   Keys (B)                       further keys, above 300 KB
//! ```
//!
//! `Keys` has 64 bytes for each path: the SHA-256 of its bytes, and the key. Every change increments `Revision`, on which it is conditional. So
//! who reads keys, then versions, and then inserts the keys that are missing, knows that no value was erased in between.

use std::collections::{BTreeMap, HashMap, HashSet, btree_map::Entry};

use ring::rand::{SecureRandom as _, SystemRandom};
use seal::{
    Hash,
    format::{FormatError, commitment::MemberKey, leaf::entity_tag, member::Path},
    hex,
};
use sha2::{Digest as _, Sha256};
use shared::{
    domain::{AttributeValue, Item, attributes, entity::EntityId, keys::VersionDigits, names},
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key, n,
        read::{
            batch_get_items::{MAX_KEYS, Tables},
            query_items::Cursor,
        },
        write::{Write, send_together},
    },
};

use crate::error::SealError;

const TABLE: &str = "Table";
const ENTITY: &str = "Entity";
const RANDOM: &str = "Random";
const REVISION: &str = "Revision";
const PARTS: &str = "Parts";
const KEYS: &str = "Keys";
/// Maximum number of keys of an item: 300 KB.
const KEYS_OF_PART: usize = 300 * 1024 / 64;

/// The table of keys.
#[derive(Debug, Clone)]
pub struct KeysTable {
    store: Store,
}

/// Keys of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityKeys {
    /// Id of the table.
    pub table: String,
    /// Id of the entity.
    pub entity: String,
    /// Random bytes of the tag.
    pub random: [u8; 32],
    /// 0 if they are not stored yet.
    revision: u64,
    parts: u64,
    members: BTreeMap<Hash, MemberKey>,
}

impl EntityKeys {
    /// Creates the keys of an entity that has none. They are not stored.
    ///
    /// # Errors
    ///
    /// There is no randomness.
    pub fn new(table: &str, entity: &EntityId) -> Result<Self, SealError> {
        Ok(Self {
            table: table.to_owned(),
            entity: entity.as_str().to_owned(),
            random: random()?,
            revision: 0,
            parts: 0,
            members: BTreeMap::new(),
        })
    }

    /// Returns `true` if the keys were read from the table.
    pub fn is_stored(&self) -> bool {
        self.revision > 0
    }

    /// Returns the tag of the entity.
    ///
    /// # Errors
    ///
    /// A name has 4 GiB.
    pub fn tag(&self) -> Result<Hash, FormatError> {
        entity_tag(&self.random, &self.table, &self.entity)
    }

    /// Returns the key of a path, `None` if it has none yet, or was erased.
    ///
    /// # Errors
    ///
    /// A name has 4 GiB.
    pub fn of(&self, path: &Path) -> Result<Option<&MemberKey>, FormatError> {
        Ok(self.members.get(&digest(&path.bytes()?)))
    }

    /// Adds keys of the paths that have none. Returns `true` if there is one.
    ///
    /// # Errors
    ///
    /// There is no randomness.
    pub fn add<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) -> Result<bool, SealError> {
        let before = self.members.len();
        for path in paths {
            let digest = digest(&path.bytes()?);
            if let Entry::Vacant(entry) = self.members.entry(digest) {
                entry.insert(MemberKey(random()?));
            }
        }
        Ok(self.members.len() > before)
    }

    /// Removes the key of a path. Returns `false` if it has none.
    ///
    /// # Errors
    ///
    /// A name has 4 GiB.
    pub fn remove(&mut self, path: &Path) -> Result<bool, FormatError> {
        Ok(self.members.remove(&digest(&path.bytes()?)).is_some())
    }

    /// Removes the keys of all paths but these. Returns `false` if there are none.
    ///
    /// # Errors
    ///
    /// A name has 4 GiB.
    pub fn remove_others<'a>(&mut self, kept: impl Iterator<Item = &'a Path>) -> Result<bool, FormatError> {
        let kept = kept.map(|path| Ok(digest(&path.bytes()?)));
        let kept: HashSet<_> = kept.collect::<Result<_, FormatError>>()?;
        let before = self.members.len();
        self.members.retain(|path, _| kept.contains(path));
        Ok(self.members.len() < before)
    }

    fn items(&self) -> Vec<Item> {
        let members: Vec<u8> = self
            .members
            .iter()
            .flat_map(|(path, key)| [*path, key.0].concat())
            .collect();
        let mut chunks: Vec<_> = members.chunks(64 * KEYS_OF_PART).map(<[u8]>::to_vec).collect();
        if chunks.is_empty() {
            chunks.push(Vec::new());
        }
        let parts = chunks.len();
        let partition_key = partition_key(&self.table, &self.entity);
        let items = chunks.into_iter().enumerate().map(|(number, keys)| {
            let mut item = Item::from(HashMap::from([
                (names::PK.to_owned(), attributes::s(&partition_key)),
                (names::SK.to_owned(), attributes::s(number.to_string())),
            ]));
            item.insert(KEYS.to_owned(), AttributeValue::B(keys));
            if number == 0 {
                item.insert(TABLE.to_owned(), attributes::s(&self.table));
                item.insert(ENTITY.to_owned(), attributes::s(&self.entity));
                item.insert(RANDOM.to_owned(), AttributeValue::B(self.random.to_vec()));
                item.insert(REVISION.to_owned(), attributes::n(self.revision + 1));
                item.insert(PARTS.to_owned(), attributes::n(parts));
            }
            item
        });
        items.collect()
    }
}

impl KeysTable {
    /// Creates the table of keys with this name.
    pub fn new(client: aws_sdk_dynamodb::Client, name: &str) -> Self {
        Self {
            store: Store::new(client, name, VersionDigits::default()),
        }
    }

    /// Reads the keys of entities. Those of an entity without keys are new, and not stored.
    ///
    /// # Errors
    ///
    /// A request fails, or an item is not one of keys.
    pub async fn read(&self, table: &str, entities: &[EntityId]) -> Result<HashMap<EntityId, EntityKeys>, SealError> {
        let mut all = HashMap::new();
        for entities in entities.chunks(MAX_KEYS) {
            let keys = entities
                .iter()
                .map(|entity| key(partition_key(table, entity.as_str()), "0"));
            let tables = Tables::from([(self.store.latest_table().to_owned(), keys.collect())]);
            for item in self.store.read_all(&[], tables, true).await? {
                let mut keys = parse(&item).ok_or_else(unreadable)?;
                Box::pin(self.add_parts(&mut keys)).await?;
                let entity = EntityId::new(keys.entity.clone()).map_err(|_| unreadable())?;
                all.insert(entity, keys);
            }
        }
        for entity in entities {
            if !all.contains_key(entity) {
                all.insert(entity.clone(), EntityKeys::new(table, entity)?);
            }
        }
        Ok(all)
    }

    /// Reads the further keys of an entity.
    async fn add_parts(&self, keys: &mut EntityKeys) -> Result<(), SealError> {
        let partition_key = partition_key(&keys.table, &keys.entity);
        for number in 1..keys.parts {
            let table = self.store.latest_table();
            let item = self
                .store
                .get_stored(&partition_key, &number.to_string(), true, table)
                .await?;
            keys.members
                .extend(item.and_then(|item| members(&item)).ok_or_else(unreadable)?);
        }
        Ok(())
    }

    /// Stores the keys of an entity, if they are still the ones that were read. Returns `false` if they are not.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn store(&self, keys: &mut EntityKeys) -> Result<bool, ServiceError> {
        let table = self.store.latest_table();
        let items = keys.items();
        let parts = items.len() as u64;
        let mut writes: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(number, item)| {
                let condition = if number == 0 {
                    unchanged(keys)
                } else {
                    Expression::default()
                };
                Write::put(table, item, condition)
            })
            .collect();
        writes.extend((parts..keys.parts).map(|number| {
            let key = key(partition_key(&keys.table, &keys.entity), number.to_string());
            Write::delete(table, key, Expression::default())
        }));
        // A failed condition can also mean that an earlier attempt of the request has succeeded: then the keys are read again.
        let is_stored = match writes.pop() {
            Some(write) if writes.is_empty() => write.send(self.store.client()).await?.is_ok(),
            last => send_together(self.store.client(), writes.into_iter().chain(last)).await?,
        };
        if is_stored {
            keys.revision += 1;
            keys.parts = parts;
        }
        Ok(is_stored)
    }

    /// Reads a page of all entities that have keys, without their further parts, and returns the cursor of the next page.
    ///
    /// # Errors
    ///
    /// The request fails, or an item is not one of keys.
    pub async fn page(&self, start: Option<Cursor>) -> Result<(Vec<EntityKeys>, Option<Cursor>), SealError> {
        let request =
            shared::dynamodb::read::scan_items::request(self.store.latest_table(), start).consistent_read(true);
        let output = request.send_with(self.store.client()).await;
        let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        let first = items.filter(|item| item.contains_key(RANDOM));
        let keys = first.map(|item| parse(&item).ok_or_else(unreadable));
        Ok((
            keys.collect::<Result<_, _>>()?,
            page.last_evaluated_key.filter(|key| !key.is_empty()),
        ))
    }
}

/// Returns the partition key of an entity: its names can be longer than a key.
fn partition_key(table: &str, entity: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update((table.len() as u64).to_be_bytes());
    hasher.update(table);
    hasher.update(entity);
    hex(&hasher.finalize())
}

fn unchanged(keys: &EntityKeys) -> Expression {
    if !keys.is_stored() {
        return Expression::absent();
    }
    let mut condition = Expression::default();
    condition
        .condition("#revision = :revision")
        .name("#revision", REVISION)
        .value(":revision", n(keys.revision));
    condition
}

fn parse(item: &Item) -> Option<EntityKeys> {
    let text = |name| attributes::text(item, name).map(str::to_owned);
    let AttributeValue::B(random) = item.get(RANDOM)? else {
        return None;
    };
    Some(EntityKeys {
        table: text(TABLE)?,
        entity: text(ENTITY)?,
        random: random.as_slice().try_into().ok()?,
        revision: attributes::whole(item, REVISION)?,
        parts: attributes::whole(item, PARTS)?,
        members: members(item)?,
    })
}

fn members(item: &Item) -> Option<BTreeMap<Hash, MemberKey>> {
    let AttributeValue::B(bytes) = item.get(KEYS)? else {
        return None;
    };
    let (pairs, []) = bytes.as_chunks::<64>() else {
        return None;
    };
    let pair = |pair: &[u8; 64]| Some((pair[..32].try_into().ok()?, MemberKey(pair[32..].try_into().ok()?)));
    pairs.iter().map(pair).collect()
}

fn digest(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

#[cfg(feature = "simulation")]
thread_local! {
    static IS_SEEDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Takes the keys of this thread from the seeded generator of a simulation, so that a run can be repeated: they determine the order of leaves.
#[cfg(feature = "simulation")]
pub fn seed() {
    IS_SEEDED.set(true);
}

pub(crate) fn random() -> Result<[u8; 32], SealError> {
    let mut bytes = [0; 32];
    #[cfg(feature = "simulation")]
    if IS_SEEDED.get() {
        fastrand::fill(&mut bytes);
        return Ok(bytes);
    }
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| SealError::Setting("this machine has no randomness".to_owned()))?;
    Ok(bytes)
}

fn unreadable() -> SealError {
    SealError::Unreadable("an item of the table of keys".to_owned())
}
