//! What a process has used so far, as the kernel counts it. Linux only.

use std::time::Duration;

use nix::{
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};

/// The CPU time of a living process, of all its threads, user and system, in nanoseconds' resolution.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let clock = clock_getcpuclockid(pid).ok()?;
    Some(Duration::from(clock_gettime(clock).ok()?))
}

/// The most memory that a living process has had resident, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let itself = std::process::id();
        let before = cpu_time(itself).unwrap();
        let mut sum = 0_u64;
        while cpu_time(itself).unwrap() < before + Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(peak_memory(itself).unwrap() > 1024 * 1024);
        // Beyond what a process number can be.
        assert_eq!(cpu_time(u32::MAX), None);
        assert_eq!(peak_memory(u32::MAX), None);
    }
}
