//! Faults of requests and invocations, and the names of all faults and other events, as the result counts them.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A fault of the `nth` request or invocation at a point, and of the following ones if `times` > 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) on: Point,
    pub(crate) nth: u32,
    pub(crate) times: u32,
    pub(crate) kind: FaultKind,
}

/// A kind of request or invocation that can have a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The writer's `UpdateItem` or `TransactWriteItems`.
    Bump,
    /// The writer's `GetItem`, or stream-fn's `BatchGetItem`.
    Read,
    /// The writer's `PutItem`.
    InlinePut,
    /// stream-fn's `PutItem`, `BatchExecuteStatement`, or `TransactWriteItems` of a record in quarantine.
    Put,
    /// A request of the mapping to the stream.
    Poll,
    /// An invocation of stream-fn.
    Invoke,
    /// An invocation of a writer.
    InvokeWriter,
    /// A request of an operator's command.
    Operator,
    /// One of these that changes the table.
    OperatorWrite,
    /// A request of an operator's command to S3 or SQS.
    External,
    /// `BatchGetItem` of a reader of the history.
    BatchGet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
pub(crate) enum FaultKind {
    Throttled,
    ErrorBefore,
    ErrorAfter,
    ResponseDropped,
    TimeOut,
    Hang,
    TransactionConflict,
    /// The connection is reset before the request is executed.
    RequestDropped,
    /// The response of a request arrives too late, if the request succeeds.
    SuccessUnanswered,
    /// The request is executed long after its sender has stopped waiting for it.
    Delayed,
    /// Every second statement of a request is throttled.
    StatementsThrottled,
    /// Every statement of a request is executed, and every second one is reported as failed.
    #[value(name = "statements-applied-but-failed")]
    StatementsApplied,
    /// IAM denies the action.
    Denied,
    /// The iterator of a shard has expired.
    IteratorExpired,
    /// A whole request of statements is rejected.
    #[value(name = "request-rejected")]
    Rejected,
    Unprocessed,
    Panic,
    KilledBefore,
    KilledAfter,
    // Faults of a whole invocation.
    NotInvoked,
    FunctionTimeOut,
    Redelivered,
    RedeliveredInPart,
    RedeliveredOutOfOrder,
    BadResponse,
    /// The function is deployed with another width of version keys.
    WrongLayout,
    /// The function is deployed with another table of history.
    #[value(name = "wrong-layout")]
    WrongHistory,
}

impl FaultKind {
    /// Returns the name under which the result counts it.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Events other than the fault of a single request or invocation.
const EVENTS: &str = "action-denied asynchronous-discarded backfill clock-jump clock-offset destination-denied duplicate-delivery \
    expired item-too-large latest-item-deleted latest-item-put latest-item-replaced layout-unchecked lossy malformed-record \
    mapping-stopped message-not-deleted missing-map moved-to-dead-letter-queue other-program partition-throttled pin prune purge \
    received-as-first record-age-exceeded record-dropped recorded-far-ahead recorded-in-another-form redrive redriven-update repair \
    request-id-reused requests-removed restore sender-clock-wrong shard-split stream-denied table-adopted table-copied \
    table-unresponsive trimmed version-put visibility-timeout visibility-too-short";

/// Returns the names, sorted.
pub(crate) fn names() -> BTreeSet<String> {
    // A window of such faults is counted by the name of its scope.
    let is_counted = |kind: &&FaultKind| !matches!(kind, FaultKind::Denied | FaultKind::RequestDropped);
    let kinds = FaultKind::value_variants().iter().filter(is_counted);
    let kinds = kinds.map(|kind| kind.name());
    kinds.chain(EVENTS.split(' ').map(ToOwned::to_owned)).collect()
}
