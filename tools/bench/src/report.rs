//! What was measured, as a table, and as JSON.

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

/// The table.
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["comparison", "unit", "ours", "peer", "", "ratio", "target", "met"]);
    for column in [2, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for comparison in comparisons {
        for figure in &comparison.figures {
            table.add_row(row(comparison.name, figure));
        }
    }
    table.to_string()
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

/// Every figure, as one list.
pub(crate) fn json(comparisons: &[Comparison]) -> Value {
    let figures = comparisons
        .iter()
        .flat_map(|comparison| comparison.figures.iter().map(|figure| figure.to_json(comparison.name)));
    json!(figures.collect::<Vec<_>>())
}

/// Writes `results.json` into this folder.
pub(crate) fn write(comparisons: &[Comparison], folder: &Path) -> Result<(), BenchError> {
    let text = serde_json::to_string_pretty(&json(comparisons)).unwrap_or_default();
    Ok(std::fs::write(folder.join("results.json"), text + "\n")?)
}

/// A line on standard error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The answer, on standard output.
pub(crate) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
