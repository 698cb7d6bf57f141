//! Replacement of a version item, which keeps its form and its marks.

use shared::{
    domain::{
        Item,
        attached::item::stored_flat,
        compression::Compression,
        keys::partition_key_of,
        layout::{IMAGE_DEFLATE, compact, part_keys, stored, stored_beside_latest},
        marks::MARKS,
        names,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        write::{Write, send_together},
    },
};

/// Returns the writes that put a version in the place of its stored item, in the same form. `None` if it cannot be serialized.
pub(crate) fn writes(store: &Store, old: &Item, new: Item) -> Option<Vec<Write>> {
    let is_compressed = old.contains_key(IMAGE_DEFLATE);
    let compression = if is_compressed {
        Compression::Deflate
    } else {
        Compression::None
    };
    let items = match (store.attached_table(), store.has_own_history()) {
        (Some(_), _) => vec![stored_flat(new, compression)?],
        _ if is_compressed => compact(&new),
        (None, true) => stored(&new, compression),
        (None, false) => stored_beside_latest(&new),
    };
    let table = store.history_table();
    let further = part_keys(items.first()?);
    let left = part_keys(old).into_iter().filter(|key| !further.contains(key));
    let partition_key = partition_key_of(old)?;
    let left = left.map(|sort_key| Write::delete(table, key(partition_key, sort_key), Expression::default()));
    let left: Vec<_> = left.collect();
    let puts = items.into_iter().enumerate().map(|(number, item)| {
        let condition = if number == 0 {
            unchanged(old)
        } else {
            Expression::default()
        };
        Write::put(table, item, condition)
    });
    Some(puts.chain(left).collect())
}

/// Returns the condition that the version exists with the same marks: nothing else of it ever changes.
fn unchanged(old: &Item) -> Expression {
    let mut unchanged = Expression::default();
    unchanged.condition("attribute_exists(#pk)").name("#pk", names::PK);
    for name in MARKS {
        unchanged.name(format!("#{name}"), name);
        match old.get(name) {
            Some(value) => unchanged
                .condition(format!("#{name} = :{name}"))
                .value(format!(":{name}"), value.clone().into()),
            None => unchanged.condition(format!("attribute_not_exists(#{name})")),
        };
    }
    unchanged
}

/// Puts a version that was changed in the place of its stored item, in the same form. Returns `false` if its marks have changed meanwhile.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
pub async fn replace_version(store: &Store, old: &Item, new: Item) -> Result<bool, ServiceError> {
    let not_built = || ServiceError::not_built("PutItem");
    let mut writes = writes(store, old, new).ok_or_else(not_built)?;
    match writes.pop() {
        Some(write) if writes.is_empty() => Ok(write.send(store.client()).await?.is_ok()),
        last => send_together(store.client(), writes.into_iter().chain(last)).await,
    }
}
