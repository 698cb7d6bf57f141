//! Set of changes of an undo in a file, for an attached table whose items have no attribute for it.
//!
//! ```text
//! {"Table": "Orders"}
//! {"Key": {"customerId": "c1", "orderNo": 8}, "Version": 3, "Change": "5f0c…"}       before the write
//! {"Key": {"customerId": "c1", "orderNo": 8}, "Version": 3, "IsWritten": true}       after it
//! ```
//!
//! The stream numbers the versions, and other clients can write between the plan and the write. So a line has the newest version that the
//! plan saw, and a hash of the change. The version that belongs to the set is a later one that differs from the version before it by
//! exactly this change. If several do, the entity is a conflict. Without the line after the write, because the run was killed, there need
//! not be one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use attach::agreement::{agrees, tail_in_order};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{AttachedTable, key},
        entity::EntityId,
        number::Decimal,
        plain,
        version::Version,
        view::VersionView,
    },
    dynamodb::Store,
    json,
};

use crate::{error::OperationError, item_change::ItemChange, read::attached_items::attached_item};

const TABLE: &str = "Table";
const KEY: &str = "Key";
const VERSION: &str = "Version";
const CHANGE: &str = "Change";

/// File to which an undo adds its writes.
pub struct SetFile {
    path: PathBuf,
    file: File,
}

/// Writes of an undo, by entity.
#[derive(Debug, Default)]
pub struct UndoSet {
    writes: BTreeMap<EntityId, Vec<Write>>,
    /// Length of the complete lines in bytes.
    length: u64,
}

#[derive(Debug)]
struct Write {
    /// Newest version before it.
    after: u64,
    change: String,
    is_written: bool,
}

impl SetFile {
    /// Opens a file, or creates it. The writes of an earlier run stay.
    ///
    /// # Errors
    ///
    /// As [`UndoSet::read`], and [`OperationError::File`] if the file cannot be written.
    pub fn open(path: &Path, table: &AttachedTable) -> Result<Self, OperationError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(of_file(path))?;
        let length = UndoSet::read(path, table)?.length;
        let mut file = Self {
            path: path.to_owned(),
            file,
        };
        let sought = file
            .file
            .set_len(length)
            .and_then(|()| file.file.seek(SeekFrom::End(0)));
        if sought.map_err(of_file(path))? == 0 {
            file.line(&json!({TABLE: table.table()}))?;
        }
        Ok(file)
    }

    /// Adds a write before it is sent.
    pub(super) fn add(&self, table: &AttachedTable, change: &ItemChange) -> Result<(), OperationError> {
        let hash = hash(table, [change.item.as_ref(), change.wanted.as_ref()]);
        self.line(&json!({KEY: plain::attributes(&change.key), VERSION: change.newest, CHANGE: hash}))
    }

    /// Adds that the write was made.
    pub(super) fn add_written(&self, change: &ItemChange) -> Result<(), OperationError> {
        self.line(&json!({KEY: plain::attributes(&change.key), VERSION: change.newest, "IsWritten": true}))
    }

    fn line(&self, line: &Value) -> Result<(), OperationError> {
        // One write, so that a kill leaves no part of it.
        let written = (&self.file).write_all(format!("{line}\n").as_bytes());
        written.map_err(of_file(&self.path))
    }
}

impl UndoSet {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::File`] if it cannot be read, and [`OperationError::Invalid`] if it is not one of an undo of the table.
    pub fn read(path: &Path, table: &AttachedTable) -> Result<Self, OperationError> {
        let mut lines = BufReader::new(File::open(path).map_err(of_file(path))?);
        let (mut set, mut line) = (Self::default(), String::new());
        for number in 1.. {
            line.clear();
            lines.read_line(&mut line).map_err(of_file(path))?;
            // Writes can be killed in the middle.
            if line.is_empty() || (number > 1 && !line.ends_with('\n')) {
                break;
            }
            let json = json::parse(&line).ok();
            let added = json.and_then(|json| match number {
                1 => (json.get(TABLE)? == table.table()).then_some(()),
                _ => set.add(table, &json),
            });
            added.ok_or_else(|| {
                let (path, table) = (path.display(), table.table());
                OperationError::Invalid(format!("{path}: line {number} is not one of an undo of {table}"))
            })?;
            set.length += line.len() as u64;
        }
        Ok(set)
    }

    fn add(&mut self, table: &AttachedTable, line: &Value) -> Option<()> {
        let entity = key::parse(table, &line.get(KEY)?.to_string()).ok()?;
        let (after, writes) = (line.get(VERSION)?.as_u64()?, self.writes.entry(entity).or_default());
        match line.get(CHANGE) {
            Some(change) => writes.push(Write {
                after,
                change: change.as_str()?.to_owned(),
                is_written: false,
            }),
            None => writes.iter_mut().rfind(|write| write.after == after)?.is_written = true,
        }
        Some(())
    }

    /// Returns the entities that the undo wrote, or can have written.
    pub fn entities(&self) -> impl Iterator<Item = &EntityId> {
        self.writes.keys()
    }

    /// Returns the first version that a write of an entity can have made.
    pub(super) fn first(&self, entity: &EntityId) -> Option<Version> {
        let after = self.writes.get(entity)?.iter().map(|write| write.after).min()?;
        Version::new(after + 1)
    }

    /// Returns the versions of an entity that the undo wrote. `views` are its versions, oldest first, from the one before the first write on.
    ///
    /// # Errors
    ///
    /// - [`OperationError::Refused`]: a version is not certain, or history lacks it.
    /// - [`OperationError::Differs`]: history is behind.
    /// - [`OperationError::Service`]: a request fails.
    pub(super) async fn versions(
        &self,
        store: &Store,
        entity: &EntityId,
        views: &[VersionView],
    ) -> Result<BTreeSet<Version>, OperationError> {
        let (Some(table), Some(writes)) = (store.attached_table(), self.writes.get(entity)) else {
            return Ok(BTreeSet::new());
        };
        let in_order: Vec<_> = views.iter().filter(|view| !view.is_late()).collect();
        let known = in_order
            .windows(2)
            .filter(|pair| !pair.iter().any(|view| view.is_omitted()));
        let changes = known.map(|pair| {
            let states = [pair[0], pair[1]].map(|view| (!view.deleted).then_some(&view.attributes));
            (pair[1].version, hash(table, states))
        });
        let (changes, mut versions, mut missing) = (changes.collect::<Vec<_>>(), BTreeSet::new(), None);
        for (index, write) in writes.iter().enumerate() {
            // The plan of the next write saw what this one made.
            let last = writes.get(index + 1).map_or(u64::MAX, |next| next.after);
            let can_be = |(version, change): &&(Version, String)| {
                (write.after + 1..=last).contains(&version.get()) && *change == write.change
            };
            match *changes.iter().filter(can_be).collect::<Vec<_>>() {
                [] => missing = missing.max(Some(write.is_written)),
                [(version, _)] => _ = versions.insert(*version),
                [(first, _), (second, _), ..] => {
                    return Err(OperationError::Refused(format!(
                        "versions {first} and {second} make the same change, and one of them is that of the undo: `vzero undo KEY \
                         VERSION` takes back the one that you name"
                    )));
                }
            }
        }
        let Some((is_written, last)) = missing.zip(in_order.last()) else {
            return Ok(versions);
        };
        let mut key = last.attributes.clone();
        key.retain(|name, _| table.keys().any(|key| key.name == *name));
        let tail = tail_in_order(store, entity, true).await?;
        // Read after history, which is older than the item if they differ.
        let item = attached_item(store, &key).await?;
        let last = tail.last();
        if last.is_none_or(|last| !agrees(last, item.as_ref(), table.ignored())) {
            return Err(OperationError::Differs);
        }
        match is_written {
            false => Ok(versions),
            true => Err(OperationError::Refused(
                "history has no version with the change of the undo: it is late, lost or pruned".to_owned(),
            )),
        }
    }
}

/// Returns a hash of the change between two states, `None` for an item that does not exist. Attributes that make no version do not count.
fn hash(table: &AttachedTable, [from, to]: [Option<&Item>; 2]) -> String {
    let is_left_out = |name: &str| table.ignored().contains(name) || table.keys().any(|key| key.name == name);
    let names: BTreeSet<_> = [from, to].into_iter().flatten().flat_map(|item| item.keys()).collect();
    let changes = names.into_iter().filter(|name| !is_left_out(name)).filter_map(|name| {
        let sides = [from, to].map(|item| item.and_then(|item| item.get(name)).cloned().map(canonical));
        (sides[0] != sides[1]).then(|| json!([name, sides]))
    });
    let mut change = json!([from.is_some(), to.is_some(), changes.collect::<Vec<_>>()]);
    change.sort_all_objects();
    let mut hash = [0; 16];
    hash.copy_from_slice(&Sha256::digest(change.to_string())[..16]);
    format!("{:032x}", u128::from_be_bytes(hash))
}

/// Returns a value in the form that equal values have: numbers by value, sets in an order.
fn canonical(value: AttributeValue) -> AttributeValue {
    use AttributeValue::{Bs, L, M, N, Ns, Ss};
    let number = |text: String| Decimal::parse(&text).map_or(text, |number| number.canonical());
    match value {
        N(text) => N(number(text)),
        Ns(texts) => Ns(texts
            .into_iter()
            .map(number)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()),
        Ss(texts) => Ss(texts.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
        Bs(bytes) => Bs(bytes.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
        L(values) => L(values.into_iter().map(canonical).collect()),
        M(members) => M(members
            .into_iter()
            .map(|(name, value)| (name, canonical(value)))
            .collect()),
        value => value,
    }
}

fn of_file(path: &Path) -> impl Fn(io::Error) -> OperationError {
    |source| OperationError::File {
        path: path.to_owned(),
        source,
    }
}
