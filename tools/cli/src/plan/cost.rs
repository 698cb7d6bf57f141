//! What a month costs, by part.

use super::{
    figures::{MONTH_HOURS, MONTH_SECONDS},
    model::{Function, Load},
    prices::Prices,
};

/// The functions' instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Architecture {
    #[value(name = "arm64")]
    Arm64,
    #[value(name = "x86_64")]
    X86,
}

/// Money a month, by what it is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    pub(super) parts: Vec<(&'static str, f64)>,
    /// What the write units would cost as provisioned capacity that is used to the full.
    pub(super) provisioned_writes: f64,
    /// What each further month of history adds to storage and backup.
    pub(super) growth: f64,
}

impl Cost {
    pub(super) fn of(load: &Load, architecture: Architecture, prices: &Prices) -> Self {
        let millions = |a_second: f64| a_second * MONTH_SECONDS / 1e6;
        let gb_second = match architecture {
            Architecture::Arm64 => prices.lambda_arm64.amount,
            Architecture::X86 => prices.lambda_x86.amount,
        };
        let function = |function: &Function| {
            millions(function.invocations) * prices.lambda_requests.amount
                + function.gb_seconds * MONTH_SECONDS * gb_second
        };
        let stored = prices.storage.amount + prices.backup.amount;
        Self {
            parts: vec![
                ("Writes", millions(load.write_units) * prices.write_request_units.amount),
                ("Reads", millions(load.read_units) * prices.read_request_units.amount),
                ("Storage", load.storage_gb * prices.storage.amount),
                ("Backup", load.storage_gb * prices.backup.amount),
                ("WriterFunction", function(&load.writer)),
                ("StreamFunction", function(&load.stream)),
                ("Queue", millions(load.queue_requests) * prices.queue_requests.amount),
                ("Logs", load.log_gb * prices.logs.amount),
            ],
            provisioned_writes: load.write_units * MONTH_HOURS * prices.provisioned_write_units.amount,
            growth: load.storage_growth_gb * stored,
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.parts.iter().map(|(_, amount)| amount).sum()
    }
}
