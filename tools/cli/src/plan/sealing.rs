//! Cost of sealing: seal-fn reads the index by time, the versions and their keys, and writes tiles and a checkpoint, in each run.

use super::{
    figures::{GB, MONTH_SECONDS},
    load::read_units,
    month::Prices,
};

/// Seconds between two runs: `Schedule` of tools/seal/template.yaml.
const INTERVAL: f64 = 120.0;
/// Seconds of the index that each run reads again.
const AGAIN: f64 = 15.0 * 60.0;
/// Partitions of `TimeIndex`. As many have the versions that were inserted late.
const PARTITIONS: f64 = 64.0;
/// Keys of a version in the index, in bytes.
const INDEX_ENTRY: f64 = 120.0;
/// Bytes of an entry with its length and of a hash, and their number in a tile.
const ENTRY: f64 = 76.0;
const HASH: f64 = 32.0;
const TILE: f64 = 256.0;
/// Assumed seconds of a run and of each version in it, and memory of the function in GB.
const RUN: f64 = 0.5;
const VERSION: f64 = 0.0002;
const MEMORY: f64 = 0.5;

/// Returns the parts of the cost of a month, for versions a second of an average size. The index is a part of the table.
pub(super) fn parts(prices: &Prices, rate: f64, item_bytes: u64) -> [(&'static str, f64); 4] {
    let (runs, versions, batch) = (MONTH_SECONDS / INTERVAL, rate * MONTH_SECONDS, rate * INTERVAL);
    let millions = |number: f64, unit: &str| number / 1e6 * prices.of(unit);
    // Half a unit for each 4 KB of a query, at least one half; both sets of partitions.
    let entries = rate * (AGAIN + INTERVAL) * INDEX_ENTRY / PARTITIONS;
    let queries = PARTITIONS * ((entries.max(1.0) / 4096.0).ceil() + 1.0) / 2.0;
    // The version, and the keys of its entity.
    let reads = runs * queries + versions * (read_units(item_bytes) + 1.0);
    let full = batch / TILE;
    // The staged batch, `checkpoint` and `checkpoints/SIZE`; then tiles and entries, of which the last ones are partial.
    let further = full.min(1.0) + (full / TILE).min(1.0);
    let puts = 3.0 + 2.0 * full + 2.0 + 2.0 * full / TILE + further;
    let partial = (ENTRY + HASH) * TILE / 2.0 + HASH * TILE / 2.0 * further;
    let stored = versions * (ENTRY + HASH) + runs * partial;
    let requests = millions(runs * puts, "ObjectWrites") + millions(runs * 2.0, "ObjectReads");
    // The swap is a transaction of two items.
    let state = millions(runs * 4.0, "WriteRequestUnits") + millions(runs * 2.0, "ReadRequestUnits");
    let function =
        millions(runs, "LambdaRequests") + runs * (RUN + batch * VERSION) * MEMORY * prices.of("LambdaArm64");
    [
        ("Reads", millions(reads, "ReadRequestUnits")),
        ("Bucket", requests + stored / GB * prices.of("Objects")),
        ("Signatures", prices.of("SigningKey") + millions(runs, "Signatures")),
        ("Function", state + function),
    ]
}
