//! Renders item collections as tables. A table has as many attributes as fit into the terminal without broken words; a line
//! below it names the others.

use std::{collections::BTreeMap, fmt::Write as _};

use comfy_table::{Cell, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use console::measure_text_width;
use shared::{
    domain::{AttributeValue, Item, attribution, entity::RESERVED, names},
    printable,
};

use super::history::{Collection, Collections};

const MAX_ENTITIES: usize = 20;
/// Maximum number of items shown per entity.
const MAX_ITEMS: usize = 24;
const MAX_COLUMNS: usize = 8;
/// Width from which a column wraps its text.
const MAX_COLUMN_WIDTH: usize = 36;
/// Space and frame of a column.
const FRAME_WIDTH: usize = 3;
/// Maximum number of characters shown of a string.
const MAX_CHARACTERS: usize = 80;
/// Width of the output if it is not a terminal.
const WIDTH: u16 = 140;

/// Returns the tables of all entities, without the library's own items. Entities and items over the maximum are counted.
pub fn collections(collections: &Collections) -> String {
    let mut text = String::new();
    let entities: Vec<_> = collections.iter().filter(|(pk, _)| pk.as_str() != RESERVED).collect();
    for (pk, collection) in entities.iter().take(MAX_ENTITIES) {
        let _ = writeln!(text, "{}", table(pk, collection));
    }
    if let Some(more @ 1..) = entities.len().checked_sub(MAX_ENTITIES) {
        let _ = writeln!(text, "and {more} more entities");
    }
    text
}

fn table(pk: &str, collection: &Collection) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    rendered(pk, collection, table)
}

fn rendered(pk: &str, collection: &Collection, mut table: Table) -> String {
    let items = collection.items();
    let left_out = items.len().saturating_sub(MAX_ITEMS);
    let first = if left_out > 0 { MAX_ITEMS / 2 } else { items.len() };
    let (start, end) = (&items[..first], &items[first + left_out..]);
    let pk = &shown(pk);
    let all = columns(collection);
    let width = table.width().map_or(usize::from(WIDTH), usize::from);
    let visible: Vec<_> = start.iter().chain(end).collect();
    let fitting = fitting(&all, pk, &visible, width);
    let (columns, others) = all.split_at(fitting);
    let header = [names::PK, names::SK, names::LATEST].into_iter().map(str::to_owned);
    table.set_header(header.chain(columns.iter().map(|name| shown(name))));
    for (sk, item) in start {
        table.add_row(row(pk, sk, item, columns));
    }
    if left_out > 0 {
        table.add_row([
            Cell::new(pk),
            Cell::new("…"),
            Cell::new(""),
            Cell::new(format!("{left_out} more items")),
        ]);
    }
    for (sk, item) in end {
        table.add_row(row(pk, sk, item, columns));
    }
    if others.is_empty() {
        return table.to_string();
    }
    let others: Vec<_> = others.iter().map(|name| shown(name)).collect();
    format!("{table}\nnot shown: {}", others.join(", "))
}

/// Returns how many of the columns fit into the width, at least one.
fn fitting(columns: &[String], pk: &str, items: &[&(String, Item)], width: usize) -> usize {
    let wanted = |texts: &mut dyn Iterator<Item = String>| {
        let widest = texts.map(|text| measure_text_width(&text)).max().unwrap_or_default();
        widest.min(MAX_COLUMN_WIDTH) + FRAME_WIDTH
    };
    let keys = wanted(&mut [names::PK.to_owned(), pk.to_owned()].into_iter())
        + wanted(&mut items.iter().map(|(sk, _)| shown(sk)))
        + wanted(&mut [names::LATEST.to_owned()].into_iter());
    // The frame on the left.
    let mut used = keys + 1;
    let fits = columns.iter().take_while(|name| {
        let values = items.iter().filter_map(|(_, item)| item.get(*name)).map(value);
        used += wanted(&mut values.chain([shown(name)]));
        used <= width
    });
    fits.count().max(1).min(columns.len())
}

/// Returns the attributes shown as columns, the most frequent first.
fn columns(collection: &Collection) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let is_shown = |name: &str| {
        let bookkeeping = [names::REQUEST_PAYLOAD, names::INCARNATION, names::RECORDED_SINCE];
        ![names::PK, names::SK].contains(&name)
            && !bookkeeping.contains(&name)
            && !attribution::OF_LATEST.contains(&name)
    };
    for name in collection.items().iter().flat_map(|(_, item)| item.keys()) {
        if is_shown(name) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut columns: Vec<_> = counts.into_iter().collect();
    // Long attributes of the library come last.
    let rank = |name: &str| {
        [names::RECORDED_AT, names::REQUEST_ID]
            .iter()
            .position(|last| *last == name)
    };
    columns.sort_by_key(|(name, count)| (rank(name), std::cmp::Reverse(*count)));
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

/// Formats a value without its type: strings and numbers plain, nested values similar to JSON.
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
                .map(|(name, member)| format!("{}: {}", shown(name), self::value(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Truncates a string and escapes hidden characters.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", printable::line(&text[..end])),
        None => printable::line(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::report::history::collect;

    #[test]
    fn values_are_shown_without_types() {
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
        check(json!({"M": {"a\u{9b}": {"S": "\u{202e}"}}}), "{a\\u{9b}: \\u{202e}}");
    }

    #[test]
    fn columns_that_do_not_fit_are_named_below_the_table() {
        let item = |sk: &str| {
            let item = json!({
                "PK": {"S": "Equipment#1"}, "SK": {"S": sk}, "State": {"S": "WARNING1"}, "LineID": {"S": "L-1"},
                "RecordedAt": {"S": "2026-11-22T06:25:11.805327000Z"}, "Actor": {"S": "alice"},
                "RequestId": {"S": "9b2f6c1e-4d0a-4c3b-8f57-2a6d1e0c7b94"},
            });
            serde_json::from_value(item).unwrap()
        };
        let collections = collect(["v0", "v1"].map(item).to_vec(), VersionDigits::default());
        let collection = &collections["Equipment#1"];
        let at = |width| {
            let mut table = Table::new();
            table
                .load_style(UTF8_FULL_CONDENSED)
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
            rendered("Equipment#1", collection, table)
        };
        let narrow = at(80);
        assert!(narrow.ends_with("\nnot shown: RecordedAt, RequestId"), "{narrow}");
        for word in ["Equipment#1", "WARNING1", "alice", "L-1"] {
            assert_eq!(narrow.matches(word).count(), 2, "{word} in {narrow}");
        }
        assert!(narrow.lines().all(|line| measure_text_width(line) <= 80), "{narrow}");
        assert!(at(140).contains("9b2f6c1e-4d0a-4c3b-8f57-2a6d1e0c7b94"), "{}", at(140));
        // Too narrow for any column: one is shown.
        assert!(
            at(20).ends_with("not shown: LineID, State, RecordedAt, RequestId"),
            "{}",
            at(20)
        );
    }

    #[test]
    fn a_name_with_control_characters_does_not_break_the_table() {
        let item = json!({"PK": {"S": "a\nb"}, "SK": {"S": "v0"}, "c\nd\u{9b}": {"S": "e"}});
        let text = collections(&collect(
            vec![serde_json::from_value(item).unwrap()],
            VersionDigits::default(),
        ));
        assert!(text.contains(r"a\nb") && text.contains(r"c\nd\u{9b}"), "{text}");
        // The frame, the header, a line and the item.
        assert_eq!(text.lines().count(), 5, "{text}");
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
