//! Recognizes saturated resources, at the end of each second. The names are those of the limits of `vzero plan`.

use crate::{
    counters::{Saturated, Second},
    parameters::SECOND,
    world::{Event, POLL, World},
};

/// Throttled requests of one partition in a second that count as saturation: 1 % of its write units.
const PARTITION_THROTTLES: u64 = 10;
/// Lanes that lag, as a part of all lanes, from which the function is the limit, and not single items.
const MANY_LANES: usize = 10;

impl World {
    /// Records the backlogs and the saturated resources of a second.
    pub(crate) fn end_second(&mut self) {
        let second = self.now / SECOND;
        self.at(self.now + SECOND, Event::Second);
        let current = self.saturated();
        for limit in &current {
            let is_known = self.saturation.found.iter().any(|found| found.limit == *limit);
            if self.saturation.last.contains(limit) && !is_known {
                let began = self.now - 2 * SECOND;
                let updates_per_second = self.rate_at(began).round();
                self.saturation.found.push(Saturated {
                    limit,
                    second: second - 2,
                    updates_per_second,
                });
            }
        }
        self.saturation.last = current;
        self.backlogs.push((self.queue.len() as u64, self.missing));
        self.second = Second::default();
        if second == self.warm_up() {
            self.reset();
        }
    }

    /// Returns the second from which the run is counted: a tenth of it is not.
    pub(crate) fn warm_up(&self) -> u64 {
        self.p.seconds / 10
    }

    fn saturated(&self) -> Vec<&'static str> {
        let second = &self.second;
        let mut found = Vec::new();
        if second.throttled.partition >= PARTITION_THROTTLES {
            found.push("HottestEntity");
        }
        if second.throttled.table * 100 > second.requests {
            found.push("TableQuota");
        }
        // In addition to the running batches, as many messages wait.
        let running = self.p.queue_concurrency as usize * self.p.batch(self.p.queue_batch_size);
        if self.writer.running >= self.p.queue_concurrency && self.queue.len() > running {
            found.push("WriterFunction");
        }
        if second.not_invoked * 100 > second.invoked {
            found.push("AccountConcurrency");
        }
        if second.in_flight {
            found.push("MessagesInFlight");
        }
        found.extend(self.lagging_lanes());
        found
    }

    /// Returns the limit of lanes that are busy without throttled requests, and have records that are a second old.
    fn lagging_lanes(&self) -> Option<&'static str> {
        let age = SECOND + 2 * POLL + self.p.batching_window * SECOND;
        let lagging = self.lanes.iter().filter(|lane| {
            lane.waiting()
                .is_some_and(|(created, throttled)| !throttled && self.now - created > age)
        });
        match lagging.count() {
            0 => None,
            count if count * MANY_LANES > self.lanes.len() => Some("StreamFunction"),
            _ => Some("HottestLane"),
        }
    }
}
