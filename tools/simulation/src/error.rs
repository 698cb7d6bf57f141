//! Errors of the simulation itself, as opposed to violations that it finds.

use std::{io, path::PathBuf};

use dynoxide::errors::DynoxideError;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum SimulationError {
    #[error("cannot read {}", path.display())]
    ReadSchedule { path: PathBuf, source: io::Error },
    #[error("{} is not a schedule", path.display())]
    ParseSchedule { path: PathBuf, source: serde_json::Error },
    #[error("the schedule has an invalid value of {0}")]
    InvalidSetting(&'static str),
    #[error("cannot start the async runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot open the embedded database")]
    OpenDatabase(#[source] DynoxideError),
    #[error("the embedded database rejects {operation}")]
    Request {
        operation: &'static str,
        source: DynoxideError,
    },
    #[error("the embedded database returned invalid JSON")]
    InvalidJson(#[from] serde_json::Error),
    #[error("the event source mapping ended")]
    MappingEnded,
    #[error("template.yaml cannot be read, or lacks a setting")]
    Template,
    #[error(
        "the mutation {name} changed nothing in {schedules} schedules: none of them uses the guard, or its expressions have changed"
    )]
    Unchanged { name: String, schedules: u64 },
    #[error("the database rejects an expression of the mutation {name}: {message}")]
    Rejected { name: String, message: String },
}
