//! Files and folders that only the user of the stack can read. They contain items.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use tempfile::TempDir;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Creates a folder and its parents, readable only for the user. Existing folders stay unchanged.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Creates a temporary folder.
pub(crate) fn temporary_folder() -> io::Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    let folder = folder
        .prefix("version-control-")
        .permissions(Permissions::from_mode(FOLDER));
    folder.tempdir()
}

/// Opens a file to append to it. A new file is readable only for the user.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE).open(path)
}

/// Writes a file atomically: if the process is killed, the file is either complete or unchanged. The file is readable only for the
/// user, because a temporary file is.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}
