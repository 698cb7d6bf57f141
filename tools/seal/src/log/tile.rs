//! Tiles: their paths, and the tiles of a tree of some size.

use std::fmt;

use crate::Hash;

/// Number of hashes, or of entries, of a full tile.
pub const WIDTH: u64 = 256;

/// What a tile contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Hashes of this level. At level 0, they are leaf hashes, above it, hashes of full tiles of the level below.
    Hashes(u8),
    /// Entries.
    Entries,
}

/// A tile. It displays as its path, as `tile/0/x001/x234/067.p/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// What it contains.
    pub content: Content,
    /// Index within the level.
    pub index: u64,
    /// Number of hashes or entries, up to [`WIDTH`].
    pub width: u64,
}

impl Tile {
    /// Returns the level: entries are below level 0, and have its indices.
    fn level(self) -> u32 {
        match self.content {
            Content::Hashes(level) => u32::from(level),
            Content::Entries => 0,
        }
    }

    /// Returns the tile of this content and index in a tree of so many entries, `None` if the tree has none.
    pub fn of_tree(content: Content, index: u64, size: u64) -> Option<Self> {
        let tile = Self {
            content,
            index,
            width: WIDTH,
        };
        let hashes = size.checked_shr(8 * tile.level()).unwrap_or(0);
        let width = hashes.saturating_sub(index.checked_mul(WIDTH)?).min(WIDTH);
        (width > 0).then_some(Self { width, ..tile })
    }

    /// Returns `true` if the tile has all hashes that it can have.
    pub fn is_full(self) -> bool {
        self.width == WIDTH
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content {
            Content::Hashes(level) => write!(f, "tile/{level}")?,
            Content::Entries => f.write_str("tile/entries")?,
        }
        let mut parts = vec![self.index % 1000];
        let mut rest = self.index / 1000;
        while rest > 0 {
            parts.push(rest % 1000);
            rest /= 1000;
        }
        for (position, part) in parts.iter().enumerate().rev() {
            let mark = if position > 0 { "x" } else { "" };
            write!(f, "/{mark}{part:03}")?;
        }
        match self.is_full() {
            true => Ok(()),
            false => write!(f, ".p/{}", self.width),
        }
    }
}

/// Returns the hashes of a tile, `None` if it does not have the bytes of its width.
pub fn hashes(tile: Tile, bytes: &[u8]) -> Option<Vec<Hash>> {
    let (hashes, []) = bytes.as_chunks::<32>() else {
        return None;
    };
    (hashes.len() as u64 == tile.width).then(|| hashes.to_vec())
}

/// Returns the entries of a tile, `None` if its bytes are not as many entries as its width.
pub fn entries(tile: Tile, bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut entries, mut rest) = (Vec::new(), bytes);
    while let Some((length, after)) = rest.split_first_chunk() {
        let (entry, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        entries.push(entry);
        rest = after;
    }
    (rest.is_empty() && entries.len() as u64 == tile.width).then_some(entries)
}

/// Appends an entry to the bytes of a tile. Returns `false` if it is longer than 65,535 bytes, without appending it.
pub fn put_entry(entry: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u16::try_from(entry.len()) else {
        return false;
    };
    out.extend(length.to_be_bytes());
    out.extend(entry);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_three_digits_in_each_part() {
        let path = |content, index, width| Tile { content, index, width }.to_string();
        for (content, index, width, expected) in [
            (Content::Hashes(0), 0, 256, "tile/0/000"),
            (Content::Hashes(0), 273, 112, "tile/0/273.p/112"),
            (Content::Hashes(2), 0, 1, "tile/2/000.p/1"),
            (Content::Hashes(1), 1_234_067, 256, "tile/1/x001/x234/067"),
            (Content::Entries, 1_000, 5, "tile/entries/x001/000.p/5"),
        ] {
            assert_eq!(path(content, index, width), expected);
        }
    }

    #[test]
    fn a_tree_has_the_tiles_of_its_size() {
        let width = |content, index, size| Tile::of_tree(content, index, size).map(|tile| tile.width);
        for (content, index, size, expected) in [
            (Content::Hashes(0), 0, 0, None),
            (Content::Hashes(0), 0, 1, Some(1)),
            (Content::Hashes(0), 272, 70_000, Some(256)),
            (Content::Hashes(0), 273, 70_000, Some(112)),
            (Content::Hashes(0), 274, 70_000, None),
            (Content::Hashes(1), 0, 70_000, Some(256)),
            (Content::Hashes(1), 1, 70_000, Some(17)),
            (Content::Hashes(2), 0, 70_000, Some(1)),
            (Content::Hashes(1), 0, 256, Some(1)),
            (Content::Hashes(1), 0, 255, None),
            (Content::Hashes(63), u64::MAX, u64::MAX, None),
            (Content::Hashes(8), 0, u64::MAX, None),
            (Content::Hashes(0), 1 << 56, u64::MAX, None),
            (Content::Entries, 273, 70_000, Some(112)),
        ] {
            assert_eq!(width(content, index, size), expected, "{content:?} {index} {size}");
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for entry in [&b"one"[..], b"", b"three"] {
            assert!(put_entry(entry, &mut bytes));
        }
        let tile = |width| Tile {
            content: Content::Entries,
            index: 0,
            width,
        };
        assert_eq!(entries(tile(3), &bytes), Some(vec![&b"one"[..], b"", b"three"]));
        assert_eq!(entries(tile(2), &bytes), None);
        assert_eq!(entries(tile(3), &bytes[..bytes.len() - 1]), None);
        assert_eq!(entries(tile(3), &[&bytes[..], &[0]].concat()), None);
        assert!(!put_entry(&vec![0; 65_536], &mut bytes));
        assert_eq!(hashes(tile(2), &[7; 64]), Some(vec![[7; 32]; 2]));
        assert_eq!(hashes(tile(2), &[7; 63]), None);
        assert_eq!(hashes(tile(2), &[7; 65]), None);
        assert_eq!(hashes(tile(1), &[7; 64]), None);
    }
}
