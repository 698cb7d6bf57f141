//! `vzero admin table adopt`.

use operations::error::OperationError;
use serde_json::json;

use super::{Operators, result::OperatorResult};

impl Operators {
    /// `vzero admin table adopt --history-table`.
    pub(crate) async fn adopt(&self, history: &str) -> OperatorResult {
        self.run(async |printed| {
            let adopted = operations::table::adopt::adopt_table(&self.connection().store, Some(history), None).await;
            let adopted = adopted.map_err(|error| OperationError::Incomplete(error.to_string()))?;
            printed.summary(json!({"NewHistory": adopted.has_new_history}));
            Ok(())
        })
        .await
    }
}
