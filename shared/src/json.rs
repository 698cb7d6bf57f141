//! The reader of JSON from outside: events, message bodies, stream records, failure documents, files, arguments and requests.
//!
//! The deserializers of `serde_json::Value` reserve member names: `{"$serde_json::private::RawValue": "…"}` is replaced by the document
//! in the string, without a limit of nesting, and `{"$serde_json::private::Number": "1"}` by a number. So text from outside is never
//! deserialized as a `Value`, and as a `RawValue` only here: from text, that is the part of the text as it is, without a meaning of
//! names. `shared/tests/foreign_json.rs` checks it. Here, every name is data.
//!
//! | function | result |
//! |---|---|
//! | [`parse`] | the document as a tree, part by part |
//! | [`parse_limited`] | the same, of a document whose number of elements and members is limited |
//! | [`members`], [`elements`] | the parts of an object or a list as text, each of which is parsed separately later |
//! | [`nested`], [`elements_of`] | the same of an object and of objects in it, or of a list in it, in one pass |
//! | [`documents`] | documents that follow each other, as text |
//!
//! Numbers are text, with all their digits. If an object has two members with the same name, the last one counts. A tree has at
//! most [`MAX_LEVELS`] levels. Text that is only split or skipped can have more: no stack grows with them. No error contains a part of the
//! document.

mod nested;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value, error::Category, value::RawValue};
use thiserror::Error;

pub use nested::{Nested, Shape, elements_of, nested};

/// Maximum number of objects and lists inside of each other. An attribute value of `DynamoDB` has at most 32 levels, which are 64 in
/// `DynamoDB` JSON.
pub const MAX_LEVELS: usize = 128;

/// Parses a document.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not one JSON document, or has more than [`MAX_LEVELS`] levels.
pub fn parse(text: &str) -> Result<Value, InvalidJson> {
    parse_limited(text, usize::MAX)
}

/// Parses a document with a maximum number of elements and members, because each takes up to 600 bytes of memory: an empty object in
/// a list is three bytes of text.
///
/// # Errors
///
/// As [`parse`], and with the reason [`Reason::Parts`] if the document has more.
///
/// ```
/// use shared::json::{Reason, parse_limited};
///
/// assert!(parse_limited(r#"{"a": [1, 2]}"#, 3).is_ok());
/// assert_eq!(parse_limited(r#"{"a": [1, 2]}"#, 2).unwrap_err().reason, Reason::Parts);
/// ```
pub fn parse_limited(text: &str, max_parts: usize) -> Result<Value, InvalidJson> {
    let (document, mut left) = (check(text)?, max_parts);
    Tree { text, left: &mut left }.value(document, 0)
}

/// Parses a document of UTF-8 bytes.
///
/// # Errors
///
/// As [`parse`], and if the bytes are not UTF-8.
pub fn parse_bytes(bytes: &[u8]) -> Result<Value, InvalidJson> {
    parse(std::str::from_utf8(bytes).map_err(|error| InvalidJson::at(&bytes[..error.valid_up_to()], Reason::Utf8))?)
}

/// Deserializes a type that contains no [`Value`], `None` if the text is no JSON of it.
pub(crate) fn typed<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Returns the members of an object as text.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not an object.
///
/// ```
/// use shared::json;
///
/// let members = json::members(r#"{"a": [1, 2], "b": null}"#).unwrap();
/// assert_eq!(members.get("a"), Some("[1, 2]"));
/// assert_eq!(members.value("b"), None);
/// ```
pub fn members(text: &str) -> Result<Members<'_>, InvalidJson> {
    serde_json::from_str(text).map_err(|error| InvalidJson::new(&error, "an object"))
}

/// Returns the elements of a list as text.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not a list.
pub fn elements(text: &str) -> Result<Vec<&str>, InvalidJson> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| InvalidJson::new(&error, "a list"))?;
    Ok(elements.into_iter().map(RawValue::get).collect())
}

/// Returns documents that follow each other as text, up to the first one that is not JSON, and its error.
pub fn documents(text: &str) -> (Vec<&str>, Option<InvalidJson>) {
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        match document {
            Ok(document) => documents.push(document.get()),
            Err(error) => return (documents, Some(InvalidJson::new(&error, "a value"))),
        }
    }
    (documents, None)
}

/// Returns the string in a JSON text, `None` if it is not a string.
pub fn string(text: &str) -> Option<String> {
    typed(text)
}

/// Returns the text of a number, `None` if it is not a number.
pub fn number(text: &str) -> Option<&str> {
    let document = check(text).ok()?;
    document
        .starts_with(|first: char| first == '-' || first.is_ascii_digit())
        .then_some(document)
}

/// Returns the JSON text of a document without white space around it.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not one JSON document. It can have any number of levels. A string can contain an escape that
/// [`string`] rejects: half of a surrogate pair.
pub fn check(text: &str) -> Result<&str, InvalidJson> {
    let document: &RawValue = serde_json::from_str(text).map_err(|error| InvalidJson::new(&error, "a value"))?;
    Ok(document.get())
}

/// Members of an object as text, in their order.
#[derive(Debug, Clone, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Returns the text of a member.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rfind(|(other, _)| other == name);
        found.map(|(_, text)| *text)
    }

    /// Returns the text of a member that is not `null`.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|text| *text != "null")
    }

    /// Returns the value of a member that is a string.
    pub fn string(&self, name: &str) -> Option<String> {
        string(self.get(name)?)
    }

    /// Returns `true` if there is a member with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns all members, also those that are replaced by a later one of the same name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, text)| (name.as_ref(), *text))
    }
}

/// Tree in progress.
struct Tree<'a> {
    text: &'a str,
    /// Number of elements and members that can follow.
    left: &'a mut usize,
}

impl Tree<'_> {
    /// Parses a part of the text, which was checked, inside of this number of objects and lists.
    fn value(&mut self, part: &str, levels: usize) -> Result<Value, InvalidJson> {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        let before = &self.text.as_bytes()[..start];
        let invalid = |reason| InvalidJson::at(before, reason);
        let mut inner = |part| {
            *self.left = self.left.checked_sub(1).ok_or_else(|| invalid(Reason::Parts))?;
            self.value(part, levels + 1)
        };
        let value = match part.as_bytes() {
            [b'{' | b'[', ..] if levels == MAX_LEVELS => return Err(invalid(Reason::Levels)),
            [b'{', ..] => {
                let members = members(part).map_err(|error| invalid(error.reason))?.0.into_iter();
                let members = members.map(|(name, part)| Ok((name.into_owned(), inner(part)?)));
                return members.collect::<Result<_, _>>().map(Value::Object);
            }
            [b'[', ..] => {
                let elements = elements(part).map_err(|error| invalid(error.reason))?.into_iter();
                return elements.map(inner).collect::<Result<_, _>>().map(Value::Array);
            }
            [b'"', ..] => string(part).map(Value::String),
            b"null" => Some(Value::Null),
            [b't' | b'f', ..] => typed(part).map(Value::Bool),
            _ => part.parse::<Number>().ok().map(Value::Number),
        };
        value.ok_or_else(|| invalid(Reason::Syntax("invalid escape".to_owned())))
    }
}

/// The text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason} at line {line} column {column}")]
pub struct InvalidJson {
    /// Reason.
    pub reason: Reason,
    /// Line, from 1 on.
    pub line: usize,
    /// Byte in the line, from 1 on.
    pub column: usize,
}

impl InvalidJson {
    /// The error of a parser that expects something: only its message for another value can contain a part of the document.
    fn new(error: &serde_json::Error, expected: &str) -> Self {
        let message = error.to_string();
        let reason = match error.classify() {
            Category::Data => format!("expected {expected}"),
            _ => message.split(" at line ").next().unwrap_or_default().to_owned(),
        };
        Self {
            reason: Reason::Syntax(reason),
            line: error.line(),
            column: error.column(),
        }
    }

    /// The error after these bytes.
    fn at(before: &[u8], reason: Reason) -> Self {
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Self {
            reason,
            line: before.split(|byte| *byte == b'\n').count(),
            column: 1 + before.len() - line_start,
        }
    }
}

/// Reason why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// The text is not JSON, or not what is expected.
    #[error("{0}")]
    Syntax(String),
    /// More levels than [`MAX_LEVELS`].
    #[error("more than {MAX_LEVELS} levels")]
    Levels,
    /// More elements and members than the reader of the document allows.
    #[error("too many elements and members")]
    Parts,
    /// The text is not UTF-8.
    #[error("the text is not UTF-8")]
    Utf8,
}

#[cfg(test)]
mod tests;
