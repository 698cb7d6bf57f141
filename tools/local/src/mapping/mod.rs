//! Lambda's event source mapping for DynamoDB Streams, as a library.
//!
//! What it reads, whom it invokes, where failures go, where its position is kept and what time it is are all handed
//! in; it waits with Tokio's clock. So it runs beside an embedded database in real time, and in a test or a simulation
//! in virtual time.
//!
//! ```text
//! Source ──poll──> filter ──by item key──> lane 1..P ──batch──> Invoker
//!                    │                        │ halves, retries, ages
//!                    └── moves on ──> Tracker <── done ──┴──> Destination (what has failed for good)
//!                                        └──> Positions (everything up to here is done)
//! ```

pub mod answer;
pub mod delivery;
pub mod destination;
pub mod failure;
pub mod filter;
pub mod lane;
pub mod position;
pub mod record;
pub mod settings;
pub mod shard;
pub mod source;

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};

use self::{
    destination::Destination,
    position::{Position, Positions},
    record::Record,
    settings::Settings,
    source::{Shard, Source},
};

/// How often the list of shards is read again.
const SHARDS_EVERY: Duration = Duration::from_secs(10);

/// An event source mapping, and everything it works with.
pub struct Mapping<S, I, D, P, C> {
    /// How it behaves.
    pub settings: Settings,
    /// What failure documents and records say of it.
    pub identity: Identity,
    /// The stream.
    pub source: S,
    /// The function.
    pub invoker: I,
    /// Where records go that failed for good.
    pub destination: D,
    /// Where its position is kept.
    pub positions: P,
    /// What time it is.
    pub clock: C,
    /// What it has done so far.
    pub counters: Counters,
}

/// The names in failure documents and records.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The mapping's own id.
    pub uuid: String,
    /// The function it invokes.
    pub function_arn: String,
    /// The stream it reads.
    pub stream_arn: String,
}

/// The wall clock: the time since 1970-01-01T00:00:00Z.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync> Clock for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// Invokes the function, and waits for its answer.
pub trait Invoker: Send + Sync {
    /// One synchronous invocation.
    fn invoke(&self, payload: String) -> impl Future<Output = Invocation> + Send;
}

/// How an invocation went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its request id.
    pub request_id: String,
    /// Its end.
    pub end: InvocationEnd,
}

/// The end of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationEnd {
    /// The function answered.
    Answer(Vec<u8>),
    /// The function failed, timed out or died.
    FunctionError,
    /// The function was not reached: a throttle, or an error of the service.
    NotInvoked,
}

/// What a mapping has done so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Records read from the stream.
    pub read: AtomicU64,
    /// Records that the filter let through.
    pub matched: AtomicU64,
    /// Invocations.
    pub invocations: AtomicU64,
    /// Invocations that had to be repeated, in whole or in part.
    pub retries: AtomicU64,
    /// Those of them that went on with a half of the batch.
    pub bisections: AtomicU64,
    /// Failure documents.
    pub documents: AtomicU64,
    /// Who is told of records, where somebody is.
    pub watch: Option<Arc<dyn Watch>>,
}

/// Is told what becomes of records. The mapping tells no time: who wants one looks at a clock.
pub trait Watch: Debug + Send + Sync {
    /// These were read from the stream, and are on their way to the function.
    fn taken(&self, records: &[&Record]);

    /// The function has done these.
    fn done(&self, records: &[Record]);

    /// These are in a failure document.
    fn given_up(&self, records: &[Record]);
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl<S, I, D, P, C> Mapping<S, I, D, P, C>
where
    S: Source,
    I: Invoker,
    D: Destination,
    P: Positions,
    C: Clock,
{
    /// Works for ever. To drop it is to stop it: what was under way is delivered again from the last position.
    pub async fn run(&self) {
        let mut started = HashSet::new();
        let mut ended = HashSet::new();
        let mut working = FuturesUnordered::new();
        loop {
            let listed = self.source.shards().await;
            let look_again = if listed.is_ok() {
                SHARDS_EVERY
            } else {
                shard::POLL_INTERVAL
            };
            for shard in ready(&listed.unwrap_or_default(), &started, &ended) {
                started.insert(shard.id.clone());
                working.push(async move {
                    shard::work(self, &shard.id).await;
                    shard.id
                });
            }
            tokio::select! {
                // The choice would be drawn at random.
                biased;
                Some(shard) = working.next() => {
                    ended.insert(shard);
                }
                () = tokio::time::sleep(look_again) => {}
            }
        }
    }
}

/// The shards that can be read now: a parent is read to its end before its children.
fn ready(shards: &[Shard], started: &HashSet<String>, ended: &HashSet<String>) -> Vec<Shard> {
    let listed: HashSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
    let parent_is_done = |shard: &&Shard| match &shard.parent {
        // A parent that is no longer listed is trimmed.
        Some(parent) => ended.contains(parent) || !listed.contains(parent.as_str()),
        None => true,
    };
    let fresh = shards.iter().filter(|shard| !started.contains(&shard.id));
    fresh.filter(parent_is_done).cloned().collect()
}

/// Where a shard is read from first.
fn start(saved: Option<Position>, settings: &Settings) -> Position {
    saved.unwrap_or(match settings.starting_position {
        settings::StartingPosition::TrimHorizon => Position::TrimHorizon,
        settings::StartingPosition::Latest => Position::Latest,
    })
}

#[cfg(test)]
mod tests;
