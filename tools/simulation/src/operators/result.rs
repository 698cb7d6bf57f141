//! What a command tells its operator.

use std::{cell::RefCell, mem};

use operations::{
    error::{Kind, OperationError},
    progress::Progress,
};
use serde_json::Value;
use shared::logging::chain;

/// Output and end of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperatorResult {
    /// Results that were printed before the summary: steps, findings, documents, entities and items that failed.
    pub(crate) lines: Vec<Value>,
    /// Notes on standard error.
    pub(crate) notes: Vec<String>,
    /// The summary with its counts, `None` if the command ended before it.
    pub(crate) summary: Option<Value>,
    pub(crate) end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Exit code 0.
    Done,
    /// Another exit code: 2 for [`Kind::Invalid`], 3 for [`Kind::NotFound`], 4 for [`Kind::Conflict`], 5 for
    /// [`Kind::Unavailable`].
    Failed { kind: Kind, message: String },
    /// The process was killed, or panicked.
    Killed,
}

impl OperatorResult {
    pub(crate) fn is_done(&self) -> bool {
        self.end == End::Done
    }

    /// Returns a count of the summary, 0 if there is none.
    #[cfg(test)]
    pub(crate) fn count(&self, name: &str) -> u64 {
        let count = self.summary.as_ref().and_then(|summary| summary.get(name)?.as_u64());
        count.unwrap_or_default()
    }

    /// Returns a list of the summary, empty if there is none.
    #[cfg(test)]
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        let list = self.summary.as_ref().and_then(|summary| summary.get(name)?.as_array());
        list.map_or(&[], Vec::as_slice)
    }
}

/// Output of a running command.
#[derive(Debug, Default)]
pub(super) struct Printed {
    lines: RefCell<Vec<Value>>,
    notes: RefCell<Vec<String>>,
    summary: RefCell<Option<Value>>,
}

impl Printed {
    pub(super) fn line(&self, line: Value) {
        self.lines.borrow_mut().push(line);
    }

    pub(super) fn summary(&self, summary: Value) {
        *self.summary.borrow_mut() = Some(summary);
    }

    /// Returns the result of a command that ended so. `None` if it was killed.
    pub(super) fn into_result(self, ended: Option<Result<(), OperationError>>) -> OperatorResult {
        OperatorResult {
            lines: mem::take(&mut *self.lines.borrow_mut()),
            notes: mem::take(&mut *self.notes.borrow_mut()),
            summary: self.summary.borrow_mut().take(),
            end: match ended {
                None => End::Killed,
                Some(Ok(())) => End::Done,
                Some(Err(error)) => End::Failed {
                    kind: error.kind(),
                    message: chain(&error),
                },
            },
        }
    }
}

impl Progress for Printed {
    fn at(&self, _: u64) {}

    fn note(&self, note: &str) {
        self.notes.borrow_mut().push(note.to_owned());
    }
}
