//! The parts of an event source mapping that differ between the local stack, the simulation and the tests.

use std::time::Duration;

use super::{
    counters::Counters, destination::Destination, failure::Identity, invoker::Invoker, position::Positions,
    settings::Settings, source::Source,
};

/// The implementations that a mapping works with.
pub trait Environment {
    /// The stream.
    type Source: Source;
    /// The function.
    type Invoker: Invoker;
    /// The on-failure destination.
    type Destination: Destination;
    /// The stored positions.
    type Positions: Positions;
    /// The wall clock.
    type Clock: Clock;
}

/// An event source mapping.
pub struct Mapping<E: Environment> {
    /// Settings of the mapping.
    pub settings: Settings,
    /// Names in failure documents and records.
    pub identity: Identity,
    /// The stream.
    pub source: E::Source,
    /// The function.
    pub invoker: E::Invoker,
    /// The destination of records that failed permanently.
    pub destination: E::Destination,
    /// The position of each shard.
    pub positions: E::Positions,
    /// The wall clock.
    pub clock: E::Clock,
    /// Counts of records and invocations since the start.
    pub counters: Counters,
}

impl<E: Environment> std::fmt::Debug for Mapping<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Returns the time since 1970-01-01T00:00:00Z.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}
