//! Rate limit of long operations, in capacity units per second, with retries of throttled requests.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use shared::dynamodb::client::{
    capacity::Meter,
    error::{ErrorKind, ServiceError},
};
use tokio::time::Instant;
use writer_fn::counter::WriteError;

/// Maximum number of retries of a throttled request, in addition to the SDK's retries.
const MAX_RETRIES: u32 = 8;
/// Wait before the first retry; it doubles up to [`MAX_WAIT`].
const INITIAL_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Maximum capacity units per second, `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Read units.
    pub read: Option<NonZeroU32>,
    /// Write units.
    pub write: Option<NonZeroU32>,
}

/// Consumed capacity units.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Consumed {
    /// Read units.
    pub read: f64,
    /// Write units.
    pub write: f64,
}

/// Rate limiter, shared by all requests of an operation. The capacity of a request is known only from its output, so a
/// request waits until the capacity of earlier requests is within the limit.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    meter: Meter,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    read: Bucket,
    write: Bucket,
    consumed: Consumed,
}

impl RateLimiter {
    /// Creates the limiter of a client with this meter. If the meter is not an interceptor of the client, nothing is limited.
    pub fn new(meter: Meter, limits: Limits) -> Self {
        let now = Instant::now();
        let state = State {
            read: Bucket::new(limits.read, now),
            write: Bucket::new(limits.write, now),
            consumed: Consumed::default(),
        };
        Self {
            meter,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Creates a limiter without limits.
    pub fn unlimited() -> Self {
        Self::new(Meter::default(), Limits::default())
    }

    /// Sends a request within the limit, and retries it if it is throttled.
    ///
    /// # Errors
    ///
    /// Returns the error of the request, after the last retry if it is throttled.
    pub async fn run<T, E: Throttling>(&self, request: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
        let mut attempt = 0;
        loop {
            self.wait().await;
            let result = request().await;
            self.count();
            match result {
                Err(error) if error.is_throttled() && attempt < MAX_RETRIES => {
                    tokio::time::sleep(INITIAL_WAIT.saturating_mul(1 << attempt).min(MAX_WAIT)).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Returns the units consumed so far.
    pub fn consumed(&self) -> Consumed {
        self.count();
        self.lock().consumed
    }

    /// Returns the maximum number of items of one page, so that a page of small items consumes at most one second's units.
    pub fn page_limit(&self) -> Option<i32> {
        let rate = self.lock().read.rate?;
        Some(i32::try_from(rate.get()).unwrap_or(i32::MAX).max(10))
    }

    async fn wait(&self) {
        loop {
            let now = Instant::now();
            let wait = {
                let mut state = self.lock();
                state.read.wait(now).max(state.write.wait(now))
            };
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn count(&self) {
        let charges = self.meter.take();
        let now = Instant::now();
        let mut state = self.lock();
        for charge in charges {
            if matches!(charge.operation, "GetItem" | "BatchGetItem" | "Query" | "Scan") {
                state.consumed.read += charge.units;
                state.read.pay(charge.units, now);
            } else {
                state.consumed.write += charge.units;
                state.write.pay(charge.units, now);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Throttling for WriteError {
    fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }
}

/// Token bucket with a capacity of one second, which can be overdrawn.
#[derive(Debug)]
struct Bucket {
    rate: Option<NonZeroU32>,
    units: f64,
    since: Instant,
}

impl Bucket {
    fn new(rate: Option<NonZeroU32>, now: Instant) -> Self {
        Self {
            rate,
            units: rate.map_or(0.0, |rate| f64::from(rate.get())),
            since: now,
        }
    }

    fn fill(&mut self, rate: f64, now: Instant) {
        let earned = now.duration_since(self.since).as_secs_f64() * rate;
        self.units = (self.units + earned).min(rate);
        self.since = now;
    }

    fn pay(&mut self, units: f64, now: Instant) {
        if let Some(rate) = self.rate {
            self.fill(f64::from(rate.get()), now);
            self.units -= units;
        }
    }

    /// Returns the time until the bucket is not overdrawn.
    fn wait(&mut self, now: Instant) -> Duration {
        let Some(rate) = self.rate.map(|rate| f64::from(rate.get())) else {
            return Duration::ZERO;
        };
        self.fill(rate, now);
        if self.units >= 0.0 {
            return Duration::ZERO;
        }
        // Timers tick in milliseconds.
        Duration::from_secs_f64(-self.units / rate).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use shared::dynamodb::client::capacity::Charge;

    fn charge(operation: &'static str, units: f64) -> Charge {
        Charge { operation, units }
    }

    fn limits(read: u32, write: u32) -> Limits {
        Limits {
            read: NonZeroU32::new(read),
            write: NonZeroU32::new(write),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_units_a_second_than_allowed() {
        let meter = Meter::default();
        let limiter = RateLimiter::new(meter.clone(), limits(100, 10));
        let began = Instant::now();
        for _ in 0..100 {
            let sent: Result<(), ServiceError> = limiter
                .run(async || {
                    meter.push(charge("Scan", 50.0));
                    Ok(())
                })
                .await;
            sent.unwrap();
        }
        // 5,000 units at 100 per second, except for the first second's units and the last page.
        let took = began.elapsed().as_secs_f64();
        assert!((47.5..=49.6).contains(&took), "{took}");
        assert_eq!(
            limiter.consumed(),
            Consumed {
                read: 5000.0,
                write: 0.0
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_the_limit_and_writes_have_their_own() {
        let meter = Meter::default();
        let limiter = RateLimiter::new(meter.clone(), limits(100, 10));
        let began = Instant::now();
        let one = |operation, units| {
            let (limiter, meter) = (limiter.clone(), meter.clone());
            async move {
                for _ in 0..20 {
                    let sent: Result<(), ServiceError> = limiter
                        .run(async || {
                            meter.push(charge(operation, units));
                            tokio::task::yield_now().await;
                            Ok(())
                        })
                        .await;
                    sent.unwrap();
                }
            }
        };
        tokio::join!(
            one("Query", 50.0),
            one("GetItem", 50.0),
            one("BatchGetItem", 50.0),
            one("UpdateItem", 1.0)
        );
        let took = began.elapsed().as_secs_f64();
        assert!((27.0..=29.6).contains(&took), "{took}");
        assert_eq!(
            limiter.consumed(),
            Consumed {
                read: 3000.0,
                write: 20.0
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn unused_units_expire() {
        let meter = Meter::default();
        let limiter = RateLimiter::new(meter.clone(), limits(10, 10));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let began = Instant::now();
        for _ in 0..10 {
            let sent: Result<(), ServiceError> = limiter
                .run(async || {
                    meter.push(charge("PutItem", 10.0));
                    Ok(())
                })
                .await;
            sent.unwrap();
        }
        assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_request_is_retried() {
        let limiter = RateLimiter::unlimited();
        let throttled =
            || ServiceError::not_built("Scan").with_reason(ErrorKind::Throttled, "ThrottlingException", None);
        let sent = Cell::new(0);
        let result = limiter.run(async || {
            sent.set(sent.get() + 1);
            if sent.get() < 4 { Err(throttled()) } else { Ok(()) }
        });
        assert_eq!(result.await, Ok(()));
        assert_eq!(sent.get(), 4);
        sent.set(0);
        let result: Result<(), _> = limiter
            .run(async || {
                sent.set(sent.get() + 1);
                Err(throttled())
            })
            .await;
        assert_eq!((result, sent.get()), (Err(throttled()), MAX_RETRIES + 1));
        sent.set(0);
        let other: Result<(), _> = limiter
            .run(async || {
                sent.set(sent.get() + 1);
                Err(ServiceError::not_built("Scan"))
            })
            .await;
        assert_eq!((other.is_err(), sent.get()), (true, 1));
    }
}
