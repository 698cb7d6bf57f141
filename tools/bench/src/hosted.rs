//! One function in processes of its own, behind a Lambda Runtime API.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use local::{
    lambda::{Host, Lambda, ProcessInfo},
    template::Function,
};
use serde_json::Value;

use crate::{
    certificate::Certificate,
    error::BenchError,
    process,
    subject::{Role, Subject},
};

/// The table that the functions are told of.
pub(crate) const TABLE: &str = "VersionControl";

/// A function that can be invoked. Its processes end with it.
pub(crate) struct Hosted {
    lambda: Lambda,
    handler: String,
    subject: String,
    log: PathBuf,
}

/// Where a function finds DynamoDB, and what it may trust there.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) certificate: Option<&'a Certificate>,
}

impl Hosted {
    /// Hosts a function in at most so many processes, none of which is started yet.
    pub(crate) fn new(
        subject: &Subject,
        role: Role,
        way: Way,
        processes: usize,
        logs: &Path,
    ) -> Result<Self, BenchError> {
        let start = subject.start(role);
        let function = Function {
            logical_id: role.name().to_owned(),
            binary: start.handler.clone(),
            timeout: Duration::from_secs(300),
            memory: 128,
            environment: BTreeMap::new(),
            log_level: "ERROR".to_owned(),
        };
        let logs = logs.join(subject.name.replace(' ', "-"));
        let host = Host {
            program: start.program.clone(),
            arguments: start.arguments.clone(),
            bootstraps: BTreeMap::new(),
            environment: environment(subject, way),
            concurrency: processes,
            logs: logs.clone(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Self {
            lambda: Lambda::serve(listener, &[function], &host)?,
            handler: start.handler.clone(),
            subject: format!("{} of {}", role.name(), subject.name),
            log: logs.join(format!("{}.log", start.handler)),
        })
    }

    /// Invokes the function, and says when its answer came. An answer that names failures is an error.
    pub(crate) async fn invoke(&self, event: &str) -> Result<Instant, BenchError> {
        let invoked = self.lambda.invoke(&self.handler, event.as_bytes().to_vec()).await;
        let answered = Instant::now();
        let invoked = invoked.ok_or_else(|| BenchError::Gone(self.subject.clone()))?;
        let answer: Value = serde_json::from_slice(&invoked.payload).unwrap_or_default();
        let failures = answer.get("batchItemFailures").and_then(Value::as_array);
        if invoked.is_error || failures.is_some_and(|failures| !failures.is_empty()) {
            return Err(BenchError::Failed {
                subject: self.subject.clone(),
                said: String::from_utf8_lossy(&invoked.payload).chars().take(200).collect(),
                log: self.log.clone(),
            });
        }
        Ok(answered)
    }

    /// The process that answered last.
    pub(crate) fn life(&self) -> Result<ProcessInfo, BenchError> {
        let lives = self.lambda.processes(&self.handler);
        lives.first().copied().ok_or_else(|| self.gone())
    }

    /// The CPU time that its processes have used so far, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration, BenchError> {
        let lives = self.lambda.processes(&self.handler);
        let times = lives.iter().map(|life| process::cpu_time(life.pid));
        times.sum::<Option<Duration>>().ok_or_else(|| self.gone())
    }

    /// The most memory that its process has had, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64, BenchError> {
        process::peak_memory(self.life()?.pid).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> BenchError {
        BenchError::Gone(self.subject.clone())
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.lambda.kill_all();
    }
}

fn environment(subject: &Subject, way: Way) -> BTreeMap<String, String> {
    let mut environment = subject.environment.clone();
    let mut set = |name: &str, value: &str| environment.insert(name.to_owned(), value.to_owned());
    set("TABLE_NAME", TABLE);
    set("AWS_ENDPOINT_URL_DYNAMODB", way.endpoint);
    // None of them is to look for credentials or settings elsewhere.
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("PATH", "/usr/local/bin:/usr/bin:/bin");
    if let Some(certificate) = way.certificate {
        let bundle = certificate.bundle.display().to_string();
        set("SSL_CERT_FILE", &bundle);
        set("AWS_CA_BUNDLE", &bundle);
        // Node has the roots of all the world within itself.
        set("NODE_EXTRA_CA_CERTS", &certificate.authority.display().to_string());
    }
    environment
}
