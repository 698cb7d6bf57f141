//! The updates of a run and the order in which they are sent.

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of the updates and their order. The timing of processes is not repeatable.
    pub seed: u64,
    /// Number of distinct updates.
    pub updates: usize,
    pub entities: usize,
    /// Number of updates in flight at once.
    pub senders: usize,
    /// Maximum number of updates of one entity in flight at once.
    pub of_one_entity: usize,
    /// Mean number of invocations between two kills; 0 for no kills. It counts invocations, not time, so that a slow machine
    /// also makes progress.
    pub kill_one_in: u64,
    /// Maximum time until all histories are complete, after the last update.
    pub timeout: Duration,
}

/// An update of one entity, identified by its number in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) entity: usize,
    pub(super) number: usize,
}

impl Step {
    pub(super) fn id(&self) -> String {
        format!("Equipment#{}", self.entity)
    }

    pub(super) fn request_id(&self) -> String {
        format!("request-{}", self.number)
    }

    /// Returns the update: it changes attributes, adds one and removes one.
    pub(super) fn update(&self) -> Value {
        let number = self.number;
        json!({
            "ID": self.id(), "RequestId": self.request_id(), "Number": number,
            "State": if number.is_multiple_of(3) { "WARNING1" } else { "OK" },
            format!("Odd{}", number % 4): [number, null, {"é": ""}],
            format!("Odd{}", (number + 1) % 4): null,
        })
    }
}

/// The updates that are not sent yet, by entity.
#[derive(Debug)]
pub(super) struct Plan {
    random: fastrand::Rng,
    waiting: Vec<VecDeque<Step>>,
    in_flight: Vec<usize>,
    of_one_entity: usize,
}

impl Plan {
    /// Distributes the updates among the entities at random, by the seed.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let mut waiting = vec![VecDeque::new(); settings.entities];
        for number in 0..settings.updates {
            let entity = random.usize(..settings.entities);
            waiting[entity].push_back(Step { entity, number });
        }
        Self {
            random,
            in_flight: vec![0; settings.entities],
            waiting,
            of_one_entity: settings.of_one_entity,
        }
    }

    /// Takes the next update of an entity below its limit of updates in flight. Returns `None` if there is none now.
    pub(super) fn take(&mut self) -> Option<Step> {
        let ready = |entity: &usize| !self.waiting[*entity].is_empty() && self.in_flight[*entity] < self.of_one_entity;
        let ready: Vec<_> = (0..self.waiting.len()).filter(ready).collect();
        let entity = *self.random.choice(&ready)?;
        self.in_flight[entity] += 1;
        self.waiting[entity].pop_front()
    }

    pub(super) fn done(&mut self, step: &Step) {
        self.in_flight[step.entity] -= 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.random.f64() < probability
    }
}
