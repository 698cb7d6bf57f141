//! Output: tables on a terminal, JSON otherwise.
//!
//! Nothing that is printed contains hidden characters: [`print_json`] and the functions for standard error escape them, and so does a
//! table before its layout, so that its cells have the width that is shown.

pub(crate) mod changes;
mod grid;
mod items;
pub(crate) mod states;
mod versions;

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use item_diff::line::{MAX_VALUE_CHARS, is_like_json};
use serde_json::Value;
use shared::{dynamodb::client::capacity::Charge, logging::chain, printable};
use terminal::write_line;

use self::grid::Grid;
pub(crate) use self::{
    items::state_json,
    versions::{time_text, who},
};
use crate::{error::CliError, next, pager};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables
    Table,
    /// One JSON object a line
    #[value(alias = "jsonl")]
    Json,
    /// `vzero snapshot`: one item in DynamoDB JSON a line
    #[value(hide = true)]
    DynamodbJson,
    /// `vzero snapshot`: comma-separated values
    #[value(hide = true)]
    Csv,
}

impl Format {
    /// Returns `true` if only a snapshot has this format.
    pub(crate) fn is_of_snapshot(self) -> bool {
        matches!(self, Self::DynamodbJson | Self::Csv)
    }
}

pub(crate) struct Output {
    /// `None` if the user chose no format.
    pub(crate) chosen: Option<Format>,
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
        table.add_members("", object, cell);
        self.grid(&table)
    }

    /// Lists objects in columns that have the names of their members. A column without a name has all other members.
    pub(crate) fn listing<'a>(&'a self, columns: &'a [&'a str]) -> Listing<'a> {
        Listing {
            output: self,
            columns,
            table: Grid::new(columns),
        }
    }

    /// Returns the first characters of a value, or all with `--full`.
    pub(crate) fn shortened(&self, text: &str) -> String {
        let max = if self.is_full { usize::MAX } else { MAX_VALUE_CHARS };
        console::truncate_str(text, max, "…").into_owned()
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
    Ok(pager::write(&printable::lines(text))?)
}

/// Prints text without hidden characters but for the colors of the command itself.
fn print_styled(text: &str) -> Result<(), CliError> {
    Ok(pager::write(text)?)
}

/// Prints a line of JSON.
pub(crate) fn print_json(value: &Value) -> Result<(), CliError> {
    print(&printable::json(&value.to_string()))
}

/// Objects that are printed in JSON at once, or as one table at the end, whose cells wrap on a narrow terminal.
pub(crate) struct Listing<'a> {
    output: &'a Output,
    columns: &'a [&'a str],
    table: Grid,
}

impl Listing<'_> {
    pub(crate) fn add(&mut self, object: &Value) -> Result<(), CliError> {
        if self.output.is_json() {
            return print_json(object);
        }
        let members = object.as_object().into_iter().flatten();
        let members = members.filter(|(name, value)| !value.is_null() && !self.columns.contains(&name.as_str()));
        let others: Vec<_> = members.map(|(name, value)| format!("{name} {}", cell(value))).collect();
        let row = self.columns.iter().map(|column| match object.get(*column) {
            None if column.is_empty() => others.join(", "),
            value => value.filter(|value| !value.is_null()).map(cell).unwrap_or_default(),
        });
        self.table.add_row(row.collect::<Vec<_>>());
        Ok(())
    }

    /// Prints the table, or `none` if it has no rows.
    pub(crate) fn end(self, none: Option<&str>) -> Result<(), CliError> {
        match (self.table.is_empty(), none.filter(|_| !self.output.is_json())) {
            (false, _) => print(&self.table.wrapped()),
            (true, none) => none.map_or(Ok(()), print),
        }
    }
}

/// Returns a text as it is, any other value in JSON.
pub(crate) fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a value as [`cell`] does, but a text in quotes if it looks like another value.
fn quoted_cell(value: &Value) -> String {
    match value {
        Value::String(text) if is_like_json(text) => value.to_string(),
        value => cell(value),
    }
}

/// Prints a note to standard error.
pub(crate) fn note(note: &str) {
    status(&format!("note: {note}"));
}

/// Prints a line to standard error, with the options of this invocation in the commands that it names.
pub(crate) fn status(line: &str) {
    let _ = write_line(&mut io::stderr(), &next::complete(line));
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
