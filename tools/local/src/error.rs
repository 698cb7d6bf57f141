//! The error of the stack: what failed, and why. The command prints both in one line.

use std::{error::Error, fmt::Display};

/// Error of the local stack: the failed action, with its cause if one is known.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct LocalError {
    what: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl LocalError {
    pub(crate) fn new(what: impl Display) -> Self {
        Self {
            what: what.to_string(),
            cause: None,
        }
    }
}

/// Returns the conversion of a cause, for `map_err`.
pub(crate) fn failed<E: Into<Box<dyn Error + Send + Sync>>>(what: impl Display) -> impl FnOnce(E) -> LocalError {
    move |cause| LocalError {
        cause: Some(cause.into()),
        ..LocalError::new(what)
    }
}
