//! How many requests a listener holds at the same time, and how many bytes of their bodies.
//!
//! A request reserves its place before its body is read: the length of the body, or the maximum if it is not stated. The reservation
//! lasts until the request is done, also if its client disconnects earlier.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body up to this multiple of its maximum is read and dropped, so that its client receives the error.
const MAX_DROPPED: usize = 8;

/// Bytes that are not reserved. Each request needs its share of them, which limits the number of requests.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    share: usize,
}

/// The place of one request in a [`Budget`]. It becomes free when this value is dropped.
pub(crate) type Reservation = OwnedSemaphorePermit;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    /// Too many requests are waiting.
    Exhausted,
    Incomplete,
}

impl Budget {
    pub(crate) fn new(requests: usize, bytes: usize) -> Self {
        let (share, bytes) = (bytes / requests, Arc::new(Semaphore::new(bytes)));
        Self { bytes, share }
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
        let stated = body.size_hint().upper().and_then(|bytes| bytes.try_into().ok());
        let reserved = self.reserve(max.min(stated.unwrap_or(max)));
        let (mut kept, mut length) = (Vec::new(), 0);
        let mut parts = body.into_data_stream();
        while length <= MAX_DROPPED * max
            && let Some(part) = parts.next().await
        {
            let part = part.map_err(|_| BodyError::Incomplete)?;
            length += part.len();
            if length <= max && reserved.is_ok() {
                kept.extend_from_slice(&part);
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
        let permits = u32::try_from(bytes.max(self.share)).map_err(|_| BodyError::Exhausted)?;
        let reserved = self.bytes.clone().try_acquire_many_owned(permits);
        reserved.map_err(|_| BodyError::Exhausted)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A body whose length is not stated.
    fn in_parts(parts: &[&'static str]) -> Body {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, Infallible>(*part)).collect();
        Body::from_stream(futures::stream::iter(parts))
    }

    #[tokio::test]
    async fn requests_and_bytes_are_limited_until_a_reservation_is_dropped() {
        // A request has at least 5 bytes.
        let budget = Budget::new(2, 10);
        let read = async |body| budget.read(body, 10).await;
        let (first, place) = read("abc".into()).await.unwrap();
        assert_eq!(first, "abc");
        assert_eq!(read("abcdef".into()).await.unwrap_err(), BodyError::Exhausted);
        assert_eq!(read(in_parts(&["a"])).await.unwrap_err(), BodyError::Exhausted);
        let other = read("abcde".into()).await.unwrap();
        assert_eq!(read(Body::empty()).await.unwrap_err(), BodyError::Exhausted);
        drop((place, other));
        assert_eq!(read(in_parts(&["01234", "56789"])).await.unwrap().0, "0123456789");
    }

    #[tokio::test]
    async fn a_body_above_the_maximum_is_too_large_and_not_kept() {
        // The bytes above the maximum need no reservation.
        let budget = Budget::new(1, 4);
        for body in [in_parts(&["abc", "def", "ghi"]), "abcdefghi".into()] {
            assert_eq!(budget.read(body, 3).await.unwrap_err(), BodyError::TooLarge);
        }
        let endless = Body::from_stream(futures::stream::repeat(Ok::<_, Infallible>("abc")));
        assert_eq!(budget.read(endless, 3).await.unwrap_err(), BodyError::TooLarge);
    }

    /// Otherwise the connection would end while its client sends the body, and the client would not receive the error.
    #[tokio::test]
    async fn a_body_without_a_place_is_read_to_its_end() {
        let (read, parts) = std::sync::mpsc::channel();
        let stream = futures::stream::iter(["abc"; 5]).map(move |part| read.send(()).map(|()| part));
        let refused = Budget::new(1, 2).read(Body::from_stream(stream), 100).await;
        assert_eq!(refused.unwrap_err(), BodyError::Exhausted);
        assert_eq!(parts.iter().count(), 5);
    }
}
