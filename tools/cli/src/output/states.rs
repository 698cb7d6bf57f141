//! States of whole tables: lines of JSON, DynamoDB JSON or CSV, and the entities that differ between two times.

use operations::snapshot::diff::Difference;
use serde_json::{Map, Value, json};
use shared::{
    domain::{AttributeValue, attached::AttachedTable, keys::LATEST_KEY, names, plain, view::VersionView},
    printable,
};

use super::{Format, Output, cell, changes::block_lines, print, print_json, print_styled};
use crate::error::CliError;

/// Prints the state of an entity in a line. The items of `table` have key attributes, if it is an attached one.
pub(crate) fn print_state(
    view: &VersionView,
    table: Option<&AttachedTable>,
    format: Format,
    columns: &[String],
) -> Result<(), CliError> {
    match format {
        Format::Csv => {
            let attributes = columns.iter().map(|name| view.attributes.get(name).map(text));
            let first = [view.entity.as_str().to_owned(), view.version.to_string()].map(Some);
            print(&csv_line(first.into_iter().chain(attributes)))
        }
        Format::DynamodbJson => {
            let mut item = view.attributes.clone();
            if table.is_none() {
                for (name, key) in [(names::PK, view.entity.as_str()), (names::SK, LATEST_KEY)] {
                    item.insert(name.to_owned(), AttributeValue::S(key.to_owned()));
                }
            }
            let mut line = json!({"Item": item});
            line.sort_all_objects();
            print_json(&line)
        }
        Format::Json | Format::Table => {
            let mut line = identity(view, table);
            line.insert("Version".to_owned(), json!(view.version));
            line.insert("Attributes".to_owned(), plain::attributes(&view.attributes).into());
            print_json(&line.into())
        }
    }
}

/// Returns `ID`, and `Key` with the key attributes of an item of an attached table.
fn identity(view: &VersionView, table: Option<&AttachedTable>) -> Map<String, Value> {
    let mut line = Map::from_iter([("ID".to_owned(), view.entity.as_str().into())]);
    if let Some(table) = table {
        let keys = table.keys().filter_map(|key| {
            let value = view.attributes.get(&key.name)?;
            Some((key.name.clone(), plain::attribute(value)))
        });
        line.insert("Key".to_owned(), keys.collect());
    }
    line
}

/// Returns a text as it is, any other value in plain JSON.
fn text(value: &AttributeValue) -> String {
    cell(&plain::attribute(value))
}

/// Returns a line of CSV, see [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180). An empty text is quoted, a missing value is not.
pub(crate) fn csv_line(fields: impl Iterator<Item = Option<String>>) -> String {
    let fields = fields.map(|field| match field {
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        field => field.unwrap_or_default(),
    });
    fields.collect::<Vec<_>>().join(",")
}

impl Output {
    /// Prints an entity whose states differ between two times: the versions in a line, then the changes.
    pub(crate) fn difference(&self, difference: &Difference, table: Option<&AttachedTable>) -> Result<(), CliError> {
        let (from, to) = (difference.from.as_deref(), difference.to.as_deref());
        let version = |view: Option<&VersionView>| view.map(|view| view.version);
        if self.is_json() {
            let mut line = to.or(from).map(|view| identity(view, table)).unwrap_or_default();
            line.insert("FromVersion".to_owned(), json!(version(from)));
            line.insert("ToVersion".to_owned(), json!(version(to)));
            line.extend(difference.changes().to_json());
            return print_json(&line.into());
        }
        let versions = match (version(from), version(to)) {
            (Some(from), Some(to)) => format!("{from} → {to}"),
            (Some(from), None) => format!("{from} → (deleted)"),
            (None, to) => format!("(none) → {}", to.map(|to| to.to_string()).unwrap_or_default()),
        };
        print(&printable::line(&format!("{}  {versions}", difference.entity.as_str())))?;
        let lines = block_lines(&difference.changes(), self.is_full);
        let lines = lines.iter().map(|line| format!("    {line}"));
        print_styled(&lines.collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::csv_line;

    #[test]
    fn csv_fields_are_quoted_if_they_need_it() {
        for (fields, line) in [
            (&[Some("a"), None, Some("b c")][..], "a,,b c"),
            (
                &[Some(""), Some("a,b"), Some("say \"x\""), Some("1\n2"), Some("\r")],
                "\"\",\"a,b\",\"say \"\"x\"\"\",\"1\n2\",\"\r\"",
            ),
        ] {
            assert_eq!(csv_line(fields.iter().map(|field| field.map(str::to_owned))), line);
        }
    }
}
