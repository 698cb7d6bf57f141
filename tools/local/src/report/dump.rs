//! Dumps every item of the table as DynamoDB JSON, one per line, ordered by partition key and sort key.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::history::Collections;
use crate::files::write_whole;

/// Writes the dump. A link stays a link, and its target is written. A regular file is replaced atomically; anything else, such as a
/// FIFO, is written directly.
pub fn write(path: &Path, collections: &Collections) -> io::Result<()> {
    let lines = lines(collections)?;
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => write_whole(&fs::canonicalize(path)?, lines.as_bytes()),
        // `write_whole` needs a path with a folder.
        Err(_) if !path.is_symlink() => write_whole(&std::path::absolute(path)?, lines.as_bytes()),
        // Also a link whose target does not exist yet.
        _ => {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(lines.as_bytes())
        }
    }
}

fn lines(collections: &Collections) -> io::Result<String> {
    let mut text = String::new();
    for collection in collections.values() {
        let mut items: Vec<_> = collection.iter().collect();
        items.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (_, item) in items {
            let sorted: BTreeMap<_, _> = item.iter().collect();
            text.push_str(&serde_json::to_string(&sorted)?);
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::{Item, keys::VersionDigits};

    use super::*;
    use crate::report::history::collect;

    #[test]
    fn by_partition_key_then_sort_key_with_sorted_members() {
        let item = |pk: &str, sk: &str| {
            serde_json::from_value::<Item>(json!({"Z": {"N": "1.50"}, "SK": {"S": sk}, "PK": {"S": pk}}))
        };
        let items = [("b", "v0"), ("a", "v9"), ("a", "v10"), ("a", "v0")].map(|(pk, sk)| item(pk, sk).unwrap());
        let text = lines(&collect(items.to_vec(), VersionDigits::default())).unwrap();
        let line = |pk: &str, sk: &str| format!(r#"{{"PK":{{"S":"{pk}"}},"SK":{{"S":"{sk}"}},"Z":{{"N":"1.50"}}}}"#);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [line("a", "v0"), line("a", "v10"), line("a", "v9"), line("b", "v0")]
        );
    }
}
