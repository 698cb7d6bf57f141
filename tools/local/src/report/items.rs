//! Lists the items of each entity, one item in each line.

use std::fmt::Write as _;

use shared::{
    domain::{Item, attribution, entity::RESERVED, names, plain},
    printable,
};

use super::history::Collections;

const MAX_ENTITIES: usize = 20;
/// Maximum number of items of an entity, half of them from each end.
const MAX_ITEMS: usize = 24;
/// Maximum number of characters of a key, and of the attributes of an item.
const MAX_CHARACTERS: usize = 120;

/// Returns the items of all entities, without the library's own ones. Entities and items over the maximum are counted.
pub fn list(collections: &Collections) -> String {
    let mut text = String::new();
    let entities: Vec<_> = collections.iter().filter(|(pk, _)| pk.as_str() != RESERVED).collect();
    for (pk, collection) in entities.iter().take(MAX_ENTITIES) {
        let _ = writeln!(text, "{}", shown(pk));
        text += &lines(collection);
    }
    if let Some(more @ 1..) = entities.len().checked_sub(MAX_ENTITIES) {
        let _ = writeln!(text, "and {more} more entities");
    }
    text
}

fn lines(items: &[(String, Item)]) -> String {
    let left_out = items.len().saturating_sub(MAX_ITEMS);
    let (start, end) = match left_out {
        0 => (items, &[][..]),
        _ => (&items[..MAX_ITEMS / 2], &items[items.len() - MAX_ITEMS / 2..]),
    };
    let line = |(sk, item): &(String, Item)| format!("  {:3} {}\n", shown(sk), shown(&attributes(item)));
    let mut text: String = start.iter().map(line).collect();
    if left_out > 0 {
        let _ = writeln!(text, "  …   {left_out} more items");
    }
    text.extend(end.iter().map(line));
    text
}

/// Returns the attributes without the library's bookkeeping, sorted by name. Long attributes of the library come last.
fn attributes(item: &Item) -> String {
    let hidden = [
        names::PK,
        names::SK,
        names::REQUEST_PAYLOAD,
        names::INCARNATION,
        names::RECORDED_SINCE,
    ];
    let is_shown = |name: &str| {
        let is_own = attribution::OF_LATEST.contains(&name) && name != names::LATEST;
        !is_own && !hidden.contains(&name)
    };
    let mut attributes: Vec<_> = item.iter().filter(|(name, _)| is_shown(name)).collect();
    let last = [names::RECORDED_AT, names::REQUEST_ID];
    attributes.sort_by_key(|(name, _)| (last.iter().position(|last| last == name), *name));
    let attributes = attributes
        .into_iter()
        .map(|(name, value)| format!("{name}: {}", plain::attribute(value)));
    attributes.collect::<Vec<_>>().join(", ")
}

/// Truncates a text and escapes hidden characters.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", printable::line(&text[..end])),
        None => printable::line(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::report::history::collect;

    fn listed(items: Vec<Value>) -> String {
        let items = items.into_iter().map(|item| serde_json::from_value(item).unwrap());
        list(&collect(items.collect(), VersionDigits::default()))
    }

    #[test]
    fn items_have_their_attributes_without_bookkeeping() {
        let v0 = json!({
            "PK": {"S": "E#1"}, "SK": {"S": "v0"}, "State": {"S": "OK"}, "Latest": {"N": "7"}, "RequestId": {"S": "r"},
            "L": {"L": [{"N": "1.5"}, {"NULL": true}]}, "RecentRequests": {"M": {}}, "V0Id": {"S": "abcd"},
        });
        let own = json!({"PK": {"S": "#vzero"}, "SK": {"S": "config"}});
        let text = json!({"PK": {"S": "E#1"}, "SK": {"S": "Metadata"}, "Text": {"S": "x".repeat(200)}});
        assert_eq!(
            listed(vec![v0, own, text]),
            format!(
                "E#1\n  v0  L: [1.5,null], Latest: 7, State: \"OK\", RequestId: \"r\"\n  Metadata Text: \"{}…\n",
                "x".repeat(113)
            )
        );
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let item = json!({"PK": {"S": "a\nb"}, "SK": {"S": "v0"}, "c\nd\u{9b}": {"S": "\u{1b}[2J\u{202e}"}});
        assert_eq!(
            listed(vec![item]),
            "a\\nb\n  v0  c\\nd\\u{9b}: \"\\u001b[2J\\u{202e}\"\n"
        );
    }

    #[test]
    fn a_long_history_is_cut_in_the_middle() {
        let item = |number| json!({"PK": {"S": "Press#1"}, "SK": {"S": format!("v{number}")}});
        let text = listed((0..=100).map(item).collect());
        assert_eq!(text.lines().count(), 1 + 25);
        assert!(text.contains("\n  v11 \n  …   77 more items\n  v89 \n"), "{text}");
        let item = |number: u64| json!({"PK": {"S": number.to_string()}, "SK": {"S": "v0"}});
        let text = listed((0..25).map(item).collect());
        assert!(text.ends_with("and 5 more entities\n"), "{text}");
    }
}
