//! Names of all faults and other events that a schedule can contain, as the result counts them.

use std::collections::BTreeSet;

use clap::ValueEnum as _;

use crate::schedule::FaultKind;

/// Events other than the fault of a single request or invocation.
const EVENTS: [&str; 44] = [
    "action-denied",
    "asynchronous-discarded",
    "backfill",
    "clock-jump",
    "clock-offset",
    "destination-denied",
    "duplicate-delivery",
    "expired",
    "item-too-large",
    "latest-item-deleted",
    "latest-item-put",
    "latest-item-replaced",
    "layout-unchecked",
    "lossy",
    "malformed-record",
    "mapping-stopped",
    "message-not-deleted",
    "missing-map",
    "moved-to-dead-letter-queue",
    "other-program",
    "partition-throttled",
    "pin",
    "prune",
    "purge",
    "received-as-first",
    "record-age-exceeded",
    "record-dropped",
    "recorded-far-ahead",
    "recorded-in-another-form",
    "redrive",
    "redriven-update",
    "repair",
    "request-id-reused",
    "restore",
    "sender-clock-wrong",
    "shard-split",
    "stream-denied",
    "table-adopted",
    "table-copied",
    "table-unresponsive",
    "trimmed",
    "version-put",
    "visibility-timeout",
    "visibility-too-short",
];

/// Returns the names, sorted.
pub(crate) fn names() -> BTreeSet<String> {
    // A window of such faults is counted by the name of its scope.
    let is_counted = |kind: &&FaultKind| !matches!(kind, FaultKind::Denied | FaultKind::RequestDropped);
    let kinds = FaultKind::value_variants().iter().filter(is_counted);
    let kinds = kinds.map(|kind| kind.name());
    kinds.chain(EVENTS.map(ToOwned::to_owned)).collect()
}
