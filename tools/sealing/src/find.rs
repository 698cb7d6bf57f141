//! Finds the leaves of an entity in the log, without an index: the state names the times of insertion of each batch, whose entries are sorted.
//!
//! 1. batches that end soon after a version was inserted, and can contain it
//! 2. the whole log, for a version that was sealed much later, or whose marks are missing or were set again, as by a move of history

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use operations::progress::Progress;
use seal::{
    Hash,
    format::leaf::{Kind, Leaf},
    log::tile::WIDTH,
};
use shared::domain::{
    recorded_at::RecordedAt,
    time_index::{LATE, millis, parse},
};

use crate::{
    candidates::earliest,
    error::SealError,
    log::Log,
    state::{Batch, StateTable},
};

/// Number of batches that are searched at the same time.
const CONCURRENCY: usize = 8;

/// Where leaves are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Finder<'a> {
    /// The log.
    pub log: &'a Log,
    /// Its batches.
    pub state: &'a StateTable,
    /// Number of entries of the published checkpoint.
    pub size: u64,
    /// Time of insertion up to which the versions of the table are sealed.
    pub cursor: Option<RecordedAt>,
}

/// A leaf, and its index.
pub type Sealed = (u64, Leaf);

impl Finder<'_> {
    /// Returns the leaves of these versions, with their marks of insertion, and those of other versions that are beside them. A version that
    /// seal-fn has not had the time to seal is looked for in the batches since it was recorded only.
    ///
    /// # Errors
    ///
    /// A request fails, or the log or its state cannot be read.
    pub async fn versions(
        &self,
        tag: Hash,
        wanted: &BTreeMap<u64, Option<String>>,
        progress: &impl Progress,
    ) -> Result<Vec<Sealed>, SealError> {
        let mut inserted: Vec<_> = wanted.values().filter_map(Option::as_deref).collect();
        inserted.sort_unstable();
        let found = self.of_batches(tag, &inserted).await?;
        let versions: BTreeSet<_> = found.iter().map(|(_, leaf)| leaf.version).collect();
        let is_recent = |mark: &Option<String>| mark.as_deref().is_some_and(|mark| self.is_recent(mark));
        if wanted
            .iter()
            .all(|(version, mark)| versions.contains(version) || is_recent(mark))
        {
            let missing = wanted.iter().filter(|(version, _)| !versions.contains(version));
            let since = missing.filter_map(|(_, mark)| Some(earliest(mark.as_deref()?))).min();
            return self.and_since(tag, found, since).await;
        }
        progress.note(&format!("all {} entries of the log are read", self.size));
        leaves_of(self.log, self.size, tag, 0..self.size, false).await
    }

    /// Adds the leaves of the batches since a time: a version can have been inserted before, and again.
    async fn and_since(&self, tag: Hash, found: Vec<Sealed>, since: Option<String>) -> Result<Vec<Sealed>, SealError> {
        let Some(since) = since else { return Ok(found) };
        let mut first = self.size;
        let add = |batch: Batch| {
            first = first.min(batch.first_index);
            true
        };
        self.state.each_batch(&since, add).await?;
        let more = leaves_of(self.log, self.size, tag, first..self.size, false).await?;
        let all: BTreeMap<_, _> = found.into_iter().chain(more).collect();
        Ok(all.into_iter().collect())
    }

    /// Returns `true` if the index can have shown a version with this mark after the last batch.
    fn is_recent(&self, inserted: &str) -> bool {
        let (Some(cursor), Some((inserted, _))) = (self.cursor, parse(inserted)) else {
            return self.cursor.is_none();
        };
        inserted > cursor.before(LATE)
    }

    /// Returns the leaves of the batches that can contain a version with one of these marks, which are sorted, and that end soon after.
    async fn of_batches(&self, tag: Hash, inserted: &[&str]) -> Result<Vec<Sealed>, SealError> {
        let (Some(first), Some(last)) = (inserted.first(), inserted.last()) else {
            return Ok(Vec::new());
        };
        let end = parse(last).map(|(time, _)| millis(time.after(LATE * 2)));
        let mut batches = Vec::new();
        let add = |batch: Batch| {
            if can_contain(&batch, inserted) {
                batches.push(batch.first_index..batch.first_index + batch.count);
            }
            end.as_ref().is_none_or(|end| batch.inserted.0 <= *end)
        };
        self.state.each_batch(first, add).await?;
        let searches = batches
            .into_iter()
            .map(|batch| leaves_of(self.log, self.size, tag, batch, true));
        let found: Vec<_> = stream::iter(searches).buffered(CONCURRENCY).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// Returns `true` if a version with one of these marks, which are sorted, can be in the batch.
fn can_contain(batch: &Batch, inserted: &[&str]) -> bool {
    let (first, last) = &batch.inserted;
    let next = inserted.partition_point(|mark| *mark < first.as_str());
    inserted.get(next).is_some_and(|mark| *mark <= last.as_str())
}

/// Returns the leaves of versions with this tag between two indices, between which entries are sorted or not.
async fn leaves_of(
    log: &Log,
    size: u64,
    tag: Hash,
    within: Range<u64>,
    is_sorted: bool,
) -> Result<Vec<Sealed>, SealError> {
    let Range { mut start, end } = within;
    if is_sorted {
        // The first tile whose last entry is not below the tag.
        let (mut low, mut high) = (start / WIDTH, end.div_ceil(WIDTH));
        while low + 1 < high {
            let middle = u64::midpoint(low, high);
            let before = leaves(log, size, middle * WIDTH - 1..middle * WIDTH).await?;
            match before.iter().any(|(_, leaf)| leaf.tag < tag) {
                true => low = middle,
                false => high = middle,
            }
        }
        start = start.max(low * WIDTH);
    }
    let (mut found, mut is_after) = (Vec::new(), false);
    while start < end && !(is_sorted && is_after) {
        // One tile of a batch, many of a log.
        let tiles = if is_sorted { 1 } else { 64 };
        let next = end.min((start / WIDTH + tiles) * WIDTH);
        let page = leaves(log, size, start..next).await?;
        is_after = page.last().is_some_and(|(_, leaf)| leaf.tag > tag);
        found.extend(
            page.into_iter()
                .filter(|(_, leaf)| leaf.tag == tag && leaf.kind == Kind::Version),
        );
        start = next;
    }
    Ok(found)
}

async fn leaves(log: &Log, size: u64, within: Range<u64>) -> Result<Vec<Sealed>, SealError> {
    let (mut all, mut invalid) = (Vec::new(), None);
    let add = |index, entry: &[u8]| match Leaf::parse(entry) {
        Ok(leaf) => all.push((index, leaf)),
        Err(_) => invalid = Some(index),
    };
    log.entries(size, (within.start, within.end), add).await?;
    match invalid {
        Some(index) => Err(SealError::Unreadable(format!("entry {index} of the log"))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use seal::log::growth::Edge;

    use super::*;
    use crate::objects::Objects;

    #[test]
    fn a_batch_contains_versions_of_its_period() {
        let batch = Batch {
            first_index: 0,
            count: 1,
            inserted: ("b".to_owned(), "d".to_owned()),
        };
        for (inserted, expected) in [
            (&[][..], false),
            (&["a"], false),
            (&["b"], true),
            (&["a", "c", "e"], true),
            (&["d"], true),
            (&["a", "e"], false),
        ] {
            assert_eq!(can_contain(&batch, inserted), expected, "{inserted:?}");
        }
    }

    fn leaf(tag: u8, version: u64) -> Leaf {
        Leaf {
            kind: if tag == 7 { Kind::Prune } else { Kind::Version },
            tag: [tag; 32],
            version,
            content: [0; 32],
        }
    }

    #[tokio::test]
    async fn an_entity_is_found_in_each_place_of_a_batch() {
        // Tag, and number of versions: the batch begins at index 100, and ends at index 1800.
        let batch = [(1, 3), (3, 155), (5, 600), (7, 1), (9, 940), (11, 1)];
        let of_batch = batch
            .iter()
            .flat_map(|(tag, count)| (1..=*count).map(|version| leaf(*tag, version)));
        let mut all: Vec<_> = (0..100).map(|version| leaf(3, 2000 + version)).collect();
        all.extend(of_batch);
        all.extend((1..200).map(|version| leaf(3, 5000 + version)));
        // More than are read together.
        all.extend((0..64 * WIDTH).map(|version| leaf(8, version)));
        all.push(leaf(3, 1));
        let folder = tempfile::tempdir().unwrap();
        let log = Log(Objects::Folder(folder.path().to_owned()));
        let mut entries: Vec<_> = all.iter().map(|leaf| leaf.bytes().to_vec()).collect();
        entries.push(b"not a leaf".to_vec());
        log.write(Edge::default().append(&entries).unwrap()).await.unwrap();
        let (end, size) = (all.len() as u64, entries.len() as u64);
        let find = async |tag, within, is_sorted| {
            let found = leaves_of(&log, size, [tag; 32], within, is_sorted).await.unwrap();
            assert!(
                found
                    .iter()
                    .all(|(index, leaf)| all[usize::try_from(*index).unwrap()] == *leaf)
            );
            found.len()
        };
        for tag in 0..=12 {
            let versions = batch.iter().filter(|(found, _)| *found == tag && tag != 7);
            let expected: u64 = versions.map(|(_, count)| count).sum();
            assert_eq!(find(tag, 100..1800, true).await as u64, expected, "{tag}");
        }
        assert_eq!(find(3, 0..end, false).await, 100 + 155 + 199 + 1);
        assert_eq!(find(5, 0..end, false).await, 600);
        assert_eq!(find(5, 258..258, true).await, 0);
        assert_eq!(find(3, 103..200, true).await, 97);
        assert!(leaves_of(&log, size, [3; 32], 0..size, false).await.is_err());
    }
}
