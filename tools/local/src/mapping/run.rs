//! The list of shards: each shard is read once its parent has been read to the end.

use std::collections::{HashMap, HashSet};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    environment::{Environment, Mapping},
    lanes,
    shard::POLL_INTERVAL,
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
                        let mut ended = vec![shard];
                        while let Some(Some(shard)) = running.next().now_or_never() {
                            ended.push(shard);
                        }
                        for shard in ended {
                            let children = lineage.end(shard);
                            // The list can be older than the children.
                            if children.is_empty() {
                                next_list = Instant::now();
                            }
                            ready.extend(children);
                        }
                    }
                    () = tokio::time::sleep_until(next_list) => {}
                }
            }
            for id in ready {
                running.push(async move {
                    lanes::run(self, &id).await;
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
        let mut ready = Vec::new();
        let listed: HashSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        // A parent that is no longer listed is trimmed.
        self.waiting.retain(|parent, children| {
            let is_listed = listed.contains(parent.as_str());
            if !is_listed {
                ready.append(children);
            }
            is_listed
        });
        for shard in &shards {
            if !self.known.insert(shard.id.clone()) {
                continue;
            }
            match &shard.parent {
                Some(parent) if listed.contains(parent.as_str()) && !self.ended.contains(parent) => {
                    self.waiting.entry(parent.clone()).or_default().push(shard.id.clone());
                }
                _ => ready.push(shard.id.clone()),
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

    fn shard(id: &str, parent: Option<&str>) -> Shard {
        Shard {
            id: id.to_owned(),
            parent: parent.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn a_child_waits_for_the_end_of_a_listed_parent() {
        let mut lineage = Lineage::default();
        let (a, b, c) = (shard("a", None), shard("b", Some("a")), shard("c", Some("a")));
        let shards = vec![a.clone(), b.clone(), c, shard("d", Some("b")), shard("z", Some("y"))];
        assert_eq!(lineage.list(shards.clone()), ["a", "z"]);
        assert!(lineage.list(shards.clone()).is_empty());
        assert_eq!(lineage.end("a".to_owned()), ["b", "c"]);
        assert!(lineage.end("c".to_owned()).is_empty());
        assert!(lineage.list(shards).is_empty());
        // Of an ended parent, and of one that is trimmed while it is read.
        assert_eq!(
            lineage.list(vec![a, b.clone(), shard("e", Some("a")), shard("f", Some("b"))]),
            ["e"]
        );
        assert_eq!(lineage.list(vec![shard("f", Some("b"))]), ["d", "f"]);
    }
}
