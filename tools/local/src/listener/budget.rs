//! How many requests a listener holds at the same time, and how many bytes of their bodies.
//!
//! A request reserves its place before its body is read, and each part of the body before it is kept. The reservation lasts until
//! the request is done, also if its client disconnects earlier.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body up to this multiple of its maximum is read and dropped, so that its client receives the error.
const MAX_DROPPED: usize = 8;

/// Maximum number of requests at the same time, and of the bytes of their bodies.
#[derive(Debug)]
pub(crate) struct Budget {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The place of one request in a [`Budget`]. It becomes free when this value is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    _request: OwnedSemaphorePermit,
    bytes: OwnedSemaphorePermit,
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum BodyError {
    #[error("the body is too large")]
    TooLarge,
    #[error("too many requests are waiting")]
    Exhausted,
    #[error("the body is incomplete")]
    Incomplete,
}

impl Budget {
    pub(crate) fn new(requests: usize, bytes: usize) -> Self {
        Self {
            requests: Arc::new(Semaphore::new(requests)),
            bytes: Arc::new(Semaphore::new(bytes)),
        }
    }

    /// Reads the body of a request, at most `max` bytes, and reserves its place. A body that is not kept is read nevertheless, so
    /// that its client receives the error.
    ///
    /// # Errors
    ///
    /// - [`BodyError::TooLarge`]: the body is longer.
    /// - [`BodyError::Exhausted`]: the maximum number of requests or bytes is reached.
    /// - [`BodyError::Incomplete`]: the client disconnected, or the body is invalid.
    pub(crate) async fn read(&self, body: Body, max: usize) -> Result<(Bytes, Reservation), BodyError> {
        let mut reserved = self.reserve(0);
        let (mut kept, mut length) = (Vec::new(), 0);
        let mut parts = body.into_data_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|_| BodyError::Incomplete)?;
            length += part.len();
            if length > MAX_DROPPED * max {
                break;
            }
            reserved = reserved.and_then(|reservation| match length > max {
                true => Err(BodyError::TooLarge),
                false => reservation.with(part.len()),
            });
            match reserved {
                Ok(_) => kept.extend_from_slice(&part),
                Err(_) => kept = Vec::new(),
            }
        }
        match length > max {
            true => Err(BodyError::TooLarge),
            false => Ok((kept.into(), reserved?)),
        }
    }

    /// Reserves a place for one request with this many bytes.
    ///
    /// # Errors
    ///
    /// [`BodyError::Exhausted`]: the maximum number of requests or bytes is reached.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, BodyError> {
        Ok(Reservation {
            _request: acquire(&self.requests, 1)?,
            bytes: acquire(&self.bytes, bytes)?,
        })
    }
}

impl Reservation {
    fn with(mut self, bytes: usize) -> Result<Self, BodyError> {
        let more = acquire(self.bytes.semaphore(), bytes)?;
        self.bytes.merge(more);
        Ok(self)
    }
}

fn acquire(semaphore: &Arc<Semaphore>, permits: usize) -> Result<OwnedSemaphorePermit, BodyError> {
    let permits = u32::try_from(permits).map_err(|_| BodyError::Exhausted)?;
    let acquired = semaphore.clone().try_acquire_many_owned(permits);
    acquired.map_err(|_| BodyError::Exhausted)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn body(parts: &[&'static str]) -> Body {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, Infallible>(*part)).collect();
        Body::from_stream(futures::stream::iter(parts))
    }

    #[tokio::test]
    async fn requests_and_bytes_are_limited_until_a_reservation_is_dropped() {
        let budget = Budget::new(2, 10);
        let read = async |parts: &[&'static str]| budget.read(body(parts), 10).await;
        let (first, place) = read(&["abc", "def"]).await.unwrap();
        assert_eq!(first, "abcdef");
        assert_eq!(read(&["abc", "de"]).await.unwrap_err(), BodyError::Exhausted);
        let (_, other) = read(&["abcd"]).await.unwrap();
        assert_eq!(read(&[]).await.unwrap_err(), BodyError::Exhausted);
        drop(place);
        let (_, again) = read(&["abcdef"]).await.unwrap();
        drop((other, again));
        assert_eq!(read(&["0123456789"]).await.unwrap().0, "0123456789");
    }

    #[tokio::test]
    async fn a_body_above_the_maximum_is_too_large_and_not_kept() {
        // The bytes above the maximum need no reservation.
        let budget = Budget::new(1, 4);
        let read = budget.read(body(&["abc", "def", "ghi"]), 3).await;
        assert_eq!(read.unwrap_err(), BodyError::TooLarge);
        let endless = Body::from_stream(futures::stream::repeat(Ok::<_, Infallible>("abc")));
        assert_eq!(budget.read(endless, 3).await.unwrap_err(), BodyError::TooLarge);
    }

    /// Otherwise the connection would end while its client sends the body, and the client would not receive the error.
    #[tokio::test]
    async fn a_body_without_a_place_is_read_to_its_end() {
        for budget in [Budget::new(0, 100), Budget::new(1, 2)] {
            let (read, parts) = std::sync::mpsc::channel();
            let stream = futures::stream::iter(["abc"; 5]).map(move |part| read.send(()).map(|()| part));
            assert_eq!(
                budget.read(Body::from_stream(stream), 100).await.unwrap_err(),
                BodyError::Exhausted
            );
            assert_eq!(parts.iter().count(), 5);
        }
    }
}
