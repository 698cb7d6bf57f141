//! Comparison of the index with the versions of the table.
//!
//! ```text
//! Scan   versions        ── sorted files ─┐
//!                                         ├─ differences ── read again after the lag ── findings
//! Query  entries, later  ── sorted files ─┘
//! ```
//!
//! A version that is inserted or deleted meanwhile differs, too, and so does one that the index does not have yet. So both are read
//! again: the version consistently, the entry by its key.

use std::time::Duration;

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::text,
        keys::{partition_key_of, sort_key_of},
        layout::IMAGE,
        names,
        recorded_at::RecordedAt,
        time_index::{INSERTED_AT, PARTITION, marks, parse},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::projection, query_items::Cursor},
    },
};

use super::{
    pages::{IndexPages, partitions_of},
    source::{TimeIndex, Window},
};
use crate::{
    all_versions::sorted_files::SortedFiles,
    error::OperationError,
    read::paced::Paced,
    segments::{
        Plan, SegmentRun,
        progress::{self, counts},
        scan::{self, page},
    },
};

/// Attributes of a version that are compared.
const COMPARED: [&str; 5] = [names::PK, names::SK, PARTITION, INSERTED_AT, names::RECORDED_AT];

counts! {
    /// Counts of the reads.
    pub struct Counts {
        /// Items read, of all kinds.
        pub items: u64,
        pub versions: u64,
        /// Entries of the index.
        pub entries: u64,
    }
}

/// Version with its marks, or entry of the index. Both are sorted together by the key of the item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    entity: String,
    sort_key: String,
    is_version: bool,
    /// Values of both marks.
    marks: [Option<String>; 2],
    /// `RecordedAt` of a version.
    recorded_at: Option<String>,
}

/// Deviation of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Finding {
    /// The index does not have the version.
    NotInIndex,
    /// The index has an item that is no version.
    NoVersion,
    /// The version is in the partition of another entity, or in the wrong set.
    WrongPartition,
    /// The time of insertion is not one, or the entry has another `RecordedAt` than the version.
    WrongTime,
}

type Progress = progress::Progress<Counts>;

/// Reads of the table, and then of the index. A step returns the entries of a page.
pub type EntryRun = SegmentRun<Counts, (), Vec<Entry>>;

impl EntryRun {
    /// Prepares the reads.
    ///
    /// # Errors
    ///
    /// Returns no error without a checkpoint.
    pub fn entries(plan: Plan<'_>) -> Result<Self, OperationError> {
        let (table, window) = (Paced::new(plan.store, plan.pace), Window::all());
        let pages = IndexPages { table, window };
        Self::begin(plan, "audit-index", (), |segment, _| {
            let (pages, partitions) = (pages.clone(), partitions_of(segment).flatten().collect::<Vec<_>>());
            let mut is_scanned = false;
            async move |progress: &mut Progress| match (is_scanned, progress.done) {
                (_, true) => Ok(None),
                (true, false) => {
                    let entries = pages.next_page(&partitions, progress).await?;
                    progress.counts.items += entries.len() as u64;
                    progress.counts.entries += entries.len() as u64;
                    Ok(Some(entries.iter().filter_map(Entry::of).collect()))
                }
                (false, false) => {
                    let start = progress.after.take().map(Cursor::from);
                    let send = async |store: &Store| {
                        let (history, limit) = (store.history_table(), pages.table.limiter.page_limit());
                        let request = of_versions(scan::request(Some(segment), start.clone(), limit, history));
                        page(store, request, |item| Entry::of_version(store, item)).await
                    };
                    let found = pages.table.send(send).await?;
                    progress.counts.items += found.read;
                    progress.counts.versions += found.items.len() as u64;
                    is_scanned = found.next.is_none();
                    progress.after = found.next.map(Item::from);
                    Ok(Some(found.items))
                }
            }
        })
    }
}

impl Entry {
    fn of(item: &Item) -> Option<Self> {
        Some(Self {
            entity: partition_key_of(item)?.to_owned(),
            sort_key: sort_key_of(item)?.to_owned(),
            is_version: false,
            marks: [PARTITION, INSERTED_AT].map(|name| text(item, name).map(str::to_owned)),
            recorded_at: None,
        })
    }

    /// Returns a stored version. `None` if the item is not a version.
    fn of_version(store: &Store, item: Item) -> Option<Self> {
        store.digits().version_of_item(&item)?;
        let entry = Self::of(&item)?;
        let flat = store.flat(item, store.history_table());
        Some(Self {
            is_version: true,
            recorded_at: text(&flat, names::RECORDED_AT).map(str::to_owned),
            ..entry
        })
    }

    fn has_key_of(&self, other: &Self) -> bool {
        (&self.entity, &self.sort_key) == (&other.entity, &other.sort_key)
    }

    /// Returns the deviation of the marks of a version. `None` if it has those of its entity and its time.
    fn wrong_mark(&self) -> Option<Finding> {
        let [Some(partition), Some(inserted_at)] = &self.marks else {
            return Some(Finding::NotInIndex);
        };
        let Some((inserted, _)) = parse(inserted_at) else {
            return Some(Finding::WrongTime);
        };
        // The mark has milliseconds, and the set was chosen by microseconds.
        let expected = [0, 999].map(|micros| {
            let inserted = inserted.to_duration() + Duration::from_micros(micros);
            marks(&self.entity, self.recorded_at.as_deref(), inserted).map(|(_, value)| value)
        });
        let is = |value: &AttributeValue, own: &String| *value == AttributeValue::S(own.clone());
        match expected.iter().any(|[expected, _]| is(expected, partition)) {
            false => Some(Finding::WrongPartition),
            true => (!is(&expected[0][1], inserted_at)).then_some(Finding::WrongTime),
        }
    }

    /// `{"ID": …, "Version": 7, "Finding": "NotInIndex"}`. An item that is no version has a `SortKey`.
    pub fn to_json(&self, store: &Store, finding: Finding) -> Value {
        let mut json = json!({"ID": self.entity, "Finding": finding});
        match store.digits().version_of(&self.sort_key) {
            Some(version) => json["Version"] = json!(version),
            None => json["SortKey"] = json!(self.sort_key),
        }
        json
    }

    /// Returns `true` for a version without marks that was inserted before the index was complete, as far as its time tells.
    fn is_older(&self, index: TimeIndex) -> bool {
        let recorded = self.recorded_at.as_ref();
        let recorded = recorded.and_then(|text| RecordedAt::parse(text).ok());
        let is_before = recorded
            .zip(index.complete_from())
            .is_none_or(|(time, from)| time < from);
        self.marks == [None, None] && is_before
    }
}

/// Compares versions with entries of the index, and calls `found` with each deviation that is there after the lag, too. Returns the number
/// of versions that were inserted before the index was complete.
///
/// # Errors
///
/// Returns the error of `found`, or [`OperationError`] if a request or a file fails.
pub async fn compare<E: From<OperationError>>(
    plan: Plan<'_>,
    index: TimeIndex,
    all: SortedFiles<Entry>,
    lag: Duration,
    mut found: impl FnMut(&Entry, Finding) -> Result<(), E>,
) -> Result<u64, E> {
    let (table, mut sorted) = (Paced::new(plan.store, plan.pace), all.sorted()?.peekable());
    let (mut lag, mut older) = (Some(lag), 0);
    while let Some(one) = sorted.next().transpose()? {
        let is_other = |next: &Result<Entry, _>| next.as_ref().is_ok_and(|next| next.has_key_of(&one));
        // An entry of the index sorts before its version.
        match sorted.next_if(is_other).transpose()? {
            Some(version) if version.marks == one.marks && version.wrong_mark().is_none() => {}
            None if one.is_version && one.is_older(index) => older += 1,
            _ => {
                if let Some(lag) = lag.take() {
                    tokio::time::sleep(lag).await;
                }
                let finding = read_again(&table, &one).await.map_err(OperationError::from)?;
                finding.map_or(Ok(()), |finding| found(&one, finding))?;
            }
        }
    }
    Ok(older)
}

/// Reads the item of a version or of an entry again, and its entry.
async fn read_again(table: &Paced, one: &Entry) -> Result<Option<Finding>, ServiceError> {
    let get = async |store: &Store| {
        let history = store.history_table();
        store.get_stored(&one.entity, &one.sort_key, true, history).await
    };
    let stored = table.send(get).await?;
    match stored.and_then(|item| Entry::of_version(&table.store, item)) {
        None => Ok(is_in_index(table, one).await?.then_some(Finding::NoVersion)),
        Some(version) => match version.wrong_mark() {
            None => Ok((!is_in_index(table, &version).await?).then_some(Finding::NotInIndex)),
            wrong => Ok(wrong),
        },
    }
}

async fn is_in_index(table: &Paced, entry: &Entry) -> Result<bool, ServiceError> {
    let [Some(partition), Some(inserted)] = &entry.marks else {
        return Ok(false);
    };
    let Some((time, _)) = parse(inserted) else {
        return Ok(true);
    };
    // The first page has all entries of the same millisecond.
    let (table, window) = (table.clone(), Window::all().inserted_since(time));
    let (found, _) = IndexPages { table, window }.page(partition, None).await?;
    let mut found = found.iter().filter_map(Entry::of);
    Ok(found.any(|found| found.has_key_of(entry)))
}

/// Requests the compared attributes only.
pub(crate) fn of_versions(scan: ScanInputBuilder) -> ScanInputBuilder {
    let (expression, names) = projection(&COMPARED);
    scan.consistent_read(false)
        // In a history table, it can be in the image.
        .projection_expression(format!("{expression}, #image.#recordedat"))
        .set_expression_attribute_names(Some(names))
        .expression_attribute_names("#image", IMAGE)
}
