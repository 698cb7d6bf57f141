//! The bytes that are hashed: values, paths, commitments, leaves. `docs/log-format.md` specifies them.

pub mod canonical;
pub mod commitment;
pub mod leaf;
pub mod member;

use thiserror::Error;

/// An item that has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A number that DynamoDB does not store.
    #[error("a number of the item cannot be stored by DynamoDB")]
    Number,
    /// A set without elements.
    #[error("a set of the item is empty")]
    EmptySet,
    /// A set with two equal elements, as `1` and `1.0`.
    #[error("a set of the item has an element twice")]
    Duplicate,
    /// A text, list, map or set of 4 GiB or more.
    #[error("a value of the item is too long")]
    TooLong,
    /// Lists and maps in each other, deeper than DynamoDB allows.
    #[error("the lists and maps of the item are nested too deeply")]
    TooDeep,
}

/// Appends a length or a count, in four bytes.
fn put_length(length: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    let length = u32::try_from(length).map_err(|_| FormatError::TooLong)?;
    out.extend(length.to_be_bytes());
    Ok(())
}

/// Appends bytes after their length.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    put_length(bytes.len(), out)?;
    out.extend(bytes);
    Ok(())
}
