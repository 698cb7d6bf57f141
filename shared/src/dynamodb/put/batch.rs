//! Batches: how many items fit into one request.

use std::{collections::HashSet, hash::Hash, ops::Range};

use super::insert_versions::MAX_STATEMENTS;

/// Maximum size of the items of a request in bytes. DynamoDB accepts 16 MB of text, escaping can multiply it by six, and by default an
/// attempt times out after 2 s. A request that is longer nevertheless, because of numbers such as 1e-130, is rejected, and its items are
/// put one by one.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Returns consecutive batches of items with these keys and sizes, each with at most [`MAX_STATEMENTS`] items and no key twice, and no
/// more than [`MAX_BYTES`] unless it is one item. DynamoDB rejects a request in which two statements have the same key.
pub(super) fn ranges<K: Eq + Hash>(items: impl IntoIterator<Item = (K, usize)>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let (mut keys, mut size) = (HashSet::new(), 0);
    for (index, (key, bytes)) in items.into_iter().enumerate() {
        size += bytes;
        match ranges.last_mut() {
            Some(last) if keys.len() < MAX_STATEMENTS && size <= MAX_BYTES && !keys.contains(&key) => last.end += 1,
            _ => {
                ranges.push(index..index + 1);
                (keys, size) = (HashSet::new(), bytes);
            }
        }
        keys.insert(key);
    }
    ranges
}
