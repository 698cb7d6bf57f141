//! The items of the state table, and their form: the state, batches, and requests.

use std::collections::{BTreeMap, HashMap};

use operations::sealed::PENDING;
use seal::Hash;
use sha2::{Digest as _, Sha256};
use shared::domain::{
    AttributeValue, Item,
    attributes::{self, text},
    entity::EntityId,
    keys::sort_key_of,
    names,
    recorded_at::RecordedAt,
    version::Version,
};

pub(super) const LOG: &str = "log";
pub(super) const STATE: &str = "state";
pub(super) const STAGING: &str = "Staging";
pub(super) const BATCHES: &str = "batches";
/// Begins the sort key of a [`Request`], which is pending as operations are.
pub(super) const REQUEST: &str = "seal/";

/// The state of the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Number of entries.
    pub size: u64,
    /// Root of the tree.
    pub root: Hash,
    /// Name of the staged batch that ends at this size. Empty before the first one.
    pub staging: String,
    /// Time of insertion up to which the index of each table was read.
    pub cursors: BTreeMap<String, RecordedAt>,
    /// Time of the last batch.
    pub sealed_at: Option<RecordedAt>,
}

/// Entries that were appended together, sorted by tag and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Index of the first entry.
    pub first_index: u64,
    /// Number of entries.
    pub count: u64,
    /// First and last time of insertion, as in the index. Empty for versions that it lacks.
    pub inserted: (String, String),
}

/// A version that the log lacks because the index does not show it, and that an operator wants to be sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Id of the table.
    pub table: String,
    /// Entity.
    pub entity: EntityId,
    /// Version.
    pub version: Version,
    /// Its mark with the time of insertion. Empty if it has none.
    pub inserted: String,
}

pub(super) fn state_item(state: &State) -> Item {
    let cursors = state
        .cursors
        .iter()
        .map(|(table, time)| (table.clone(), attributes::s(time.to_string())));
    let mut item = item_of(LOG, STATE);
    item.insert("Size".to_owned(), attributes::n(state.size));
    item.insert("Root".to_owned(), AttributeValue::B(state.root.to_vec()));
    item.insert(STAGING.to_owned(), attributes::s(&state.staging));
    item.insert("Cursors".to_owned(), AttributeValue::M(cursors.collect()));
    item.extend(
        state
            .sealed_at
            .map(|time| ("SealedAt".to_owned(), attributes::s(time.to_string()))),
    );
    item
}

pub(super) fn state_of(item: &Item) -> Option<State> {
    let AttributeValue::M(cursors) = item.get("Cursors")? else {
        return None;
    };
    let cursor = |(table, time): (&String, &AttributeValue)| {
        let AttributeValue::S(time) = time else { return None };
        Some((table.clone(), RecordedAt::parse(time).ok()?))
    };
    let AttributeValue::B(root) = item.get("Root")? else {
        return None;
    };
    Some(State {
        size: attributes::whole(item, "Size")?,
        root: root.as_slice().try_into().ok()?,
        staging: text(item, STAGING)?.to_owned(),
        cursors: cursors.iter().map(cursor).collect::<Option<_>>()?,
        sealed_at: text(item, "SealedAt").and_then(|time| RecordedAt::parse(time).ok()),
    })
}

pub(super) fn batch_item(batch: &Batch) -> Item {
    let sort_key = format!("{}/{:020}", batch.inserted.1, batch.first_index);
    let mut item = item_of(BATCHES, &sort_key);
    item.insert("FirstIndex".to_owned(), attributes::n(batch.first_index));
    item.insert("Count".to_owned(), attributes::n(batch.count));
    item.insert("First".to_owned(), attributes::s(&batch.inserted.0));
    item.insert("Last".to_owned(), attributes::s(&batch.inserted.1));
    item
}

pub(super) fn batch_of(item: &Item) -> Option<Batch> {
    let text = |name| text(item, name).map(str::to_owned);
    Some(Batch {
        first_index: attributes::whole(item, "FirstIndex")?,
        count: attributes::whole(item, "Count")?,
        inserted: (text("First")?, text("Last")?),
    })
}

impl Request {
    /// A version has one request. They sort after operations.
    pub(super) fn sort_key(&self) -> String {
        let mut hasher = Sha256::new();
        for part in [&*self.table, self.entity.as_str()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.update(self.version.get().to_be_bytes());
        format!("{REQUEST}{}", seal::hex(&hasher.finalize()))
    }

    pub(super) fn item(&self) -> Item {
        let mut item = item_of(PENDING, &self.sort_key());
        item.insert("Kind".to_owned(), attributes::s("seal"));
        item.insert("Table".to_owned(), attributes::s(&self.table));
        item.insert("Entity".to_owned(), attributes::s(self.entity.as_str()));
        item.insert("Version".to_owned(), attributes::n(self.version));
        item.insert("Inserted".to_owned(), attributes::s(&self.inserted));
        item
    }

    pub(super) fn of(item: &Item) -> Option<Self> {
        Some(Self {
            table: text(item, "Table")?.to_owned(),
            entity: EntityId::new(text(item, "Entity")?).ok()?,
            version: Version::new(attributes::whole(item, "Version")?)?,
            inserted: text(item, "Inserted")?.to_owned(),
        })
    }
}

fn item_of(partition_key: &str, sort_key: &str) -> Item {
    let keys = [(names::PK, partition_key), (names::SK, sort_key)];
    HashMap::from(keys.map(|(name, key)| (name.to_owned(), attributes::s(key)))).into()
}

pub(super) fn is_request(item: &Item) -> bool {
    sort_key_of(item).is_some_and(|key| key.starts_with(REQUEST))
}
