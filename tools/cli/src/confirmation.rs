//! Confirmation of commands that delete, write more than one item, or write a table of other programs.

use std::io::{self, IsTerminal as _, Write as _};

use shared::printable;

use crate::{error::CliError, next};

/// Options of a command that asks before it changes something.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Confirmation {
    /// Change it without confirmation
    #[arg(long)]
    yes: bool,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

impl Confirmation {
    /// Returns `true` if the command has to ask.
    pub(crate) fn must_ask(self) -> bool {
        !self.yes && !self.dry_run
    }

    /// Returns an error with the command to type, if the command has to ask and there is no terminal.
    pub(crate) fn check(self) -> Result<(), CliError> {
        if !self.must_ask() || has_terminal() {
            return Ok(());
        }
        Err(CliError::Usage(format!(
            "cannot ask for confirmation without a terminal: use --dry-run to only show what would change, or type {}",
            next::again("--yes")
        )))
    }

    /// Returns `true` if the command may change something: with `--yes`, or if the answer to the question is yes. An answer of no is an
    /// error.
    pub(crate) fn ask(self, question: &str) -> Result<bool, CliError> {
        self.check()?;
        if !self.must_ask() {
            return Ok(self.yes);
        }
        confirmed(question, "not confirmed, nothing is changed").map(|()| true)
    }
}

/// Asks a question about reads, which these options answer without a terminal.
pub(crate) fn ask_to_read(question: &str, options: &str) -> Result<(), CliError> {
    match has_terminal() {
        true => confirmed(question, "not confirmed, nothing more is read"),
        false => Err(CliError::Usage(format!(
            "cannot ask for confirmation without a terminal: use {options}"
        ))),
    }
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question. An answer other than yes is an error.
fn confirmed(question: &str, no: &str) -> Result<(), CliError> {
    let mut stderr = io::stderr();
    write!(stderr, "{} [y/N] ", printable::line(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        true => Ok(()),
        false => Err(CliError::Usage(no.to_owned())),
    }
}
