//! Files of the command contain items: only the user can read them.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::{
    command::broken,
    serving::{Serving, succeeds},
    support::versions,
};
use serde_json::json;

/// Returns the mode of each file and folder below a folder.
fn modes(folder: &Path) -> BTreeMap<String, u32> {
    fn visit(path: &Path, name: &str, found: &mut BTreeMap<String, u32>) {
        let metadata = fs::symlink_metadata(path).unwrap();
        if name != "." {
            found.insert(name.to_owned(), metadata.permissions().mode() & 0o777);
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
                let below = format!("{name}/{}", entry.file_name().to_string_lossy());
                visit(&entry.path(), &below, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    visit(folder, ".", &mut found);
    found
}

/// Checks that these are private, and that all names are among them.
fn assert_private(modes: &BTreeMap<String, u32>, names: &[&str]) {
    assert!(modes.values().all(|mode| mode | 0o700 == 0o700), "{modes:?}");
    let is_there = |name: &&&str| !modes.contains_key(**name);
    assert_eq!(names.iter().find(is_there), None, "{modes:?}");
}

const FILES: [&str; 6] = [
    "./dynamodb.sqlite",
    "./dynamodb.sqlite-shm",
    "./dynamodb.sqlite-wal",
    "./lock",
    "./logs/writer-fn.log",
    "./mapping.json",
];

#[test]
fn the_data_folder_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new/data");
    let argument = data.to_string_lossy().into_owned();
    let serve = || {
        let mut stack = Serving::start(&["--data-dir", &argument, "--feed", "/dev/null"]);
        stack.write(&json!({"ID": "a"}));
        let found = modes(&data);
        stack.kill();
        found
    };
    assert_private(&serve(), &FILES);
    assert_private(&modes(folder.path()), &["./new", "./new/data"]);
    // The files of a killed stack, with the permissions of an earlier release.
    fs::create_dir_all(data.join("failed/aws")).unwrap();
    fs::write(data.join("failed/aws/document"), "{}").unwrap();
    for (name, mode) in modes(&data) {
        let open = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
        fs::set_permissions(data.join(name.trim_start_matches("./")), Permissions::from_mode(open)).unwrap();
    }
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let found = serve();
    assert_private(&found, &FILES);
    assert_private(&found, &["./failed/aws/document"]);
    // An existing folder can have other purposes.
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn the_dump_and_failure_documents_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    // A dump replaces an existing file.
    fs::write(path("dump"), "").unwrap();
    fs::set_permissions(path("dump"), Permissions::from_mode(0o644)).unwrap();
    succeeds(&["--once", "--dump", &path("dump")]);
    assert_private(&modes(folder.path()), &["./dump"]);
    // stream-fn cannot start, and the mapping does not retry.
    let broken = broken(folder.path(), 0);
    fs::set_permissions(&broken[1], Permissions::from_mode(0o600)).unwrap();
    let failed = path("new/failed");
    let arguments = [&["--failed", &failed], &broken.each_ref().map(String::as_str)[..]].concat();
    let stack = Serving::start(&arguments);
    stack.until(|line| line.starts_with("Serving"));
    drop(stack);
    let found = modes(folder.path());
    let has_documents = found.keys().any(|name| name.starts_with("./new/failed/aws"));
    assert!(has_documents, "{found:?}");
    assert_private(&found, &["./new", "./new/failed"]);
}

#[test]
fn a_dump_is_written_to_the_target_of_a_link_and_to_a_fifo() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("existing"), "old").unwrap();
    for target in ["existing", "missing"] {
        let link = path(&format!("link-{target}"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        succeeds(&["--once", "--dump", &link.to_string_lossy()]);
        assert_eq!(fs::read_link(&link).unwrap(), std::path::Path::new(target));
        let dump = fs::read_to_string(path(target)).unwrap();
        assert_eq!(versions(&dump).len(), 3, "{dump}");
    }
    let created = std::process::Command::new("mkfifo").arg(path("fifo")).status();
    assert!(created.unwrap().success());
    // Open for both, so that a replaced FIFO does not block the test.
    let fifo = fs::File::options().read(true).write(true).open(path("fifo")).unwrap();
    succeeds(&["--once", "--dump", &path("fifo").to_string_lossy()]);
    let kind = fs::symlink_metadata(path("fifo")).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(fifo), &mut line).unwrap();
    assert!(line.starts_with("{\"PK\":{\"S\":\"#vzero\"}"), "{line}");
}
