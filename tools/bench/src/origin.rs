//! Date and commit of a measurement.

use std::process::Command;

use crate::subject::root;

/// Digits of a commit.
const DIGITS: &str = "--abbrev=12";

#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// As 2026-11-23, in UTC.
    pub(crate) date: String,
    /// Followed by `-dirty` if files are modified; `unknown` outside a git repository.
    pub(crate) commit: String,
    /// `true` for few and small measurements.
    pub(crate) quick: bool,
}

impl Origin {
    pub(crate) fn now(quick: bool) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the date of a measurement")]
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Self {
            date,
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            quick,
        }
    }
}

fn commit() -> Option<String> {
    let output = Command::new("git")
        // Without the names of tags.
        .args(["describe", "--always", "--dirty", "--exclude=*", DIGITS])
        .current_dir(root())
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}
