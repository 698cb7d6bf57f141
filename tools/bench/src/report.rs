//! The figures as a table for a terminal, and as Markdown.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

use crate::{figure::Figure, subject::FLOOR};

const HEADER: [&str; 8] = ["comparison", "unit", "ours", "peer", "peer's", "ratio", "target", "met"];
/// The columns with numbers.
const NUMBERS: [usize; 3] = [2, 4, 5];
/// Maximum number of figures of a comparison that its section lists completely.
const MAX_LISTED: usize = 8;

/// Returns the figures as a table for a terminal.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(HEADER);
    for column in NUMBERS {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(figures.iter().map(cells));
    table.to_string()
}

fn cells(figure: &Figure) -> [String; 8] {
    let number = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
    let ranged = |figure, range: Option<[f64; 2]>| match range {
        Some([least, most]) => format!("{} ({least}–{most})", number(figure)),
        None => number(figure),
    };
    let met = match figure.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    [
        figure.name.clone(),
        figure.unit.clone(),
        ranged(figure.ours, figure.range),
        figure.peer_name.clone().unwrap_or_default(),
        ranged(figure.peer, figure.peer_range),
        number(figure.ratio),
        figure.target.clone().unwrap_or_default(),
        met.to_owned(),
    ]
}

/// Returns the origin of the figures, facts about the machine, and a section for each comparison, with a table of the [`listed`] figures.
pub(crate) fn sections(figures: &[Figure], facts: &[String]) -> String {
    let sections = figures.chunk_by(|one, other| one.name == other.name).map(|figures| {
        let name = figures.first().map_or("", |figure| &figure.name);
        format!("\n### {name}\n\n{}", markdown_table(listed(figures)))
    });
    let sections: String = sections.collect();
    format!("- {}\n{sections}", [&origins(figures), facts].concat().join("\n- "))
}

/// Returns all figures of a comparison if there are at most [`MAX_LISTED`], or else those with a target or the floor. If no figure has a target,
/// returns those with a peer.
fn listed(figures: &[Figure]) -> impl Iterator<Item = &Figure> {
    let has_targets = figures.iter().any(|figure| figure.target.is_some());
    figures.iter().filter(move |figure| {
        figures.len() <= MAX_LISTED
            || match has_targets {
                true => figure.target.is_some() || figure.peer_name.as_deref() == Some(FLOOR),
                false => figure.peer.is_some(),
            }
    })
}

/// Returns the table without the name of the comparison and the ranges, which results.json contains.
fn markdown_table<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> String {
    let rows = figures.into_iter().map(|figure| {
        let figure = Figure {
            range: None,
            peer_range: None,
            ..figure.clone()
        };
        format!("|{}|\n", cells(&figure)[1..].join("|"))
    });
    let rows: String = rows.collect();
    let header = HEADER[1..].join("|");
    format!("|{header}|\n|---|---:|---|---:|---:|---|---|\n{rows}")
}

/// Returns a line for each date and commit, with the names of its comparisons unless all have the same.
fn origins(figures: &[Figure]) -> Vec<String> {
    let mut origins: Vec<(String, Vec<&str>)> = Vec::new();
    for Figure { name, origin, .. } in figures {
        let quick = if origin.quick { ", quick: not valid" } else { "" };
        let origin = format!("Measured: {}, commit {}{quick}", origin.date, origin.commit);
        match origins.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, names)) if names.contains(&name.as_str()) => {}
            Some((_, names)) => names.push(name),
            None => origins.push((origin, vec![name])),
        }
    }
    match origins.as_slice() {
        [(origin, _)] => vec![origin.clone()],
        several => several
            .iter()
            .map(|(origin, names)| format!("{origin}: {}", names.join(", ")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    fn figure(name: &str, unit: &str) -> Figure {
        Figure::new(unit, 1.0).measured(name, &Origin::example())
    }

    #[test]
    fn the_results_as_markdown() {
        let expected = "\
- Measured: 2026-11-23, commit 0123456789ab: cold path
- Measured: 2026-11-24, commit 0123456789ab: start
- Machine: 2 cores

### cold path

|unit|ours|peer|peer's|ratio|target|met|
|---|---:|---|---:|---:|---|---|
|ms|1||||||
|ms CPU|1||||||

### start

|unit|ours|peer|peer's|ratio|target|met|
|---|---:|---|---:|---:|---|---|
|ms|1||||||
";
        let mut figures =
            [("cold path", "ms"), ("cold path", "ms CPU"), ("start", "ms")].map(|(name, unit)| figure(name, unit));
        figures[2].origin.date = "2026-11-24".to_owned();
        assert_eq!(sections(&figures, &["Machine: 2 cores".to_owned()]), expected);
        // The names of the comparisons are needed only if their origins differ.
        let same = sections(&figures[..2], &[]);
        assert!(
            same.starts_with("- Measured: 2026-11-23, commit 0123456789ab\n\n### "),
            "{same}"
        );
    }

    #[test]
    fn a_long_comparison_lists_figures_with_a_target_or_a_peer() {
        let mut figures: Vec<_> = (0..=MAX_LISTED).map(|_| figure("start", "ms")).collect();
        figures[1].peer = Some(2.0);
        assert!(listed(&figures).eq([&figures[1]]));
        figures[2].target = Some("≤ 1".to_owned());
        assert!(listed(&figures).eq([&figures[2]]));
        assert_eq!(listed(&figures[1..]).count(), MAX_LISTED);
    }
}
