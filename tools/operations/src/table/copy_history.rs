//! Copies the history of a table into another history table: conditional `PutItem` requests, in passes.
//!
//! An item that is there already must be equal, so a copy can be interrupted and repeated. Passes follow until one finds all
//! items of the first table in the other one. That pass proves that the copy is complete. Then the layout is changed. Items beside
//! the latest items are deleted after that.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{
        Item,
        compression::Compression,
        keys::{ItemKind, partition_key_of, sort_key_of},
        layout, time_index,
    },
    dynamodb::{Store, client::error::ErrorKind, expression::Expression, key, read::scan_items, write::Write},
};

use crate::{error::OperationError, segments::scan::page, table::owner::is_setting};

/// Number of concurrent requests.
const CONCURRENCY: usize = 16;

/// Copies the items of a history table into another one. Returns their number.
pub(super) async fn copy_table(history: &Store, to: &Store) -> Result<u64, OperationError> {
    passes(history, async |item| Ok(Some(put(to, item).await?))).await
}

/// Copies the items of history of a table of latest items into a history table. Returns their number.
pub(super) async fn copy_from_beside(latest: &Store, to: &Store) -> Result<u64, OperationError> {
    passes(latest, async |item| copy(latest, item, to).await).await
}

/// Deletes the items of history of a table of latest items, once a history table has them.
pub(super) async fn delete_copied(latest: &Store, to: &Store) -> Result<(), OperationError> {
    passes(latest, async |item| delete(latest, item, to).await)
        .await
        .map(drop)
}

/// Handles all items, in passes until one changes nothing, and returns the number of items of history in the last one. `handle`
/// returns `None` for an item that is not part of history, and `true` if it changed a table.
async fn passes(
    store: &Store,
    handle: impl AsyncFn(Item) -> Result<Option<bool>, OperationError>,
) -> Result<u64, OperationError> {
    let (mut items, mut is_changed, mut start) = (0, false, None);
    loop {
        let request = scan_items::request(store.latest_table(), start);
        let page = page(store, request, |item| (!is_setting(&item)).then_some(item)).await?;
        let mut handled = stream::iter(page.items)
            .map(|item| handle(item))
            .buffer_unordered(CONCURRENCY);
        while let Some(handled) = handled.try_next().await? {
            items += u64::from(handled.is_some());
            is_changed |= handled == Some(true);
        }
        start = page.next;
        match (&start, is_changed) {
            (None, false) => return Ok(items),
            (None, true) => (items, is_changed) = (0, false),
            (Some(_), _) => {}
        }
    }
}

/// Copies an item that is beside the latest items, if it is part of history. A version brings its further parts.
async fn copy(store: &Store, item: Item, to: &Store) -> Result<Option<bool>, OperationError> {
    let Some(sort_key) = sort_key_of(&item).filter(|key| layout::is_history(key, store.digits())) else {
        return Ok(None);
    };
    match store.digits().kind_of(sort_key) {
        ItemKind::Part => Ok(None),
        ItemKind::Version => {
            let mut is_new = false;
            for version in store.flat_all([item], store.latest_table()).await? {
                is_new |= put_version(to, &version).await?;
            }
            Ok(Some(is_new))
        }
        _ => put(to, item).await.map(Some),
    }
}

/// Deletes an item that is beside the latest items, if it is part of history. A part is deleted after its version.
async fn delete(store: &Store, item: Item, to: &Store) -> Result<Option<bool>, OperationError> {
    let (table, digits) = (store.latest_table(), store.digits());
    let keys = partition_key_of(&item).zip(sort_key_of(&item));
    let Some((partition_key, sort_key)) = keys.filter(|(_, sort_key)| layout::is_history(sort_key, digits)) else {
        return Ok(None);
    };
    let key = key(partition_key, sort_key);
    if let Some(version) = digits.version_of_part(sort_key) {
        let version_key = digits.version_key(version);
        let version = store.get_stored(partition_key, &version_key, true, table);
        if version.await?.is_some() {
            return Ok(None);
        }
    } else {
        copy(store, item, to).await?;
    }
    let delete = Write::delete(table, key, Expression::default());
    // Without a condition, it cannot fail.
    let _ = delete.send(store.client()).await?;
    Ok(Some(true))
}

/// Puts a version in the form of a history table, its further parts first. Returns `false` if the table has it already.
async fn put_version(store: &Store, version: &Item) -> Result<bool, OperationError> {
    let put_all = async |items: Vec<Item>| {
        let mut is_new = false;
        for item in items.into_iter().rev() {
            is_new |= put(store, item).await?;
        }
        Ok(is_new)
    };
    match put_all(layout::stored(version, Compression::None)).await {
        // DynamoDB counts a value differently.
        Err(OperationError::Service(error)) if error.kind == ErrorKind::Rejected => {
            put_all(layout::compact(version)).await
        }
        outcome => outcome,
    }
}

/// Puts an item, a version with the time of this insertion. Returns `false` if the table has it already.
async fn put(store: &Store, item: Item) -> Result<bool, OperationError> {
    let item = time_index::unmarked(item);
    let mut indexed = item.clone();
    if store.digits().version_of_item(&item).is_some() {
        // RecordedAt can be in the image.
        let flat = layout::version_item(item.clone());
        let marked = store.indexed(&flat).await?;
        let marks = [time_index::PARTITION, time_index::INSERTED_AT].into_iter();
        indexed.extend(marks.filter_map(|name| Some((name.to_owned(), marked.get(name)?.clone()))));
    }
    let put = Write::insert(store.latest_table(), indexed).send(store.client());
    match put.await?.map_err(|failed| failed.stored.map(time_index::unmarked)) {
        Ok(_) => Ok(true),
        Err(stored) if stored.as_ref() == Some(&item) => Ok(false),
        Err(_) => Err(OperationError::Refused(format!(
            "the table {} has a different item under the key of one that would be copied: name a new table",
            store.latest_table()
        ))),
    }
}
