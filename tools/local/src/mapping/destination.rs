//! The on-failure destination: failure documents of records that failed permanently.

use std::{io, path::PathBuf};

use super::failure::Document;
use crate::files;

pub trait Destination: Send + Sync {
    /// Stores a document. The mapping advances after this call: if it fails, the records of the document are dropped.
    fn put(&self, document: Document) -> impl Future<Output = io::Result<()>> + Send;
}

/// A folder with the layout of the bucket that AWS writes to.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Destination for Folder {
    async fn put(&self, document: Document) -> io::Result<()> {
        let path = self.0.join(&document.key);
        if let Some(parent) = path.parent() {
            files::create_folder(parent)?;
            write_whole(&path, document.body.to_string().as_bytes())?;
        }
        Ok(())
    }
}

/// Writes a file atomically: if the process is killed, the file is either complete or unchanged. The file is readable only for the
/// user, because a temporary file is.
pub fn write_whole(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    io::Write::write_all(&mut file, bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
