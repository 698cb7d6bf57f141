//! The list of shards: each shard is read once its parent has been read to the end.

use std::{collections::HashSet, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};

use super::{
    environment::{Environment, Mapping},
    poll::{self, POLL_INTERVAL},
    source::{Shard, Source as _},
};

const LIST_INTERVAL: Duration = Duration::from_secs(10);

impl<E: Environment> Mapping<E> {
    /// Runs until it is dropped. Batches in flight at that time are delivered again from the last saved position.
    pub async fn run(&self) {
        let mut started = HashSet::new();
        let mut ended = HashSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            let listed = self.source.shards().await;
            let pause = if listed.is_ok() { LIST_INTERVAL } else { POLL_INTERVAL };
            for shard in ready(&listed.unwrap_or_default(), &started, &ended) {
                started.insert(shard.id.clone());
                running.push(async move {
                    poll::run(self, &shard.id).await;
                    shard.id
                });
            }
            tokio::select! {
                // Without it, the choice is random, and a simulation cannot be repeated.
                biased;
                Some(shard) = running.next() => {
                    ended.insert(shard);
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

/// Returns the shards that can be read now: a parent is read to its end before its children.
fn ready(shards: &[Shard], started: &HashSet<String>, ended: &HashSet<String>) -> Vec<Shard> {
    let listed: HashSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
    let parent_ended = |shard: &&Shard| match &shard.parent {
        // A parent that is no longer listed is trimmed.
        Some(parent) => ended.contains(parent) || !listed.contains(parent.as_str()),
        None => true,
    };
    let new = shards.iter().filter(|shard| !started.contains(&shard.id));
    new.filter(parent_ended).cloned().collect()
}
