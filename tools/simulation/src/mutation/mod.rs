//! Mutations: each disables one guard, which the simulation must detect.
//!
//! The functions have no switch for this. Requests, responses, events, records or times are changed in transit:
//!
//! | module | changes |
//! |---|---|
//! | `writes` | requests of the functions and of operators |
//! | `undo` | requests and responses of an undo |
//! | `sealing` | requests and responses of seal-fn and of erasures |
//! | `reads` | responses of the database, events of invocations, and stream records |
//!
//! A mutation depends on the expressions and names of the guard that it disables. A run in which it changed nothing is an error, and
//! so is one in which the database rejects an expression that it changed: such a run shows nothing about the guard.
//!
//! Ten rules of the latest item have no mutation, as no schedule is known that shows their absence. Without one of them,
//! requests differ from the snapshots of `writer-fn/src/counter/test_requests.rs`.

mod expressions;
mod reads;
pub(crate) mod sealing;
mod undo;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use crate::{caller::Caller, error::SimulationError, http::Response, requests::text};

/// The name of a disabled guard.
pub(crate) type Mutation = &'static str;

/// Returns the name of each mutation on the command line, with its guard. The name of a rule of the latest item disables that rule.
pub(crate) fn all() -> impl Iterator<Item = (Mutation, &'static str)> {
    // Each line is a name, the seed of a schedule that detects the mutation, and the guard.
    include_str!("../../mutations").lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        Some((name, rest.split_once(' ')?.1))
    })
}

/// Returns the parser of a name.
pub(crate) fn parser() -> impl TypedValueParser<Value = Mutation> {
    let values = all().map(|(name, guard)| PossibleValue::new(name).help(guard));
    PossibleValuesParser::new(values).try_map(|given| {
        let mut names = all().map(|(name, _)| name);
        names.find(|name| *name == given).ok_or("there is no such mutation")
    })
}

/// Fails if this process, whose mutation this is, shows nothing about the guard.
pub(crate) fn verdict(mutation: Mutation, schedules: u64) -> Result<(), SimulationError> {
    let name = mutation.to_owned();
    if let Some(message) = REJECTED.get().cloned() {
        return Err(SimulationError::Rejected { name, message });
    }
    match CHANGES.load(Ordering::Relaxed) {
        0 => Err(SimulationError::Unchanged { name, schedules }),
        _ => Ok(()),
    }
}

/// Number of changes in this process.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// The first message with which the database rejected a changed expression.
static REJECTED: OnceLock<String> = OnceLock::new();

/// The mutation of a run, if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutations(pub(crate) Option<Mutation>);

impl Mutations {
    pub(crate) fn is(self, guard: &str) -> bool {
        self.0 == Some(guard)
    }

    /// Returns `true`, and counts a change, if this guard is disabled.
    pub(crate) fn disable(self, guard: &str) -> bool {
        let is_disabled = self.is(guard);
        CHANGES.fetch_add(is_disabled.into(), Ordering::Relaxed);
        is_disabled
    }

    /// Changes a value, and counts it if it is different afterwards.
    fn change(self, value: &mut Value, change: impl FnOnce(Mutation, &mut Value)) {
        if let Some(mutation) = self.0 {
            let before = value.clone();
            change(mutation, value);
            CHANGES.fetch_add((*value != before).into(), Ordering::Relaxed);
        }
    }

    /// Changes a request before the database receives it.
    pub(crate) fn request(self, operation: &str, body: &mut Value) {
        self.change(body, |mutation, body| {
            writes::change(mutation, operation, body);
            undo::change(mutation, operation, body);
            sealing::change(mutation, operation, body);
        });
    }

    /// Changes a request that is executed after its sender has stopped waiting for it.
    pub(crate) fn delayed(self, operation: &str, body: &mut Value) {
        self.change(body, |mutation, body| writes::change_delayed(mutation, operation, body));
    }

    /// Notes the response to a request that was changed.
    pub(crate) fn executed(response: &Response) {
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let message = text(&body, "/message");
        // As on AWS: `Invalid ConditionExpression: …`, or a name or value that no expression uses. writer-fn reacts to a long update.
        if message.contains("Expression") && !message.contains("UpdateExpression: Expression size") {
            REJECTED.get_or_init(|| message.to_owned());
        }
    }

    /// Returns unconditional puts that replace the statements of a request. `None` if the request stays as it is.
    pub(crate) fn puts(self, operation: &str, body: &Value) -> Option<Vec<Value>> {
        let puts = writes::puts(self.0?, operation, body);
        puts.filter(|_| self.disable("condition"))
    }

    /// Changes a response of the database before its sender receives it.
    pub(crate) fn response(self, operation: &str, caller: Option<&Caller>, request: &Value, response: &mut Value) {
        self.change(response, |mutation, response| {
            reads::change(mutation, operation, caller, request, response);
            sealing::change_read(mutation, operation, caller, request, response);
            if mutation == "undo-lag" && caller.is_some_and(Caller::is_undo) {
                undo::change_history(operation, request, response);
            }
        });
    }

    /// Returns `true` if a request is answered without being executed.
    pub(crate) fn skips(self, caller: Option<&Caller>, operation: &str, body: &Value) -> bool {
        let skips = |mutation| sealing::skips(mutation, caller, operation, body) && self.disable(mutation);
        self.0.is_some_and(skips)
    }

    /// Replaces the response to a write of an operator or of seal-fn.
    pub(crate) fn answer(self, caller: Option<&Caller>, request: &Value, response: &mut Response) {
        if self.is("undo-replan") && caller.is_some_and(Caller::is_undo) && undo::succeed(request, response) {
            self.disable("undo-replan");
        }
    }

    /// Changes an event before a writer receives it.
    pub(crate) fn event(self, event: &mut Value) {
        self.change(event, reads::change_event);
    }

    /// Returns `false` if stream-fn fails this batch as a whole.
    pub(crate) fn accepts_batch(self, payload: &Value) -> bool {
        !self.is("raw-split") || reads::is_typed(payload) || !self.disable("raw-split")
    }

    /// Removes the batch item failures of a function's response, if this guard is disabled.
    pub(crate) fn failures(self, guard: &str, response: &mut Value) {
        self.change(response, |mutation, response| {
            match response.get_mut("batchItemFailures") {
                Some(failures) if mutation == guard => *failures = json!([]),
                _ => {}
            }
        });
    }

    /// Changes a stream record before the mapping filters it.
    pub(crate) fn record(self, record: &mut Value) {
        self.change(record, reads::change_record);
    }
}
