//! Output: tables on a terminal, JSON otherwise.
//!
//! Nothing that is printed contains hidden characters: [`print`] and the functions for standard error escape them. Cells are
//! escaped before the layout of the table, so that they have the width that is shown.

mod grid;
mod items;
mod versions;

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
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
    format: Format,
    is_chosen: bool,
    is_full: bool,
}

impl Output {
    pub(crate) fn new(format: Option<Format>, is_full: bool) -> Self {
        let default = if io::stdout().is_terminal() {
            Format::Table
        } else {
            Format::Json
        };
        Self {
            format: format.unwrap_or(default),
            is_chosen: format.is_some(),
            is_full,
        }
    }

    /// Returns `true` if the user asked for JSON, `false` if it is only the default without a terminal.
    pub(crate) fn is_json_chosen(&self) -> bool {
        self.is_chosen && self.is_json()
    }

    /// Returns `true` if long values are shown completely.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints an object, as a line or as a table of its members.
    pub(crate) fn object(&self, object: &Value) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(object);
        }
        let mut table = Grid::new(&["", ""]);
        rows(&mut table, "", object);
        self.grid(&table)
    }

    /// Prints a table of values that can contain hidden characters.
    pub(crate) fn table(&self, header: &[&str], rows: &[Vec<String>]) -> Result<(), CliError> {
        let mut grid = Grid::new(header);
        for row in rows {
            grid.add_row(row.iter().map(|cell| visible(cell)));
        }
        self.grid(&grid)
    }

    fn grid(&self, grid: &Grid) -> Result<(), CliError> {
        let width = columns().filter(|_| !self.is_full);
        print(&grid.text(width))
    }

    pub(crate) fn objects(&self, objects: &[Value]) -> Result<(), CliError> {
        objects.iter().try_for_each(|object| self.object(object))
    }

    /// Prints a sentence in the format `table`, and the object in the format `json`.
    pub(crate) fn sentence(&self, object: &Value, sentence: &str) -> Result<(), CliError> {
        if self.is_json() {
            self.object(object)
        } else {
            print(sentence)
        }
    }
}

pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    print(text)
}

/// Prints a table of sentences, which wrap on a narrow terminal.
pub(crate) fn print_table(header: &[&str], rows: &[Vec<String>]) -> Result<(), CliError> {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if header.iter().any(|name| !name.is_empty()) {
        table.set_header(header.iter().map(|name| visible(name)));
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| visible(cell)));
    }
    print(&table.to_string())
}

/// Returns the number of columns of the terminal, `None` without a terminal.
fn columns() -> Option<usize> {
    console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| columns.into())
}

/// Adds a row for each member. Nested objects become paths: `Changed.State.From`.
fn rows(table: &mut Grid, prefix: &str, value: &Value) {
    let Value::Object(members) = value else {
        return;
    };
    for (name, member) in members {
        let path = if prefix.is_empty() {
            visible(name)
        } else {
            format!("{prefix}.{}", visible(name))
        };
        match member {
            Value::Object(inner) if !inner.is_empty() && !inner.keys().any(|name| name.starts_with('$')) => {
                rows(table, &path, member);
            }
            Value::Object(inner) if inner.is_empty() => {}
            member => {
                table.add_row([path, cell(member)]);
            }
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        other => visible(&other.to_string()),
    }
}

/// Escapes hidden characters.
pub(crate) fn visible(text: &str) -> String {
    printable::line(text).into_owned()
}

/// Prints a line of JSON.
fn print_json(value: &Value) -> Result<(), CliError> {
    print(&printable::json(&value.to_string()))
}

fn print(text: &str) -> Result<(), CliError> {
    Ok(pager::write(text)?)
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
    let line = match (verbose, error) {
        (true, error) => chain(error),
        // The text contains the cause.
        (false, CliError::Explained { text, .. }) => text.clone(),
        (false, error) => {
            let source = std::error::Error::source(error);
            let deeper = source.and_then(std::error::Error::source);
            let causes = [source, deeper].into_iter().flatten();
            let causes = causes.map(|cause| without_request_id(&cause.to_string()));
            std::iter::once(error.to_string())
                .chain(causes)
                .collect::<Vec<_>>()
                .join(": ")
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

/// Prints each element of named lists to standard error.
pub(crate) fn print_lists<'a>(lists: impl IntoIterator<Item = (&'a str, &'a [Value])>) {
    for (name, list) in lists {
        for one in list {
            note(&format!("{name}: {one}"));
        }
    }
}

/// Returns an object of the members that have a value.
pub(crate) fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter();
    members
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Returns a table row of an object: two named members, then all others with their names.
pub(crate) fn row(object: &Value, names: [&str; 2]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let others = object.as_object().into_iter().flatten();
    let others = others.filter(|(name, _)| !names.contains(&name.as_str()));
    let others: Vec<_> = others.map(|(name, value)| format!("{name} {}", text(value))).collect();
    vec![text(&object[names[0]]), text(&object[names[1]]), others.join(", ")]
}
