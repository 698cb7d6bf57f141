//! Files of the command contain items: only the user can read them.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::{
    command::{BROKEN, template},
    serving::{serve, succeeds},
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
    let stack = serve(&[
        "--data-dir",
        &argument,
        "--feed",
        "/dev/null",
        "--parameter",
        "MetricsNamespace=VersionControl",
    ]);
    stack.write(&json!({"ID": "a"}));
    assert_private(&modes(&data), &FILES);
    assert_private(&modes(folder.path()), &["./new", "./new/data"]);
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
    let (template, data) = (template(folder.path(), 0), path("new/data"));
    fs::set_permissions(&template, Permissions::from_mode(0o600)).unwrap();
    let stack = serve(&[&["--data-dir", &data, "--template", &template], &BROKEN[..]].concat());
    stack.until(|line| line.starts_with("Serving"));
    drop(stack);
    let found = modes(folder.path());
    let has_documents = found.keys().any(|name| name.starts_with("./new/data/failed/aws"));
    assert!(has_documents, "{found:?}");
    assert_private(&found, &["./new", "./new/data/failed"]);
}
