//! Tables that stay readable on a narrow terminal.
//!
//! Without a terminal, a table has its natural width, and so has every table with `--full`. On a terminal, long values are shortened
//! until the table fits. If the columns are too many for that, each row becomes a block of lines, one for each value.

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use console::measure_text_width;
use serde_json::Value;
use shared::printable;

/// Maximum numbers of characters of a value, from the widest table to the narrowest.
const VALUE_CHARS: [usize; 8] = [200, 100, 60, 40, 32, 24, 20, 16];
/// Minimum number of characters of a value in a block.
const MIN_BLOCK_CHARS: usize = 16;
const NOTE: &str = "(values that end with … are shortened: --full shows them)";

/// Rows of text without hidden characters, with or without a header.
pub(super) struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Creates a table. Names that are all empty make no header.
    pub(super) fn new(header: &[&str]) -> Self {
        let has_header = header.iter().any(|name| !name.is_empty());
        Self {
            header: if has_header { visible(header) } else { Vec::new() },
            rows: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn add_row(&mut self, row: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(visible(row));
    }

    /// Adds a row for each member. Nested objects become paths: `Changed.State.From`.
    pub(super) fn add_members(&mut self, prefix: &str, value: &Value, cell: fn(&Value) -> String) {
        for (name, member) in value.as_object().into_iter().flatten() {
            let path = format!("{prefix}{name}");
            match member {
                Value::Object(inner) if !inner.is_empty() && !inner.keys().any(|name| name.starts_with('$')) => {
                    self.add_members(&format!("{path}."), member, cell);
                }
                member => self.add_row([path, cell(member)]),
            }
        }
    }

    /// Returns the text of the table. `width` is the number of columns of the terminal, `None` for the natural width.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let whole = self.table(usize::MAX, ContentArrangement::Disabled);
        let Some(width) = width.filter(|width| width_of(&whole) > *width) else {
            return whole;
        };
        let tables = VALUE_CHARS.map(|chars| self.table(chars, ContentArrangement::Disabled));
        let fits = tables.into_iter().find(|table| width_of(table) <= width);
        let text = fits.unwrap_or_else(|| self.blocks(width));
        match text.contains('…') {
            true => format!("{text}\n{NOTE}"),
            false => text,
        }
    }

    /// Returns the text of a table whose cells wrap on a narrow terminal.
    pub(super) fn wrapped(&self) -> String {
        self.table(usize::MAX, ContentArrangement::Dynamic)
    }

    fn table(&self, chars: usize, arrangement: ContentArrangement) -> String {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(arrangement);
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
        let widest = names.iter().map(|name| measure_text_width(name)).max();
        let widest = widest.unwrap_or_default();
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

/// Escapes hidden characters.
fn visible(row: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let cells = row.into_iter();
    cells.map(|cell| printable::line(cell.as_ref()).into_owned()).collect()
}

fn width_of(text: &str) -> usize {
    text.lines().map(measure_text_width).max().unwrap_or_default()
}

/// Returns the beginning of a text with at most this width.
fn shortened(text: &str, chars: usize) -> String {
    console::truncate_str(text, chars, "…").into_owned()
}
