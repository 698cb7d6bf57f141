//! Sort of more values than memory holds: sorted runs in files, then a merge.
//!
//! A run has at most `MAX_VALUES` values. `MAX_RUNS` runs are merged into one of the next level, so that few files are open. The
//! files have no names: the operating system deletes them when they are closed, also after an error or a kill.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Lines, Seek as _, Write as _},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::error::OperationError;

/// Maximum number of values in memory, and in a file of the first level.
const MAX_VALUES: usize = 50_000;
/// Maximum number of files of a level.
const MAX_RUNS: usize = 64;

/// Values that are being sorted.
pub struct SortedFiles<T> {
    values: Vec<T>,
    /// Sorted files by level.
    levels: Vec<Vec<File>>,
    max: (usize, usize),
}

impl<T> Default for SortedFiles<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            levels: Vec::new(),
            max: (MAX_VALUES, MAX_RUNS),
        }
    }
}

impl<T: Ord + Serialize + DeserializeOwned> SortedFiles<T> {
    /// Adds a value.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if a file cannot be written.
    pub fn push(&mut self, value: T) -> Result<(), OperationError> {
        self.values.push(value);
        match self.values.len() >= self.max.0 {
            true => self.write_run().map_err(OperationError::TemporaryFile),
            false => Ok(()),
        }
    }

    /// Writes the values in memory to a file, and merges the files of each level that is full.
    fn write_run(&mut self) -> io::Result<()> {
        self.values.sort_unstable();
        let mut run = written(self.values.drain(..).map(Ok))?;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < self.max.1 {
                break;
            }
            run = written(Merge::<T>::new(self.levels[level].drain(..))?)?;
        }
        Ok(())
    }

    /// Returns the values in ascending order.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if a file cannot be written or read.
    pub fn sorted(mut self) -> Result<impl Iterator<Item = Result<T, OperationError>>, OperationError> {
        let merge = self
            .write_run()
            .and_then(|()| Merge::new(self.levels.into_iter().flatten()));
        let merge = merge.map_err(OperationError::TemporaryFile)?;
        Ok(merge.map(|value| value.map_err(OperationError::TemporaryFile)))
    }
}

/// Writes values to a file, one in each line, and returns to its beginning.
fn written<T: Serialize>(values: impl Iterator<Item = io::Result<T>>) -> io::Result<File> {
    let mut file = BufWriter::new(tempfile::tempfile()?);
    for value in values {
        serde_json::to_writer(&mut file, &value?)?;
        file.write_all(b"\n")?;
    }
    let mut file = file.into_inner()?;
    file.rewind()?;
    Ok(file)
}

/// Merge of sorted files.
struct Merge<T> {
    runs: Vec<Lines<BufReader<File>>>,
    /// Next value of each run, with the index of the run.
    next: BinaryHeap<Reverse<(T, usize)>>,
}

impl<T: Ord + DeserializeOwned> Merge<T> {
    fn new(runs: impl Iterator<Item = File>) -> io::Result<Self> {
        let mut merge = Self {
            runs: runs.map(|run| BufReader::new(run).lines()).collect(),
            next: BinaryHeap::new(),
        };
        (0..merge.runs.len()).try_for_each(|run| merge.read(run))?;
        Ok(merge)
    }

    fn read(&mut self, run: usize) -> io::Result<()> {
        if let Some(line) = self.runs[run].next() {
            self.next.push(Reverse((serde_json::from_str(&line?)?, run)));
        }
        Ok(())
    }
}

impl<T: Ord + DeserializeOwned> Iterator for Merge<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((value, run)) = self.next.pop()?;
        Some(self.read(run).map(|()| value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_sorted_in_any_number_of_runs_and_levels(
            values in prop::collection::vec((0..20u32, "[a-z\n\"]{0,2}"), 0..200), max in (1..9usize, 2..5usize),
        ) {
            let mut files = SortedFiles { max, ..SortedFiles::default() };
            for value in values.clone() {
                files.push(value).unwrap();
                prop_assert!(files.values.len() < max.0 && files.levels.iter().all(|level| level.len() < max.1));
            }
            let sorted = files.sorted().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            let mut expected = values;
            expected.sort();
            prop_assert_eq!(sorted, expected);
        }
    }
}
