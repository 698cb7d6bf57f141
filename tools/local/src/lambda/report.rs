//! The `START`, `END` and `REPORT` lines of an invocation.
//!
//! They appear in the tail for `LogType=Tail`, but not in the function's log. With JSON logs, AWS writes `platform.start` and
//! `platform.report` instead.

use std::{fmt::Write as _, time::Duration};

use super::process::Completed;

/// Maximum number of bytes of a tail.
const TAIL: usize = 4096;

/// Returns the last 4 KB of the log with these lines. `memory` is the memory size of the function in MB; `failed` is the status and
/// error type, if the function did not respond.
pub(super) fn tail(id: &str, completed: &Completed, memory: u64, failed: Option<(&str, &str)>) -> Vec<u8> {
    let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let duration = millis(completed.duration);
    let mut lines = format!("START RequestId: {id} Version: $LATEST\n").into_bytes();
    lines.extend(&completed.log);
    if !lines.ends_with(b"\n") {
        lines.push(b'\n');
    }
    let mut report = format!(
        "END RequestId: {id}\nREPORT RequestId: {id}\tDuration: {duration:.2} ms\tBilled Duration: {:.0} ms\tMemory Size: {memory} MB",
        duration.ceil(),
    );
    if let Some(used) = completed.memory {
        let _ = write!(report, "\tMax Memory Used: {used} MB");
    }
    if let Some(init) = completed.init {
        let _ = write!(report, "\tInit Duration: {:.2} ms", millis(init));
    }
    if let Some((status, kind)) = failed {
        let _ = write!(report, "\tStatus: {status}");
        if status == "error" {
            let _ = write!(report, "\tError Type: {kind}");
        }
    }
    report.push('\n');
    lines.extend(report.into_bytes());
    lines.split_off(lines.len().saturating_sub(TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_has_start_end_and_report_lines_and_is_the_last_4_kb() {
        let tail = |log: &[u8], memory, init, failed| {
            let completed = Completed {
                log: log.to_vec(),
                duration: Duration::from_micros(12_340),
                init,
                memory,
                ..Completed::default()
            };
            String::from_utf8(tail("r", &completed, 128, failed)).unwrap()
        };
        let start = "START RequestId: r Version: $LATEST\n";
        let end =
            "END RequestId: r\nREPORT RequestId: r\tDuration: 12.34 ms\tBilled Duration: 13 ms\tMemory Size: 128 MB";
        assert_eq!(
            tail(b"one\ntwo", Some(21), None, None),
            format!("{start}one\ntwo\n{end}\tMax Memory Used: 21 MB\n")
        );
        let failed = Some(("error", "Runtime.ExitError"));
        assert_eq!(
            tail(b"", None, Some(Duration::from_millis(7)), failed),
            format!("{start}{end}\tInit Duration: 7.00 ms\tStatus: error\tError Type: Runtime.ExitError\n")
        );
        let long = tail(&b"x".repeat(5000), None, None, None);
        assert!(long.len() == 4096 && long.ends_with(&format!("x\n{end}\n")), "{long}");
    }
}
