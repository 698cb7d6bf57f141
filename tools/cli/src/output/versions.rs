//! Tables of versions: who recorded each, when and why, apart from the attributes of the item.

use std::collections::BTreeSet;

use item_diff::{
    line::{text_of, word},
    versions::{self, Comparison},
};
use serde_json::{Map, Value};
use shared::{
    domain::{AttributeValue, plain, view::VersionView},
    printable,
};

use super::{Grid, Output, cell, print, print_json};
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
            return print_json(&view.to_json());
        }
        let mut record = Grid::new(&["", ""]);
        record.add_row(["ID", view.entity.as_str()]);
        record.add_members("", &view.record_json().into());
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
                Value::Object(members) if members.is_empty() => attributes.add_row([name, cell(&value)]),
                _ => attributes.add_members("", &Map::from_iter([(name, value)]).into()),
            }
        }
        self.grid(&attributes)
    }

    /// Prints versions in the order of the slice.
    pub(crate) fn versions(&self, versions: &[VersionView]) -> Result<(), CliError> {
        if self.is_json() {
            return versions.iter().try_for_each(|version| print_json(&version.to_json()));
        }
        let names = versions.iter().flat_map(|version| version.attributes.keys());
        let names: BTreeSet<_> = names.map(String::as_str).collect();
        let records: Vec<_> = versions.iter().map(record).collect();
        let columns = columns(&records);
        let any_deleted = versions.iter().any(|version| version.deleted);
        let deleted = any_deleted.then_some("Deleted");
        let header: Vec<_> = ["Version"]
            .into_iter()
            .chain(deleted)
            .chain(columns.clone())
            .chain(names.clone())
            .collect();
        let mut table = Grid::new(&header);
        for (version, record) in versions.iter().zip(&records) {
            let deleted = if version.deleted { "deleted" } else { "" };
            let attributes = plain::attributes(&version.attributes);
            let mut row = vec![version.version.to_string()];
            row.extend(any_deleted.then(|| deleted.to_owned()));
            row.extend(columns.iter().map(|name| text(record, name)));
            row.extend(names.iter().map(|name| text(&attributes, name)));
            table.add_row(row);
        }
        self.grid(&table)
    }

    /// Prints the records of two versions, then the attributes that differ.
    pub(crate) fn diff(&self, from: &VersionView, to: &VersionView) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(&versions::to_json(from, to));
        }
        let numbers = [from.version.to_string(), to.version.to_string()];
        let mut table = Grid::new(&["Version", &numbers[0], &numbers[1]]);
        let records = [record(from), record(to)];
        for name in columns(&records) {
            table.add_row([name.to_owned(), text(&records[0], name), text(&records[1], name)]);
        }
        self.grid(&table)?;
        let comparison = Comparison::new(Some(from), to);
        let changes = comparison.changes();
        if changes.is_empty() {
            return print("(no changes)");
        }
        let mut table = Grid::new(&["Attribute", &numbers[0], &numbers[1]]);
        for (name, change) in changes {
            let sides = [change.from, change.to].map(|side| side.map(text_of));
            let [from, to] = sides.map(|side| side.unwrap_or_else(|| NONE.to_owned()));
            table.add_row([name, &from, &to]);
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

/// Returns the columns that these records need.
fn columns(records: &[Map<String, Value>]) -> Vec<&'static str> {
    let is_shown = |name: &str| records.iter().any(|record| record.contains_key(name));
    let columns = COLUMNS.into_iter().filter(|(name, always)| *always || is_shown(name));
    columns.map(|(name, _)| name).collect()
}

fn text(members: &Map<String, Value>, name: &str) -> String {
    members.get(name).map(cell).unwrap_or_default()
}

/// Returns a version in one line: number, time to the second, actor, changes and reason, as
/// `3  2026-11-22 06:25:11Z  alice  State: placed → paid  (late payment)`.
pub(crate) fn change_line(view: &VersionView, changes: &str) -> String {
    let time = view.recorded_at.map(|time| {
        let time = time.to_string().replace('T', " ");
        format!("{}Z", time.split(['.', 'Z']).next().unwrap_or_default())
    });
    let text = |value: &Option<AttributeValue>| {
        let text = value.as_ref().map(|value| match value {
            AttributeValue::S(text) => word(text),
            value => text_of(value),
        });
        text.map(|text| printable::line(&text).into_owned())
    };
    let mark = view.change.as_ref().and_then(|change| {
        let mark = change.origin.mark()?;
        Some(match change.after {
            Some(after) => format!("[{mark}, after {after}]"),
            None => format!("[{mark}]"),
        })
    });
    let parts = [
        Some(view.version.to_string()),
        Some(time.unwrap_or_else(|| "(time not known)".to_owned())),
        mark,
        view.is_omitted().then(|| "[Omitted]".to_owned()),
        text(&view.actor),
        Some(changes.to_owned()),
        text(&view.reason).map(|reason| format!("({reason})")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}
