//! The faults of a schedule: which request at a point fails, and what occurred.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;

use crate::{
    caller::{Author, Caller},
    database::{BATCH_EXECUTE_STATEMENT, EXECUTE_TRANSACTION},
    schedule::{Fault, FaultKind, Point},
};

pub(crate) struct FaultPlan {
    faults: Vec<Fault>,
    seen: HashMap<Point, u32>,
    occurred: BTreeMap<String, u64>,
    stopped: bool,
    rng: Rng,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64, faults: Vec<Fault>) -> Self {
        Self {
            faults,
            seen: HashMap::new(),
            occurred: BTreeMap::new(),
            stopped: false,
            rng: Rng::with_seed(seed ^ 0x5eed),
        }
    }

    /// Counts a request at this point, and returns its fault, if any.
    pub(crate) fn fault(&mut self, point: Point) -> Option<FaultKind> {
        let seen = self.seen.entry(point).or_default();
        let index = *seen;
        *seen += 1;
        // Readers start after the faults stopped.
        if self.stopped && point != Point::BatchGet {
            return None;
        }
        let due = |fault: &&Fault| fault.on == point && (fault.nth..fault.nth + fault.times).contains(&index);
        self.faults.iter().find(due).map(|fault| fault.kind)
    }

    /// Counts something that occurred.
    pub(crate) fn count(&mut self, fault: &str) {
        *self.occurred.entry(fault.to_owned()).or_default() += 1;
    }

    pub(crate) fn occurred(&self) -> &BTreeMap<String, u64> {
        &self.occurred
    }

    /// Stops all faults except those of readers.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns the random numbers of the run.
    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

/// Returns the point of a request, `None` if schedules have no faults for it.
pub(crate) fn point(operation: &str, caller: Option<&Caller>) -> Option<Point> {
    let Some(caller) = caller else {
        return (operation == "BatchGetItem").then_some(Point::BatchGet);
    };
    match caller.author() {
        Author::Writer(_) => match operation {
            "UpdateItem" | "TransactWriteItems" => Some(Point::Bump),
            "GetItem" | "BatchGetItem" | "Query" => Some(Point::Read),
            "PutItem" | BATCH_EXECUTE_STATEMENT => Some(Point::InlinePut),
            _ => None,
        },
        Author::StreamFunction => match operation {
            "GetItem" | "BatchGetItem" | "Query" => Some(Point::Read),
            "PutItem" | "TransactWriteItems" | BATCH_EXECUTE_STATEMENT | EXECUTE_TRANSACTION => Some(Point::Put),
            _ => None,
        },
        Author::Operator | Author::Redrive => Some(Point::Operator),
        Author::Other => None,
    }
}
