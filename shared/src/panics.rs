//! Panics: a defect that appears with one message or record must not fail the others of its batch.
//!
//! The functions do the work on each message and each record inside of [`caught`] or [`caught_async`]. A panic unwinds to there, and
//! counts as a failure of this message or record, which is delivered again. Without it, the panic would end the invocation, and all
//! messages of the batch would be delivered again, until all of them are in the dead-letter queue.
//!
//! A process that aborts, because its stack or memory is exhausted, cannot be caught. So everything that is read from outside has
//! limits, see [`json`](crate::json).

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use futures::FutureExt as _;
use thiserror::Error;

/// The work ended with a panic. The log has a line with the place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a defect of the program: it panicked, at the place that the log line before names")]
pub struct Panicked;

/// Does a piece of work. A value that it changes must not be used after a panic, unless it stays valid.
///
/// # Errors
///
/// Returns [`Panicked`] if the work panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// Does a piece of asynchronous work, see [`caught`].
///
/// # Errors
///
/// Returns [`Panicked`] if the work panics.
pub async fn caught_async<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

/// Logs panics as one line with their place. Their message can contain an attribute value, and is left out.
pub(crate) fn log() {
    panic::set_hook(Box::new(|info: &PanicHookInfo| {
        let place = info.location().map(ToString::to_string);
        tracing::error!(place, "panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_work_only() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| -> u8 { panic!("secret") }), Err(Panicked));
        assert_eq!(caught_async(async { 1 }).await, Ok(1));
        let work = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "secret");
        };
        assert_eq!(caught_async(work).await, Err(Panicked));
        assert!(!Panicked.to_string().contains("secret"));
    }
}
