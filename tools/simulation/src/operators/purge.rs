//! `vzero admin purge --yes`.

use std::time::Duration;

use operations::purge::{Purge, to_json};
use serde_json::json;

use super::{Operators, result::OperatorResult};

impl Operators {
    /// `vzero admin purge ID --wait`.
    pub(crate) async fn purge_with(&self, entity: &str, wait: Duration) -> OperatorResult {
        self.run(async |printed| {
            let mut purge = Purge::of(&self.connection().store, entity).await?;
            let done = purge.run(wait, |_| {}).await;
            // Also after an error.
            printed.summary(json!({"ID": entity, "Deleted": to_json(purge.deleted())}));
            done
        })
        .await
    }
}
