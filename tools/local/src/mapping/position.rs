//! Positions of shards: where they are stored, and how they advance while lanes finish in any order.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use serde::{Deserialize, Serialize};
use shared::domain::sequence::SequenceNumber;

use super::record::Record;
use crate::{files::write_whole, lock};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before the oldest record of the shard.
    TrimHorizon,
    /// After the newest record of the shard.
    Latest,
    After(SequenceNumber),
}

pub trait Positions: Send + Sync {
    fn load(&self, shard: &str) -> Option<Position>;
    /// Stores the position of a shard: all records up to this one are done.
    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()>;
}

/// Positions in a file, which is replaced atomically on each change. Clones share them.
#[derive(Debug, Clone)]
pub struct InFile {
    path: PathBuf,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Content {
    /// Id of the mapping. It survives restarts.
    uuid: String,
    /// ARN of the stream. Positions of another stream are discarded: its sequence numbers are unrelated.
    stream_arn: String,
    shards: BTreeMap<String, SequenceNumber>,
}

impl InFile {
    /// Opens the file, or creates it for this stream with a new id.
    pub fn open(path: PathBuf, stream_arn: &str, new_uuid: String) -> io::Result<Self> {
        let mut content = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content {
                uuid: new_uuid,
                stream_arn: stream_arn.to_owned(),
                shards: BTreeMap::new(),
            },
            Err(error) => return Err(error),
        };
        if content.stream_arn != stream_arn {
            stream_arn.clone_into(&mut content.stream_arn);
            content.shards.clear();
        }
        let positions = Self {
            path,
            content: Arc::new(Mutex::new(content)),
        };
        positions.write(&lock(&positions.content))?;
        Ok(positions)
    }

    pub fn uuid(&self) -> String {
        lock(&self.content).uuid.clone()
    }

    /// Returns the position of each shard.
    pub fn saved(&self) -> BTreeMap<String, SequenceNumber> {
        lock(&self.content).shards.clone()
    }

    fn write(&self, content: &Content) -> io::Result<()> {
        write_whole(&self.path, serde_json::to_string_pretty(content)?.as_bytes())
    }
}

impl Positions for InFile {
    fn load(&self, shard: &str) -> Option<Position> {
        lock(&self.content).shards.get(shard).cloned().map(Position::After)
    }

    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()> {
        let mut content = lock(&self.content);
        content.shards.insert(shard.to_owned(), position.clone());
        self.write(&content)
    }
}

/// Computes the position of a shard while its lanes finish records in any order: `true` for records that are done.
#[derive(Debug, Default)]
pub struct Tracker(BTreeMap<SequenceNumber, bool>);

impl Tracker {
    pub fn add(&mut self, records: &[Record]) {
        let numbers = records.iter().map(|record| record.sequence_number().clone());
        self.0.extend(numbers.map(|number| (number, false)));
    }

    /// Marks records as done. Returns the new position if it advanced: the last record of the unbroken run of done records.
    pub fn done(&mut self, records: &[Record]) -> Option<SequenceNumber> {
        for record in records {
            self.0.insert(record.sequence_number().clone(), true);
        }
        let mut position = None;
        while let Some(first) = self.0.first_entry().filter(|first| *first.get()) {
            position = Some(first.remove_entry().0);
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(n: u64) -> SequenceNumber {
        SequenceNumber::new(n.to_string()).unwrap()
    }

    #[test]
    fn a_file_keeps_positions_and_the_id_but_not_those_of_another_stream() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mapping.json");
        let open = |arn: &str, uuid: &str| InFile::open(path.clone(), arn, uuid.to_owned()).unwrap();
        open("stream-1", "id-1").save("shard", &number(7)).unwrap();
        let again = open("stream-1", "id-2");
        assert_eq!(again.load("shard"), Some(Position::After(number(7))));
        assert_eq!(again.load("other"), None);
        assert_eq!(again.uuid(), "id-1");
        assert_eq!(open("stream-2", "id-3").load("shard"), None);
    }

    proptest! {
        #[test]
        fn the_position_is_the_last_of_the_unbroken_run(order in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut tracker = Tracker::default();
            let record = |n: &u64| Record::new(number(*n), std::time::Duration::ZERO, serde_json::Value::Null);
            let records: Vec<_> = (0..40).map(|n| record(&n)).collect();
            tracker.add(&records);
            let mut finished = std::collections::BTreeSet::new();
            let mut position = None;
            for n in order {
                finished.insert(n);
                position = tracker.done(&[record(&n)]).or(position);
                let unbroken = (0..40).take_while(|n| finished.contains(n)).last();
                prop_assert_eq!(&position, &unbroken.map(number));
            }
        }
    }
}
