//! CPU time, waiting times and memory of other processes, from the Linux kernel.

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

/// Returns the time during which threads of a running process were ready but had no CPU, summed over its threads. Threads that have ended are not
/// included. `None` if the kernel does not measure it.
pub(crate) fn cpu_wait(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // A thread can end in the meantime.
    let waits =
        threads.filter_map(|thread| cpu_wait_in(&fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?));
    let waits: Vec<_> = waits.collect();
    (!waits.is_empty()).then(|| waits.iter().sum())
}

/// Parses a `schedstat`: time on a CPU, time of waiting for one, both in ns, and the number of time slices.
fn cpu_wait_in(schedstat: &str) -> Option<Duration> {
    let wait = schedstat.split_whitespace().nth(1)?;
    wait.parse().ok().map(Duration::from_nanos)
}

/// Returns the number of page faults of a running process for which the kernel read from a disk.
pub(crate) fn major_faults(pid: u32) -> Option<u32> {
    major_faults_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a `stat`. The second field, the name of the program in parentheses, can contain spaces and parentheses.
fn major_faults_in(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(9)?.parse().ok()
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
        assert!(cpu_wait(itself).is_some());
        assert!(major_faults(itself).is_some());
        // Not a valid process ID.
        assert_eq!(cpu_time(u32::MAX), None);
        assert_eq!(peak_memory(u32::MAX), None);
        assert_eq!(cpu_wait(u32::MAX), None);
        assert_eq!(major_faults(u32::MAX), None);
    }

    #[test]
    fn the_fields_of_the_kernel_are_parsed() {
        assert_eq!(cpu_wait_in("4711 2500000 17\n"), Some(Duration::from_micros(2500)));
        assert_eq!(cpu_wait_in("4711"), None);
        let stat = "123 (a) b (c) S 1 123 123 0 -1 4194304 901 0 12 0 5 6 0 0 20 0 3 0 99";
        assert_eq!(major_faults_in(stat), Some(12));
        assert_eq!(major_faults_in(""), None);
    }
}
