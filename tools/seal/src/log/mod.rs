//! The public log: hashes of RFC 6962, tiles, signed notes and checkpoints.
//!
//! Implemented from C2SP `tlog-tiles/v0.1.0`, `tlog-checkpoint/v1.0.0` and `signed-note/v1.0.0`.

pub mod checkpoint;
pub mod growth;
pub mod note;
pub mod proof;
pub mod reader;
pub mod tile;
pub mod tree;
