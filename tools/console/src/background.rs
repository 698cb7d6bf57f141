//! Background work that runs to its end even if the client disconnects, for example to make hidden messages of a queue
//! visible again. Each task has its own thread, so that reading files does not block other requests.

use std::thread;

use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
};

use crate::{concurrency, error::PageError};

/// Maximum number of tasks in progress that outlive their request: repair plans and an audit. Others wait.
const MAX_TASKS: usize = 8;

static TASKS: Semaphore = Semaphore::const_new(MAX_TASKS);

/// Starts a task that outlives the current request, and returns the channel of its result. It waits while others are in
/// progress.
pub(super) fn spawn<T, F>(work: impl FnOnce() -> F + Send + 'static) -> oneshot::Receiver<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let permit = TASKS.acquire().await;
        start(work, permit, sender);
    });
    receiver
}

/// Runs a task. It keeps the permit of the current request until it ends.
pub(super) async fn run<T, F>(work: impl FnOnce() -> F + Send + 'static) -> Result<T, PageError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, PageError>>,
{
    let (sender, receiver) = oneshot::channel();
    start(work, concurrency::permit(), sender);
    receiver.await.unwrap_or(Err(PageError::Interrupted))
}

fn start<T, F>(work: impl FnOnce() -> F + Send + 'static, permit: impl Send + 'static, sender: oneshot::Sender<T>)
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = Handle::current();
    // If the thread cannot be created, the sender is dropped and the receiver reports an interruption.
    let _ = thread::Builder::new().spawn(move || {
        let result = runtime.block_on(work());
        drop(permit);
        let _ = sender.send(result);
    });
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, watch};

    use super::*;

    #[tokio::test]
    async fn the_number_of_tasks_in_progress_is_limited() {
        let (started, mut starts) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(false);
        let tasks: Vec<_> = (0..MAX_TASKS * 3)
            .map(|_| {
                let (started, mut ended) = (started.clone(), ended.clone());
                spawn(async move || {
                    started.send(()).unwrap();
                    ended.wait_for(|ended| *ended).await.unwrap();
                })
            })
            .collect();
        for _ in 0..MAX_TASKS {
            starts.recv().await.unwrap();
        }
        assert_eq!((TASKS.available_permits(), starts.try_recv().ok()), (0, None));
        end.send_replace(true);
        for task in tasks {
            task.await.unwrap();
        }
    }
}
