//! A batch before it is in the log, as an object in the staging area. It has all that is needed to write its tiles.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use seal::{
    format::leaf::LENGTH,
    log::growth::{Edge, InvalidEdge},
};
use serde::{Deserialize, Serialize};

use crate::error::SealError;

/// Number of bytes of a [`Known`] version.
const KNOWN: usize = 24;

/// A batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Staged {
    /// Right edge of the tree before the batch.
    pub edge: Edge,
    /// Entries.
    pub entries: Vec<Vec<u8>>,
    /// Versions that were sealed of late, with this batch, by table: the index will show them again.
    pub known: BTreeMap<String, Vec<Known>>,
}

/// A version that was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// Time of its insertion, in milliseconds since 1970.
    pub inserted: u64,
    /// First half of the SHA-256 of its key.
    pub key: [u8; 16],
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Document {
    size: u64,
    edge: Vec<String>,
    entries: String,
    known: BTreeMap<String, String>,
}

impl Staged {
    /// Returns the text of the object.
    ///
    /// # Errors
    ///
    /// An entry is too long.
    pub fn text(&self) -> Result<Vec<u8>, SealError> {
        let known = self.known.iter().map(|(table, known)| {
            let bytes: Vec<u8> = known.iter().flat_map(Known::bytes).collect();
            (table.clone(), BASE64.encode(bytes))
        });
        let document = Document {
            size: self.edge.size(),
            edge: self.edge.parts().iter().map(|tile| BASE64.encode(tile)).collect(),
            entries: BASE64.encode(self.entries.concat()),
            known: known.collect(),
        };
        serde_json::to_vec(&document).map_err(|_| unreadable())
    }

    /// Parses an object.
    ///
    /// # Errors
    ///
    /// It is not the text of a batch.
    pub fn parse(text: &[u8]) -> Result<Self, SealError> {
        let document: Document = serde_json::from_slice(text).map_err(|_| unreadable())?;
        let decode = |text: &String| BASE64.decode(text).map_err(|_| unreadable());
        let tiles: Vec<_> = document.edge.iter().map(decode).collect::<Result<_, _>>()?;
        let entries = decode(&document.entries)?;
        let known = document.known.iter().map(|(table, text)| {
            let bytes = decode(text)?;
            let (known, []) = bytes.as_chunks::<KNOWN>() else {
                return Err(unreadable());
            };
            Ok((table.clone(), known.iter().map(Known::of).collect()))
        });
        Ok(Self {
            edge: Edge::new(document.size, &tiles).map_err(|_: InvalidEdge| unreadable())?,
            entries: entries.chunks(LENGTH).map(<[u8]>::to_vec).collect(),
            known: known.collect::<Result<_, _>>()?,
        })
    }
}

impl Known {
    fn bytes(&self) -> Vec<u8> {
        [&self.inserted.to_be_bytes()[..], &self.key].concat()
    }

    fn of(bytes: &[u8; KNOWN]) -> Self {
        let (mut inserted, mut key) = ([0; 8], [0; 16]);
        inserted.copy_from_slice(&bytes[..8]);
        key.copy_from_slice(&bytes[8..]);
        Self {
            inserted: u64::from_be_bytes(inserted),
            key,
        }
    }
}

fn unreadable() -> SealError {
    SealError::Unreadable("a staged batch".to_owned())
}
