//! `vzero admin prune`.

use operations::{
    error::OperationError,
    prune::{EntityPrune, Options, TablePrune},
};
use serde_json::json;

use super::{Operators, result::OperatorResult};

impl Operators {
    /// `vzero admin prune ID`.
    pub(crate) async fn prune(&self, entity: &str, options: Options) -> OperatorResult {
        self.run(async |printed| {
            let pace = self.pace();
            let prune = EntityPrune::plan(&self.connection().store, entity, options, &pace).await?;
            let stopped_at = prune.stopped_at();
            let pruned = prune.run(&pace, printed).await?;
            printed.summary(json!({
                "ID": entity, "Floor": pruned.floor, "Marked": pruned.marked, "Left": pruned.left,
                "Undated": pruned.undated, "Expires": pruned.expires.as_secs(), "StoppedAt": stopped_at,
                "DryRun": options.dry_run,
            }));
            Ok(())
        })
        .await
    }

    /// `vzero admin prune --all`.
    pub(crate) async fn prune_table(&self, options: Options) -> OperatorResult {
        self.run(async |printed| {
            let checkpoint = self.checkpoint("prune");
            let mut run = TablePrune::new(self.connection(), options, &self.pace(), None, checkpoint.as_deref())?;
            while let Some(failed) = run.step().await? {
                for failed in failed {
                    printed.line(json!({"ID": failed.entity.as_str(), "Failed": failed.why.to_string()}));
                }
            }
            let counts = run.counts();
            printed.summary(json!({
                "Entities": counts.entities, "Pruned": counts.pruned, "Marked": counts.marked, "Left": counts.left,
                "Undated": counts.undated, "Stopped": counts.stopped, "Failed": counts.failed, "DryRun": options.dry_run,
            }));
            match counts.failed {
                0 => Ok(()),
                failed => Err(OperationError::Incomplete(format!("{failed} entities could not be pruned"))),
            }
        })
        .await
    }
}
