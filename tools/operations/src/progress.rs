//! Progress of long operations.

/// Receives the progress of a long operation.
pub trait Progress {
    /// Called with the number of things processed so far.
    fn at(&self, count: u64);

    /// Called with a remark for the user.
    fn note(&self, note: &str);
}

/// Discards all progress.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn at(&self, _: u64) {}

    fn note(&self, _: &str) {}
}
