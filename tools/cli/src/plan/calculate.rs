//! The whole calculation: load, limits and the cost of a month.

use super::{
    figures::{MONTH_HOURS, MONTH_SECONDS},
    limits::{Limit, limits},
    model::{Architecture, Function, Inputs, Load, TableClass, TableLoad},
    prices::Prices,
};

pub(super) struct Plan {
    pub(super) inputs: Inputs,
    pub(super) load: Load,
    /// Every limit, in the order in which a growing load exceeds them.
    pub(super) limits: Vec<Limit>,
    /// Cost of a month, by part.
    pub(super) costs: [(&'static str, f64); 8],
    /// Cost of the write units as fully used provisioned capacity.
    pub(super) provisioned_writes: f64,
    /// Cost that each further month of history adds to storage and backup.
    pub(super) growth: f64,
}

impl Plan {
    pub(super) fn of(inputs: Inputs, prices: &Prices) -> Self {
        let load = Load::of(&inputs);
        let millions = |per_second: f64| per_second * MONTH_SECONDS / 1e6;
        let gb_second = prices.of(match inputs.settings.architecture {
            Architecture::Arm64 => "LambdaArm64",
            Architecture::X86 => "LambdaX86",
        });
        let function = |function: &Function| {
            millions(function.invocations) * prices.of("LambdaRequests")
                + function.gb_seconds * MONTH_SECONDS * gb_second
        };
        // Each table with its prices.
        let classes = [
            (Some(load.table), TableClass::Standard),
            (load.history, inputs.history_class),
        ];
        let tables = classes.map(|(table, class)| table.map(|table| (table, class)));
        let price = |name: &str, class| match class {
            TableClass::Standard => prices.of(name),
            TableClass::InfrequentAccess => prices.of(&format!("{name}InfrequentAccess")),
        };
        let sum = |cost: &dyn Fn(TableLoad, TableClass) -> f64| -> f64 {
            let tables = tables.iter().flatten();
            tables.map(|(table, class)| cost(*table, *class)).sum()
        };
        let backup = prices.of("Backup");
        Self {
            limits: limits(&inputs, &load),
            costs: [
                (
                    "Writes",
                    sum(&|table, class| millions(table.write_units) * price("WriteRequestUnits", class)),
                ),
                ("Reads", millions(load.read_units) * prices.of("ReadRequestUnits")),
                (
                    "Storage",
                    sum(&|table, class| table.storage_gb * price("Storage", class)),
                ),
                ("Backup", sum(&|table, _| table.storage_gb * backup)),
                ("WriterFunction", function(&load.writer)),
                ("StreamFunction", function(&load.stream)),
                ("Queue", millions(load.queue_requests) * prices.of("QueueRequests")),
                ("Logs", load.log_gb * prices.of("Logs")),
            ],
            provisioned_writes: sum(&|table, class| {
                table.write_units * MONTH_HOURS * price("ProvisionedWriteUnits", class)
            }),
            growth: sum(&|table, class| table.storage_growth_gb * (price("Storage", class) + backup)),
            inputs,
            load,
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.costs.iter().map(|(_, cost)| cost).sum()
    }
}
