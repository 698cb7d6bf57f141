//! Tables of cases in a text: JSON and what is expected of it in each line, separated by ` -> `.

use serde_json::Value;

/// Returns the cases of a table. Empty lines and lines that begin with `//` are none.
pub fn cases(table: &str) -> impl Iterator<Item = (Value, &str)> {
    let lines = table.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| {
        let (json, expected) = line.split_once(" -> ").unwrap();
        let json = serde_json::from_str(json.trim());
        (json.unwrap_or_else(|error| panic!("{line}: {error}")), expected.trim())
    })
}

/// Returns a document with one member changed: `["/pointer/to/member", value]`, or removed: `["/pointer/to/member"]`.
pub fn patched(mut document: Value, patch: &Value) -> Value {
    let (parent, name) = patch[0].as_str().unwrap().rsplit_once('/').unwrap();
    let members = document.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match patch.get(1) {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
    document
}
