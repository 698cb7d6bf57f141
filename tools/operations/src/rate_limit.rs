//! Rate limit of long operations, in capacity units per second, with retries of throttled requests.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use shared::dynamodb::{
    client::{
        capacity::{Charge, Meter},
        error::{ErrorKind, ServiceError},
    },
    read::versions::ReadError,
};
use tokio::time::Instant;
use writer_fn::counter::WriteError;

use crate::error::OperationError;

/// Maximum number of retries of a throttled request, in addition to the SDK's retries.
const MAX_RETRIES: u32 = 8;
/// Wait before the first retry; it doubles up to [`MAX_WAIT`].
const INITIAL_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Units that are not consumed can be consumed later, at most those of this time.
const CAPACITY: Duration = Duration::from_secs(1);

/// Maximum capacity units per second, `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Read units.
    pub read: Option<NonZeroU32>,
    /// Write units.
    pub write: Option<NonZeroU32>,
}

/// Consumed capacity units.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Consumed {
    /// Read units.
    pub read: f64,
    /// Write units.
    pub write: f64,
}

/// Rate limiter, shared by all requests of an operation: two token buckets, which can be overdrawn. The capacity of a request is
/// known only from its output, so a request waits until the capacity of earlier requests is within the limit.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    meter: Meter,
    limits: Limits,
    /// Buckets of read and of write units: the units consumed so far, and the time at which the bucket is full again.
    buckets: Arc<Mutex<[(f64, Instant); 2]>>,
}

impl RateLimiter {
    /// Creates the limiter of a client with this meter. If the meter is not an interceptor of the client, nothing is limited.
    pub fn new(meter: Meter, limits: Limits) -> Self {
        let buckets = Arc::new(Mutex::new([(0.0, Instant::now()); 2]));
        Self { meter, limits, buckets }
    }

    /// Creates a limiter without limits.
    pub fn unlimited() -> Self {
        Self::new(Meter::default(), Limits::default())
    }

    /// Sends a request within the limit, and retries it if it is throttled.
    pub async fn run<T, E: Throttling>(&self, request: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
        let mut attempt = 0;
        loop {
            self.ready().await;
            let result = request().await;
            self.consumed();
            match result {
                Err(error) if error.is_throttled() && attempt < MAX_RETRIES => {
                    tokio::time::sleep(INITIAL_WAIT.saturating_mul(1 << attempt).min(MAX_WAIT)).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Waits until earlier requests are within the limit. A request after it counts at the next call.
    pub(crate) async fn ready(&self) {
        self.consumed();
        // Concurrent requests can consume units during the wait.
        while let Some(wait) = self.wait() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Returns the time until no bucket is overdrawn.
    fn wait(&self) -> Option<Duration> {
        let full_at = self.buckets().iter().map(|(_, full_at)| *full_at).max()?;
        let wait = full_at
            .saturating_duration_since(Instant::now())
            .checked_sub(CAPACITY)?;
        // Timers tick in milliseconds.
        (!wait.is_zero()).then(|| wait.max(Duration::from_millis(1)))
    }

    /// Adds the units that an earlier run consumed. They do not count for the limit.
    pub(crate) fn resume(&self, Consumed { read, write }: Consumed) {
        let mut buckets = self.buckets();
        buckets[0].0 += read;
        buckets[1].0 += write;
    }

    /// Returns the units consumed so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        let mut buckets = self.buckets();
        for Charge { operation, units } in self.meter.take() {
            let (index, rate) = match operation {
                "GetItem" | "BatchGetItem" | "Query" | "Scan" => (0, self.limits.read),
                _ => (1, self.limits.write),
            };
            let (consumed, full_at) = &mut buckets[index];
            *consumed += units;
            if let Some(rate) = rate {
                let earned_in = Duration::from_secs_f64(units / f64::from(rate.get()));
                *full_at = Instant::now().max(*full_at) + earned_in;
            }
        }
        let [(read, _), (write, _)] = *buckets;
        Consumed { read, write }
    }

    /// Returns the maximum number of items of one page, so that a page of small items consumes at most one second's units.
    pub fn page_limit(&self) -> Option<i32> {
        Some(i32::try_from(self.limits.read?.get()).unwrap_or(i32::MAX).max(10))
    }

    fn buckets(&self) -> MutexGuard<'_, [(f64, Instant); 2]> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Error that can report throttling.
pub trait Throttling {
    /// Returns `true` if the request was throttled.
    fn is_throttled(&self) -> bool;
}

impl Throttling for ServiceError {
    fn is_throttled(&self) -> bool {
        self.kind == ErrorKind::Throttled
    }
}

impl Throttling for ReadError {
    fn is_throttled(&self) -> bool {
        matches!(self, Self::Service(error) if error.is_throttled())
    }
}

impl Throttling for WriteError {
    fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }
}

impl Throttling for OperationError {
    fn is_throttled(&self) -> bool {
        match self {
            Self::Service(error) | Self::Read(ReadError::Service(error)) => error.is_throttled(),
            Self::Write(error) => error.is_throttled(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn limiter(read: u32, write: u32) -> RateLimiter {
        let (read, write) = (NonZeroU32::new(read), NonZeroU32::new(write));
        RateLimiter::new(Meter::default(), Limits { read, write })
    }

    /// Sends requests that consume these units each.
    async fn send(limiter: &RateLimiter, requests: u32, operation: &'static str, units: f64) {
        for _ in 0..requests {
            let sent = limiter.run(async || {
                limiter.meter.push(Charge { operation, units });
                tokio::task::yield_now().await;
                Ok::<_, ServiceError>(())
            });
            sent.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_units_a_second_than_allowed() {
        let limiter = limiter(100, 10);
        let began = Instant::now();
        send(&limiter, 100, "Scan", 50.0).await;
        // 5,000 units at 100 per second, except for the first second's units and the last page.
        let took = began.elapsed().as_secs_f64();
        assert!((47.5..=49.6).contains(&took), "{took}");
        let (read, write) = (5000.0, 0.0);
        assert_eq!(limiter.consumed(), Consumed { read, write });
        // Concurrent requests share the limit, and writes have their own.
        let began = Instant::now();
        tokio::join!(
            send(&limiter, 20, "Query", 50.0),
            send(&limiter, 20, "GetItem", 50.0),
            send(&limiter, 20, "BatchGetItem", 50.0),
            send(&limiter, 20, "UpdateItem", 1.0)
        );
        let took = began.elapsed().as_secs_f64();
        assert!((27.0..=30.6).contains(&took), "{took}");
        let (read, write) = (8000.0, 20.0);
        assert_eq!(limiter.consumed(), Consumed { read, write });
    }

    #[tokio::test(start_paused = true)]
    async fn unused_units_expire() {
        let limiter = limiter(10, 10);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let began = Instant::now();
        send(&limiter, 10, "PutItem", 10.0).await;
        assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_request_is_retried() {
        let throttled = ServiceError::unprocessed("Scan");
        let other = ServiceError::not_built("Scan");
        // Errors, of which the last one is followed by a success, and the expected result and number of requests.
        for (errors, error, expected, requests) in [
            (3, &throttled, Ok(()), 4),
            (u32::MAX, &throttled, Err(throttled.clone()), MAX_RETRIES + 1),
            (u32::MAX, &other, Err(other.clone()), 1),
        ] {
            let sent = Cell::new(0);
            let limiter = RateLimiter::unlimited();
            let result = limiter.run(async || {
                sent.set(sent.get() + 1);
                if sent.get() <= errors {
                    Err(error.clone())
                } else {
                    Ok(())
                }
            });
            assert_eq!((result.await, sent.get()), (expected, requests));
        }
    }
}
