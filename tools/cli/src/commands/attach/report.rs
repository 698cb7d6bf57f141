//! Report about a table that could be attached: JSON, or text in which commands can be copied.

use operations::attach::attachable::AttachableTable;
use serde_json::{Map, Value, json};
use shared::domain::attached::AttachedTable;

use crate::{
    error::CliError,
    output::{self, Output, print_table, print_text},
};

pub(super) struct Report<'a> {
    pub(super) table: &'a AttachableTable,
    pub(super) attached: &'a AttachedTable,
    pub(super) definition: &'a Value,
    pub(super) rate: Option<f64>,
    pub(super) cost: Option<Value>,
    pub(super) required: &'a [String],
    pub(super) notes: &'a [String],
    pub(super) readers: Option<String>,
    pub(super) deploy: Vec<String>,
}

impl Report<'_> {
    pub(super) fn print(&self, output: &Output) -> Result<(), CliError> {
        let report = self.json();
        if output.is_json() {
            return output.object(&report);
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let keys = self.table.keys.iter().map(|(name, kind)| format!("{name} ({kind})"));
        let stream = &report["Stream"];
        let mut rows = vec![
            ("table", text(&report["Table"])),
            ("status", text(&report["Status"])),
            ("keys", keys.collect::<Vec<_>>().join(", ")),
            ("stream", stream.get("ViewType").map_or_else(|| "none".to_owned(), text)),
            ("replicas", self.table.replicas.join(", ")),
            ("items", text(&report["Items"])),
            ("bytes", text(&report["Bytes"])),
            ("history table", text(&report["HistoryTable"])),
        ];
        if let Some(rate) = report.get("UpdatesPerSecond") {
            rows.push(("changes per second", text(rate)));
        }
        if let Some(cost) = &self.cost {
            let parts = cost["Parts"].as_object().into_iter().flatten();
            let parts = parts
                .map(|(part, cost)| format!("{part} {cost}"))
                .collect::<Vec<_>>()
                .join(", ");
            let total = format!("{} {} ({parts})", text(&cost["Total"]), text(&cost["Currency"]));
            rows.push(("cost of the first month", total));
        }
        rows.retain(|(_, value)| !value.is_empty());
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        print_table(&["", ""], &rows)?;
        for required in self.required {
            print_text(&format!("required: {required}"))?;
        }
        for note in self.notes {
            print_text(&format!("note: {note}"))?;
        }
        if let Some(readers) = &self.readers {
            print_text(&format!("\nList the event source mappings of the stream:\n  {readers}"))?;
        }
        if !self.deploy.is_empty() {
            print_text(&format!(
                "\nDeploy, in the root of the repository:\n  {}",
                self.deploy.join("\n  ")
            ))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let keys = self.table.keys.iter();
        let keys: Map<_, _> = keys.map(|(name, kind)| (name.clone(), kind.as_str().into())).collect();
        let stream = self.table.stream.as_ref();
        output::members([
            ("Table", Some(json!(self.table.name))),
            ("Arn", Some(json!(self.table.arn))),
            ("Status", Some(json!(self.table.status.as_str()))),
            ("Keys", Some(Value::Object(keys))),
            (
                "Stream",
                stream.map(|stream| json!({"Arn": stream.arn, "ViewType": stream.view.as_str()})),
            ),
            (
                "Replicas",
                (!self.table.replicas.is_empty()).then(|| json!(self.table.replicas)),
            ),
            ("Items", Some(json!(self.table.items))),
            ("Bytes", Some(json!(self.table.bytes))),
            ("HistoryTable", Some(json!(self.attached.history_table()))),
            (
                "UpdatesPerSecond",
                self.rate.map(|rate| json!((rate * 1e3).round() / 1e3)),
            ),
            ("MonthlyCost", self.cost.clone()),
            ("Required", Some(json!(self.required))),
            ("Notes", Some(json!(self.notes))),
            ("Readers", self.readers.as_ref().map(|command| json!(command))),
            ("Deploy", Some(json!(self.deploy))),
            ("Definition", Some(self.definition.clone())),
        ])
    }
}
