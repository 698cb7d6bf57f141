//! Tables of versions: who recorded each, when and why, apart from the attributes of the item.

use item_diff::{
    line::word,
    versions::{self, Comparison},
};
use serde_json::{Map, Value};
use shared::domain::{AttributeValue, plain, view::VersionView};

use super::{Grid, Output, cell, print, print_json, rows, visible};
use crate::error::CliError;

/// Text for an attribute that a version does not have.
const NONE: &str = "(none)";

/// Members of a version's record in the order of the columns, and `true` for those that are always shown.
const COLUMNS: [(&str, bool); 6] = [
    ("RecordedAt", true),
    ("Actor", false),
    ("Reason", false),
    ("RequestId", true),
    ("Sender", false),
    ("RestoredFrom", false),
];

impl Output {
    /// Prints one version: its record, then its attributes.
    pub(crate) fn version(&self, view: &VersionView) -> Result<(), CliError> {
        if self.is_json() {
            return self.object(&view.to_json());
        }
        let mut record = Grid::new(&["", ""]);
        record.add_row(["ID".to_owned(), visible(view.entity.as_str())]);
        rows(&mut record, "", &view.record_json().into());
        if view.deleted {
            record.add_row(["Deleted", "true"]);
        }
        self.grid(&record)?;
        if view.attributes.is_empty() {
            return Ok(());
        }
        let mut attributes = Grid::new(&["", ""]);
        for (name, value) in plain::attributes(&view.attributes) {
            match &value {
                Value::Object(members) if members.is_empty() => add(&mut attributes, &name, &value),
                _ => rows(&mut attributes, "", &Map::from_iter([(name, value)]).into()),
            }
        }
        self.grid(&attributes)
    }

    /// Prints versions in the order of the slice.
    pub(crate) fn versions(&self, versions: &[VersionView]) -> Result<(), CliError> {
        if self.is_json() {
            return versions.iter().try_for_each(|version| print_json(&version.to_json()));
        }
        let mut names: Vec<&String> = versions.iter().flat_map(|version| version.attributes.keys()).collect();
        names.sort();
        names.dedup();
        let records: Vec<_> = versions.iter().map(record).collect();
        let is_shown = |name: &str| records.iter().any(|record| record.contains_key(name));
        let columns = COLUMNS.into_iter().filter(|(name, always)| *always || is_shown(name));
        let columns: Vec<_> = columns.map(|(name, _)| name).collect();
        let any_deleted = versions.iter().any(|version| version.deleted);
        let mut header = vec!["Version"];
        header.extend(any_deleted.then_some("Deleted"));
        header.extend(&columns);
        header.extend(names.iter().map(|name| name.as_str()));
        let mut table = Grid::new(&header);
        for (version, record) in versions.iter().zip(&records) {
            let text = |value: Option<&Value>| value.map(cell).unwrap_or_default();
            let mut row = vec![version.version.to_string()];
            let deleted = if version.deleted { "deleted" } else { "" };
            row.extend(any_deleted.then(|| deleted.to_owned()));
            row.extend(columns.iter().map(|name| text(record.get(*name))));
            let attributes = plain::attributes(&version.attributes);
            row.extend(names.iter().map(|name| text(attributes.get(*name))));
            table.add_row(row);
        }
        self.grid(&table)
    }

    /// Prints the records of two versions, then the attributes that differ.
    pub(crate) fn diff(&self, from: VersionView, to: VersionView) -> Result<(), CliError> {
        if self.is_json() {
            return self.object(&versions::to_json(&from, &to));
        }
        let numbers = [from.version.to_string(), to.version.to_string()];
        let mut table = Grid::new(&["Version", &numbers[0], &numbers[1]]);
        let records = [record(&from), record(&to)];
        for (name, always) in COLUMNS {
            if always || records.iter().any(|record| record.contains_key(name)) {
                let text = |record: &Map<String, Value>| record.get(name).map(cell).unwrap_or_default();
                table.add_row([name.to_owned(), text(&records[0]), text(&records[1])]);
            }
        }
        self.grid(&table)?;
        let comparison = Comparison::new(Some(&from), &to);
        let changes = comparison.changes();
        if changes.is_empty() {
            return print("(no changes)");
        }
        let mut table = Grid::new(&["Attribute", &numbers[0], &numbers[1]]);
        for (name, change) in changes {
            let text = |value: Option<&AttributeValue>| {
                value.map_or_else(|| NONE.to_owned(), |value| cell(&plain::attribute(value)))
            };
            table.add_row([visible(name), text(change.from), text(change.to)]);
        }
        self.grid(&table)
    }
}

/// Returns the record of a version, with the origin of a time from the stream.
fn record(view: &VersionView) -> Map<String, Value> {
    let mut record = view.record_json();
    if let Some(recorded) = view.recorded_at.filter(|_| view.recorded_by_stream) {
        record.insert("RecordedAt".to_owned(), format!("{recorded} (from the stream)").into());
    }
    record
}

/// Returns a version in one line: number, time to the second, actor, changes and reason, as
/// `3  2026-11-22 06:25:11Z  alice  State: placed → paid  (late payment)`.
pub(crate) fn change_line(view: &VersionView, changes: &str) -> String {
    let time = view.recorded_at.map(|time| {
        let time = time.to_string();
        let to_the_second = time.split_once('.').map_or(time.as_str(), |(seconds, _)| seconds);
        format!("{}Z", to_the_second.trim_end_matches('Z').replace('T', " "))
    });
    let time = time.unwrap_or_else(|| "(time not known)".to_owned());
    let text = |value: &Option<AttributeValue>| match value {
        Some(AttributeValue::S(text)) => Some(visible(&word(text))),
        value => value.as_ref().map(|value| cell(&plain::attribute(value))),
    };
    let mark = view.change.as_ref().and_then(|change| change.origin.mark());
    let reason = text(&view.reason).map(|reason| format!("({reason})"));
    let after = view.change.as_ref().and_then(|change| change.after);
    let mark = mark.map(|mark| match after {
        Some(after) => format!("[{mark}, after {after}]"),
        None => format!("[{mark}]"),
    });
    let omitted = view.is_omitted().then(|| "[Omitted]".to_owned());
    let parts = [
        Some(view.version.to_string()),
        Some(time),
        mark,
        omitted,
        text(&view.actor),
    ];
    let parts = parts.into_iter().chain([Some(changes.to_owned()), reason]).flatten();
    parts.collect::<Vec<_>>().join("  ")
}

fn add(table: &mut Grid, name: &str, value: &Value) {
    table.add_row([visible(name), cell(value)]);
}
