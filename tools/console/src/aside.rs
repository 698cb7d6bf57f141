//! Work beside the request that asked for it: it goes on to the end when nobody waits for it any more, such as where messages
//! are hidden that are to be seen again. Each has a thread of its own, so that reading files holds up nobody else.

use std::thread;

use tokio::{runtime::Handle, sync::oneshot};

use crate::error::PageError;

/// Begins to work.
pub(super) fn begin<T, F>(work: impl FnOnce() -> F + Send + 'static) -> oneshot::Receiver<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    // Without a thread, the sender is gone, which is told as work that was broken off.
    let _ = thread::Builder::new().spawn(move || {
        let done = runtime.block_on(work());
        let _ = sender.send(done);
    });
    receiver
}

/// Works, and waits for it.
pub(super) async fn run<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, PageError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, PageError>>,
{
    let done = begin(work).await;
    done.unwrap_or_else(|_| Err(PageError::Unavailable("the work was broken off".to_owned())))
}
