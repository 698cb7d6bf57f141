//! Tiles of a growing log, and proofs from them, compared with the crate `tlog_tiles`.

use std::collections::{BTreeMap, HashSet};

use seal::{
    Hash,
    log::{
        checkpoint::Checkpoint,
        growth::Edge,
        proof::{Plan, verify_consistency, verify_inclusion},
        tile::{Content, Tile, entries, hashes, put_entry},
        tree::leaf_hash,
    },
};
use tlog_tiles::{
    Error, Hash as OtherHash, Tile as OtherTile, TileHashReader, TileReader, check_record, check_tree, prove_record,
    prove_tree, record_hash,
};

use crate::checkpoint::ORIGIN;

/// Maximum number of entries, of more than one full tile.
const MAX_SIZE: u64 = 600;

/// Tiles of a log by their paths.
#[derive(Debug, Default)]
pub struct Tiles(pub BTreeMap<String, Vec<u8>>);

impl Tiles {
    /// Appends entries to the log, from its last tiles alone, as seal-fn does. The new tiles must be those that `tlog_tiles` expects.
    pub fn append(&mut self, size: u64, entries: &[Vec<u8>]) -> Edge {
        let last = Edge::tiles(size)
            .into_iter()
            .map(|tile| self.0[&tile.to_string()].clone());
        let mut edge = Edge::new(size, &last.collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
        let added = edge.append(entries).unwrap_or_else(|error| panic!("{error}"));
        let own: HashSet<_> = added.iter().map(|(tile, _)| other(*tile)).collect();
        let expected = OtherTile::new_tiles(8, size, edge.size());
        assert!(expected.iter().all(|tile| own.contains(tile)), "a tile is missing");
        assert_eq!(own.iter().filter(|tile| !tile.is_data()).count(), expected.len());
        for (tile, bytes) in added {
            assert!(
                self.0.insert(tile.to_string(), bytes).is_none(),
                "{tile} is written twice"
            );
        }
        edge
    }

    /// Returns a proof, and checks that it is the one of `tlog_tiles`.
    fn proof(&self, plan: Option<Plan>, expected: Result<Vec<OtherHash>, Error>) -> Vec<Hash> {
        let plan = plan.unwrap_or_else(|| panic!("no plan of a proof"));
        let read = |tile: Tile| Some((tile, hashes(tile, &self.0[&tile.to_string()])?));
        let own = plan.hashes(&plan.tiles().into_iter().filter_map(read).collect());
        let own = own.unwrap_or_else(|| panic!("a tile is missing"));
        assert!(expected.is_ok_and(|expected| expected == others(&own)), "another proof");
        own
    }

    /// Checks the proofs of an entry and of an earlier size, as they are and changed. `tlog_tiles` must accept the same.
    pub fn check(&self, checkpoint: &Checkpoint, earlier: &Checkpoint, (index, entry): (u64, &[u8]), change: u8) {
        let (size, root) = (checkpoint.size, OtherHash(checkpoint.root));
        let reader = TileHashReader::new(size, root, self);
        let holds = |index, proof: &[Hash]| {
            let own = verify_inclusion(checkpoint, index, entry, proof).is_ok();
            let other = check_record(&others(proof), size, root, index, record_hash(entry)).is_ok();
            assert_eq!(own, other, "entry {index} of {size}");
            own
        };
        let inclusion = self.proof(Plan::inclusion(size, index), prove_record(size, index, &reader));
        assert!(holds(index, &inclusion) && !changed(&inclusion, change).iter().any(|proof| holds(index, proof)));
        holds(index ^ u64::from(change), &inclusion);
        assert!(verify_inclusion(checkpoint, index, &[entry, &[0]].concat(), &inclusion).is_err());
        if earlier.size > 0 {
            let holds = |proof: &[Hash]| {
                let own = verify_consistency(earlier, checkpoint, proof).is_ok();
                let other = check_tree(&others(proof), size, root, earlier.size, OtherHash(earlier.root)).is_ok();
                assert_eq!(own, other, "from {} to {size}", earlier.size);
                own
            };
            let plan = Plan::consistency(size, earlier.size);
            let consistency = self.proof(plan, prove_tree(size, earlier.size, &reader));
            assert!(holds(&consistency) && !changed(&consistency, change).iter().any(|proof| holds(proof)));
            let (root, origin) = ([change; 32], "other".to_owned());
            for other in [
                Checkpoint {
                    root,
                    ..earlier.clone()
                },
                Checkpoint {
                    origin,
                    ..earlier.clone()
                },
            ] {
                assert!(verify_consistency(&other, checkpoint, &consistency).is_err());
            }
        }
    }
}

impl TileReader for Tiles {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[OtherTile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile: &OtherTile| self.0.get(&tile.path().replace("tile/8/", "tile/")).cloned();
        tiles.iter().map(|tile| read(tile).ok_or(Error::InvalidTile)).collect()
    }

    fn save_tiles(&self, _: &[OtherTile], _: &[Vec<u8>]) {}
}

/// Reads the path of a tile with `tlog_tiles`, which has the height in it, and another name for entries.
fn other(tile: Tile) -> OtherTile {
    let path = tile.to_string().replace("tile/", "tile/8/").replace("entries", "data");
    OtherTile::from_path(&path).unwrap_or_else(|_| panic!("the path {tile}"))
}

fn others(hashes: &[Hash]) -> Vec<OtherHash> {
    hashes.iter().map(|hash| OtherHash(*hash)).collect()
}

/// Returns the proof with one more hash, and, if it has any, with one less and with a changed bit.
fn changed(proof: &[Hash], change: u8) -> Vec<Vec<Hash>> {
    let (change_at, mut more) = (usize::from(change), proof.to_vec());
    more.insert(change_at % (proof.len() + 1), [change; 32]);
    let mut changed = vec![more];
    if !proof.is_empty() {
        let (mut bit, mut less) = (proof.to_vec(), proof.to_vec());
        bit[change_at % proof.len()][change_at % 32] ^= 1 << (change % 8);
        less.remove(change_at % proof.len());
        changed.extend([bit, less]);
    }
    changed
}

/// Takes 16 bytes as a tile and as sizes of a log, and the others as bytes of the tile. A tile must be written as it was read. The
/// log is compared with `tlog_tiles`.
pub fn tile(input: &[u8]) {
    let Some((parameters, bytes)) = input.split_first_chunk::<16>() else {
        return;
    };
    let [kind, width, change, position, a, b, c, d, index @ ..] = *parameters;
    let content = match kind % 16 {
        15 => Content::Entries,
        level => Content::Hashes(level),
    };
    let of_width = |width| Tile {
        content,
        index: u64::from_be_bytes(index),
        width,
    };
    let tile = of_width(u64::from(width) + 1);
    other(tile);
    let read = hashes(tile, bytes);
    assert_eq!(read.is_some(), bytes.len() as u64 == 32 * tile.width);
    assert!(read.is_none_or(|read| read.concat() == bytes));
    let mut bundles = (0..=256).filter_map(|width| entries(of_width(width), bytes));
    let bundle = bundles.next().unwrap_or_default();
    assert!(bundles.next().is_none(), "two widths of the same bytes");
    let mut again = Vec::new();
    assert!(bundle.iter().all(|entry| put_entry(entry, &mut again)));
    assert!(bundle.is_empty() || again == bytes, "the bundle is written differently");

    let size = 1 + u64::from(u16::from_be_bytes([a, b])) % MAX_SIZE;
    let earlier = u64::from(u16::from_be_bytes([c, d])) % (size + 1);
    let entry = |index: u64| match bundle.get(usize::try_from(index).unwrap_or_default()) {
        Some(entry) => entry.to_vec(),
        None => index.to_be_bytes().to_vec(),
    };
    let mut tiles = Tiles::default();
    let [before, after] = [(0, earlier), (earlier, size)].map(|(first, end)| {
        let edge = tiles.append(first, &(first..end).map(entry).collect::<Vec<_>>());
        Checkpoint {
            origin: ORIGIN.to_owned(),
            size: end,
            root: edge.root(),
        }
    });
    let index = u64::from(position) * (size - 1) / 255;
    assert_eq!(leaf_hash(&entry(index)), record_hash(&entry(index)).0);
    tiles.check(&after, &before, (index, &entry(index)), change);
}
