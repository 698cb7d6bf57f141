//! Report about a table that could be attached, as text in which commands can be copied.

use serde_json::Value;

use crate::{
    error::CliError,
    output::{cell, print, print_table},
};

/// Prints the text of a report in JSON.
pub(super) fn print_report(report: &Value) -> Result<(), CliError> {
    let member = |name: &str| report.get(name).map(cell).unwrap_or_default();
    let list = |name: &str| {
        report[name]
            .as_array()
            .into_iter()
            .flatten()
            .map(cell)
            .collect::<Vec<_>>()
    };
    let pairs = |value: &Value, shown: fn(&str, &Value) -> String| {
        let pairs = value.as_object().into_iter().flatten();
        let pairs: Vec<_> = pairs.map(|(name, value)| shown(name, value)).collect();
        pairs.join(", ")
    };
    let cost = report.get("MonthlyCost").map(|cost| {
        let parts = pairs(&cost["Parts"], |part, cost| format!("{part} {cost}"));
        format!("{} {} ({parts})", cell(&cost["Total"]), cell(&cost["Currency"]))
    });
    let rows = [
        ("table", member("Table")),
        ("status", member("Status")),
        (
            "keys",
            pairs(&report["Keys"], |name, kind| format!("{name} ({})", cell(kind))),
        ),
        (
            "stream",
            report["Stream"].get("ViewType").map_or_else(|| "none".to_owned(), cell),
        ),
        ("replicas", list("Replicas").join(", ")),
        ("items", member("Items")),
        ("bytes", member("Bytes")),
        ("history table", member("HistoryTable")),
        ("changes per second", member("UpdatesPerSecond")),
        ("cost of the first month", cost.unwrap_or_default()),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    print_table(&["", ""], rows.map(|(name, value)| vec![name.to_owned(), value]))?;
    for (kind, name) in [("required", "Required"), ("note", "Notes")] {
        list(name)
            .iter()
            .try_for_each(|line| print(&format!("{kind}: {line}")))?;
    }
    if let Some(readers) = report.get("Readers") {
        print(&format!(
            "\nList the event source mappings of the stream:\n  {}",
            cell(readers)
        ))?;
    }
    match list("Deploy").join("\n  ") {
        commands if commands.is_empty() => Ok(()),
        commands => print(&format!("\nDeploy, in the root of the repository:\n  {commands}")),
    }
}
