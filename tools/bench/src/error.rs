//! Why nothing can be measured.

use std::path::PathBuf;

use thiserror::Error;

/// An error that knows its exit code.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// No comparison has this name.
    #[error("there is no comparison \"{name}\"; there are: {known}")]
    Unknown { name: String, known: String },
    /// The functions could not be built.
    #[error("the functions could not be built: {0}")]
    Build(String),
    /// A function is not in the folder that was named.
    #[error("there is no {}: build it with cargo lambda build --release", .0.display())]
    NoBootstrap(PathBuf),
    /// A function did not do its work.
    #[error("{subject} did not do its work: {said}; its log is {}", log.display())]
    Failed {
        subject: String,
        said: String,
        log: PathBuf,
    },
    /// The process was gone before it could be measured.
    #[error("{0} was gone before it could be measured")]
    Gone(String),
    /// The certificate of the run.
    #[error("the certificate could not be made")]
    Certificate(#[from] rcgen::Error),
    /// TLS.
    #[error("TLS could not be set up")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// Amazon's DynamoDB Local.
    #[error("DynamoDB Local did not start: {0}")]
    DynamoDbLocal(String),
    /// A request to it, or to the local stack.
    #[error("{0}")]
    Table(String),
    /// A plot.
    #[error("the plot could not be drawn: {0}")]
    Plot(String),
    /// A zip.
    #[error("the zip could not be made")]
    Zip(#[from] zip::result::ZipError),
    /// A file or a socket.
    #[error("a file or a socket failed")]
    Io(#[from] std::io::Error),
}

impl BenchError {
    /// 2 usage, 1 all else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown { .. } | Self::NoBootstrap(_) => 2,
            _ => 1,
        }
    }
}
