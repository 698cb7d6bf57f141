//! Dumps every item of the table as DynamoDB JSON, one per line, ordered by partition key and sort key.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::history::Collections;
use crate::files::write_whole;

/// Writes the dump, into the target of a link. A regular file is replaced atomically; anything else, such as a FIFO, is written directly.
pub fn write(path: &Path, collections: &Collections) -> io::Result<()> {
    let lines = lines(collections)?;
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
    match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => fs::write(path, lines),
        _ => write_whole(&path, lines.as_bytes()),
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
