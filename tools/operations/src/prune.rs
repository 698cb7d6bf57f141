//! Prune: raises the floor of a history, then marks the versions below it for deletion by TTL.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, prune::Plan, version::Version},
    dynamodb::{Store, client::error::ServiceError, maintain::rate_limit::RateLimiter},
};

use crate::progress::Progress;

const CONCURRENCY: usize = 16;

/// Carries out a plan: marked versions expire at this time since the epoch. Returns the number of versions that were marked.
pub async fn carry_out(
    store: &Store,
    entity: &EntityId,
    plan: &Plan,
    expires: Duration,
    pace: &RateLimiter,
    progress: &impl Progress,
) -> Result<u64, ServiceError> {
    if plan.floor > plan.before {
        pace.run(async || store.raise_floor(entity, plan.floor).await).await?;
    }
    let mut marks = stream::iter(plan.mark.numbers().filter_map(Version::new))
        .map(|version| async move {
            let mark = pace.run(async || store.mark_version(entity, version, expires).await);
            mark.await
        })
        .buffer_unordered(CONCURRENCY);
    let mut marked = 0;
    while let Some(is_marked) = marks.try_next().await? {
        marked += u64::from(is_marked);
        progress.at(marked);
    }
    Ok(marked)
}
