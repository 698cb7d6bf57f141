//! Background work that outlives its request. It has a thread of its own, because its streams cannot move between threads.
//!
//! The work uses the timers and connections of the runtime that started it. When that runtime shuts down, it stops the work
//! first, because timers panic after that.

use std::{convert::Infallible, sync::mpsc, thread, time::Duration};

use tokio::{runtime::Handle, sync::oneshot};

/// Maximum time for which the shutdown of the runtime waits until the work has stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Work in progress. It is stopped on drop.
pub(super) struct Work {
    _stop: oneshot::Sender<Infallible>,
}

/// Starts work that outlives the current request.
pub(super) fn spawn<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) -> Work {
    let runtime = Handle::current();
    let (stop, stopped_by_owner) = oneshot::channel::<Infallible>();
    let (alive, shutdown) = oneshot::channel::<Infallible>();
    let (stopping, stopped) = mpsc::channel::<Infallible>();
    let thread_runtime = runtime.clone();
    // Without a thread, the work ends at once.
    let _ = thread::Builder::new().spawn(move || {
        thread_runtime.block_on(async {
            tokio::select! {
                biased;
                _ = shutdown => {}
                _ = stopped_by_owner => {}
                () = work() => {}
            }
        });
        drop(stopping);
    });
    // When the runtime shuts down, it drops this before its timers.
    let task = Task {
        alive: Some(alive),
        stopped,
    };
    runtime.spawn(task.ended());
    Work { _stop: stop }
}

/// Work in progress, from the point of view of its runtime.
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
    use tokio::{runtime::Builder, sync::mpsc};

    use super::*;

    /// Reports on drop whether its thread panics.
    struct Ended(std::sync::mpsc::Sender<bool>);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.send(thread::panicking());
        }
    }

    #[test]
    fn the_work_stops_before_the_timers_of_its_runtime() {
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = builder.enable_all().build().unwrap();
            let (ended, ends) = std::sync::mpsc::channel();
            let (started, mut starts) = mpsc::unbounded_channel();
            let _work = runtime.block_on(async {
                let work = spawn(async move || {
                    let _ended = Ended(ended);
                    let timer = tokio::time::sleep(Duration::from_secs(3600));
                    started.send(()).unwrap();
                    timer.await;
                });
                starts.recv().await.unwrap();
                work
            });
            drop(runtime);
            assert_eq!(ends.try_recv(), Ok(false));
        }
    }
}
