//! Version items: each is put once, on condition that its key is free.

pub mod append;
mod batch;
pub mod insert_versions;
pub mod purged;
pub mod put_together;
pub mod put_version;
pub mod put_versions;
