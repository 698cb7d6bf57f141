//! The embedded DynamoDB.
//!
//! ```text
//! clients, web pages ──> public port ──> server, on a random loopback address <── function processes, mapping
//! ```

use std::{io, net::TcpListener, path::Path, time::Duration};

use axum::serve::ListenerExt as _;
use dynoxide::Database;
use thiserror::Error;
use tokio::sync::oneshot;

use super::public_port;
use crate::{files, listener::bind_random_address};

/// Interval between two deletions of expired items: the embedded DynamoDB has no timer of its own.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// An embedded DynamoDB that serves on a port of this machine until it is dropped.
#[derive(Debug)]
pub struct Embedded {
    endpoint: String,
    direct_endpoint: String,
    _stop: oneshot::Sender<()>,
}

impl Embedded {
    /// Serves a database on this listener: the one in this file, or a new one in memory.
    ///
    /// # Errors
    ///
    /// - [`EmbeddedError::Open`]: the file is no database, or a different version of one.
    /// - [`EmbeddedError::Serve`]: the file, the socket or the thread failed.
    pub fn serve(listener: TcpListener, file: Option<&Path>) -> Result<Self, EmbeddedError> {
        let database = match file {
            Some(file) => {
                // SQLite creates its other files with the permissions of this one.
                files::append(file)?;
                Database::new(&file.to_string_lossy())
            }
            None => Database::memory(),
        };
        let database = database.map_err(EmbeddedError::Open)?;
        let server = bind_random_address()?;
        let (address, server_address) = (listener.local_addr()?, server.local_addr()?);
        // Requests run on the calling thread, behind one lock: a separate runtime keeps them from blocking other tasks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listener, server) = {
            let _entered = runtime.enter();
            (in_runtime(listener)?, in_runtime(server)?)
        };
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::spawn(sweep(database.clone()));
                let listener = listener.tap_io(|connection| {
                    // Without it, only the delay of a response is longer.
                    let _ = connection.set_nodelay(true);
                });
                let public = axum::serve(listener, public_port::router(address, server_address));
                tokio::spawn(async move { public.await });
                tokio::select! {
                    _ = dynoxide::server::serve_with_shutdown(server, database, std::future::pending()) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            endpoint: format!("http://{address}"),
            direct_endpoint: format!("http://{server_address}"),
            _stop: stop,
        })
    }

    /// Returns the URL of the public port, such as `http://127.0.0.1:8000`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the URL of the server behind the public port. It is for the stack itself, and must not be shown: web pages could use
    /// it.
    pub fn direct_endpoint(&self) -> &str {
        &self.direct_endpoint
    }
}

fn in_runtime(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

async fn sweep(database: Database) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        // After an error, the next sweep deletes the items.
        let _ = database.sweep_ttl();
    }
}

#[derive(Debug, Error)]
pub enum EmbeddedError {
    #[error("cannot open the database")]
    Open(#[source] dynoxide::DynoxideError),
    /// The file, the socket or the thread failed.
    #[error("cannot serve the database")]
    Serve(#[from] io::Error),
}
