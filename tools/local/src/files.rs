//! Files and folders that only the user of the stack can read. They contain items.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
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

/// Creates a temporary folder whose name begins with `prefix`.
pub(crate) fn temporary_folder(prefix: &str) -> io::Result<TempDir> {
    let permissions = Permissions::from_mode(FOLDER);
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(permissions)
        .tempdir()
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

/// Removes the permissions of other users from a file, or from a folder with everything in it. Symbolic links stay unchanged, and
/// a missing file is no error.
///
/// # Errors
///
/// A file cannot be read, or belongs to another user.
pub(crate) fn restrict(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    let mode = if metadata.is_dir() { FOLDER } else { FILE };
    if metadata.is_symlink() {
        return Ok(());
    }
    if metadata.permissions().mode() & 0o777 & !mode != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            restrict(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn existing_files_are_restricted_but_not_the_targets_of_links() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir_all(path("data/inner")).unwrap();
        for file in ["data/inner/file", "other"] {
            fs::write(path(file), "").unwrap();
            fs::set_permissions(path(file), Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(path("data/inner"), Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(path("other"), path("data/link")).unwrap();
        restrict(&path("data")).unwrap();
        restrict(&path("missing")).unwrap();
        let modes = ["data", "data/inner", "data/inner/file", "other"].map(|name| mode(&path(name)));
        assert_eq!(modes, [FOLDER, FOLDER, FILE, 0o644]);
    }
}
