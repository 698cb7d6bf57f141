//! Output: tables on a terminal, JSON otherwise.
//!
//! Nothing that is printed contains hidden characters: [`print_json`] and the functions for standard error escape them, and so does a
//! table before its layout, so that its cells have the width that is shown.

mod grid;
mod items;
mod versions;

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde_json::Value;
use shared::{dynamodb::client::capacity::Charge, logging::chain, printable};
use terminal::write_line;

use self::grid::Grid;
pub(crate) use self::{items::state_json, versions::change_line};
use crate::{error::CliError, pager};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables
    Table,
    /// One JSON object a line
    Json,
}

pub(crate) struct Output {
    /// `None` if the user chose no format.
    chosen: Option<Format>,
    /// `true` if long values are shown completely.
    pub(crate) is_full: bool,
}

impl Output {
    pub(crate) fn new(chosen: Option<Format>, is_full: bool) -> Self {
        Self { chosen, is_full }
    }

    /// Returns `true` if the user asked for JSON, `false` if it is only the default without a terminal.
    pub(crate) fn is_json_chosen(&self) -> bool {
        self.chosen == Some(Format::Json)
    }

    pub(crate) fn is_json(&self) -> bool {
        let is_default = || !io::stdout().is_terminal();
        self.chosen.map_or_else(is_default, |format| format == Format::Json)
    }

    /// Prints an object, as a line or as a table of its members.
    pub(crate) fn object(&self, object: &Value) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(object);
        }
        let mut table = Grid::new(&["", ""]);
        table.add_members("", object);
        self.grid(&table)
    }

    fn grid(&self, grid: &Grid) -> Result<(), CliError> {
        let terminal = console::Term::stdout().size_checked().filter(|_| !self.is_full);
        print(&grid.text(terminal.map(|(_, columns)| columns.into())))
    }

    /// Prints a sentence in the format `table`, and the object in the format `json`.
    pub(crate) fn sentence(&self, object: &Value, sentence: &str) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(object);
        }
        print(sentence)
    }
}

pub(crate) fn print(text: &str) -> Result<(), CliError> {
    Ok(pager::write(text)?)
}

/// Prints a line of JSON.
fn print_json(value: &Value) -> Result<(), CliError> {
    print(&printable::json(&value.to_string()))
}

/// Prints a table of sentences, which wrap on a narrow terminal.
pub(crate) fn print_table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), CliError> {
    let mut table = Grid::new(header);
    rows.into_iter().for_each(|row| table.add_row(row));
    print(&table.wrapped())
}

/// Returns a text as it is, any other value in JSON.
pub(crate) fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question. Returns `false` unless the answer is yes.
pub(crate) fn ask(question: &str) -> Result<bool, CliError> {
    let mut stderr = io::stderr();
    write!(stderr, "{} [y/N] ", printable::line(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Prints a note to standard error.
pub(crate) fn note(note: &str) {
    status(&format!("note: {note}"));
}

/// Prints a line to standard error.
pub(crate) fn status(line: &str) {
    let _ = write_line(&mut io::stderr(), line);
}

/// Prints the consumed capacity of each request, and the total.
pub(crate) fn print_capacity(charges: &[Charge]) {
    for charge in charges {
        status(&format!("{}: {} units", charge.operation, charge.units));
    }
    let total: f64 = charges.iter().map(|charge| charge.units).sum();
    status(&format!("total: {total} units in {} requests", charges.len()));
}

/// Prints an error in one line, with all causes if `verbose`.
pub(crate) fn print_error(error: &CliError, verbose: bool) {
    let line = match error {
        error if verbose => chain(error),
        // The text contains the cause.
        CliError::Explained { text, .. } => text.clone(),
        error => {
            let causes = error
                .causes()
                .take(2)
                .map(|cause| without_request_id(&cause.to_string()));
            let all = std::iter::once(error.to_string()).chain(causes);
            all.collect::<Vec<_>>().join(": ")
        }
    };
    status(&format!("error: {line}"));
}

/// Removes ` (request …)`, which `-v` shows.
fn without_request_id(text: &str) -> String {
    let parts = text.split_once(" (request ");
    let parts = parts.and_then(|(start, rest)| Some((start, rest.split_once(')')?.1)));
    parts.map_or_else(|| text.to_owned(), |(start, end)| format!("{start}{end}"))
}

/// Returns an object without the members that are null.
pub(crate) fn without_null(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, member| !member.is_null());
    }
    object
}

/// Returns a table row of an object: two named members, then all others with their names.
pub(crate) fn row(object: &Value, names: [&str; 2]) -> Vec<String> {
    let others = object.as_object().into_iter().flatten();
    let others = others.filter(|(name, _)| !names.contains(&name.as_str()));
    let others: Vec<_> = others.map(|(name, value)| format!("{name} {}", cell(value))).collect();
    vec![cell(&object[names[0]]), cell(&object[names[1]]), others.join(", ")]
}
