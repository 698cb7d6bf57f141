//! Lambda's event source mapping for DynamoDB Streams, as a library.
//!
//! An [`Environment`] supplies everything the mapping works with: the stream, the function, the on-failure destination,
//! the stored positions and the clock. Waiting uses Tokio's clock. The same code therefore runs against an embedded
//! database in real time, and in a test or a simulation in virtual time.
//!
//! ```text
//! Source ──poll──> filter ──by item key──> lane 1..P ──batch──> Invoker
//!                    │                        │ bisects, retries, checks the record age
//!                    └── advances ──> Tracker <── done ──┴──> Destination (records that failed permanently; without it, dropped)
//!                                        └──> Positions (all records up to this one are done)
//! ```

pub mod counters;
mod delivery;
mod environment;
pub mod failure;
pub mod filter;
mod poll;
pub mod position;
pub mod record;
mod response;
mod run;
pub mod settings;
mod shard;
pub mod source;

pub use self::{
    counters::{Counters, Counts, LastProcessingResult},
    environment::{Clock, Destination, Environment, InvocationOutcome, Invoker, Mapping},
    failure::Identity,
};

#[cfg(test)]
mod tests;
