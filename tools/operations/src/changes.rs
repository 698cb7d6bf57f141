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

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::{
    domain::{AttributeValue, Item, attributes::same_value, plain},
    printable,
};

/// Maximum number of characters of a value in a [`summary`]. A longer one ends with `…`.
pub const MAX_VALUE_CHARS: usize = 60;

/// Returns the first `limit` changes from `old` to `new`, and the number of the others: `+2 more`. The text is empty if there is
/// no change. `None` stands for the state before version 1, without attributes.
///
/// The items are the [attributes](shared::domain::view::VersionView::attributes) of versions, without bookkeeping.
///
/// ```
/// use operations::changes::summary;
/// use serde_json::{from_value, json};
///
/// let status = |text: &str| from_value(json!({"Status": {"S": text}})).unwrap();
/// assert_eq!(summary(Some(&status("placed")), &status("paid"), 3), "Status: placed → paid");
/// ```
pub fn summary(old: Option<&Item>, new: &Item, limit: usize) -> String {
    let changes = Changes::between(old, new, Some(MAX_VALUE_CHARS)).0;
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
    Changes::between(old, new, None).0.join(", ")
}

/// Texts of changes, in the order of the names.
struct Changes(Vec<String>, Option<usize>);

impl Changes {
    fn between(old: Option<&Item>, new: &Item, max_chars: Option<usize>) -> Self {
        let mut changes = Self(Vec::new(), max_chars);
        let all: BTreeSet<&String> = old.into_iter().flat_map(|old| old.keys()).chain(new.keys()).collect();
        for name in all {
            let old = old.and_then(|old| old.get(name));
            changes.walk(&name_of(name), old, new.get(name));
        }
        changes
    }

    fn walk(&mut self, path: &str, old: Option<&AttributeValue>, new: Option<&AttributeValue>) {
        use AttributeValue::{Bs, M, Ns, Ss};
        match (old, new) {
            (Some(old), Some(new)) if same_value(old, new) => {}
            (Some(M(old)), Some(M(new))) if !old.is_empty() && !new.is_empty() => {
                let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for name in all {
                    let path = format!("{path}.{}", name_of(name));
                    self.walk(&path, old.get(name), new.get(name));
                }
            }
            (Some(old @ (Ss(_) | Ns(_) | Bs(_))), Some(new @ (Ss(_) | Ns(_) | Bs(_))))
                if std::mem::discriminant(old) == std::mem::discriminant(new) =>
            {
                let elements = self.elements(&elements(old), &elements(new));
                self.0.push(format!("{path}: {elements}"));
            }
            (Some(old), Some(new)) => {
                let (mut from, mut to) = (self.text(old), self.text(new));
                if from == to && (matches!(old, AttributeValue::S(_)) != matches!(new, AttributeValue::S(_))) {
                    (from, to) = (self.quoted(old), self.quoted(new));
                }
                self.0.push(format!("{path}: {from} → {to}"));
            }
            (None, Some(new)) => self.0.push(format!("+{path}: {}", self.text(new))),
            (Some(_), None) => self.0.push(format!("-{path}")),
            (None, None) => {}
        }
    }

    /// Returns the elements that are only in one of two sets.
    fn elements(&self, old: &[AttributeValue], new: &[AttributeValue]) -> String {
        let only_in = |set: &[AttributeValue], other: &[AttributeValue], sign: char| {
            let only = set.iter().filter(|one| !other.iter().any(|two| same_value(one, two)));
            only.map(|one| format!("{sign}{}", self.text(one))).collect::<Vec<_>>()
        };
        let all = [only_in(new, old, '+'), only_in(old, new, '-')].concat();
        self.shortened(&all.join(" "))
    }

    fn text(&self, value: &AttributeValue) -> String {
        match value {
            AttributeValue::S(text) if !is_ambiguous(text) => self.shortened(text),
            value => self.quoted(value),
        }
    }

    fn quoted(&self, value: &AttributeValue) -> String {
        self.shortened(&json_of(value).to_string())
    }

    fn shortened(&self, text: &str) -> String {
        let text = printable::line(text);
        match self.1.and_then(|max| Some((max, text.char_indices().nth(max)?))) {
            None => text.into_owned(),
            Some((max, _)) => text.chars().take(max - 1).chain(['…']).collect(),
        }
    }
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
