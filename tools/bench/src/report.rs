//! The figures as a table, as Markdown and as JSON.

use std::{io, path::Path};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

use crate::{error::BenchError, plot, results::Row};

const HEADER: [&str; 8] = ["comparison", "unit", "ours", "peer", "peer's", "ratio", "target", "met"];

/// Maximum number of figures of a comparison that its section lists completely.
const MAX_LISTED: usize = 8;

/// Returns the figures as a table for a terminal.
pub(crate) fn table(rows: &[Row]) -> String {
    terminal_table(&HEADER, &[2, 4, 5], rows.iter().map(cells))
}

/// Returns a table for a terminal. `numbers` are the columns that are aligned at the right.
pub(crate) fn terminal_table<const N: usize>(
    header: &[&str; N],
    numbers: &[usize],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    table.to_string()
}

fn cells(row: &Row) -> [String; 8] {
    let number = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let met = match row.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    [
        row.name.clone(),
        row.unit.clone(),
        number(row.ours),
        row.peer_name.clone().unwrap_or_default(),
        number(row.peer),
        number(row.ratio),
        row.target.clone().unwrap_or_default(),
        met.to_owned(),
    ]
}

/// Writes `results.json` and `results.md` into this folder.
pub(crate) fn write(rows: &[Row], facts: &[String], folder: &Path) -> Result<(), BenchError> {
    let text = serde_json::to_string_pretty(rows).map_err(io::Error::from)?;
    std::fs::write(folder.join("results.json"), text + "\n")?;
    Ok(std::fs::write(folder.join("results.md"), markdown(rows, facts))?)
}

/// Returns the origin of the figures, facts about the machine, and the table.
fn markdown(rows: &[Row], facts: &[String]) -> String {
    format!("{}\n{}", origins_and_facts(rows, facts), markdown_table(rows, 0))
}

/// Returns the origin of the figures, facts about the machine, and a section for each comparison, with its plot in this folder and a table of the
/// [`listed`] figures.
pub(crate) fn sections(rows: &[Row], facts: &[String], plots: &str) -> String {
    let sections = rows.chunk_by(|one, other| one.name == other.name).map(|rows| {
        let name = rows.first().map_or("", |row| &row.name);
        let plot = plot::file_name(name);
        format!(
            "\n### {name}\n\n![{name}]({plots}/{plot})\n\n{}",
            markdown_table(listed(rows), 1)
        )
    });
    let sections: String = sections.collect();
    origins_and_facts(rows, facts) + &sections
}

/// Returns all figures of a comparison if there are at most [`MAX_LISTED`], or else those with a target. If no figure has a target, returns those
/// with a peer.
fn listed(rows: &[Row]) -> Vec<&Row> {
    let has_targets = rows.iter().any(|row| row.target.is_some());
    let is_listed = |row: &&Row| {
        rows.len() <= MAX_LISTED
            || match has_targets {
                true => row.target.is_some(),
                false => row.peer.is_some(),
            }
    };
    rows.iter().filter(is_listed).collect()
}

fn origins_and_facts(rows: &[Row], facts: &[String]) -> String {
    let facts = [&origins(rows), facts].concat();
    format!("- {}\n", facts.join("\n- "))
}

/// Returns the table without its first columns.
fn markdown_table<'a>(rows: impl IntoIterator<Item = &'a Row>, without: usize) -> String {
    let header = HEADER[without..].join(" | ");
    let alignments = ["---", "---", "---:", "---", "---:", "---:", "---", "---"];
    let alignments = alignments[without..].join("|");
    let rows = rows.into_iter().map(|row| {
        let cells = cells(row).map(|cell| if cell.is_empty() { " ".to_owned() } else { cell });
        format!("|{}|\n", cells[without..].join("|"))
    });
    let rows: String = rows.collect();
    format!("| {header} |\n|{alignments}|\n{rows}")
}

/// Returns a line for each date and commit, with the names of its comparisons unless all have the same.
fn origins(rows: &[Row]) -> Vec<String> {
    let mut origins: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let [date, commit] = [&row.date, &row.commit].map(|fact| fact.as_deref().unwrap_or("unknown"));
        let quick = if row.quick { ", quick: not valid" } else { "" };
        let origin = format!("Measured: {date}, commit {commit}{quick}");
        match origins.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, names)) if names.contains(&row.name.as_str()) => {}
            Some((_, names)) => names.push(&row.name),
            None => origins.push((origin, vec![&row.name])),
        }
    }
    match origins.as_slice() {
        [(origin, _)] => vec![origin.clone()],
        several => {
            let lines = several.iter();
            lines
                .map(|(origin, names)| format!("{origin}: {}", names.join(", ")))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::row;

    #[test]
    fn the_origin_is_shown_once_or_for_each_comparison() {
        let later = Row {
            date: Some("2026-11-24".to_owned()),
            ..row("writer", "ms")
        };
        let unknown = Row {
            date: None,
            commit: None,
            ..row("memory", "MB")
        };
        let rows = [
            row("start", "ms"),
            row("start", "faults"),
            later,
            row("package", "MB"),
            unknown,
        ];
        let check = |rows: &[Row], expected: &[&str]| assert_eq!(origins(rows), expected);
        check(&rows[..2], &["Measured: 2026-11-23, commit 0123456789ab"]);
        check(
            &rows,
            &[
                "Measured: 2026-11-23, commit 0123456789ab: start, package",
                "Measured: 2026-11-24, commit 0123456789ab: writer",
                "Measured: unknown, commit unknown: memory",
            ],
        );
    }

    #[test]
    fn the_results_as_markdown() {
        let expected = "\
- Measured: 2026-11-23, commit 0123456789ab
- Machine: 2 cores

| comparison | unit | ours | peer | peer's | ratio | target | met |
|---|---|---:|---|---:|---:|---|---|
|start|ms|1| | | | | |
";
        assert_eq!(
            markdown(&[row("start", "ms")], &["Machine: 2 cores".to_owned()]),
            expected
        );
    }

    #[test]
    fn each_comparison_has_a_section_with_its_plot() {
        let expected = "\
- Measured: 2026-11-23, commit 0123456789ab

### cold path

![cold path](plots/cold-path.svg)

| unit | ours | peer | peer's | ratio | target | met |
|---|---:|---|---:|---:|---|---|
|ms|1| | | | | |
|ms CPU|1| | | | | |

### start

![start](plots/start.svg)

| unit | ours | peer | peer's | ratio | target | met |
|---|---:|---|---:|---:|---|---|
|ms|1| | | | | |
";
        let rows = [row("cold path", "ms"), row("cold path", "ms CPU"), row("start", "ms")];
        assert_eq!(sections(&rows, &[], "plots"), expected);
    }

    #[test]
    fn a_long_comparison_lists_figures_with_a_target_or_a_peer() {
        let mut rows: Vec<_> = (0..=MAX_LISTED).map(|_| row("start", "ms")).collect();
        rows[1].peer = Some(2.0);
        assert_eq!(listed(&rows), [&rows[1]]);
        rows[2].target = Some("≤ 1".to_owned());
        assert_eq!(listed(&rows), [&rows[2]]);
        assert_eq!(listed(&rows[1..]).len(), MAX_LISTED);
    }
}
