//! Paths of values in an item: `Address.City`, `Lines[2].Price`, `"a.b"[0]`.
//!
//! A name is without quotes if it consists of letters, digits, `_`, `-`, `$`, `@`, `#`, `/` and spaces between them, else it is a JSON
//! string. The text of every path is accepted by the [parser](FromStr).

use std::{fmt, str::FromStr};

use shared::{
    domain::{AttributeValue, Item},
    json,
};
use thiserror::Error;

/// Path of a value: an attribute, then members of maps and elements of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(pub Vec<Step>);

/// Step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// An attribute, or a member of a map.
    Name(String),
    /// An element of a list, from 0.
    Index(usize),
}

/// A text is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("invalid path at character {0}. Forms: Name, Map.Member, List[0], \"a name with dots.\"[2]")]
pub struct InvalidPath(usize);

impl Path {
    /// Returns `true` if the value at this path contains, is, or is contained in the value at another path.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }

    /// Returns the path of a part of the value.
    #[must_use]
    pub fn with(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.0.push(step);
        path
    }
}

/// Returns the value at a path of an item.
pub fn value_at<'i>(item: &'i Item, path: &Path) -> Option<&'i AttributeValue> {
    let (Step::Name(first), rest) = path.0.split_first()? else {
        return None;
    };
    rest.iter()
        .try_fold(item.get(first)?, |value, step| match (value, step) {
            (AttributeValue::M(map), Step::Name(name)) => map.get(name),
            (AttributeValue::L(list), Step::Index(index)) => list.get(*index),
            _ => None,
        })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && name
            .chars()
            .all(|char| char.is_alphanumeric() || "_-$@#/ ".contains(char))
        && !name.starts_with('-')
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(element) => write!(out, "[{element}]")?,
                Step::Name(name) => {
                    let dot = if index == 0 { "" } else { "." };
                    match is_plain(name) {
                        true => write!(out, "{dot}{name}")?,
                        false => write!(out, "{dot}{}", serde_json::Value::from(name.as_str()))?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Path {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() || steps.is_empty() {
            let invalid = |rest: &str| InvalidPath(text[..text.len() - rest.len()].chars().count() + 1);
            if let Some(index) = rest.strip_prefix('[').filter(|_| !steps.is_empty()) {
                let (digits, after) = index.split_once(']').ok_or_else(|| invalid(index))?;
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let element = digits.parse().ok().filter(|_| is_number);
                steps.push(Step::Index(element.ok_or_else(|| invalid(index))?));
                rest = after;
                continue;
            }
            if !steps.is_empty() {
                rest = rest.strip_prefix('.').ok_or_else(|| invalid(rest))?;
            }
            let length = match rest.starts_with('"') {
                true => quoted_length(rest),
                false => Some(rest.find(['.', '[', ']', '"']).unwrap_or(rest.len())).filter(|length| *length > 0),
            };
            let (name, after) = rest.split_at(length.ok_or_else(|| invalid(rest))?);
            let name = match name.starts_with('"') {
                true => json::string(name).ok_or_else(|| invalid(rest))?,
                false => name.to_owned(),
            };
            steps.push(Step::Name(name));
            rest = after;
        }
        Ok(Self(steps))
    }
}

/// Returns the length of a JSON string at the start of a text.
fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, char)| {
        let ends = *char == '"' && !is_escaped;
        is_escaped = *char == '\\' && !is_escaped;
        ends
    });
    end.map(|(index, _)| index + 1)
}
