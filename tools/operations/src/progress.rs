//! Progress of long operations.

pub trait Progress {
    /// Called with the number of things processed so far.
    fn at(&self, _count: u64) {}

    fn note(&self, _note: &str) {}
}

#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {}
