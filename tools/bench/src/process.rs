//! CPU time and memory of other processes, from the Linux kernel.

use std::{fs, time::Duration};

use nix::{
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};

/// Returns the CPU time of all threads of a running process, user and system.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
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
