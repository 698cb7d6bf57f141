//! The parts of an event source mapping that differ between the local stack, the simulation and the tests.

use std::{io, time::Duration};

use super::{
    counters::Counters,
    failure::{Document, Identity},
    position::Positions,
    settings::Settings,
    source::Source,
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

/// Invokes the function and waits for its response.
pub trait Invoker: Send + Sync {
    /// Returns a new request id. Each set of records has one, which its retries share.
    fn request_id(&self) -> String;
    fn invoke(&self, request_id: &str, payload: String) -> impl Future<Output = InvocationOutcome> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationOutcome {
    Response(Vec<u8>),
    /// The function failed, timed out or exited.
    FunctionError,
    /// The invocation did not reach the function: a throttle or a service error.
    NotInvoked,
}

/// The on-failure destination: failure documents of records that failed permanently.
pub trait Destination: Send + Sync {
    /// Stores a document. The mapping advances after this call: if it fails, the records of the document are dropped.
    fn put(&self, document: Document) -> impl Future<Output = io::Result<()>> + Send;
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
