//! Errors of the benchmark.

use std::{error::Error, io, path::PathBuf};

use thiserror::Error;

use crate::limits::LimitError;

#[derive(Debug, Error)]
pub(crate) enum BenchError {
    #[error("there is no comparison \"{name}\"; there are: {known}")]
    UnknownComparison { name: String, known: String },
    #[error("cannot build the functions: {stderr}")]
    Build { stderr: String },
    #[error("there is no {}: build it with cargo lambda build --release", .0.display())]
    NoBootstrap(PathBuf),
    #[error("{subject} failed: {response}; its log is {}", log.display())]
    Invocation {
        subject: String,
        response: String,
        log: PathBuf,
    },
    #[error("{0} sent no request to DynamoDB")]
    NoWrite(&'static str),
    #[error("{0} ended before it could be measured")]
    ProcessEnded(String),
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error("cannot {action}")]
    Step {
        action: &'static str,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("unexpected result: {0}")]
    UnexpectedResult(String),
    #[error("cannot read the results in {}", path.display())]
    Results { path: PathBuf, source: io::Error },
    #[error("{} needs a line <!-- results --> and a line <!-- end of results --> after it, each once", .0.display())]
    Page(PathBuf),
    #[error("there are no results of {0}, which the page needs: run these comparisons too")]
    IncompletePage(String),
    #[error("{0} figures with a target are missing, or more than 25 % worse than in the earlier runs")]
    Regression(usize),
    #[error("cannot use a file or a socket")]
    Io(#[from] io::Error),
}

impl BenchError {
    /// Returns 3 for figures that are worse than those of the baseline, 2 for wrong usage, and 1 for any other error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Regression { .. } => 3,
            Self::UnknownComparison { .. }
            | Self::NoBootstrap(_)
            | Self::Results { .. }
            | Self::Page(_)
            | Self::IncompletePage(_) => 2,
            _ => 1,
        }
    }
}

/// Returns the conversion of an error into [`BenchError::Step`], for `map_err`.
pub(crate) fn cannot<E: Error + Send + Sync + 'static>(action: &'static str) -> impl Fn(E) -> BenchError {
    move |error| BenchError::Step {
        action,
        source: Box::new(error),
    }
}
