//! What the listeners of the stack have in common: which requests they accept, the size of a body, and a port that web pages cannot
//! find.

pub(crate) mod access;

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

use axum::{
    Router,
    body::{Body, Bytes},
    serve::ListenerExt as _,
};
use futures::TryStreamExt as _;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Binds a free port of a random loopback address, 127.a.b.c.
///
/// A web page that tries all ports of 127.0.0.1 does not find it, and there are too many addresses to try them all. A system
/// with only one loopback address, such as macOS, gets a free port of 127.0.0.1.
pub(crate) fn bind_random_address() -> io::Result<TcpListener> {
    let [a, b, c, ..] = Uuid::new_v4().into_bytes();
    let address = Ipv4Addr::new(127, a, b, c);
    TcpListener::bind((address, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
}

/// Serves these routes on the current runtime.
pub(crate) fn serve(listener: TcpListener, router: Router) -> io::Result<JoinHandle<io::Result<()>>> {
    let listener = in_runtime(listener)?.tap_io(|connection| {
        // Without it, only the delay of a response is longer.
        let _ = connection.set_nodelay(true);
    });
    Ok(tokio::spawn(async move { axum::serve(listener, router).await }))
}

/// Reads a body. `None` if it has more than `max` bytes, or is incomplete: a longer one is read nevertheless, up to a multiple, so that its
/// client receives the error.
pub(crate) async fn read(body: Body, max: usize) -> Option<Bytes> {
    let (mut kept, mut length, mut parts) = (Vec::new(), 0, body.into_data_stream());
    while length <= 8 * max
        && let Some(part) = parts.try_next().await.ok()?
    {
        length += part.len();
        if length <= max {
            kept.extend_from_slice(&part);
        }
    }
    (length <= max).then(|| kept.into())
}

/// Registers the listener with the current runtime.
pub(crate) fn in_runtime(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}
