//! What is sent, and in which order.

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};

/// How a soak is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Everything random follows from it, but for what the processes make of their time.
    pub seed: u64,
    /// How many different updates are sent.
    pub updates: usize,
    /// Of how many entities.
    pub entities: usize,
    /// How many updates are under way at once.
    pub senders: usize,
    /// How many updates of one entity are under way at once.
    pub of_one_entity: usize,
    /// How many invocations begin, on average, until the next process is killed; 0 for none. By invocations, not by time: on
    /// a slow machine as well, each has a fair chance to live.
    pub kill_one_in: u64,
    /// How long the histories may take after the last update.
    pub patience: Duration,
}

/// One update of one entity, by its number in the whole plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Which entity.
    pub(super) entity: usize,
    /// Which update.
    pub(super) number: usize,
}

impl Step {
    /// The partition key of its entity.
    pub(super) fn id(&self) -> String {
        format!("Equipment#{}", self.entity)
    }

    /// Its idempotency key.
    pub(super) fn request_id(&self) -> String {
        format!("request-{}", self.number)
    }

    /// What is sent: some attributes change, one comes, one goes.
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

/// The updates that wait to be sent, by entity.
#[derive(Debug)]
pub(super) struct Plan {
    random: fastrand::Rng,
    waiting: Vec<VecDeque<Step>>,
    under_way: Vec<usize>,
    of_one_entity: usize,
}

impl Plan {
    /// Deals the updates out to the entities, at random by the seed.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let mut waiting = vec![VecDeque::new(); settings.entities];
        for number in 0..settings.updates {
            let entity = random.usize(..settings.entities);
            waiting[entity].push_back(Step { entity, number });
        }
        Self {
            random,
            under_way: vec![0; settings.entities],
            waiting,
            of_one_entity: settings.of_one_entity,
        }
    }

    /// The next update to send, of an entity that has not too many under way. `None` where there is none right now.
    pub(super) fn take(&mut self) -> Option<Step> {
        let ready = |entity: &usize| !self.waiting[*entity].is_empty() && self.under_way[*entity] < self.of_one_entity;
        let ready: Vec<_> = (0..self.waiting.len()).filter(ready).collect();
        let entity = *self.random.choice(&ready)?;
        self.under_way[entity] += 1;
        self.waiting[entity].pop_front()
    }

    /// An update is no longer under way.
    pub(super) fn done(&mut self, step: &Step) {
        self.under_way[step.entity] -= 1;
    }

    /// Whether all is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Whether something is to happen that happens with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.random.f64() < probability
    }
}
