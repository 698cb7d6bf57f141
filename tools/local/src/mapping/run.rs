//! The list of shards: each shard is read once its parent has been read to the end.

use std::collections::{HashMap, HashSet};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    environment::{Environment, Mapping},
    poll::{self, POLL_INTERVAL},
    source::{Shard, Source as _},
};

impl<E: Environment> Mapping<E> {
    /// Runs until it is dropped. Batches in flight and failure documents that are not written at that time are discarded:
    /// their records are delivered again from the last saved position.
    pub async fn run(&self) {
        tokio::time::sleep(self.settings.startup).await;
        let mut lineage = Lineage::default();
        let mut running = FuturesUnordered::new();
        let mut next_list = Instant::now();
        loop {
            let mut ready = Vec::new();
            if next_list <= Instant::now() {
                let listed = self.source.shards().await;
                let interval = listed.as_ref().map_or(POLL_INTERVAL, |_| self.settings.list_interval);
                next_list = Instant::now() + interval;
                // After an error, no shard counts as trimmed.
                ready = listed.map(|shards| lineage.list(shards)).unwrap_or_default();
            } else {
                tokio::select! {
                    // Without it, the choice is random, and a simulation cannot be repeated.
                    biased;
                    Some(shard) = running.next() => {
                        // Thousands of shards can end at once.
                        let mut ended = Some(shard);
                        while let Some(shard) = ended {
                            let children = lineage.end(shard);
                            // The list can be older than the children.
                            if children.is_empty() {
                                next_list = Instant::now();
                            }
                            ready.extend(children);
                            ended = running.next().now_or_never().flatten();
                        }
                    }
                    () = tokio::time::sleep_until(next_list) => {}
                }
            }
            for id in ready {
                running.push(async move {
                    poll::process(self, &id).await;
                    id
                });
            }
        }
    }
}

/// The shards by their state. A list or an end takes time for the shards in it only.
#[derive(Debug, Default)]
struct Lineage {
    /// Shards that were listed.
    known: HashSet<String>,
    ended: HashSet<String>,
    /// Children that wait for the end of a parent, by parent.
    waiting: HashMap<String, Vec<String>>,
}

impl Lineage {
    /// Returns the shards of a list that can be read now: a parent is read to its end before its children.
    fn list(&mut self, shards: Vec<Shard>) -> Vec<String> {
        let listed: HashSet<_> = shards.iter().map(|shard| shard.id.clone()).collect();
        // A parent that is no longer listed is trimmed.
        let trimmed = self.waiting.extract_if(|parent, _| !listed.contains(parent));
        let mut ready: Vec<_> = trimmed.flat_map(|(_, children)| children).collect();
        for Shard { id, parent } in shards {
            if !self.known.insert(id.clone()) {
                continue;
            }
            match parent.filter(|parent| listed.contains(parent) && !self.ended.contains(parent)) {
                Some(parent) => self.waiting.entry(parent).or_default().push(id),
                None => ready.push(id),
            }
        }
        // The order of a map differs from run to run.
        ready.sort_unstable();
        ready
    }

    /// Returns the children of a shard that was read to its end.
    fn end(&mut self, shard: String) -> Vec<String> {
        let children = self.waiting.remove(&shard).unwrap_or_default();
        self.ended.insert(shard);
        children
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_waits_for_the_end_of_a_listed_parent() {
        let mut lineage = Lineage::default();
        let list = |lineage: &mut Lineage, listed: &str| {
            let shard = |shard: &str| Shard {
                id: shard[..1].to_owned(),
                parent: shard.get(2..).map(str::to_owned),
            };
            lineage.list(listed.split(' ').map(shard).collect()).join(" ")
        };
        assert_eq!(list(&mut lineage, "a b<a c<a d<b z<y"), "a z");
        assert_eq!(list(&mut lineage, "a b<a c<a d<b z<y"), "");
        assert_eq!(lineage.end("a".to_owned()), ["b", "c"]);
        assert!(lineage.end("c".to_owned()).is_empty());
        assert_eq!(list(&mut lineage, "a b<a c<a d<b z<y"), "");
        // Of an ended parent, and of one that is trimmed while it is read.
        assert_eq!(list(&mut lineage, "a b<a e<a f<b"), "e");
        assert_eq!(list(&mut lineage, "f<b"), "d f");
    }
}
