//! Compression of a version's image in a history table.
//!
//! The image is serialized as `DynamoDB` JSON, with the members of each map sorted by name, and compressed with zlib
//! ([RFC 1950](https://www.rfc-editor.org/rfc/rfc1950)). The JSON has all digits of a number, and binary values as base64. An image
//! is compressed if this saves write units, or if the version does not fit into an item otherwise, see [`layout`](super::layout).
//!
//! Equal images can have different bytes: sets keep their order, and another release can compress in another way. So versions are
//! compared after they are read, never by these bytes.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Read as _},
};

use flate2::{Compression as Level, read::ZlibDecoder, write::ZlibEncoder};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use super::{AttributeValue, Item, attributes, setting::choice, size};

/// Maximum length in bytes of an image's JSON. A longer one is not compressed, and not read. The longest JSON of an item of 400 KB
/// is that of a list of numbers such as 1e-130: 142 bytes for each 3 bytes.
pub const MAX_JSON: usize = 24 << 20;
/// Bytes that one write unit stores.
const UNIT: usize = 1024;
/// Bytes that are compressed at a time.
const BUFFER: usize = 16 << 10;

/// Compression of new versions. Reads understand both forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Images are maps, if they fit.
    #[default]
    None,
    /// Images are compressed with zlib if that saves write units.
    Deflate,
}

choice!(
    Compression, "the compression is \"none\" or \"deflate\"",
    "none" => Self::None, "deflate" => Self::Deflate
);

/// Attributes of an image, by name.
pub(super) type Attributes<'a> = BTreeMap<&'a str, &'a AttributeValue>;

impl Compression {
    /// Returns the compressed image. `None` if it stays a map: compression is off, or saves no write unit. `other` is the size of the
    /// item's other attributes, with the names of all of them.
    pub(super) fn apply(self, image: &Attributes<'_>, other: usize) -> Option<Vec<u8>> {
        if self == Self::None {
            return None;
        }
        let plain = units(other + size::of_members(image.iter().map(|(name, value)| (*name, *value))));
        let bytes = (plain > 1).then(|| deflate(image)).flatten()?;
        (units(other + bytes.len()) < plain).then_some(bytes)
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

/// Compresses an image. `None` if it cannot be serialized, or if its JSON is longer than [`MAX_JSON`].
pub(super) fn deflate(image: &Attributes<'_>) -> Option<Vec<u8>> {
    let encoder = ZlibEncoder::new(Vec::new(), Level::default());
    let left = MAX_JSON;
    let mut text = BufWriter::with_capacity(BUFFER, Limited { encoder, left });
    serde_json::to_writer(&mut text, &Sorted(image)).ok()?;
    text.into_inner().ok()?.encoder.finish().ok()
}

/// Returns the image that [`deflate`] compressed. `None` if the bytes are not one, or if its JSON is longer than [`MAX_JSON`].
pub(super) fn inflate(bytes: &[u8]) -> Option<Item> {
    let mut text = Vec::new();
    let limit = u64::try_from(MAX_JSON).ok()? + 1;
    ZlibDecoder::new(bytes).take(limit).read_to_end(&mut text).ok()?;
    match text.len() <= MAX_JSON {
        true => attributes::item_from_dynamodb_json(std::str::from_utf8(&text).ok()?).ok(),
        false => None,
    }
}

/// An encoder that accepts a limited number of bytes.
struct Limited {
    encoder: ZlibEncoder<Vec<u8>>,
    left: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        io::Write::write_all(&mut self.encoder, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes the attributes of an image in their order.
struct Sorted<'a>(&'a Attributes<'a>);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, SortedValue(value))))
    }
}

/// Serializes a value as `DynamoDB` JSON, with the members of maps in the order of their names. Similar maps then have similar
/// texts, which compress better.
struct SortedValue<'a>(&'a AttributeValue);

impl Serialize for SortedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttributeValue::M(members) => {
                let members = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
                tagged(serializer, "M", &Sorted(&members))
            }
            AttributeValue::L(values) => {
                let values: Vec<_> = values.iter().map(SortedValue).collect();
                tagged(serializer, "L", &values)
            }
            other => other.serialize(serializer),
        }
    }
}

fn tagged<S: Serializer>(serializer: S, tag: &str, value: &impl Serialize) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(tag, value)?;
    map.end()
}

#[cfg(test)]
mod tests;
