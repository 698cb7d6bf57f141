//! Background work that runs to its end even if the client disconnects, for example to make hidden messages of a queue
//! visible again. Each task has its own thread, so that reading files does not block other requests.

use std::thread;

use tokio::{runtime::Handle, sync::oneshot};

use crate::error::PageError;

/// Starts a task and returns the channel of its result.
pub(super) fn spawn<T, F>(work: impl FnOnce() -> F + Send + 'static) -> oneshot::Receiver<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    // If the thread cannot be created, the sender is dropped and the receiver reports an interruption.
    let _ = thread::Builder::new().spawn(move || {
        let result = runtime.block_on(work());
        let _ = sender.send(result);
    });
    receiver
}

pub(super) async fn run<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, PageError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, PageError>>,
{
    spawn(work).await.unwrap_or(Err(PageError::Interrupted))
}
