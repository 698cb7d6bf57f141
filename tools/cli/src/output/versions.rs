//! Versions: who recorded each, when and why, apart from the attributes of the item and from its changes.

use item_diff::{
    line::{text_of, word},
    versions::{self, Comparison},
};
use serde_json::{Map, Value};
use shared::{
    domain::{AttributeValue, names, plain, view::VersionView},
    printable,
};

use super::{
    Grid, Output, cell,
    changes::{Detail, NO_CHANGES, block_lines, counts},
    print, print_json, print_styled, quoted_cell,
};
use crate::{error::CliError, times::TimeFormat};

impl Output {
    /// Prints one version: its record, then its attributes.
    pub(crate) fn version(&self, view: &VersionView, times: TimeFormat) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(&view.to_json());
        }
        self.record(view, times)?;
        let mut attributes = Grid::new(&["", ""]);
        attributes.add_members("", &plain::attributes(&view.attributes).into(), quoted_cell);
        for (path, text) in versions::erased_lines(&view.erased) {
            attributes.add_row([path, text]);
        }
        match attributes.is_empty() {
            true => Ok(()),
            false => self.grid(&attributes),
        }
    }

    fn record(&self, view: &VersionView, times: TimeFormat) -> Result<(), CliError> {
        let mut members = view.record_json();
        // In its place among the attributes.
        members.remove(names::ERASED);
        members.insert("RecordedAt".to_owned(), time_text(view, times).into());
        let mut record = Grid::new(&["", ""]);
        record.add_row(["ID", view.entity.as_str()]);
        record.add_members("", &members.into(), cell);
        if view.deleted {
            record.add_row(["Deleted", "true"]);
        }
        self.grid(&record)
    }

    /// Prints one value: a text as it is, or in JSON.
    pub(crate) fn value(&self, value: &AttributeValue) -> Result<(), CliError> {
        match self.is_json() {
            true => print_json(&plain::attribute(value)),
            false => print(&printable::line(&text_of(value))),
        }
    }

    /// Prints two versions in a line each, then their changes. `None` is the state before version 1.
    pub(crate) fn diff(&self, from: Option<&VersionView>, to: &VersionView, times: TimeFormat) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(&versions::diff_json(from, to));
        }
        for view in from.into_iter().chain([to]) {
            print(&version_line(view, None, times))?;
        }
        self.changes(to, Some(&Comparison::new(from, to)), "")
    }

    /// Prints a version in a line with its changes, after the key if there is one, then what `detail` asks for. `None` is an unknown
    /// comparison.
    pub(crate) fn log_entry(
        &self,
        view: &VersionView,
        comparison: Option<&Comparison>,
        (times, detail): (TimeFormat, Detail),
        key: Option<&str>,
    ) -> Result<(), CliError> {
        // Lines for people are the default, also without a terminal.
        if self.is_json_chosen() {
            return print_json(&entry_json(view, comparison));
        }
        let changes = match comparison {
            Some(comparison) if detail.stat => counts(&comparison.diff()),
            Some(comparison) => comparison.line(),
            None => why_unknown(view).to_owned(),
        };
        let line = version_line(view, Some(&changes), times);
        print(&key.map_or_else(|| line.clone(), |key| format!("{}  {line}", printable::line(key))))?;
        match comparison.is_some() && detail.patch {
            true => self.changes(view, comparison, "    ").and_then(|()| print("")),
            false => Ok(()),
        }
    }

    /// Prints the record of a version, then its changes.
    pub(crate) fn shown(
        &self,
        view: &VersionView,
        comparison: Option<&Comparison>,
        times: TimeFormat,
    ) -> Result<(), CliError> {
        if self.is_json() {
            return print_json(&entry_json(view, comparison));
        }
        self.record(view, times)?;
        self.changes(view, comparison, "")
    }

    fn changes(&self, view: &VersionView, comparison: Option<&Comparison>, indent: &str) -> Result<(), CliError> {
        let lines = comparison.map(|comparison| block_lines(&comparison.diff(), self.is_full));
        let mut lines = lines.unwrap_or_else(|| vec![why_unknown(view).to_owned()]);
        let erased = comparison.map_or(&[][..], Comparison::erased);
        lines.retain(|line| erased.is_empty() || line != NO_CHANGES);
        lines.extend(erased.iter().map(|(path, text)| format!("{path}  {text}")));
        let lines = lines.iter().map(|line| format!("{indent}{line}"));
        print_styled(&lines.collect::<Vec<_>>().join("\n"))
    }
}

fn why_unknown(view: &VersionView) -> &'static str {
    match (view.is_late(), view.is_omitted()) {
        (true, _) => "(not compared: its record arrived late)",
        (_, true) => "(not compared: its state did not fit)",
        _ => "(previous version not available)",
    }
}

/// Returns `{"ID", the members of the record, "Changes": […]}`, with a `Note` in place of unknown changes.
fn entry_json(view: &VersionView, comparison: Option<&Comparison>) -> Value {
    let mut json = Map::from_iter([("ID".to_owned(), view.entity.as_str().into())]);
    json.extend(view.record_json());
    match comparison {
        Some(comparison) => json.extend(comparison.to_json()),
        None => drop(json.insert("Note".to_owned(), why_unknown(view).trim_matches(['(', ')']).into())),
    }
    json.into()
}

/// Returns a version in one line: number, time to the second, actor, changes, reason and change set, as
/// `3  2026-11-22 06:25:11  alice  State: placed → paid  (late payment)  {import-7}`.
fn version_line(view: &VersionView, changes: Option<&str>, times: TimeFormat) -> String {
    let mark = view.change.as_ref().and_then(|change| {
        let mark = change.origin.mark()?;
        Some(match change.after {
            Some(after) => format!("[{mark}, after {after}]"),
            None => format!("[{mark}]"),
        })
    });
    let parts = [
        Some(view.version.to_string()),
        Some(time_text(view, times)),
        mark,
        view.is_omitted().then(|| "[Omitted]".to_owned()),
        who(view),
        changes.map(str::to_owned),
        attributed(view.reason.as_ref()).map(|reason| format!("({reason})")),
        attributed(view.change_set.as_ref()).map(|set| format!("{{{set}}}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

pub(crate) fn time_text(view: &VersionView, times: TimeFormat) -> String {
    let time = view.recorded_at.map(|time| times.text(time));
    time.unwrap_or_else(|| "(time not known)".to_owned())
}

/// Returns the actor of a version, as lines for people show it. One that the version before has, too, is uncertain: `amy?`.
pub(crate) fn who(view: &VersionView) -> Option<String> {
    let mark = if view.actor_unchanged { "?" } else { "" };
    Some(attributed(view.actor.as_ref())? + mark)
}

fn attributed(value: Option<&AttributeValue>) -> Option<String> {
    let text = value.map(|value| match value {
        AttributeValue::S(text) => word(text),
        value => text_of(value),
    });
    text.map(|text| printable::line(&text).into_owned())
}
