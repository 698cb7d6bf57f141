//! How far a shard is done.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use shared::domain::sequence::SequenceNumber;

use super::destination::write_whole;

/// A place in a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before the oldest record there is.
    TrimHorizon,
    /// Behind the newest record there is.
    Latest,
    /// Behind this record.
    After(SequenceNumber),
}

/// Where positions are kept.
pub trait Positions: Send + Sync {
    /// The position of a shard, if one was kept.
    fn load(&self, shard: &str) -> Option<Position>;

    /// Keeps the position of a shard: everything up to this record is done.
    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()>;
}

/// Positions that last as long as the process.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<BTreeMap<String, SequenceNumber>>);

impl Positions for InMemory {
    fn load(&self, shard: &str) -> Option<Position> {
        let positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        positions.get(shard).cloned().map(Position::After)
    }

    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()> {
        let mut positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        positions.insert(shard.to_owned(), position.clone());
        Ok(())
    }
}

/// Positions in a file, written whole at every step.
#[derive(Debug)]
pub struct InFile {
    path: PathBuf,
    kept: Mutex<Kept>,
}

/// The content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    /// The id of the mapping, which stays the same over restarts.
    uuid: String,
    /// The positions of this stream only: another stream numbers its records anew.
    stream_arn: String,
    shards: BTreeMap<String, SequenceNumber>,
}

impl InFile {
    /// Opens the file, or makes one for this stream with a fresh id.
    pub fn open(path: PathBuf, stream_arn: &str, fresh_uuid: String) -> io::Result<Self> {
        let kept = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(|kept: Kept| match kept.stream_arn == stream_arn {
                true => kept,
                false => Kept {
                    shards: BTreeMap::new(),
                    stream_arn: stream_arn.to_owned(),
                    ..kept
                },
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept {
                uuid: fresh_uuid,
                stream_arn: stream_arn.to_owned(),
                shards: BTreeMap::new(),
            },
            Err(error) => return Err(error),
        };
        let positions = Self {
            path,
            kept: Mutex::new(kept),
        };
        positions.write(&positions.kept())?;
        Ok(positions)
    }

    /// The id of the mapping.
    pub fn uuid(&self) -> String {
        self.kept().uuid.clone()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        write_whole(&self.path, serde_json::to_string_pretty(kept)?.as_bytes())
    }
}

impl Positions for InFile {
    fn load(&self, shard: &str) -> Option<Position> {
        self.kept().shards.get(shard).cloned().map(Position::After)
    }

    fn save(&self, shard: &str, position: &SequenceNumber) -> io::Result<()> {
        let mut kept = self.kept();
        kept.shards.insert(shard.to_owned(), position.clone());
        self.write(&kept)
    }
}

/// Finds how far a shard is done while its lanes finish in any order.
#[derive(Debug, Default)]
pub struct Tracker {
    first: u64,
    waiting: VecDeque<(SequenceNumber, bool)>,
}

impl Tracker {
    /// Notes a record, in the order of the shard, and returns its ticket.
    pub fn note(&mut self, number: SequenceNumber) -> u64 {
        self.waiting.push_back((number, false));
        self.first + self.waiting.len() as u64 - 1
    }

    /// Marks a record as done, and returns the new position where there is one: the last of the records that are done
    /// together with all before them.
    pub fn done(&mut self, tickets: impl IntoIterator<Item = u64>) -> Option<SequenceNumber> {
        for ticket in tickets {
            let index = ticket
                .checked_sub(self.first)
                .and_then(|index| usize::try_from(index).ok());
            if let Some((_, done)) = index.and_then(|index| self.waiting.get_mut(index)) {
                *done = true;
            }
        }
        let mut position = None;
        while let Some((number, true)) = self.waiting.front() {
            position = Some(number.clone());
            self.waiting.pop_front();
            self.first += 1;
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
            let tickets: Vec<_> = (0..40).map(|n| tracker.note(number(n))).collect();
            let mut finished = std::collections::BTreeSet::new();
            let mut position = None;
            for n in order {
                finished.insert(n);
                position = tracker.done([tickets[usize::try_from(n).unwrap()]]).or(position);
                let unbroken = (0..40).take_while(|n| finished.contains(n)).last();
                prop_assert_eq!(&position, &unbroken.map(number));
            }
        }
    }
}
