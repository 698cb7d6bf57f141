//! The embedded DynamoDB.

use std::{net::TcpListener, path::Path, time::Duration};

use dynoxide::Database;
use thiserror::Error;
use tokio::sync::oneshot;

/// How often expired items are deleted: the embedded DynamoDB has no timer of its own.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// An embedded DynamoDB that serves on a port of this machine, until it is dropped.
#[derive(Debug)]
pub struct Embedded {
    endpoint: String,
    _stop: oneshot::Sender<()>,
}

impl Embedded {
    /// Serves a database on this listener: the one in this file, or a fresh one in memory.
    pub fn serve(listener: TcpListener, file: Option<&Path>) -> Result<Self, EmbeddedError> {
        let database = match file {
            Some(file) => Database::new(&file.to_string_lossy()),
            None => Database::memory(),
        };
        let database = database.map_err(|error| EmbeddedError::Open(error.to_string()))?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        listener.set_nonblocking(true)?;
        // It answers on the thread that asked, behind one lock: a runtime of its own keeps it from holding up others.
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

    /// Where it serves, `http://127.0.0.1:8000`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

async fn sweep(database: Database) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        // What could not be swept now is swept the next time.
        let _ = database.sweep_ttl();
    }
}

/// Why the embedded DynamoDB does not serve.
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// Its file, or what is in it.
    #[error("the database cannot be opened: {0}")]
    Open(String),
    /// Its socket or its thread.
    #[error("the database cannot be served")]
    Serve(#[from] std::io::Error),
}
