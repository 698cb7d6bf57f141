//! The `START`, `END` and `REPORT` lines of an invocation.
//!
//! They appear in the tail for `LogType=Tail`, but not in the function's log. With JSON logs, AWS writes `platform.start` and
//! `platform.report` instead.

use std::{fmt::Write as _, time::Duration};

/// Maximum number of bytes of a tail.
pub(super) const TAIL: usize = 4096;

#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) request_id: &'a str,
    pub(super) log: &'a [u8],
    pub(super) duration: Duration,
    /// Start duration of the process, for its first invocation.
    pub(super) init: Option<Duration>,
    /// Memory of the function in MB.
    pub(super) memory: u64,
    /// Maximum memory that the process has used, in MB.
    pub(super) used: Option<u64>,
    /// Status and error type, if the function did not respond.
    pub(super) failed: Option<(&'a str, &'a str)>,
}

impl Report<'_> {
    pub(super) fn lines(&self) -> Vec<u8> {
        let id = self.request_id;
        let mut lines = format!("START RequestId: {id} Version: $LATEST\n").into_bytes();
        lines.extend(self.log);
        if !lines.ends_with(b"\n") {
            lines.push(b'\n');
        }
        let millis = self.duration.as_secs_f64() * 1000.0;
        let mut report = format!("END RequestId: {id}\nREPORT RequestId: {id}\tDuration: {millis:.2} ms");
        let _ = write!(
            report,
            "\tBilled Duration: {:.0} ms\tMemory Size: {} MB",
            millis.ceil(),
            self.memory
        );
        if let Some(used) = self.used {
            let _ = write!(report, "\tMax Memory Used: {used} MB");
        }
        if let Some(init) = self.init {
            let _ = write!(report, "\tInit Duration: {:.2} ms", init.as_secs_f64() * 1000.0);
        }
        if let Some((status, kind)) = self.failed {
            let _ = write!(report, "\tStatus: {status}");
            if status == "error" {
                let _ = write!(report, "\tError Type: {kind}");
            }
        }
        report.push('\n');
        lines.extend(report.into_bytes());
        lines
    }

    pub(super) fn tail(&self) -> Vec<u8> {
        let lines = self.lines();
        lines[lines.len().saturating_sub(TAIL)..].to_vec()
    }
}

/// Returns the maximum memory that a process has used, in MB, if the system reports it.
pub(super) fn max_memory_used(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(log: &[u8]) -> Report<'_> {
        Report {
            request_id: "r",
            log,
            duration: Duration::from_micros(12_340),
            init: None,
            memory: 128,
            used: Some(21),
            failed: None,
        }
    }

    #[test]
    fn a_log_has_start_end_and_report_lines() {
        let lines = String::from_utf8(report(b"one\ntwo").lines()).unwrap();
        let end = "REPORT RequestId: r\tDuration: 12.34 ms\tBilled Duration: 13 ms\tMemory Size: 128 MB\tMax Memory Used: 21 MB\n";
        assert_eq!(
            lines,
            format!("START RequestId: r Version: $LATEST\none\ntwo\nEND RequestId: r\n{end}")
        );
        let failed = Report {
            failed: Some(("error", "Runtime.ExitError")),
            init: Some(Duration::from_millis(7)),
            used: None,
            ..report(b"")
        };
        let lines = String::from_utf8(failed.lines()).unwrap();
        assert!(
            lines.ends_with("128 MB\tInit Duration: 7.00 ms\tStatus: error\tError Type: Runtime.ExitError\n"),
            "{lines}"
        );
    }

    #[test]
    fn a_tail_is_the_last_4_kb() {
        let long = b"x".repeat(5000);
        let whole = report(&long).lines();
        let tail = report(&long).tail();
        assert_eq!((tail.len(), tail.as_slice()), (4096, &whole[whole.len() - 4096..]));
        assert_eq!(report(b"a").tail(), report(b"a").lines());
    }
}
