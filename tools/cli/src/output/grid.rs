//! Tables that stay readable on a narrow terminal.
//!
//! Without a terminal, a table has its natural width, and so has every table with `--full`. On a terminal, long values are shortened
//! until the table fits. If the columns are too many for that, each row becomes a block of lines, one for each value.

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

/// Maximum numbers of characters of a value, from the widest table to the narrowest.
const VALUE_CHARS: [usize; 8] = [200, 100, 60, 40, 32, 24, 20, 16];
/// Minimum number of characters of a value in a block.
const MIN_BLOCK_CHARS: usize = 16;
const NOTE: &str = "(values that end with … are shortened: --full shows them)";

/// Rows of visible text, with or without a header.
pub(super) struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Creates a table. Names that are all empty make no header.
    pub(super) fn new(header: &[&str]) -> Self {
        let has_header = header.iter().any(|name| !name.is_empty());
        let header = header.iter().filter(|_| has_header);
        Self {
            header: header.map(|name| super::visible(name)).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn add_row(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Returns the text of the table. `width` is the number of columns of the terminal, `None` for the natural width.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let whole = self.table(usize::MAX);
        let Some(width) = width.filter(|width| width_of(&whole) > *width) else {
            return whole;
        };
        let tables = VALUE_CHARS.into_iter().map(|chars| self.table(chars));
        let fits = tables.into_iter().find(|table| width_of(table) <= width);
        let text = fits.unwrap_or_else(|| self.blocks(width));
        match text.contains('…') {
            true => format!("{text}\n{NOTE}"),
            false => text,
        }
    }

    fn table(&self, chars: usize) -> String {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled);
        if !self.header.is_empty() {
            table.set_header(&self.header);
        }
        for row in &self.rows {
            table.add_row(row.iter().map(|value| shortened(value, chars)));
        }
        table.to_string()
    }

    /// Returns one line for each value that is not empty, and a line between two rows.
    fn blocks(&self, width: usize) -> String {
        let names = self.header.iter().map(|name| shortened(name, width / 2));
        let names: Vec<_> = names.collect();
        let widest = names
            .iter()
            .map(|name| console::measure_text_width(name))
            .max()
            .unwrap_or_default();
        let chars = width.saturating_sub(widest + 2).max(MIN_BLOCK_CHARS);
        let blocks = self.rows.iter().map(|row| {
            let values = row.iter().enumerate().filter(|(_, value)| !value.is_empty());
            let lines = values.map(|(column, value)| {
                let name = names.get(column).map(String::as_str).unwrap_or_default();
                let name = console::pad_str(name, widest, console::Alignment::Left, None);
                format!("{name}  {}", shortened(value, chars))
            });
            lines.collect::<Vec<_>>().join("\n")
        });
        let line = format!("\n{}\n", "─".repeat(width.min(40)));
        blocks.collect::<Vec<_>>().join(&line)
    }
}

fn width_of(text: &str) -> usize {
    text.lines().map(console::measure_text_width).max().unwrap_or_default()
}

/// Returns the beginning of a text with at most this width.
fn shortened(text: &str, chars: usize) -> String {
    console::truncate_str(text, chars, "…").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(columns: usize, value: &str) -> Grid {
        let header: Vec<_> = (0..columns).map(|column| format!("Column{column}")).collect();
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        let mut grid = Grid::new(&header);
        grid.add_row((0..columns).map(|_| value));
        grid.add_row((0..columns).map(|column| if column == 0 { "2" } else { "" }));
        grid
    }

    #[test]
    fn a_table_that_fits_is_unchanged() {
        let grid = history(3, "short");
        assert_eq!(grid.text(Some(80)), grid.text(None));
        assert!(!grid.text(Some(80)).contains(NOTE));
        assert_eq!(Grid::new(&["", ""]).text(Some(80)).lines().count(), 2);
    }

    #[test]
    fn long_values_are_shortened_until_the_table_fits() {
        for value in ["x".repeat(300), "宽".repeat(300)] {
            let grid = history(3, &value);
            let text = grid.text(Some(80));
            assert!(
                text.lines().all(|line| console::measure_text_width(line) <= 80),
                "{text}"
            );
            assert!(text.ends_with(NOTE) && text.contains('│'), "{text}");
            assert!(grid.text(None).contains(&value));
        }
    }

    #[test]
    fn too_many_columns_become_lines() {
        let text = history(12, &"x".repeat(300)).text(Some(80));
        assert!(
            text.lines().all(|line| console::measure_text_width(line) <= 80),
            "{text}"
        );
        assert_eq!(text.lines().count(), 12 + 1 + 1 + 1, "{text}");
        assert!(
            text.starts_with("Column0   xxx") && text.contains("\nColumn11  xxx"),
            "{text}"
        );
    }
}
