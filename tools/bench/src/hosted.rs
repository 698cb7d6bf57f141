//! A function in its own process, behind a Lambda Runtime API.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use local::{
    lambda::{Host, Lambda, ProcessInfo},
    template::Function,
};
use nix::{
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    certificate,
    error::{BenchError, cannot},
    figure::{megabytes, millis},
    harness::Bench,
    limits::Limits,
    stub::Stub,
    subject::{Role, Subject},
};

/// `TABLE_NAME` of the functions.
const TABLE: &str = "VersionControl";
/// `AWS_LAMBDA_FUNCTION_MEMORY_SIZE` without limits, in MB.
const MEMORY_MB: u32 = 128;

/// A function that can be invoked. Its process ends when this value is dropped.
pub(crate) struct Hosted {
    lambda: Lambda,
    handler: String,
    subject: String,
    log: PathBuf,
    /// Removed after the process has ended.
    limits: Option<Limits>,
}

impl Bench {
    /// Hosts a function in one process, within limits if there are any. It starts with the first invocation.
    pub(crate) fn host(
        &self,
        subject: &Subject,
        role: Role,
        stub: &Stub,
        limits: Option<Limits>,
    ) -> Result<Hosted, BenchError> {
        let (program, handler) = (subject.program(role), subject.handler(role));
        let memory = limits.as_ref().map_or(MEMORY_MB, |limits| limits.memory_mb);
        let (program, arguments) = match &limits {
            Some(limits) => limits.command(program, &subject.arguments),
            None => (program.to_owned(), subject.arguments.clone()),
        };
        let function = Function {
            logical_id: role.name().to_owned(),
            binary: handler.to_owned(),
            timeout: Duration::from_secs(300),
            memory: memory.into(),
            environment: BTreeMap::new(),
        };
        let logs = self.logs.join(subject.name.replace(' ', "-"));
        let host = Host {
            program,
            arguments,
            bootstraps: BTreeMap::new(),
            environment: environment(subject, stub, limits.as_ref()),
            concurrency: 1,
            logs: logs.clone(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Hosted {
            lambda: Lambda::serve(listener, &[function], &host)?,
            handler: handler.to_owned(),
            subject: format!("{} of {}", role.name(), subject.name),
            log: logs.join(format!("{handler}.log")),
            limits,
        })
    }
}

impl Hosted {
    /// Returns the function of a local stack.
    pub(crate) fn of(lambda: Lambda, role: Role, logs: &Path) -> Self {
        Self {
            lambda,
            handler: role.name().to_owned(),
            subject: format!("{} of the local stack", role.name()),
            log: logs.join(format!("{}.log", role.name())),
            limits: None,
        }
    }

    /// Invokes the function, and returns the time of its response. A response with batch item failures is an error.
    pub(crate) async fn invoke(&self, event: &str) -> Result<Instant, BenchError> {
        let invoked = self.lambda.invoke(&self.handler, event.as_bytes().to_vec()).await;
        let responded = Instant::now();
        let invoked = invoked.ok_or_else(|| self.ended())?;
        let response: Value = serde_json::from_slice(&invoked.payload).unwrap_or_default();
        let failures = response.get("batchItemFailures").and_then(Value::as_array);
        if invoked.is_error || failures.is_some_and(|failures| !failures.is_empty()) {
            let response: String = String::from_utf8_lossy(&invoked.payload).chars().take(200).collect();
            let (subject, log) = (&self.subject, self.log.display());
            return Err(BenchError::Failed(format!(
                "{subject} failed: {response}; its log is {log}"
            )));
        }
        Ok(responded)
    }

    /// Invokes the function for the first time, which starts its process. With limits, the program itself starts within them. Returns times in
    /// milliseconds: from the start to the first poll, from the start to the first response, and from the first poll to the first response,
    /// which Lambda bills, unlike the initialization, at the function's share.
    pub(crate) async fn cold_start(&self, event: &str) -> Result<[f64; 3], BenchError> {
        let (responded, entered) = tokio::try_join!(self.invoke(event), self.entered())?;
        let process = self.process()?;
        let started = entered.unwrap_or(process.started);
        let ready = process.ready.unwrap_or(started);
        let times = [(started, ready), (started, responded), (ready, responded)];
        Ok(times.map(|(from, to)| millis(to.duration_since(from))))
    }

    /// Applies the CPU share of its limits.
    pub(crate) fn limit_cpu(&self) -> Result<(), BenchError> {
        self.limits.as_ref().map_or(Ok(()), Limits::limit_cpu)
    }

    /// Returns the time at which its program starts in its limits.
    async fn entered(&self) -> Result<Option<Instant>, BenchError> {
        if self.limits.is_none() {
            return Ok(None);
        }
        let pid = loop {
            match self.process() {
                Ok(process) => break process.pid,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let entered = tokio::task::spawn_blocking(move || Limits::entered(pid)).await;
        entered.map(Some).map_err(cannot("wait for the program"))
    }

    /// Invokes the function once, which opens its connections, then measures `count` invocations with `items` items each. Returns the items a
    /// second, and the CPU time of an item in microseconds.
    pub(crate) async fn batches(&self, event: &str, items: usize, count: usize) -> Result<[f64; 2], BenchError> {
        self.invoke(event).await?;
        let cpu_before = self.cpu()?;
        let began = Instant::now();
        let mut responded = began;
        for _ in 0..count {
            responded = self.invoke(event).await?;
        }
        let cpu = self.cpu()?.saturating_sub(cpu_before);
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let items = (items * count) as f64;
        let per_second = items / responded.duration_since(began).as_secs_f64();
        Ok([per_second, cpu.as_secs_f64() * 1e6 / items])
    }

    /// Returns the mean time of invocations in milliseconds, one after the other for at least `time`.
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    pub(crate) async fn mean_time(&self, event: &str, time: Duration) -> Result<f64, BenchError> {
        let (began, mut count, mut sum) = (Instant::now(), 0_usize, 0.0);
        while count == 0 || began.elapsed() < time {
            let sent = Instant::now();
            sum += millis(self.invoke(event).await?.duration_since(sent));
            count += 1;
        }
        Ok(sum / count as f64)
    }

    /// Returns the process that responded last.
    pub(crate) fn process(&self) -> Result<ProcessInfo, BenchError> {
        let processes = self.lambda.processes(&self.handler);
        processes.first().copied().ok_or_else(|| self.ended())
    }

    /// Returns the CPU time of its process so far, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration, BenchError> {
        cpu_time(self.process()?.pid).ok_or_else(|| self.ended())
    }

    /// Returns the peak memory of its process, in MB.
    pub(crate) fn peak_memory(&self) -> Result<f64, BenchError> {
        let bytes = peak_memory(self.process()?.pid).ok_or_else(|| self.ended())?;
        Ok(megabytes(bytes))
    }

    fn ended(&self) -> BenchError {
        BenchError::Failed(format!("{} ended before it could be measured", self.subject))
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.lambda.kill_all();
    }
}

fn environment(subject: &Subject, stub: &Stub, limits: Option<&Limits>) -> BTreeMap<String, String> {
    let mut environment = subject.environment.clone();
    let mut set = |name: &str, value: &str| environment.insert(name.to_owned(), value.to_owned());
    set("TABLE_NAME", TABLE);
    set("AWS_ENDPOINT_URL_DYNAMODB", &stub.endpoint);
    // Otherwise the SDKs look for credentials in the instance metadata.
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("PATH", "/usr/local/bin:/usr/bin:/bin");
    if let Some(limits) = limits {
        // The default of Node's heap is a share of the machine's memory.
        let heap = limits.memory_mb * 9 / 10;
        set("NODE_OPTIONS", &format!("--max-old-space-size={heap}"));
    }
    if let Some(certificate) = &stub.certificate {
        let bundle = certificate.bundle.display().to_string();
        set("SSL_CERT_FILE", &bundle);
        set("AWS_CA_BUNDLE", &bundle);
        // Node has built-in root certificates.
        set("NODE_EXTRA_CA_CERTS", &certificate.authority.display().to_string());
    } else if let Some(bundle) = certificate::system_bundle() {
        // Only the file, as with TLS: Debian has the same certificates in a folder as well, which would be read in addition.
        set("SSL_CERT_FILE", bundle);
    }
    environment
}

/// Returns the CPU time of all threads of a running process, user and system.
fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let clock = clock_getcpuclockid(pid).ok()?;
    Some(Duration::from(clock_gettime(clock).ok()?))
}

/// Returns the peak resident memory of a running process, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_cpu_time_and_memory() {
        let itself = std::process::id();
        let before = cpu_time(itself).unwrap();
        let mut sum = 0_u64;
        while cpu_time(itself).unwrap() < before + Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(peak_memory(itself).unwrap() > 1024 * 1024);
        // Not a valid process ID.
        assert_eq!((cpu_time(u32::MAX), peak_memory(u32::MAX)), (None, None));
    }
}
