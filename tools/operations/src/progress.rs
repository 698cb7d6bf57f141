//! Progress of long operations.

pub trait Progress {
    /// Called with the number of things processed so far.
    fn at(&self, count: u64);

    fn note(&self, note: &str);
}

#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: u64) {}

    fn note(&self, _: &str) {}
}
