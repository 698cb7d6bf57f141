//! Values in a file, in the order in which they were added: results that memory may not hold. The file has no name, so the operating
//! system deletes it when it is closed, also after an error or a kill.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    marker::PhantomData,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::error::OperationError;

pub struct ValueFile<T> {
    file: BufWriter<File>,
    /// Length in bytes.
    pub length: u64,
    is_read: bool,
    values: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> ValueFile<T> {
    /// # Errors
    ///
    /// Returns [`OperationError::TemporaryFile`] if the file cannot be created. So do the other functions.
    pub fn new() -> Result<Self, OperationError> {
        let file = tempfile::tempfile().map_err(OperationError::TemporaryFile)?;
        Ok(Self {
            file: BufWriter::new(file),
            length: 0,
            is_read: false,
            values: PhantomData,
        })
    }

    /// Adds a value.
    pub fn push(&mut self, value: &T) -> Result<(), OperationError> {
        self.write(value).map_err(OperationError::TemporaryFile)
    }

    fn write(&mut self, value: &T) -> io::Result<()> {
        if std::mem::take(&mut self.is_read) {
            self.file.seek(SeekFrom::End(0))?;
        }
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.length += line.len() as u64;
        self.file.write_all(&line)
    }

    /// Reads the values from a position on, each with the position after it.
    pub fn read_from(
        &mut self,
        mut position: u64,
    ) -> Result<impl Iterator<Item = Result<(T, u64), OperationError>>, OperationError> {
        self.is_read = true;
        let sought = self.file.seek(SeekFrom::Start(position));
        sought.map_err(OperationError::TemporaryFile)?;
        let lines = BufReader::new(self.file.get_ref()).lines();
        Ok(lines.map(move |line| {
            let line = line.map_err(OperationError::TemporaryFile)?;
            position += line.len() as u64 + 1;
            let value = serde_json::from_str(&line).map_err(|error| OperationError::TemporaryFile(error.into()))?;
            Ok((value, position))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_from_any_position_also_between_writes() {
        let mut file = ValueFile::<String>::new().unwrap();
        let texts = ["a", "\n\u{2028}\"", ""].map(str::to_owned);
        for text in &texts {
            file.push(text).unwrap();
        }
        let read = |file: &mut ValueFile<String>, from| -> Vec<_> {
            file.read_from(from).unwrap().map(Result::unwrap).collect()
        };
        let all = read(&mut file, 0);
        assert!(all.iter().map(|(text, _)| text).eq(&texts));
        assert_eq!(read(&mut file, all[0].1), all[1..]);
        file.push(&"last".to_owned()).unwrap();
        assert_eq!(read(&mut file, all[2].1), [("last".to_owned(), file.length)]);
    }
}
