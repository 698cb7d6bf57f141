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
use shared::domain::sequence::SequenceNumber;

use crate::{
    caller::{Author, lock},
    database::send,
    error::SimulationError,
    requests::flat,
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

/// A record, and who wrote the item.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) record: Value,
    pub(crate) author: Author,
    /// Number of the writer process.
    pub(crate) process: Option<usize>,
    /// Time of the write, from the start.
    pub(crate) at: Duration,
}

/// The request that wrote some items.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) author: Author,
    pub(crate) process: Option<usize>,
    pub(crate) at: Duration,
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
    /// Returns the index of the first record that is not trimmed.
    fn horizon(&self, now: Duration) -> usize {
        let is_trimmed = |record: &Record| now.saturating_sub(record.created()) > RETENTION;
        self.records.partition_point(is_trimmed)
    }

    /// Returns the index of the first record after a position.
    fn after(&self, position: &SequenceNumber) -> usize {
        self.records
            .partition_point(|record| record.sequence_number() <= position)
    }
}

impl Stream {
    /// Opens the stream of a new table with this number of shards.
    pub(crate) fn open(&self, database: &Database, arn: &str, shards: u32) -> Result<(), SimulationError> {
        let width = u32::MAX / shards.max(1);
        let iterators = vec![first_iterator(database, arn)?];
        *lock(&self.0) = State {
            arn: arn.to_owned(),
            iterators,
            shards: (0..shards)
                .map(|number| StreamShard {
                    id: format!("shardId-{number:08}"),
                    parent: None,
                    hashes: number * width..if number + 1 == shards {
                        u32::MAX
                    } else {
                        (number + 1) * width
                    },
                    records: Vec::new(),
                    is_open: true,
                })
                .collect(),
            ..State::default()
        };
        Ok(())
    }

    /// Adds the stream of the table of history.
    pub(crate) fn open_history(&self, database: &Database, arn: &str) -> Result<(), SimulationError> {
        let iterator = first_iterator(database, arn)?;
        lock(&self.0).iterators.push(iterator);
        Ok(())
    }

    /// Copies the new records of the database.
    pub(crate) fn copy(&self, database: &Database, by: &Write) -> Result<(), SimulationError> {
        let mut state = lock(&self.0);
        for index in 0..state.iterators.len() {
            state.copy(index, database, by)?;
        }
        Ok(())
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
        let written = state.records.iter().rev().take_while(|written| written.at >= time);
        written
            .map(|written| written.record["dynamodb"]["Keys"].clone())
            .collect()
    }

    pub(crate) fn trimmed(&self) -> HashSet<String> {
        lock(&self.0).trimmed.clone()
    }

    /// Closes one of the open shards and continues it in one or two others. Returns `true` if it has been split.
    pub(crate) fn split(&self, choice: usize, in_two: bool) -> bool {
        let mut state = lock(&self.0);
        let open: Vec<_> = (0..state.shards.len())
            .filter(|index| state.shards[*index].is_open)
            .collect();
        let Some(index) = open.get(choice % open.len().max(1)).copied() else {
            return false;
        };
        let parent = &mut state.shards[index];
        parent.is_open = false;
        let (id, Range { start, end }) = (parent.id.clone(), parent.hashes.clone());
        let middle = start + (end - start) / 2;
        let upper = (in_two && middle > start).then_some(middle..end);
        let lower = start..upper.as_ref().map_or(end, |upper| upper.start);
        for hashes in [Some(lower), upper].into_iter().flatten() {
            let child = StreamShard {
                id: format!("shardId-{:08}", state.shards.len()),
                parent: Some(id.clone()),
                hashes,
                records: Vec::new(),
                is_open: true,
            };
            state.shards.push(child);
        }
        true
    }

    /// Returns the shards that have records left, or can get some.
    pub(crate) fn shards(&self, now: Duration) -> Vec<Shard> {
        let mut state = lock(&self.0);
        let is_listed =
            |shard: &StreamShard| shard.is_open || shard.records.is_empty() || shard.horizon(now) < shard.records.len();
        let mut listed = Vec::new();
        for index in 0..state.shards.len() {
            if is_listed(&state.shards[index]) {
                let StreamShard { id, parent, .. } = &state.shards[index];
                listed.push(Shard {
                    id: id.clone(),
                    parent: parent.clone(),
                });
            } else {
                state.trim(index, now);
            }
        }
        listed
    }

    pub(crate) fn iterator(&self, shard: &str, position: &Position, now: Duration) -> Result<String, SourceError> {
        let mut state = lock(&self.0);
        let index = state.index(shard)?;
        let horizon = state.shards[index].horizon(now);
        let from = match position {
            Position::TrimHorizon => {
                state.trim(index, now);
                horizon
            }
            Position::Latest => state.shards[index].records.len(),
            Position::After(number) => {
                let after = state.shards[index].after(number);
                if after < horizon {
                    return Err(SourceError::Trimmed);
                }
                after
            }
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
        let end = from + records.len();
        let is_end = end == shard.records.len();
        if records.is_empty() && shard.is_open {
            return Ok(None);
        }
        let next = (shard.is_open || !is_end).then(|| format!("{index}:{end}"));
        Ok(Some(Page { records, next }))
    }

    /// Returns `true` if the mapping is done with every record that is not trimmed.
    pub(crate) fn is_done(&self) -> bool {
        let state = lock(&self.0);
        state.shards.iter().all(|shard| {
            let done = state
                .positions
                .get(&shard.id)
                .map_or(0, |position| shard.after(position));
            let mut open = shard.records.iter().skip(done);
            open.all(|record| state.trimmed.contains(record.sequence_number().as_str()))
        })
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

fn first_iterator(database: &Database, arn: &str) -> Result<String, SimulationError> {
    let described = send(database, "DescribeStream", &json!({"StreamArn": arn}))?;
    let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
    let request = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
    let iterator = send(database, "GetShardIterator", &request)?;
    Ok(iterator["ShardIterator"].as_str().unwrap_or_default().to_owned())
}

impl State {
    /// Copies the new records of one of the database's streams.
    fn copy(&mut self, index: usize, database: &Database, by: &Write) -> Result<(), SimulationError> {
        loop {
            let request = GetRecordsRequest {
                shard_iterator: self.iterators[index].clone(),
                limit: None,
            };
            let operation = "GetRecords";
            let page = database.get_records(request);
            let page = page.map_err(|source| SimulationError::Request { operation, source })?;
            if page.records.is_empty() {
                return Ok(());
            }
            self.iterators[index] = page.next_shard_iterator.unwrap_or_default();
            for record in page.records {
                let mut record = serde_json::to_value(record)?;
                if self.iterators.len() > 1 {
                    // The numbers of two streams are not comparable.
                    let number = format!("{:021}", self.records.len() + 1);
                    record["dynamodb"]["SequenceNumber"] = json!(format!("1{number}"));
                }
                if index > 0
                    && let Some(image) = record.pointer_mut("/dynamodb/NewImage")
                {
                    *image = flat(image.take())?;
                }
                self.add(record, by);
            }
        }
    }

    fn add(&mut self, mut record: Value, by: &Write) {
        let created = record["dynamodb"]["ApproximateCreationDateTime"]
            .as_f64()
            .unwrap_or_default();
        let created = Duration::try_from_secs_f64(created).unwrap_or_default();
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(created.as_secs());
        record["awsRegion"] = json!("us-east-1");
        record["eventSourceARN"] = json!(self.arn);
        let number = record["dynamodb"]["SequenceNumber"]
            .as_str()
            .and_then(SequenceNumber::new);
        let hash = hash(record["dynamodb"]["Keys"]["PK"]["S"].as_str().unwrap_or_default());
        let shards = self.shards.iter_mut().filter(|shard| shard.is_open);
        let shard = { shards }.find(|shard| shard.hashes.contains(&hash));
        if let (Some(shard), Some(number)) = (shard, number) {
            shard.records.push(Record::new(number, created, record.clone()));
        }
        self.records.push(Written {
            record,
            author: by.author.clone(),
            process: by.process,
            at: by.at,
        });
    }

    fn index(&self, shard: &str) -> Result<usize, SourceError> {
        let index = self.shards.iter().position(|candidate| candidate.id == shard);
        index.ok_or_else(|| SourceError::Unavailable("ResourceNotFoundException".to_owned()))
    }

    /// The records up to the trim horizon that the mapping is not done with are lost.
    fn trim(&mut self, index: usize, now: Duration) {
        let shard = &self.shards[index];
        let done = self
            .positions
            .get(&shard.id)
            .map_or(0, |position| shard.after(position));
        let lost = shard.records.iter().take(shard.horizon(now)).skip(done);
        self.trimmed
            .extend(lost.map(|record| record.sequence_number().as_str().to_owned()));
    }
}

/// Returns a hash below `u32::MAX`.
fn hash(key: &str) -> u32 {
    let digest = Sha256::digest(key.as_bytes());
    digest
        .iter()
        .take(4)
        .fold(0, |hash, byte| hash << 8 | u32::from(*byte))
        .min(u32::MAX - 1)
}
