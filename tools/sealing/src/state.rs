//! The state of the log: how large it is, which batch was the last one, and how far the index was read. A batch belongs to the log once a
//! compare-and-swap of this item names it.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue as Value};
use seal::{Hash, format::leaf::Kind};
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{self, text},
        keys::VersionDigits,
        names,
        recorded_at::RecordedAt,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key, n,
        read::query_items::Cursor,
        s,
        write::{Write, send_together},
    },
};

use crate::error::SealError;

const LOG: &str = "log";
const STATE: &str = "state";
const BATCHES: &str = "batches";
/// Partition key of operations that no batch contains yet.
const PENDING: &str = "pending";
/// Partition key of operations that the log contains.
const OPERATIONS: &str = "operations";
/// Maximum number of operations of a batch: a transaction has at most 100 writes, and each operation needs two.
pub const MAX_OPERATIONS: usize = 45;

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

/// An operation that removes versions or values, which is sealed as a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Random id.
    pub id: [u8; 16],
    /// What it removes.
    pub kind: Kind,
    /// Id of the table.
    pub table: String,
    /// Id of the entity.
    pub entity: String,
    /// First and last version.
    pub versions: (u64, u64),
    /// Role that it was run with, reason, and time.
    pub role: String,
    /// Reason.
    pub reason: String,
    /// Time by the clock of the operator.
    pub recorded_at: String,
    /// Paths of erased values.
    pub paths: Vec<String>,
    /// Index of its leaf, once it is sealed.
    pub index: Option<u64>,
}

/// The table of the state.
#[derive(Debug, Clone)]
pub struct StateTable(Store);

impl StateTable {
    /// Creates the table with this name.
    pub fn new(client: aws_sdk_dynamodb::Client, name: &str) -> Self {
        Self(Store::new(client, name, VersionDigits::default()))
    }

    fn name(&self) -> &str {
        self.0.latest_table()
    }

    /// Reads the state, that of an empty log if there is none.
    ///
    /// # Errors
    ///
    /// The request fails, or the item is not one of a state.
    pub async fn read(&self) -> Result<State, SealError> {
        match self.0.get_stored(LOG, STATE, true, self.name()).await? {
            Some(item) => state_of(&item).ok_or_else(|| SealError::Unreadable("the state of the log".to_owned())),
            None => Ok(State {
                root: seal::log::tree::root([]),
                ..State::default()
            }),
        }
    }

    /// Replaces the state that was read, with the item of the batch, and moves operations that the batch contains. Returns `false` if the
    /// state is another one by now.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn swap(
        &self,
        old: &State,
        new: &State,
        batch: &Batch,
        operations: &[Operation],
    ) -> Result<bool, SealError> {
        let mut condition = Expression::default();
        if old.size == 0 {
            condition = Expression::absent();
        } else {
            condition.condition("#size = :size AND #root = :root");
            condition.name("#size", "Size").value(":size", n(old.size));
            condition
                .name("#root", "Root")
                .value(":root", Value::B(Blob::new(old.root)));
        }
        let mut writes = vec![
            Write::put(self.name(), state_item(new), condition),
            Write::insert(self.name(), batch_item(batch)),
        ];
        for operation in operations {
            let mut pending = Expression::default();
            pending.condition("attribute_exists(#pk)").name("#pk", names::PK);
            writes.push(Write::delete(self.name(), key(PENDING, seal_id(operation)), pending));
            writes.push(Write::insert(self.name(), operation_item(OPERATIONS, operation)));
        }
        if send_together(self.0.client(), writes).await? {
            return Ok(true);
        }
        // An earlier attempt of the request can have succeeded without a response: the name of the batch is random.
        Ok(self.read().await?.staging == new.staging)
    }

    /// Calls `add` for each batch that can contain a version that was inserted at this time or later, or whose time is unknown.
    ///
    /// # Errors
    ///
    /// A request fails, or an item is not one of a batch.
    pub async fn each_batch(&self, since: &str, mut add: impl FnMut(Batch) -> bool) -> Result<(), SealError> {
        let mut cursor = None;
        loop {
            let (items, next) = self.page(BATCHES, since, cursor).await?;
            for item in items {
                let batch = batch_of(&item).ok_or_else(|| SealError::Unreadable("a batch of the log".to_owned()))?;
                if !add(batch) {
                    return Ok(());
                }
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Stores an operation that is to be sealed.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn add_operation(&self, operation: &Operation) -> Result<(), ServiceError> {
        let put = Write::put(self.name(), operation_item(PENDING, operation), Expression::default());
        // Without a condition, it cannot fail.
        let _ = put.send(self.0.client()).await?;
        Ok(())
    }

    /// Reads operations that are to be sealed, at most [`MAX_OPERATIONS`].
    ///
    /// # Errors
    ///
    /// The request fails, or an item is not one of an operation.
    pub async fn pending(&self) -> Result<Vec<Operation>, SealError> {
        let (mut items, _) = self.page(PENDING, "", None).await?;
        items.truncate(MAX_OPERATIONS);
        items
            .iter()
            .map(|item| operation_of(item).ok_or_else(unreadable_operation))
            .collect()
    }

    /// Reads all operations that are sealed.
    ///
    /// # Errors
    ///
    /// A request fails, or an item is not one of an operation.
    pub async fn operations(&self) -> Result<Vec<Operation>, SealError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next) = self.page(OPERATIONS, "", cursor).await?;
            for item in items {
                all.push(operation_of(&item).ok_or_else(unreadable_operation)?);
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn page(
        &self,
        partition: &str,
        since: &str,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), SealError> {
        let request = self
            .0
            .client()
            .query()
            .table_name(self.name())
            .consistent_read(true)
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_values(":pk", s(partition))
            .set_exclusive_start_key(start);
        let request = match since {
            "" => request.key_condition_expression("#pk = :pk"),
            since => request
                .key_condition_expression("#pk = :pk AND #sk >= :since")
                .expression_attribute_names("#sk", names::SK)
                .expression_attribute_values(":since", s(since)),
        };
        let output = request.send().await;
        let page = output.map_err(|error| ServiceError::new("Query", &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok((items.collect(), page.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

fn state_item(state: &State) -> Item {
    let cursors = state
        .cursors
        .iter()
        .map(|(table, time)| (table.clone(), attributes::s(time.to_string())));
    let mut item = item_of(LOG, STATE);
    item.insert("Size".to_owned(), attributes::n(state.size));
    item.insert("Root".to_owned(), AttributeValue::B(state.root.to_vec()));
    item.insert("Staging".to_owned(), attributes::s(&state.staging));
    item.insert("Cursors".to_owned(), AttributeValue::M(cursors.collect()));
    item.extend(
        state
            .sealed_at
            .map(|time| ("SealedAt".to_owned(), attributes::s(time.to_string()))),
    );
    item
}

fn state_of(item: &Item) -> Option<State> {
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
        staging: text(item, "Staging")?.to_owned(),
        cursors: cursors.iter().map(cursor).collect::<Option<_>>()?,
        sealed_at: text(item, "SealedAt").and_then(|time| RecordedAt::parse(time).ok()),
    })
}

fn batch_item(batch: &Batch) -> Item {
    let sort_key = format!("{}/{:020}", batch.inserted.1, batch.first_index);
    let mut item = item_of(BATCHES, &sort_key);
    item.insert("FirstIndex".to_owned(), attributes::n(batch.first_index));
    item.insert("Count".to_owned(), attributes::n(batch.count));
    item.insert("First".to_owned(), attributes::s(&batch.inserted.0));
    item.insert("Last".to_owned(), attributes::s(&batch.inserted.1));
    item
}

fn batch_of(item: &Item) -> Option<Batch> {
    let text = |name| text(item, name).map(str::to_owned);
    Some(Batch {
        first_index: attributes::whole(item, "FirstIndex")?,
        count: attributes::whole(item, "Count")?,
        inserted: (text("First")?, text("Last")?),
    })
}

fn operation_item(partition: &str, operation: &Operation) -> Item {
    let mut item = item_of(partition, &seal_id(operation));
    item.extend(
        operation
            .metadata()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    item.extend(operation.index.map(|index| ("Index".to_owned(), attributes::n(index))));
    item
}

impl Operation {
    /// Returns what its leaf commits to, by name.
    pub fn metadata(&self) -> Vec<(&'static str, AttributeValue)> {
        let kind = match self.kind {
            Kind::Version => "version",
            Kind::Prune => "prune",
            Kind::Purge => "purge",
            Kind::Erase => "erase",
        };
        let mut all = vec![
            ("Table", attributes::s(&self.table)),
            ("Entity", attributes::s(&self.entity)),
            ("Version", attributes::n(self.versions.0)),
            ("Kind", attributes::s(kind)),
            ("To", attributes::n(self.versions.1)),
            ("Role", attributes::s(&self.role)),
            ("Reason", attributes::s(&self.reason)),
            ("RecordedAt", attributes::s(&self.recorded_at)),
        ];
        if !self.paths.is_empty() {
            all.push((
                "Paths",
                AttributeValue::L(self.paths.iter().map(attributes::s).collect()),
            ));
        }
        all
    }
}

fn operation_of(item: &Item) -> Option<Operation> {
    let get = |name| text(item, name).map(str::to_owned);
    let kind = match text(item, "Kind")? {
        "prune" => Kind::Prune,
        "purge" => Kind::Purge,
        "erase" => Kind::Erase,
        _ => return None,
    };
    let path = |path: &AttributeValue| match path {
        AttributeValue::S(path) => Some(path.clone()),
        _ => None,
    };
    let paths = match item.get("Paths") {
        Some(AttributeValue::L(paths)) => paths.iter().map(path).collect::<Option<_>>()?,
        _ => Vec::new(),
    };
    let id = u128::from_str_radix(text(item, names::SK)?, 16).ok()?;
    Some(Operation {
        id: id.to_be_bytes(),
        kind,
        table: get("Table")?,
        entity: get("Entity")?,
        versions: (attributes::whole(item, "Version")?, attributes::whole(item, "To")?),
        role: get("Role")?,
        reason: get("Reason")?,
        recorded_at: get("RecordedAt")?,
        paths,
        index: attributes::whole(item, "Index"),
    })
}

fn item_of(partition_key: &str, sort_key: &str) -> Item {
    let keys = [(names::PK, partition_key), (names::SK, sort_key)];
    HashMap::from(keys.map(|(name, key)| (name.to_owned(), attributes::s(key)))).into()
}

fn seal_id(operation: &Operation) -> String {
    format!("{:032x}", u128::from_be_bytes(operation.id))
}

fn unreadable_operation() -> SealError {
    SealError::Unreadable("an operation to seal".to_owned())
}
