//! Background work that runs to its end even if the client disconnects, for example to make hidden messages of a queue
//! visible again. Each task has its own thread, so that reading files does not block other requests.
//!
//! A task uses the timers and connections of the runtime that started it. When that runtime shuts down, it stops the task
//! first, because timers panic after that.

use std::{convert::Infallible, sync::mpsc, thread, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
};

use crate::{error::PageError, permit};

/// Maximum number of tasks in progress that outlive their request: repair plans and an audit. Others wait.
const MAX_TASKS: usize = 8;
/// Maximum time for which the shutdown of the runtime waits until a task has stopped, for example while it reads a file.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

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
    start(work, permit::current(), sender);
    receiver.await.unwrap_or(Err(PageError::Interrupted))
}

fn start<T, F>(work: impl FnOnce() -> F + Send + 'static, permit: impl Send + 'static, sender: oneshot::Sender<T>)
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = Handle::current();
    let (alive, shutdown) = oneshot::channel::<Infallible>();
    let (stopping, stopped) = mpsc::channel::<Infallible>();
    let thread_runtime = runtime.clone();
    // If the thread cannot be created, the sender is dropped and the receiver reports an interruption.
    let _ = thread::Builder::new().spawn(move || {
        let result = thread_runtime.block_on(async {
            tokio::select! {
                biased;
                _ = shutdown => None,
                result = work() => Some(result),
            }
        });
        drop((permit, stopping));
        if let Some(result) = result {
            let _ = sender.send(result);
        }
    });
    // When the runtime shuts down, it drops this before its timers.
    let task = Task {
        alive: Some(alive),
        stopped,
    };
    runtime.spawn(task.ended());
}

/// A task in progress, which is stopped on drop.
struct Task {
    alive: Option<oneshot::Sender<Infallible>>,
    stopped: mpsc::Receiver<Infallible>,
}

impl Task {
    async fn ended(mut self) {
        if let Some(alive) = &mut self.alive {
            alive.closed().await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.stopped.recv_timeout(STOP_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        runtime::Builder,
        sync::{mpsc, watch},
    };

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

    /// Reports on drop whether its thread panics.
    struct Ended(std::sync::mpsc::Sender<bool>);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.send(thread::panicking());
        }
    }

    #[test]
    fn a_task_stops_before_the_timers_of_its_runtime() {
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = builder.enable_all().build().unwrap();
            let (ended, ends) = std::sync::mpsc::channel();
            let (started, mut starts) = mpsc::unbounded_channel();
            runtime.spawn(run(async move || {
                let _ended = Ended(ended);
                let timer = tokio::time::sleep(Duration::from_secs(3600));
                started.send(()).unwrap();
                timer.await;
                Ok(())
            }));
            runtime.block_on(starts.recv()).unwrap();
            drop(runtime);
            assert_eq!(ends.try_recv(), Ok(false));
        }
    }
}
