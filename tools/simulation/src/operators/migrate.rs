//! `vzero admin migrate`, and the adoption of a table.

use std::time::Duration;

use operations::{
    error::OperationError,
    migrate::{Migration, Step},
};
use serde_json::json;
use shared::dynamodb::maintain::rate_limit::Limits;

use super::{Operators, result::OperatorResult};

impl Operators {
    /// `vzero admin table adopt --history-table`.
    pub(crate) async fn adopt(&self, history: &str) -> OperatorResult {
        self.run(async |printed| {
            let adopted = self.connection().store.adopt_table(Some(history), None).await;
            let adopted = adopted.map_err(|error| OperationError::Incomplete(error.to_string()))?;
            printed.summary(json!({"NewHistory": adopted.has_new_history}));
            Ok(())
        })
        .await
    }

    /// `vzero admin migrate --wait`.
    pub(crate) async fn migrate(&self, wait: Duration) -> OperatorResult {
        self.run(async |printed| {
            let checkpoint = self.checkpoint("migrate");
            let mut run = Migration::new(self.connection(), wait, Limits::default(), None, checkpoint.as_deref())?;
            while let Some(step) = run.step().await? {
                if let Step::Page(refused) = step {
                    for refused in refused {
                        printed.line(json!({"SK": refused.sort_key, "Refused": refused.why.to_string()}));
                    }
                }
            }
            let (counts, _) = run.totals();
            printed.summary(json!({"Moved": counts.moved, "Refused": counts.refused}));
            match counts.refused {
                0 => Ok(()),
                refused => Err(OperationError::Incomplete(format!(
                    "{refused} items could not be moved"
                ))),
            }
        })
        .await
    }
}
