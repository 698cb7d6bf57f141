//! `vzero audit --all`.

use std::time::Duration;

use operations::{audit::TableAudit, error::OperationError};
use serde_json::json;

use super::{Operators, result::OperatorResult};

impl Operators {
    /// Audits the table. The lines are the findings.
    pub(crate) async fn audit(&self, lag: Duration) -> OperatorResult {
        self.run(async |printed| {
            let checkpoint = self.checkpoint("audit");
            let mut audit = TableAudit::new(self.connection(), &self.pace(), lag, None, checkpoint.as_deref())?;
            while let Some(audited) = audit.step().await? {
                for audited in audited {
                    let findings = audited.findings.iter();
                    findings.for_each(|finding| printed.line(finding.to_json(&audited.entity)));
                }
            }
            let counts = audit.counts();
            printed.summary(json!({
                "Entities": counts.entities, "Versions": counts.versions, "Findings": counts.findings,
            }));
            match counts.wrong {
                true => Err(OperationError::Incomplete("the audit found errors".to_owned())),
                false => Ok(()),
            }
        })
        .await
    }
}
