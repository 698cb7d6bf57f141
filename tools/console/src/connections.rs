//! Connections of clients, and their limits: slow and idle clients are disconnected.
//!
//! | limit | of |
//! |---|---|
//! | 10 s | the time until a client has sent the headers of its next request |
//! | 60 s | the time in which a client receives a response. [`crate::guard`] limits the time in which it sends a form |
//! | 256 | open connections |
//!
//! If there are 256 connections, a new one closes the one that waits for its client the longest. So a flood of idle connections
//! does not lock out the operator. A connection that served a page, which requires that its client is signed in, is not closed; if
//! all did, a new one waits until one of them ends.
//!
//! All connections are closed when [`serve`] is dropped.

use std::{collections::HashMap, time::Duration};

use axum::{Router, extract::Request, serve::Listener};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::watch,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

/// Maximum size of the buffer for the headers of a request, in bytes. An address has at most 64 KiB.
const MAX_BUFFER: usize = 128 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum time until a client has sent the headers of its next request.
    pub(super) headers: Duration,
    /// Maximum time in which a client receives a response.
    pub(super) transfer: Duration,
    /// Maximum number of open connections.
    pub(super) connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            transfer: Duration::from_secs(60),
            connections: 256,
        }
    }
}

/// State of a connection. Each request has it as an extension.
#[derive(Debug, Clone)]
pub(super) struct Activity(watch::Sender<State>);

#[derive(Debug, Clone, Copy)]
enum State {
    /// A page is in progress.
    Working,
    /// The connection has waited for its client since this time, and has served a page before.
    Served(Instant),
    /// The connection has waited for its client since this time, and has not served a page yet.
    Waiting(Instant),
}

/// Work on a request, until it is dropped.
pub(super) struct Work(Activity);

#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, Activity)>,
}

/// Serves connections until it is dropped.
pub(super) async fn serve(mut listener: TcpListener, router: Router, limits: Limits) {
    let mut connections = Connections::default();
    loop {
        let (stream, _) = Listener::accept(&mut listener).await;
        connections.make_room(limits.connections).await;
        connections.start(stream, router.clone(), limits);
    }
}

impl Connections {
    async fn make_room(&mut self, max: usize) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.remove(&ended);
        }
        while self.tasks.len() >= max {
            let waiting = self.open.values();
            let waiting = waiting.filter_map(|(task, activity)| match activity.state() {
                State::Waiting(since) => Some((since, task)),
                State::Working | State::Served(_) => None,
            });
            if let Some((_, task)) = waiting.min_by_key(|(since, _)| *since) {
                task.abort();
            }
            if let Some(ended) = self.tasks.join_next_with_id().await {
                self.remove(&ended);
            }
        }
    }

    fn remove(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
    }

    fn start(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router, limits: Limits) {
        let activity = Activity::new();
        let task = self.tasks.spawn(connection(stream, router, activity.clone(), limits));
        self.open.insert(task.id(), (task, activity));
    }
}

/// Serves a connection until the client closes it, or is too slow.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    activity: Activity,
    limits: Limits,
) {
    let service = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        activity.wait();
        request.extensions_mut().insert(activity.clone());
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = activity.waits_for(limits.transfer) => {}
    }
}

impl Activity {
    fn new() -> Self {
        Self(watch::Sender::new(State::Waiting(Instant::now())))
    }

    /// Marks the connection as working.
    pub(super) fn work(&self) -> Work {
        self.0.send_replace(State::Working);
        Work(self.clone())
    }

    /// Starts to wait for the client, which sends a request.
    fn wait(&self) {
        self.0.send_modify(|state| match state {
            State::Working => {}
            State::Served(since) | State::Waiting(since) => *since = Instant::now(),
        });
    }

    fn state(&self) -> State {
        *self.0.borrow()
    }

    /// Returns when the connection has been without work for this time.
    async fn waits_for(&self, time: Duration) {
        let mut state = self.0.subscribe();
        loop {
            state.mark_unchanged();
            let (State::Waiting(since) | State::Served(since)) = self.state() else {
                let _ = state.changed().await;
                continue;
            };
            tokio::select! {
                () = sleep_until(since + time) => return,
                _ = state.changed() => {}
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.send_replace(State::Served(Instant::now()));
    }
}

#[cfg(test)]
mod tests;
