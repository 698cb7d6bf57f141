//! The embedded DynamoDB.

use std::{net::TcpListener, path::Path, time::Duration};

use dynoxide::Database;
use thiserror::Error;
use tokio::sync::oneshot;

/// Interval between two deletions of expired items: the embedded DynamoDB has no timer of its own.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// An embedded DynamoDB that serves on a port of this machine until it is dropped.
#[derive(Debug)]
pub struct Embedded {
    endpoint: String,
    _stop: oneshot::Sender<()>,
}

impl Embedded {
    /// Serves a database on this listener: the one in this file, or a new one in memory.
    pub fn serve(listener: TcpListener, file: Option<&Path>) -> Result<Self, EmbeddedError> {
        let database = match file {
            Some(file) => Database::new(&file.to_string_lossy()),
            None => Database::memory(),
        };
        let database = database.map_err(EmbeddedError::Open)?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        listener.set_nonblocking(true)?;
        // Requests run on the calling thread, behind one lock: a separate runtime keeps them from blocking other tasks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::spawn(sweep(database.clone()));
                tokio::select! {
                    _ = dynoxide::server::serve_with_shutdown(listener, database, std::future::pending()) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { endpoint, _stop: stop })
    }

    /// Returns the URL, such as `http://127.0.0.1:8000`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
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
    /// The socket or the thread failed.
    #[error("cannot serve the database")]
    Serve(#[from] std::io::Error),
}
