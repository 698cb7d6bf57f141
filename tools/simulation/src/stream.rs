//! The table's stream as AWS shows it: several shards, which split, and whose records are trimmed after 24 hours.
//!
//! The embedded database keeps all records in one shard, without trimming. After each write, the new records are copied from it, each with
//! the author of the write, and assigned to the open shard of their partition key.

use std::{
    collections::{HashMap, HashSet},
    io,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use dynoxide::{Database, actions::get_records::GetRecordsRequest};
use local::mapping::{
    position::{Position, Positions},
    record::Record,
    source::{Page, Shard, SourceError},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::{layout::version_item, sequence::SequenceNumber};

use crate::{
    caller::{Author, lock},
    database::send,
    error::SimulationError,
    requests::{sequence_number, text},
};

/// Time after which a record can be trimmed.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of records of a page.
const PAGE: usize = 1000;

#[derive(Clone, Default)]
pub(crate) struct Stream(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    arn: String,
    /// Next position in each stream of the database: of the table, and of the table of history, if there is one.
    iterators: Vec<String>,
    records: Vec<Written>,
    shards: Vec<StreamShard>,
    /// Sequence numbers of the records that were trimmed before the mapping was done with them.
    trimmed: HashSet<String>,
    /// Positions that the mapping saved.
    positions: HashMap<String, SequenceNumber>,
}

/// The request that wrote some items.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Write {
    pub(crate) author: Author,
    /// Number of the writer process.
    pub(crate) process: Option<usize>,
    /// Time of the write, from the start.
    pub(crate) at: Duration,
}

/// A record, and who wrote the item.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) record: Value,
    pub(crate) by: Write,
}

impl Written {
    /// Returns the partition key of the item.
    pub(crate) fn entity(&self) -> &str {
        text(&self.record, "/dynamodb/Keys/PK/S")
    }

    /// Returns the sort key of the item.
    pub(crate) fn key(&self) -> &str {
        text(&self.record, "/dynamodb/Keys/SK/S")
    }

    /// Returns the item, null if it was deleted.
    pub(crate) fn image(&self) -> &Value {
        &self.record["dynamodb"]["NewImage"]
    }

    pub(crate) fn number(&self) -> &str {
        sequence_number(&self.record)
    }

    /// Returns the second in which it was written, since 1970.
    pub(crate) fn created(&self) -> u64 {
        let created = self.record["dynamodb"]["ApproximateCreationDateTime"].as_u64();
        created.unwrap_or_default()
    }

    pub(crate) fn event(&self) -> &str {
        text(&self.record, "/eventName")
    }

    pub(crate) fn is_removal(&self) -> bool {
        self.event() == "REMOVE"
    }
}

struct StreamShard {
    id: String,
    parent: Option<String>,
    /// Hashes of the partition keys in it.
    hashes: Range<u32>,
    records: Vec<Record>,
    is_open: bool,
}

impl StreamShard {
    fn new(number: usize, parent: Option<String>, hashes: Range<u32>) -> Self {
        Self {
            id: format!("shardId-{number:08}"),
            parent,
            hashes,
            records: Vec::new(),
            is_open: true,
        }
    }

    /// Returns the index of the first record that is not trimmed.
    fn horizon(&self, now: Duration) -> usize {
        let is_trimmed = |record: &Record| now.saturating_sub(record.created()) > RETENTION;
        self.records.partition_point(is_trimmed)
    }

    /// Returns the index of the first record after a position, the first record if there is none.
    fn after(&self, position: Option<&SequenceNumber>) -> usize {
        let is_before = |record: &Record| position.is_some_and(|position| record.sequence_number() <= position);
        self.records.partition_point(is_before)
    }
}

impl Stream {
    /// Opens the stream of a new table with this number of shards.
    pub(crate) fn open(&self, database: &Database, arn: &str, shards: u32) -> Result<(), SimulationError> {
        let width = u32::MAX / shards.max(1);
        let starts = (0..shards).map(|number| number * width);
        let ends = (1..shards).map(|number| number * width).chain([u32::MAX]);
        let shards = starts.zip(ends).enumerate();
        *lock(&self.0) = State {
            arn: arn.to_owned(),
            shards: shards
                .map(|(number, (start, end))| StreamShard::new(number, None, start..end))
                .collect(),
            ..State::default()
        };
        self.open_history(database, arn)
    }

    /// Adds the stream of the table of history.
    pub(crate) fn open_history(&self, database: &Database, arn: &str) -> Result<(), SimulationError> {
        let described = send(database, "DescribeStream", &json!({"StreamArn": arn}))?;
        let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
        let request = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        let iterator = send(database, "GetShardIterator", &request)?;
        let iterator = text(&iterator, "/ShardIterator").to_owned();
        lock(&self.0).iterators.push(iterator);
        Ok(())
    }

    /// Copies the new records of the database.
    pub(crate) fn copy(&self, database: &Database, by: &Write) -> Result<(), SimulationError> {
        let mut state = lock(&self.0);
        (0..state.iterators.len()).try_for_each(|index| state.copy(index, database, by))
    }

    pub(crate) fn arn(&self) -> String {
        lock(&self.0).arn.clone()
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).records.len()
    }

    pub(crate) fn records(&self) -> Vec<Written> {
        lock(&self.0).records.clone()
    }

    /// Returns the keys of the items that were written since a time from the start.
    pub(crate) fn written_since(&self, time: Duration) -> Vec<Value> {
        let state = lock(&self.0);
        let written = state.records.iter().rev().take_while(|written| written.by.at >= time);
        written
            .map(|written| written.record["dynamodb"]["Keys"].clone())
            .collect()
    }

    pub(crate) fn trimmed(&self) -> HashSet<String> {
        lock(&self.0).trimmed.clone()
    }

    /// Closes one of the open shards and continues it in one or two others. Returns `true` if it has been split.
    pub(crate) fn split(&self, choice: usize, in_two: bool) -> bool {
        let shards = &mut lock(&self.0).shards;
        let open = shards.iter().filter(|shard| shard.is_open).count();
        let chosen = choice % open.max(1);
        let Some(parent) = shards.iter_mut().filter(|shard| shard.is_open).nth(chosen) else {
            return false;
        };
        parent.is_open = false;
        let (id, Range { start, end }) = (parent.id.clone(), parent.hashes.clone());
        let middle = start + (end - start) / 2;
        let upper = (in_two && middle > start).then_some(middle..end);
        let lower = start..upper.as_ref().map_or(end, |upper| upper.start);
        for hashes in [Some(lower), upper].into_iter().flatten() {
            shards.push(StreamShard::new(shards.len(), Some(id.clone()), hashes));
        }
        true
    }

    /// Returns the shards that have records left, or can get some.
    pub(crate) fn shards(&self, now: Duration) -> Vec<Shard> {
        let mut state = lock(&self.0);
        let mut listed = Vec::new();
        for index in 0..state.shards.len() {
            let shard = &state.shards[index];
            if shard.is_open || shard.records.is_empty() || shard.horizon(now) < shard.records.len() {
                listed.push(Shard {
                    id: shard.id.clone(),
                    parent: shard.parent.clone(),
                });
            } else {
                state.trim(index, now);
            }
        }
        listed
    }

    pub(crate) fn iterator(&self, shard: &str, position: &Position, now: Duration) -> Result<String, SourceError> {
        let mut state = lock(&self.0);
        let index = state.shards.iter().position(|candidate| candidate.id == shard);
        let index = index.ok_or_else(|| SourceError::Unavailable("ResourceNotFoundException".to_owned()))?;
        let shard = &state.shards[index];
        let horizon = shard.horizon(now);
        let from = match position {
            Position::TrimHorizon => {
                state.trim(index, now);
                horizon
            }
            Position::Latest => shard.records.len(),
            Position::After(number) => match shard.after(Some(number)) {
                after if after < horizon => return Err(SourceError::Trimmed),
                after => after,
            },
        };
        Ok(format!("{index}:{from}"))
    }

    /// Reads a page. `None` if the iterator is at the end of an open shard.
    pub(crate) fn read(&self, iterator: &str, now: Duration) -> Result<Option<Page>, SourceError> {
        let state = lock(&self.0);
        let (index, from) = iterator.split_once(':').unwrap_or_default();
        let (Ok(index), Ok(from)) = (index.parse::<usize>(), from.parse::<usize>()) else {
            return Err(SourceError::ExpiredIterator);
        };
        let shard = state.shards.get(index).ok_or(SourceError::ExpiredIterator)?;
        if from < shard.horizon(now) {
            return Err(SourceError::Trimmed);
        }
        let records: Vec<_> = shard.records.iter().skip(from).take(PAGE).cloned().collect();
        if records.is_empty() && shard.is_open {
            return Ok(None);
        }
        let end = from + records.len();
        let goes_on = shard.is_open || end < shard.records.len();
        let next = goes_on.then(|| format!("{index}:{end}"));
        Ok(Some(Page { records, next }))
    }

    /// Returns `true` if the mapping is done with every record that is not trimmed.
    pub(crate) fn is_done(&self) -> bool {
        let state = lock(&self.0);
        let is_trimmed = |record: &Record| state.trimmed.contains(record.sequence_number().as_str());
        let mut left = state
            .shards
            .iter()
            .flat_map(|shard| &shard.records[state.done(shard)..]);
        left.all(is_trimmed)
    }
}

/// The positions of the mapping, which a restart reads again.
impl Positions for Stream {
    fn load(&self, shard: &str) -> Option<Position> {
        lock(&self.0).positions.get(shard).cloned().map(Position::After)
    }

    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()> {
        lock(&self.0).positions.insert(shard.to_owned(), position.clone());
        Ok(())
    }
}

impl State {
    /// Copies the new records of one of the database's streams.
    fn copy(&mut self, index: usize, database: &Database, by: &Write) -> Result<(), SimulationError> {
        loop {
            let operation = "GetRecords";
            let page = database.get_records(GetRecordsRequest {
                shard_iterator: self.iterators[index].clone(),
                limit: None,
            });
            let page = page.map_err(|source| SimulationError::Request { operation, source })?;
            if page.records.is_empty() {
                return Ok(());
            }
            self.iterators[index] = page.next_shard_iterator.unwrap_or_default();
            for record in page.records {
                let mut record = serde_json::to_value(record)?;
                if self.iterators.len() > 1 {
                    // The numbers of two streams are not comparable.
                    let number = format!("1{:021}", self.records.len() + 1);
                    record["dynamodb"]["SequenceNumber"] = json!(number);
                }
                if index > 0
                    && let Some(image) = record.pointer_mut("/dynamodb/NewImage")
                {
                    *image = serde_json::to_value(version_item(serde_json::from_value(image.take())?))?;
                }
                self.add(record, by);
            }
        }
    }

    fn add(&mut self, mut record: Value, by: &Write) {
        let created = record["dynamodb"]["ApproximateCreationDateTime"].as_f64();
        let created = Duration::try_from_secs_f64(created.unwrap_or_default()).unwrap_or_default();
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(created.as_secs());
        record["awsRegion"] = json!("us-east-1");
        record["eventSourceARN"] = json!(self.arn);
        let hash = hash(text(&record, "/dynamodb/Keys/PK/S"));
        let mut shards = self.shards.iter_mut();
        let shard = shards.find(|shard| shard.is_open && shard.hashes.contains(&hash));
        if let (Some(shard), Some(number)) = (shard, SequenceNumber::new(sequence_number(&record))) {
            shard.records.push(Record::new(number, created, record.clone()));
        }
        let by = by.clone();
        self.records.push(Written { record, by });
    }

    /// Returns the number of records of a shard that the mapping is done with.
    fn done(&self, shard: &StreamShard) -> usize {
        shard.after(self.positions.get(&shard.id))
    }

    /// The records up to the trim horizon that the mapping is not done with are lost.
    fn trim(&mut self, index: usize, now: Duration) {
        let shard = &self.shards[index];
        let lost = shard.records.iter().take(shard.horizon(now)).skip(self.done(shard));
        let lost = lost.map(|record| record.sequence_number().as_str().to_owned());
        self.trimmed.extend(lost.collect::<Vec<_>>());
    }
}

/// Returns a hash below `u32::MAX`.
fn hash(key: &str) -> u32 {
    let digest = Sha256::digest(key.as_bytes());
    let bytes = digest.iter().take(4);
    let hash = bytes.fold(0, |hash, byte| hash << 8 | u32::from(*byte));
    hash.min(u32::MAX - 1)
}
