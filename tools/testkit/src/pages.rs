//! Facts that the pages in `docs/` state, for the tests that compare them with the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

pub fn root() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.into_iter().nth(2).unwrap().to_owned()
}

/// Returns the cells of the rows of all tables of a page.
pub fn rows(page: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()));
    cells.map(Iterator::collect).collect()
}

/// Returns a column of the tables in `docs/conformance.md`, by the first column.
pub fn conformance(column: usize) -> BTreeMap<String, String> {
    let rows = rows("docs/conformance.md").into_iter();
    // The table of commands has two columns only.
    let rows = rows.filter(|cells| cells[0].starts_with('`') && cells.len() > 4);
    let cell = |cell: &str| cell.trim_matches('`').to_owned();
    rows.map(|cells| (cell(&cells[0]), cell(&cells[column]))).collect()
}

/// Returns the statements in the JSON blocks of a page whose `Sid` starts with `sid`.
fn statements(page: &str, sid: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let blocks = text
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"));
    let statements = blocks.flat_map(|(block, _)| {
        let policy: Value = serde_json::from_str(block).unwrap();
        policy["Statement"].as_array().unwrap().clone()
    });
    let is_of_sid = |statement: &Value| statement["Sid"].as_str().unwrap().starts_with(sid);
    statements.filter(is_of_sid).collect()
}

/// Returns the actions with one of these prefixes in the statements of `docs/security.md` whose `Sid` starts with `sid`.
pub fn policy_actions(sid: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let statements = security_statements(sid).into_iter();
    let actions = statements.flat_map(|statement| statement["Action"].as_array().unwrap().clone());
    let actions = actions.map(|action| action.as_str().unwrap().to_owned());
    let has_prefix = |action: &String| prefixes.iter().any(|prefix| action.starts_with(prefix));
    actions.filter(has_prefix).collect()
}

/// Returns the statements of `docs/security.md` whose `Sid` starts with `sid`.
pub fn security_statements(sid: &str) -> Vec<Value> {
    statements("docs/security.md", sid)
}

/// Returns the statements of `docs/access.md` whose `Sid` starts with `sid`.
pub fn access_statements(sid: &str) -> Vec<Value> {
    statements("docs/access.md", sid)
}
