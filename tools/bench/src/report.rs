//! The figures as a table, as Markdown and as JSON.

use std::{
    io::{self, Write as _},
    path::Path,
};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use crate::{
    error::BenchError,
    figure::{Comparison, Figure, rounded},
};

const HEADER: [&str; 8] = ["comparison", "unit", "ours", "peer", "peer's", "ratio", "target", "met"];

/// Returns the figures as a table for a terminal.
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(HEADER);
    for column in [2, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows(comparisons));
    table.to_string()
}

fn rows(comparisons: &[Comparison]) -> impl Iterator<Item = [String; 8]> {
    let rows_of = |comparison: &Comparison| {
        comparison
            .figures
            .iter()
            .map(|figure| row(comparison.name, figure))
            .collect::<Vec<_>>()
    };
    comparisons.iter().flat_map(rows_of)
}

fn row(name: &str, figure: &Figure) -> [String; 8] {
    let number = |figure: f64| format!("{}", rounded(figure));
    let (peer_name, peer) = figure
        .peer
        .clone()
        .map_or_else(Default::default, |(name, peer)| (name, number(peer)));
    let met = match figure.met() {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    [
        name.to_owned(),
        figure.unit.clone(),
        number(figure.ours),
        peer_name,
        peer,
        figure.ratio().map(number).unwrap_or_default(),
        figure.target.map(|target| target.to_string()).unwrap_or_default(),
        met.to_owned(),
    ]
}

pub(crate) fn json(comparisons: &[Comparison]) -> Value {
    let figures = comparisons
        .iter()
        .flat_map(|comparison| comparison.figures.iter().map(|figure| figure.to_json(comparison.name)));
    json!(figures.collect::<Vec<_>>())
}

/// Writes `results.json` and `results.md` into this folder.
pub(crate) fn write(comparisons: &[Comparison], facts: &[String], folder: &Path) -> Result<(), BenchError> {
    let text = serde_json::to_string_pretty(&json(comparisons)).unwrap_or_default();
    std::fs::write(folder.join("results.json"), text + "\n")?;
    Ok(std::fs::write(folder.join("results.md"), markdown(comparisons, facts))?)
}

fn markdown(comparisons: &[Comparison], facts: &[String]) -> String {
    let line = |cells: [String; 8]| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("- {}\n\n", facts.join("\n- "));
    text.push_str(&line(HEADER.map(str::to_owned)));
    text.push_str(&line(
        ["---", "---", "---:", "---", "---:", "---:", "---", "---"].map(str::to_owned),
    ));
    text.extend(rows(comparisons).map(line));
    text
}

pub(crate) fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

pub(crate) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
