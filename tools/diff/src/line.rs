//! Changes between two versions as one line of text: `+Qty: 5, Status: placed → paid, -Note`.
//!
//! | change | text |
//! |---|---|
//! | a value | `Status: placed → paid` |
//! | a member of a map | `Address.City: Bonn → Berlin` |
//! | an attribute, or a member of a map, that is added or removed | `+Qty: 5`, `-Note` |
//! | elements of a set | `Tags: +new -old` |
//!
//! The changes are sorted by name. Lists are compared as a whole. A text is without quotes, unless it would be ambiguous.
//! The line has no [hidden characters](shared::printable::is_hidden).

use std::collections::HashMap;

use serde_json::{Value, json};
use shared::{
    domain::{AttributeValue, Item, plain},
    printable,
};

use crate::{Change, Changes, Depth, SetChange, Step};

/// Maximum number of characters of a value in a [`summary`]. A longer one ends with `…`.
pub const MAX_VALUE_CHARS: usize = 60;

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
    let changes = texts(old, new, Limit(Some(MAX_VALUE_CHARS)));
    let more = changes.len().saturating_sub(limit);
    let more = (more > 0).then(|| format!("+{more} more"));
    changes
        .into_iter()
        .take(limit)
        .chain(more)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns all changes from `old` to `new`, as [`summary`] does, with complete values.
pub fn complete(old: Option<&Item>, new: &Item) -> String {
    texts(old, new, Limit(None)).join(", ")
}

/// Returns the text of each change, in the order of the names.
fn texts(old: Option<&Item>, new: &Item, limit: Limit) -> Vec<String> {
    let empty = Item::from(HashMap::<String, AttributeValue>::new());
    let changes = Changes::between(old.unwrap_or(&empty), new, Depth::Maps);
    changes.changed.iter().map(|change| limit.change(change)).collect()
}

/// Maximum number of characters of a value.
#[derive(Clone, Copy)]
struct Limit(Option<usize>);

impl Limit {
    fn change(self, change: &Change<'_>) -> String {
        let path = path_of(&change.path);
        match (change.from, change.to) {
            (Some(_), Some(_)) if let Some(set) = &change.set => format!("{path}: {}", self.elements(set)),
            (Some(old), Some(new)) => {
                let (mut from, mut to) = (self.text(old), self.text(new));
                if from == to && (matches!(old, AttributeValue::S(_)) != matches!(new, AttributeValue::S(_))) {
                    (from, to) = (self.quoted(old), self.quoted(new));
                }
                format!("{path}: {from} → {to}")
            }
            (None, Some(new)) => format!("+{path}: {}", self.text(new)),
            (_, None) => format!("-{path}"),
        }
    }

    fn elements(self, set: &SetChange) -> String {
        let signed = |part: Option<&AttributeValue>, sign: char| {
            let all = part.map(elements).unwrap_or_default();
            all.iter()
                .map(|one| format!("{sign}{}", self.text(one)))
                .collect::<Vec<_>>()
        };
        let all = [signed(set.added.as_ref(), '+'), signed(set.removed.as_ref(), '-')].concat();
        self.shortened(&all.join(" "))
    }

    fn text(self, value: &AttributeValue) -> String {
        match value {
            AttributeValue::S(text) if !is_ambiguous(text) => self.shortened(text),
            value => self.quoted(value),
        }
    }

    fn quoted(self, value: &AttributeValue) -> String {
        self.shortened(&json_of(value).to_string())
    }

    fn shortened(self, text: &str) -> String {
        let text = printable::line(text);
        match self.0.and_then(|max| Some((max, text.char_indices().nth(max)?))) {
            None => text.into_owned(),
            Some((max, _)) => text.chars().take(max - 1).chain(['…']).collect(),
        }
    }
}

fn path_of(path: &[Step<'_>]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Name(name) => name_of(name),
        Step::Index(index) => index.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

/// Returns the name of an attribute, in quotes if it could be more than a name.
fn name_of(name: &str) -> String {
    let is_plain =
        name == "(deleted)" || !is_ambiguous(name) && !name.contains(['.', ':', '(', '+']) && !name.starts_with('-');
    let quoted = || Value::from(name).to_string();
    printable::line(&if is_plain { name.to_owned() } else { quoted() }).into_owned()
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

/// Returns plain JSON, in which a binary value is only its base64 text.
fn json_of(value: &AttributeValue) -> Value {
    match (value, plain::attribute(value)) {
        (AttributeValue::B(_), mut json) => json["$binary"].take(),
        (AttributeValue::Null(_), _) => json!(null),
        (_, json) => json,
    }
}

fn elements(set: &AttributeValue) -> Vec<AttributeValue> {
    match set {
        AttributeValue::Ss(texts) => texts.iter().cloned().map(AttributeValue::S).collect(),
        AttributeValue::Ns(numbers) => numbers.iter().cloned().map(AttributeValue::N).collect(),
        AttributeValue::Bs(values) => values.iter().cloned().map(AttributeValue::B).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
