//! Compares a run with the output of `vzero plan` for the same load and settings.

use std::{ffi::OsStr, io, process::Command};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::{
    Report,
    parameters::Parameters,
    report::{FunctionReport, rounded},
};

/// A plan that cannot be read.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages explain them")]
pub enum PlanError {
    #[error("cannot run {program}; build it with `cargo build -p vzero`, or pass --vzero")]
    Run { program: String, source: io::Error },
    #[error("vzero plan failed: {0}")]
    Failed(String),
    #[error("vzero plan printed invalid JSON")]
    Json(#[from] serde_json::Error),
}

/// Runs `vzero plan` for this load with `MemorySize` in MB, and takes the times from its output.
pub fn plan(program: &OsStr, memory: u32, parameters: &mut Parameters) -> Result<Value, PlanError> {
    let mut command = Command::new(program);
    command.arg("plan").args(arguments(memory, parameters));
    let output = command.output().map_err(|source| PlanError::Run {
        program: program.to_string_lossy().into_owned(),
        source,
    })?;
    if !output.status.success() {
        return Err(PlanError::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let plan: Value = serde_json::from_slice(&output.stdout)?;
    parameters.writer_cpu_micros = number(&plan, "/WriterFunction/CpuMicros");
    parameters.stream_cpu_micros = number(&plan, "/StreamFunction/CpuMicros");
    parameters.writer_invocation_ms = number(&plan, "/WriterFunction/InvocationMs");
    parameters.stream_invocation_ms = number(&plan, "/StreamFunction/InvocationMs");
    Ok(plan)
}

/// Returns the arguments of `vzero plan`.
fn arguments(memory: u32, p: &Parameters) -> Vec<String> {
    let named = [
        ("--updates-per-second", p.updates_per_second.to_string()),
        ("--entities", p.entities.to_string()),
        ("--item-bytes", p.item_bytes.to_string()),
        ("--zipf", p.zipf.to_string()),
        ("--partitions", p.partitions.to_string()),
        ("--idempotency-window", p.window.to_string()),
        ("--batch-size", p.batch_size.to_string()),
        ("--batching-window", p.batching_window.to_string()),
        ("--parallelization-factor", p.parallelization_factor.to_string()),
        ("--queue-batch-size", p.queue_batch_size.to_string()),
        ("--queue-concurrency", p.queue_concurrency.to_string()),
        ("--latency-ms", p.latency_ms.to_string()),
        ("--memory", memory.to_string()),
        ("--history-table", if p.own_history { "own" } else { "same" }.to_owned()),
        ("--output", "json".to_owned()),
    ];
    named
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}

fn number(plan: &Value, pointer: &str) -> f64 {
    plan.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()
}

/// One figure in the plan and in the simulation.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "figures")]
pub struct Difference {
    pub figure: &'static str,
    pub plan: f64,
    pub simulation: f64,
}

impl Difference {
    /// Returns the difference as a part of the simulated figure.
    pub fn relative(&self) -> f64 {
        (self.plan - self.simulation).abs() / self.simulation.abs().max(1e-9)
    }
}

/// Returns the figures that both have. They are comparable while no limit is exceeded.
pub fn figures(plan: &Value, report: &Report) -> Vec<Difference> {
    let difference = |figure, pointer: &str, simulation| Difference {
        figure,
        plan: rounded(number(plan, pointer)),
        simulation,
    };
    let mut figures = vec![difference(
        "write units/s",
        "/Table/WriteUnitsPerSecond",
        report.write_units,
    )];
    if report.history_write_units > 0.0 {
        let (pointer, units) = ("/History/WriteUnitsPerSecond", report.history_write_units);
        figures.push(difference("write units/s of history", pointer, units));
    }
    let (writer, stream): (&FunctionReport, &FunctionReport) = (&report.writer_function, &report.stream_function);
    figures.extend([
        difference(
            "calls/s of writer-fn",
            "/WriterFunction/InvocationsPerSecond",
            writer.invocations,
        ),
        difference(
            "concurrency of writer-fn",
            "/WriterFunction/Concurrency",
            writer.concurrency,
        ),
        difference(
            "calls/s of stream-fn",
            "/StreamFunction/InvocationsPerSecond",
            stream.invocations,
        ),
        difference(
            "concurrency of stream-fn",
            "/StreamFunction/Concurrency",
            stream.concurrency,
        ),
    ]);
    figures
}

/// Returns the exceeded limits of a plan, in its order, with the quotas of the simulated system instead of the default ones.
pub fn exceeded(plan: &Value, p: &Parameters) -> Vec<String> {
    let limits = plan["Limits"].as_array().map_or(&[][..], Vec::as_slice);
    let names = limits.iter().filter_map(|limit| {
        let name = limit["Limit"].as_str()?;
        let bound = match name {
            "NewTable" => return None,
            "TableQuota" => p.table_write_units,
            "AccountConcurrency" => f64::from(p.account_concurrency),
            _ => limit["Bound"].as_f64()?,
        };
        (limit["Load"].as_f64()? > bound).then(|| name.to_owned())
    });
    names.collect()
}
