//! Address of a page of the list.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue::S;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use shared::{domain::names, dynamodb::read::query_items::Cursor};

/// A chunk, and the first result of the page within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageCursor {
    /// Position of each segment at the start of the chunk.
    #[serde(rename = "s")]
    pub(super) segments: Vec<SegmentCursor>,
    /// Number of requests of each segment in the chunk, 0 if it is not known yet.
    #[serde(rename = "n")]
    pub(super) rounds: u32,
    /// Number of results of the chunk on earlier pages.
    #[serde(rename = "k")]
    pub(super) skip: usize,
    /// Number of items that were read for earlier chunks.
    #[serde(rename = "r")]
    pub(super) read: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SegmentCursor {
    #[serde(rename = "s")]
    Start,
    #[serde(rename = "k")]
    After(String, String),
    #[serde(rename = "e")]
    End,
}

impl SegmentCursor {
    /// Creates the cursor of the page that follows.
    pub(super) fn after(next: Option<&Cursor>) -> Self {
        let key = |name: &str| next?.get(name)?.as_s().ok().cloned();
        match (key(names::PK), key(names::SK)) {
            (Some(partition_key), Some(sort_key)) => Self::After(partition_key, sort_key),
            _ => Self::End,
        }
    }

    pub(super) fn start_key(&self) -> Option<Cursor> {
        match self {
            Self::After(partition_key, sort_key) => Some(HashMap::from([
                (names::PK.to_owned(), S(partition_key.clone())),
                (names::SK.to_owned(), S(sort_key.clone())),
            ])),
            Self::Start | Self::End => None,
        }
    }
}

impl PageCursor {
    /// Returns the first page.
    pub(super) fn first(segments: usize) -> Self {
        Self {
            segments: vec![SegmentCursor::Start; segments],
            rounds: 0,
            skip: 0,
            read: 0,
        }
    }

    pub(super) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn parse(text: &str, segments: usize) -> Option<Self> {
        let cursor: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (cursor.segments.len() == segments).then_some(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_cursors_survive_a_round_trip() {
        let cursor = PageCursor {
            segments: vec![
                SegmentCursor::Start,
                SegmentCursor::After("Equipment#1 \"ü\"".to_owned(), "v10".to_owned()),
                SegmentCursor::End,
                SegmentCursor::End,
            ],
            rounds: 2,
            skip: 50,
            read: 1000,
        };
        assert_eq!(PageCursor::parse(&cursor.text(), 4), Some(cursor.clone()));
        assert_eq!(PageCursor::parse(&cursor.text(), 8), None);
        for text in ["", "x", "bnVsbA", "W10"] {
            assert_eq!(PageCursor::parse(text, 4), None, "{text}");
        }
    }
}
