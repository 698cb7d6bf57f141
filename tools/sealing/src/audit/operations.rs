//! Operations that removed versions or values: the leaves in the log, joined with the items that tell what they are.
//!
//! An item counts only if the leaf at its index has the content that follows from it. If the keys of the entity were deleted, only a
//! removal of the whole entity counts without.

use std::collections::{BTreeSet, HashMap};

use operations::{
    all_versions::sorted_files::SortedFiles,
    sealed::{Kind, Operation},
};
use serde_json::{Value, json};
use shared::domain::{entity::EntityId, recorded_at::RecordedAt};

use super::{
    Audit,
    rows::{OperationPart, OperationRow, Part, Removal, Row, SealedOperation},
};
use crate::{
    error::SealError,
    keys::EntityKeys,
    members::{leaf, operation_members},
    state::kind_of,
};

/// Reads all operations. Those that the log does not have yet count if they are not older than `since`, and are returned.
pub(super) async fn collect(
    audit: &Audit<'_>,
    (size, since): (u64, RecordedAt),
    sealed: &mut SortedFiles<OperationRow>,
    rows: &mut SortedFiles<Row>,
) -> Result<Vec<Value>, SealError> {
    let mut waiting = Vec::new();
    for is_sealed in [false, true] {
        let mut cursor = None;
        loop {
            let (operations, next) = audit.state.operations(is_sealed, cursor).await?;
            let tables: BTreeSet<_> = operations.iter().map(|operation| operation.table.clone()).collect();
            let mut all_keys = HashMap::new();
            for table in tables {
                let of_table = operations.iter().filter(|operation| operation.table == table);
                let entities: BTreeSet<_> = of_table.filter_map(|one| EntityId::new(&*one.entity).ok()).collect();
                let keys = audit
                    .keys
                    .read(&table, &entities.into_iter().collect::<Vec<_>>())
                    .await?;
                all_keys.extend(
                    keys.into_values()
                        .map(|keys| ((table.clone(), keys.entity.clone()), keys)),
                );
            }
            for operation in operations {
                let keys = all_keys.get(&(operation.table.clone(), operation.entity.clone()));
                if let Some(index) = operation.index.filter(|index| *index < size) {
                    let content = keys.map(|keys| content(&operation, keys)).transpose()?.flatten();
                    let part = OperationPart::Item(operation, content);
                    sealed.push(OperationRow { index, part })?;
                } else if let Some(keys) = keys.filter(|_| operation.table == audit.table) {
                    let time = RecordedAt::parse(&operation.recorded_at).ok();
                    if time.is_some_and(|time| time >= since) {
                        add(seal::hex(&keys.tag()?), &operation, None, rows)?;
                        waiting.push(line(&operation, None, false));
                    }
                }
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(waiting)
}

fn content(operation: &Operation, keys: &EntityKeys) -> Result<Option<String>, SealError> {
    let metadata = operation.metadata().into_iter();
    let members = operation_members(metadata.map(|(name, value)| (name.to_owned(), value)).collect());
    let kind = kind_of(operation);
    let leaf = leaf(kind, &members, keys, operation.versions.0, Some(operation.id))?;
    Ok(leaf.map(|leaf| seal::hex(&leaf.content)))
}

/// Returns `true` if the operation removed all of an entity.
fn is_whole(operation: &Operation) -> bool {
    match operation.kind {
        Kind::Prune => false,
        Kind::Purge => true,
        Kind::Erase => operation.paths.is_empty(),
    }
}

fn add(tag: String, operation: &Operation, index: Option<u64>, rows: &mut SortedFiles<Row>) -> Result<(), SealError> {
    // An erasure of values removes no version.
    if operation.kind == Kind::Erase && !is_whole(operation) {
        return Ok(());
    }
    let removal = Removal {
        versions: operation.versions,
        index,
        is_whole: is_whole(operation),
    };
    let part = Part::Removal(removal);
    Ok(rows.push(Row { tag, version: 0, part })?)
}

/// Joins leaves and items, and calls `found` with what is known of each leaf of an operation. Those of other tables are left out, as far as
/// they are known.
pub(super) fn join<E: From<SealError>>(
    table: &str,
    sealed: SortedFiles<OperationRow>,
    rows: &mut SortedFiles<Row>,
    mut found: impl FnMut(Value) -> Result<(), E>,
) -> Result<u64, E> {
    let mut sorted = sealed.sorted().map_err(SealError::from)?.peekable();
    let mut count = 0;
    while let Some(row) = sorted.next().transpose().map_err(SealError::from)? {
        // An item without a leaf is nothing.
        let OperationPart::Leaf(leaf) = row.part else { continue };
        let (mut known, mut is_other) = (None, false);
        let is_of = |next: &Result<OperationRow, _>| next.as_ref().is_ok_and(|next| next.index == row.index);
        while let Some(next) = sorted.next_if(is_of).transpose().map_err(SealError::from)? {
            if let OperationPart::Item(operation, content) = next.part
                && is_sealed(&leaf, &operation, content.as_ref())
            {
                is_other |= operation.table != table;
                known = Some((operation, content.is_some()));
            }
        }
        if is_other {
            continue;
        }
        count += 1;
        match known {
            Some((operation, is_verified)) => {
                add(leaf.tag, &operation, Some(row.index), rows)?;
                found(line(&operation, Some(row.index), is_verified))?;
            }
            None => found(json!({
                "Tag": leaf.tag, "Operation": NAMES[usize::from(leaf.kind) % 5], "Version": leaf.version, "Index": row.index,
                "Verified": false,
            }))?,
        }
    }
    Ok(count)
}

/// Names of the kinds of leaves.
const NAMES: [&str; 5] = ["", "Version", "Prune", "Purge", "Erase"];

fn line(operation: &Operation, index: Option<u64>, is_verified: bool) -> Value {
    json!({
        "ID": operation.entity, "Operation": NAMES[kind_of(operation) as usize], "Version": operation.versions.0,
        "To": operation.versions.1, "Role": operation.role, "Reason": operation.reason, "RecordedAt": operation.recorded_at,
        "Paths": Some(&operation.paths).filter(|paths| !paths.is_empty()), "Index": index, "Verified": is_verified,
    })
}

fn is_sealed(leaf: &SealedOperation, operation: &Operation, content: Option<&String>) -> bool {
    let is_leaf = (leaf.kind, leaf.version) == (kind_of(operation) as u8, operation.versions.0);
    is_leaf && content.map_or(is_whole(operation), |content| *content == leaf.content)
}
