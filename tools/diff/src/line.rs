//! Changes between two versions as one line of text: `+Qty: 5, Status: placed → paid, Lines[0] moved from [2], -Note`.
//!
//! | change | text |
//! |---|---|
//! | a value | `Status: placed → paid`, with another type `Total: 5 → "5"` |
//! | a value that is added or removed | `+Address.City: Bonn`, `-Note` |
//! | an element that moves | `Lines[0] moved from [2]` |
//! | elements of a set | `Tags: +new -old` |
//! | a long value | `Note: …the [-red-]{+blue+} door…` |
//!
//! The changes have the order in which they apply. A text is without quotes, unless it would be ambiguous. Two different values have
//! different texts. The line has no [hidden characters](shared::printable::is_hidden).

use serde_json::Value;
use shared::{
    domain::{AttributeValue, Item, number::Decimal, plain},
    json, printable,
};

use crate::{
    change::{Change, Changes, Kind},
    detail::SetChange,
    path::Path,
};

/// Maximum number of characters of a value in a [`summary`]. A longer one ends with `…`.
pub const MAX_VALUE_CHARS: usize = 60;
/// Maximum number of equal characters before and after the part in which long values differ.
const CONTEXT_CHARS: usize = 12;

/// Returns the first `limit` changes from `old` to `new`, and the number of the others: `+2 more`. The text is empty if there is
/// no change. `None` stands for the state before version 1, without attributes.
///
/// The items are the [attributes](shared::domain::view::VersionView::attributes) of versions, without bookkeeping.
///
/// ```
/// use item_diff::line::summary;
/// use serde_json::{from_value, json};
///
/// let status = |text: &str| from_value(json!({"Status": {"S": text}})).unwrap();
/// assert_eq!(summary(Some(&status("placed")), &status("paid"), 3), "Status: placed → paid");
/// ```
pub fn summary(old: Option<&Item>, new: &Item, limit: usize) -> String {
    shortened(&Changes::between(old, Some(new)), limit)
}

/// Returns the first `limit` changes, and the number of the others.
pub fn shortened(changes: &Changes<'_>, limit: usize) -> String {
    let more = changes.changes.len().saturating_sub(limit);
    let more = (more > 0).then(|| format!("+{more} more"));
    let first = changes.changes.iter().take(limit).map(text);
    first.chain(more).collect::<Vec<_>>().join(", ")
}

fn text(change: &Change<'_>) -> String {
    let path = path_text(&change.path);
    match &change.kind {
        Kind::Added(value) => format!("+{path}: {}", start_of(&value_text(value))),
        Kind::Removed(_) => format!("-{path}"),
        Kind::Moved(from, _) => format!("{path} moved from {}", origin(&change.path, from)),
        Kind::Changed(from, to) => match SetChange::between(from, to) {
            Some(set) => format!("{path}: {}", start_of(&elements(&set))),
            None => format!("{path}: {}", pair(from, to)),
        },
    }
}

fn pair(from: &AttributeValue, to: &AttributeValue) -> String {
    let (from, to) = value_texts(from, to);
    match is_longer(&from, MAX_VALUE_CHARS) || is_longer(&to, MAX_VALUE_CHARS) {
        true => difference(&from, &to, MAX_VALUE_CHARS / 3),
        false => format!("{from} → {to}"),
    }
}

fn elements(set: &SetChange) -> String {
    let added = set.added.iter().map(|one| format!("+{}", start_of(&element_text(one))));
    let removed = set
        .removed
        .iter()
        .map(|one| format!("-{}", start_of(&element_text(one))));
    added.chain(removed).collect::<Vec<_>>().join(" ")
}

fn start_of(text: &str) -> String {
    match is_longer(text, MAX_VALUE_CHARS) {
        true => text.chars().take(MAX_VALUE_CHARS - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn is_longer(text: &str, max: usize) -> bool {
    text.chars().nth(max).is_some()
}

/// Returns a path without hidden characters, as the parser of paths accepts it.
pub fn path_text(path: &Path) -> String {
    match path.to_string() {
        // The deletion of an attached item has no other name.
        text if text == "\"(deleted)\"" => "(deleted)".to_owned(),
        text => printable::json(&text).into_owned(),
    }
}

/// Returns the place from which an element moved: its index in the same list, or its path.
pub fn origin(to: &Path, from: &Path) -> String {
    match (to.0.split_last(), from.0.split_last()) {
        (Some((_, list)), Some((index, same))) if list == same => path_text(&Path(vec![index.clone()])),
        _ => path_text(from),
    }
}

/// Returns a value in one line: a text as it is unless it is ambiguous, any other value in plain JSON.
pub fn value_text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::S(text) if !is_ambiguous(text) && !is_like_json(text) => printable::line(text).into_owned(),
        value => quoted(value),
    }
}

/// Returns an element of a set, a binary one as its base64 text.
pub fn element_text(element: &AttributeValue) -> String {
    match (element, plain::attribute(element)) {
        (AttributeValue::B(_), json) => json["$binary"].to_string(),
        _ => value_text(element),
    }
}

/// Returns two different values as different texts. A text is in quotes if only one of the values is one.
pub fn value_texts(from: &AttributeValue, to: &AttributeValue) -> (String, String) {
    let is_text = |value| matches!(value, &AttributeValue::S(_));
    let texts = (value_text(from), value_text(to));
    match is_text(from) != is_text(to) || texts.0 == texts.1 {
        true => (quoted(from), quoted(to)),
        false => texts,
    }
}

/// Returns the part in which two texts differ, with at most `max` characters of each: `…the [-red-]{+blue+} door…`.
pub fn difference(from: &str, to: &str, max: usize) -> String {
    let (old, new): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(a, b)| a == b).count();
    let start = same(&mut old.iter().zip(&new));
    // A whole word is easier to read than the letters in it that differ.
    let letters = |chars: &mut dyn Iterator<Item = &char>| chars.take_while(|char| char.is_alphanumeric()).count();
    let before = letters(&mut old[..start].iter().rev());
    let start = if before < CONTEXT_CHARS { start - before } else { start };
    let end = same(&mut old[start..].iter().rev().zip(new[start..].iter().rev()));
    let after = letters(&mut old[old.len() - end..].iter());
    let end = if after < CONTEXT_CHARS { end - after } else { end };
    let part = |chars: &[char]| match chars.get(max) {
        Some(_) => chars[..max - 1].iter().chain(&['…']).collect(),
        None => chars.iter().collect::<String>(),
    };
    let (removed, added) = (part(&old[start..old.len() - end]), part(&new[start..new.len() - end]));
    if start + end == 0 {
        return format!("{removed} → {added}");
    }
    let marked = |part: String, [open, close]: [&str; 2]| match part.is_empty() {
        true => part,
        false => format!("{open}{part}{close}"),
    };
    let context = |chars: &mut dyn Iterator<Item = &char>| chars.collect::<String>();
    [
        if start > CONTEXT_CHARS { "…" } else { "" },
        &context(&mut old[start.saturating_sub(CONTEXT_CHARS)..start].iter()),
        &marked(removed, ["[-", "-]"]),
        &marked(added, ["{+", "+}"]),
        &context(&mut old[old.len() - end..].iter().take(CONTEXT_CHARS)),
        if end > CONTEXT_CHARS { "…" } else { "" },
    ]
    .concat()
}

/// Returns a text of a client in quotes if it looks like another part of its line.
pub fn word(text: &str) -> String {
    match is_ambiguous(text) || text.contains("  ") || text.contains(": ") {
        true => Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

/// Returns a text as it is, any other value in plain JSON.
pub fn text_of(value: &AttributeValue) -> String {
    match plain::attribute(value) {
        Value::String(text) => text,
        value => value.to_string(),
    }
}

/// Returns `true` if a text without quotes looks like a part of the line around it.
fn is_ambiguous(text: &str) -> bool {
    text.is_empty() || text.trim() != text || [", ", " → ", "\""].iter().any(|part| text.contains(part))
}

/// Returns `true` if a text without quotes looks like another value: a number, `true`, `false`, `null`, or JSON.
pub fn is_like_json(text: &str) -> bool {
    Decimal::parse(text).is_ok() || json::parse(text).is_ok()
}

/// Returns plain JSON without hidden characters.
fn quoted(value: &AttributeValue) -> String {
    let json = match (value, plain::attribute(value)) {
        (AttributeValue::Null(_), _) => Value::Null,
        (_, json) => json,
    };
    printable::json(&json.to_string()).into_owned()
}

#[cfg(test)]
mod tests;
