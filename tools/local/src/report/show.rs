//! Item collections as tables, as the pattern is usually pictured.

use std::{collections::BTreeMap, fmt::Write as _};

use comfy_table::{Cell, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use shared::domain::{AttributeValue, Item, names};

use super::history::{Collection, Collections};

/// The most entities that are shown.
const MAX_ENTITIES: usize = 20;
/// The most items of one entity that are shown.
const MAX_ITEMS: usize = 24;
/// The most attributes that have a column of their own.
const MAX_COLUMNS: usize = 8;
/// The most characters of a text that are shown.
const MAX_CHARACTERS: usize = 80;
/// The width without a terminal.
const WIDTH: u16 = 140;

/// The tables of all entities. What does not fit is counted.
pub fn collections(collections: &Collections) -> String {
    let mut text = String::new();
    for (pk, collection) in collections.iter().take(MAX_ENTITIES) {
        let _ = writeln!(text, "{}", table(pk, collection));
    }
    if let Some(more @ 1..) = collections.len().checked_sub(MAX_ENTITIES) {
        let _ = writeln!(text, "and {more} more entities");
    }
    text
}

fn table(pk: &str, collection: &Collection) -> Table {
    let columns = columns(collection);
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    let header = [names::PK, names::SK, names::LATEST]
        .into_iter()
        .chain(columns.iter().map(String::as_str));
    table.set_header(header);
    let items = collection.items();
    let left_out = items.len().saturating_sub(MAX_ITEMS);
    let head = if left_out > 0 { MAX_ITEMS / 2 } else { items.len() };
    let pk = &shown(pk);
    for (sk, item) in &items[..head] {
        table.add_row(row(pk, sk, item, &columns));
    }
    if left_out > 0 {
        table.add_row([
            Cell::new(pk),
            Cell::new("…"),
            Cell::new(""),
            Cell::new(format!("{left_out} more items")),
        ]);
        for (sk, item) in &items[head + left_out..] {
            table.add_row(row(pk, sk, item, &columns));
        }
    }
    table
}

/// The attributes with columns of their own, those of the most items first.
fn columns(collection: &Collection) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in collection.items().iter().flat_map(|(_, item)| item.keys()) {
        if ![names::PK, names::SK, names::LATEST, names::RECENT_REQUESTS].contains(&name.as_str()) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut columns: Vec<_> = counts.into_iter().collect();
    // The request id is long, and rarely what one looks for.
    columns.sort_by_key(|(name, count)| (*name == names::REQUEST_ID, std::cmp::Reverse(*count)));
    let mut columns: Vec<_> = columns.into_iter().map(|(name, _)| name.to_owned()).collect();
    columns.truncate(MAX_COLUMNS);
    columns
}

fn row(pk: &str, sk: &str, item: &Item, columns: &[String]) -> Vec<String> {
    let attribute = |name: &str| item.get(name).map(value).unwrap_or_default();
    let mut row = vec![pk.to_owned(), shown(sk), attribute(names::LATEST)];
    row.extend(columns.iter().map(|name| attribute(name)));
    row
}

/// Texts and numbers as they are, nested values the way JSON would have them. For the eye: types are in the dump.
fn value(value: &AttributeValue) -> String {
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    let list = |values: Vec<String>| format!("[{}]", values.join(", "));
    match value {
        S(text) => shown(text),
        N(text) => text.clone(),
        Bool(value) => value.to_string(),
        Null(_) => "null".to_owned(),
        B(bytes) => format!("{} bytes", bytes.len()),
        Ss(texts) | Ns(texts) => list(texts.iter().map(|text| shown(text)).collect()),
        Bs(values) => list(values.iter().map(|bytes| format!("{} bytes", bytes.len())).collect()),
        L(values) => list(values.iter().map(self::value).collect()),
        M(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let members = members
                .into_iter()
                .map(|(name, member)| format!("{name}: {}", self::value(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text that fits a cell, and moves no cursor.
fn shown(text: &str) -> String {
    let cut = text.chars().count() > MAX_CHARACTERS;
    let visible = text
        .chars()
        .take(MAX_CHARACTERS)
        .map(|character| match character.is_control() {
            true => character.escape_default().to_string(),
            false => character.to_string(),
        });
    visible.chain(cut.then(|| "…".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::report::history::collect;

    #[test]
    fn values_are_for_the_eye() {
        let check = |json: serde_json::Value, text: &str| {
            assert_eq!(value(&serde_json::from_value(json).unwrap()), text);
        };
        check(json!({"S": "a\u{1b}[2Jb\n"}), "a\\u{1b}[2Jb\\n");
        check(json!({"S": "x".repeat(100)}), &format!("{}…", "x".repeat(80)));
        check(
            json!({"M": {"b": {"L": [{"N": "1"}, {"NULL": true}]}, "a": {"B": "Zm9v"}}}),
            "{a: 3 bytes, b: [1, null]}",
        );
        check(json!({"SS": ["x", "y"]}), "[x, y]");
    }

    #[test]
    fn a_long_history_is_cut_in_the_middle() {
        let items = (0..=100).map(|number| {
            let item = json!({"PK": {"S": "Press#1"}, "SK": {"S": format!("v{number}")}, "State": {"S": "ON"}});
            serde_json::from_value(item).unwrap()
        });
        let text = collections(&collect(items.collect(), VersionDigits::default()));
        assert!(text.contains("77 more items"), "{text}");
        assert!(
            text.contains("v100") && text.contains("v11 ") && !text.contains("v50"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 25 + 4);
    }
}
