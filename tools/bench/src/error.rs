//! Errors of the benchmark.

use std::{error::Error, io};

use shared::logging::chain;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// Wrong arguments, or files that do not fit to them.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    #[error("{0} figures with a target are missing, or more than 25 % worse than in the earlier runs")]
    Regression(usize),
    #[error("cannot use a file or a socket")]
    Io(#[from] io::Error),
}

impl BenchError {
    /// Returns 3 for figures that are worse than those of the baseline, 2 for wrong usage, and 1 for any other error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Regression(_) => 3,
            Self::Usage(_) => 2,
            _ => 1,
        }
    }
}

/// Returns the conversion of an error into [`BenchError::Failed`], for `map_err`.
pub(crate) fn cannot<E: Error>(action: &'static str) -> impl Fn(E) -> BenchError {
    move |error| BenchError::Failed(format!("cannot {action}: {}", chain(&error)))
}
