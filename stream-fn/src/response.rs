//! Outcomes become the answer and its counts.

use aws_lambda_events::event::streams::DynamoDbBatchItemFailure;
use shared::{
    domain::{sequence::SequenceNumber, version_item::VersionItem},
    dynamodb::record_version::RecordOutcome,
};

use crate::error::RecordFailure;

/// Names a failed record in the answer.
pub fn failure(number: &SequenceNumber) -> DynamoDbBatchItemFailure {
    // Its default names no record, which fails the whole batch.
    let mut failure = DynamoDbBatchItemFailure::default();
    failure.item_identifier = Some(number.as_str().to_owned());
    failure
}

/// How a batch went.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    recorded: usize,
    already_recorded: usize,
    skipped: usize,
    failed: usize,
    /// The requests whose versions stand in history, as logs call them.
    requests: Vec<String>,
}

impl Summary {
    /// Counts what became of one record.
    pub fn count(&mut self, outcome: &Result<Option<RecordOutcome>, (Option<VersionItem>, RecordFailure)>) {
        let counter = match outcome {
            Ok(Some(RecordOutcome::Recorded)) => &mut self.recorded,
            Ok(Some(RecordOutcome::AlreadyRecorded)) => &mut self.already_recorded,
            Ok(None) => &mut self.skipped,
            Ok(Some(RecordOutcome::Conflict)) | Err(_) => &mut self.failed,
        };
        *counter += 1;
    }

    /// Notes whose version stands in history now.
    pub fn wrote_down(&mut self, request: String) {
        self.requests.push(request);
    }

    /// One line for the invocation. It names each request, so that one id leads from the queue to the version.
    pub fn log(&self) {
        tracing::info!(
            requests = self.requests.join(" "),
            recorded = self.recorded,
            already_recorded = self.already_recorded,
            skipped = self.skipped,
            failed = self.failed,
            outcome = if self.failed == 0 { "Recorded" } else { "PartialFailure" },
            "batch",
        );
    }
}
