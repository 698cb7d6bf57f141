//! Properties of the parsers that must hold for every input.
//!
//! Each public function is a complete fuzz target: it takes any bytes and panics if a parser panics or a property is violated.
//! Properties are, for example, that a value equals the value parsed from its own serialization, that a batch loses no
//! record, and that an error message contains no attribute value. `tools/fuzz` runs them on random input, `cargo test` on the
//! corpus.

#![allow(clippy::missing_panics_doc, reason = "a panic reports the violation")]

mod attributes;
mod checkpoint;
mod envelopes;
mod errors;
mod failure_documents;
mod filter;
mod names;
mod proof;
mod records;
mod tile;
mod update;

pub use self::{
    attributes::attributes,
    checkpoint::{KEY, checkpoint, sign},
    envelopes::envelopes,
    failure_documents::failure_documents,
    filter::filter,
    names::names,
    proof::proof,
    records::records,
    tile::{Tiles, tile},
    update::update,
};

/// Name of a fuzz target, which is also the folder of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
pub const TARGETS: [Target; 10] = [
    ("attributes", attributes),
    ("checkpoint", checkpoint),
    ("envelopes", envelopes),
    ("failure_documents", failure_documents),
    ("filter", filter),
    ("names", names),
    ("proof", proof),
    ("records", records),
    ("tile", tile),
    ("update", update),
];
