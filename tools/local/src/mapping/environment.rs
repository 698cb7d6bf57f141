//! The parts of an event source mapping that differ between the local stack, the simulation and the tests.

use std::time::Duration;

use super::{
    counters::Counters, destination::Destination, failure::Identity, invoker::Invoker, position::Positions,
    settings::Settings, source::Source,
};

/// The implementations that a mapping works with.
pub trait Environment {
    type Source: Source;
    type Invoker: Invoker;
    type Destination: Destination;
    type Positions: Positions;
    type Clock: Clock;
}

pub struct Mapping<E: Environment> {
    pub settings: Settings,
    pub identity: Identity,
    pub source: E::Source,
    pub invoker: E::Invoker,
    pub destination: E::Destination,
    pub positions: E::Positions,
    pub clock: E::Clock,
    pub counters: Counters,
}

impl<E: Environment> std::fmt::Debug for Mapping<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

pub trait Clock: Send + Sync {
    /// Returns the time since 1970-01-01T00:00:00Z.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}
