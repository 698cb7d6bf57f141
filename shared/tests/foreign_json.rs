//! Text from outside is read by `shared::json` only: the deserializers of `serde_json::Value` and `RawValue` give a meaning to names
//! that a document can contain. This test finds their uses, before the tests of each file.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::path::{Path, PathBuf};

/// Crates that read text from outside.
const CRATES: [&str; 10] = [
    "shared",
    "writer-fn",
    "stream-fn",
    "tools/patterns",
    "tools/operations",
    "tools/diff",
    "tools/console",
    "tools/cli",
    "tools/local",
    "tools/seal",
];
/// Ways to deserialize with `serde_json`.
const ENTRIES: [&str; 8] = [
    "serde_json::from_",
    "use serde_json::from_",
    "Deserializer::from_",
    "RawValue",
    "extract::Json",
    "parse::<Value>",
    "parse::<serde_json::Value>",
    "Value::deserialize",
];
/// Files with such a use, and the number of its lines.
const ALLOWED: [(&str, usize); 14] = [
    // The runtime gives the text of an event only this way.
    ("shared/src/event.rs", 2),
    // The reader itself.
    ("shared/src/json.rs", 7),
    ("shared/src/json/nested.rs", 6),
    // Files of the commands, and structs without `Value`.
    ("tools/cli/src/plan/month.rs", 1),
    ("tools/console/src/changes/selected.rs", 1),
    ("tools/console/src/entities/find.rs", 1),
    ("tools/local/src/dynamodb/embedded.rs", 1),
    ("tools/local/src/mapping/position.rs", 1),
    ("tools/operations/src/all_versions/journal.rs", 2),
    ("tools/operations/src/all_versions/sorted_files.rs", 1),
    ("tools/operations/src/segments/state.rs", 2),
    ("tools/operations/src/value_file.rs", 1),
    ("tools/seal/src/proof/document.rs", 1),
    ("tools/seal/src/proof/value.rs", 1),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.contains("test") {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !name.contains("test") {
            found.push(path);
        }
    }
}

#[test]
fn only_the_reader_reads_text_from_outside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in CRATES {
        files(&root.join(name).join("src"), &mut found);
    }
    assert!(found.len() > 200, "{}", found.len());
    let mut uses = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        let is_use = |line: &&str| !line.trim().starts_with("//") && ENTRIES.iter().any(|entry| line.contains(entry));
        let count = lines.filter(is_use).count();
        if count > 0 {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            uses.push((name, count));
        }
    }
    uses.sort();
    let allowed = ALLOWED.map(|(file, count)| (file.to_owned(), count));
    assert_eq!(uses, allowed, "use shared::json instead");
}
