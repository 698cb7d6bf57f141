//! The output of a function process, divided by invocation.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::Stdio,
    sync::Mutex,
};

use crate::{files, lock};

/// An unnamed file that the process writes to. Unlike a pipe, it already contains all output from before the response.
#[derive(Debug)]
pub(super) struct Output {
    written: File,
    /// Offset up to which the output was taken.
    taken: Mutex<u64>,
    /// Log of the function, shared by all its processes.
    log: PathBuf,
}

impl Output {
    pub(super) fn open(log: PathBuf) -> io::Result<Self> {
        if let Some(folder) = log.parent() {
            files::create_folder(folder)?;
        }
        Ok(Self {
            written: tempfile::tempfile()?,
            taken: Mutex::default(),
            log,
        })
    }

    pub(super) fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.written.try_clone()?.into())
    }

    /// Returns the output since the last call, and appends it to the function's log.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut taken = lock(&self.taken);
        let length = self.written.metadata().map_or(*taken, |metadata| metadata.len());
        let mut new = vec![0; usize::try_from(length.saturating_sub(*taken)).unwrap_or_default()];
        if new.is_empty() || self.written.read_exact_at(&mut new, *taken).is_err() {
            return Vec::new();
        }
        *taken = length;
        // A log error does not fail the invocation.
        let _ = files::append(&self.log).and_then(|mut log| log.write_all(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_taken_and_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("logs/function.log");
        let (a, b) = (Output::open(log.clone()).unwrap(), Output::open(log.clone()).unwrap());
        let write = |output: &Output, text: &str| {
            // Uses a separate file descriptor, as a process does.
            output.written.try_clone().unwrap().write_all(text.as_bytes()).unwrap();
        };
        assert!(a.take().is_empty());
        write(&a, "1\n");
        write(&b, "2\n");
        write(&a, "3\n");
        assert_eq!((b.take(), a.take()), (b"2\n".to_vec(), b"1\n3\n".to_vec()));
        write(&a, "4\n");
        assert_eq!((a.take(), a.take()), (b"4\n".to_vec(), Vec::new()));
        assert_eq!(std::fs::read_to_string(log).unwrap(), "2\n1\n3\n4\n");
    }
}
