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
    io::{Read as _, Write as _},
};

use flate2::{Compression as Level, read::ZlibDecoder, write::ZlibEncoder};

use super::{AttributeValue, Item, attributes, setting::choice, size};

/// Maximum length in bytes of an image's JSON. A longer one is not compressed, and not read. The longest JSON of an item of 400 KB
/// is that of a list of numbers such as 1e-130: 142 bytes for each 3 bytes.
pub const MAX_JSON: usize = 24 << 20;
/// Bytes that one write unit stores.
const UNIT: usize = 1024;

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
    let mut value = serde_json::to_value(image).ok()?;
    // Similar maps then have similar texts, which compress better.
    value.sort_all_objects();
    let text = serde_json::to_vec(&value).ok().filter(|text| text.len() <= MAX_JSON)?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Level::default());
    encoder.write_all(&text).ok()?;
    encoder.finish().ok()
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

#[cfg(test)]
mod tests;
