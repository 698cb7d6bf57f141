//! The reader of JSON from outside: events, message bodies, stream records, failure documents, files, arguments and requests.
//!
//! The deserializers of `serde_json::Value` and `RawValue` reserve member names: `{"$serde_json::private::RawValue": "…"}` is
//! replaced by the document in the string, without a limit of nesting, and `{"$serde_json::private::Number": "1"}` by a number. So
//! text from outside is never deserialized as one of them. `shared/tests/foreign_json.rs` checks it. Here, every name is data.
//!
//! | function | result |
//! |---|---|
//! | [`parse`] | the document as a tree. Its type is that of `serde_json`, its deserializer is not used |
//! | [`parse_limited`] | the same, of a document whose number of elements and members is limited |
//! | [`members`], [`elements`] | the parts of an object or a list as text, each of which is parsed separately later |
//! | [`Reader`] | one token after the other |
//!
//! Numbers are text, with all their digits. If an object has two members with the same name, the last one counts. A document has at
//! most [`MAX_LEVELS`] levels. Text that is only split or skipped can have more: no stack grows with them. No error contains a part of the
//! document.
//!
//! The crates that read tokens do not fit: `jiter` has a fixed limit for skipped values too, so that one record would fail its batch, and
//! adds several crates to the functions; `struson` and `json-event-parser` return no slices.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};
use thiserror::Error;

mod escape;
mod reader;

pub use reader::{Kind, Reader};

/// Maximum number of objects and lists inside of each other. An attribute value of `DynamoDB` has at most 32 levels, which are 64 in
/// `DynamoDB` JSON.
pub const MAX_LEVELS: usize = 128;

/// Parses a document.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not one JSON document, or has more than [`MAX_LEVELS`] levels.
///
/// ```
/// use shared::json;
///
/// let value = json::parse(r#"{"$serde_json::private::RawValue": "{}", "N": 1.50}"#).unwrap();
/// assert_eq!(value["$serde_json::private::RawValue"], "{}");
/// assert_eq!(value["N"].to_string(), "1.50");
/// ```
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
pub fn parse_limited(text: &str, mut max_parts: usize) -> Result<Value, InvalidJson> {
    whole(text, |reader| value(reader, &mut max_parts))
}

/// Reads a text that is one document.
pub(crate) fn whole<'a, T, E: From<InvalidJson>>(
    text: &'a str,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, E>,
) -> Result<T, E> {
    let mut reader = Reader::new(text);
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Parses a document of UTF-8 bytes.
///
/// # Errors
///
/// As [`parse`], and if the bytes are not UTF-8.
pub fn parse_bytes(bytes: &[u8]) -> Result<Value, InvalidJson> {
    parse(std::str::from_utf8(bytes).map_err(|error| InvalidJson::at(&bytes[..error.valid_up_to()], Reason::Utf8))?)
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
    whole(text, Members::read)
}

/// Returns the elements of a list as text.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not a list.
pub fn elements(text: &str) -> Result<Vec<&str>, InvalidJson> {
    whole(text, |reader| {
        let mut elements = Vec::new();
        reader.begin_list()?;
        while reader.next_element()? {
            elements.push(reader.skip()?);
        }
        Ok(elements)
    })
}

/// Returns the string in a JSON text, `None` if it is not a string.
pub fn string(text: &str) -> Option<String> {
    whole(text, Reader::string).ok().map(Cow::into_owned)
}

/// Returns the text of a number, `None` if it is not a number.
pub fn number(text: &str) -> Option<&str> {
    whole(text, Reader::number).ok()
}

/// Returns the JSON text of a document without white space around it.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not one JSON document. It can have any number of levels.
pub fn check(text: &str) -> Result<&str, InvalidJson> {
    whole(text, Reader::skip)
}

/// Returns `true` if a member at any level has such a name. If the text is not JSON, the members before the error count.
pub fn has_name(text: &str, is_such: impl Fn(&str) -> bool) -> bool {
    let mut is_found = false;
    let _ = Reader::new(text).skip_names(|name| is_found |= is_such(&name));
    is_found
}

/// Members of an object as text, in their order.
#[derive(Debug, Clone, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Reads the next value, an object.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidJson`] if the next value is not an object.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, InvalidJson> {
        let mut members = Vec::new();
        reader.begin_object()?;
        while let Some(name) = reader.next_member()? {
            members.push((name, reader.skip()?));
        }
        Ok(Self(members))
    }

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

/// Reads the next value as a tree. The recursion is limited: the reader opens at most [`MAX_LEVELS`] objects and lists.
fn value(reader: &mut Reader, left: &mut usize) -> Result<Value, InvalidJson> {
    Ok(match reader.kind()? {
        Kind::Null => {
            reader.null()?;
            Value::Null
        }
        Kind::Boolean => Value::Bool(reader.boolean()?),
        Kind::String => Value::String(reader.string()?.into_owned()),
        Kind::Number => Value::Number(tree_number(reader)?),
        Kind::List => {
            let mut values = Vec::new();
            reader.begin_list()?;
            while reader.next_element()? {
                take_part(reader, left)?;
                values.push(value(reader, left)?);
            }
            Value::Array(values)
        }
        Kind::Object => {
            let mut members = Map::new();
            reader.begin_object()?;
            while let Some(name) = reader.next_member()? {
                take_part(reader, left)?;
                members.insert(name.into_owned(), value(reader, left)?);
            }
            Value::Object(members)
        }
    })
}

/// Counts an element or a member.
fn take_part(reader: &Reader, left: &mut usize) -> Result<(), InvalidJson> {
    *left = left.checked_sub(1).ok_or_else(|| reader.invalid(Reason::Parts))?;
    Ok(())
}

fn tree_number(reader: &mut Reader) -> Result<Number, InvalidJson> {
    let text = reader.number()?;
    // The text is a number, so no name can be in it.
    text.parse().map_err(|_| reader.invalid(Reason::Number))
}

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Reason {
    /// The text ends inside of a value.
    #[error("the text ends too early")]
    End,
    /// There is text behind the document.
    #[error("there is text behind the JSON document")]
    TrailingText,
    /// There is no value where one has to be.
    #[error("expected a value")]
    Value,
    /// The value is not an object.
    #[error("expected an object")]
    Object,
    /// The value is not a list.
    #[error("expected a list")]
    List,
    /// The value is not a string.
    #[error("expected a string")]
    String,
    /// The value is not a number, or it is written in another notation than that of JSON.
    #[error("expected a number")]
    Number,
    /// The value is not `true` or `false`.
    #[error("expected true or false")]
    Boolean,
    /// The value is not `null`.
    #[error("expected null")]
    Null,
    /// A member has no name in quotes.
    #[error("expected the name of a member in quotes")]
    Name,
    /// There is no colon behind the name of a member.
    #[error("expected a colon")]
    Colon,
    /// There is neither a comma nor the end of the object or list.
    #[error("expected a comma or the end of the object or list")]
    Comma,
    /// A string contains a control character.
    #[error("control character in a string")]
    ControlCharacter,
    /// A string contains an invalid escape.
    #[error("invalid escape in a string")]
    Escape,
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
