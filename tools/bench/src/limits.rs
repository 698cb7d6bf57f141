//! Control groups of Linux with the CPU share and the memory of a Lambda function.
//!
//! Lambda gives a function CPU time in proportion to its memory, one vCPU at [`VCPU_MEMORY_MB`]. A control group does the same: its
//! processes run for a quota of each period, and then wait for the next period.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use crate::error::BenchError;

/// Memory sizes at which functions are measured, in MB. The largest has one vCPU.
pub(crate) const MEMORY_SIZES: [u32; 2] = [128, VCPU_MEMORY_MB];
/// Memory at which a function has one vCPU, in MB.
const VCPU_MEMORY_MB: u32 = 1769;
/// Period of the quota: an assumption, since AWS does not document it. A longer period would let a start use the CPU freely for
/// longer, and then wait for longer.
const PERIOD: Duration = Duration::from_millis(20);
const SHELL: &str = "/bin/sh";
/// Moves the shell into the groups, and replaces it by the program.
const ENTER: &str = r#"for group in $1; do echo $$ > "$group/cgroup.procs" || exit 1; done; shift; exec "$@""#;

/// The folders in which groups are created: the same one for both controllers in version 2, one for each in version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controllers {
    cpu: PathBuf,
    memory: PathBuf,
}

impl Controllers {
    /// Finds the controllers of this system, and tries to create a group.
    ///
    /// # Errors
    ///
    /// Returns [`BenchError::Failed`] if the system has no such controllers, or does not let this process create groups.
    pub(crate) fn find() -> Result<Self, BenchError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let controllers = Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let none = || BenchError::Failed("this system has no control groups for CPU and memory".to_owned());
        let controllers = controllers.ok_or_else(none)?;
        if controllers.is_unified() {
            write(&controllers.cpu.join("cgroup.subtree_control"), "+cpu +memory")?;
        }
        Limits::create(&controllers, VCPU_MEMORY_MB)?.limit_cpu()?;
        Ok(controllers)
    }

    fn is_unified(&self) -> bool {
        self.cpu == self.memory
    }

    /// Reads the mounted hierarchies, and in version 1 the group of this process, from the texts of the kernel.
    fn parse(mounts: &str, groups: &str) -> Option<Self> {
        // The mount point is the fifth field of the first part.
        let mount = |is: &dyn Fn(&str, &str) -> bool| {
            mounts.lines().find_map(|line| {
                let (mount, system) = line.split_once(" - ")?;
                let (kind, options) = (system.split(' ').next()?, system.split(' ').nth(2)?);
                is(kind, options).then(|| mount.split(' ').nth(4).map(PathBuf::from))?
            })
        };
        let v1 = |controller: &str| {
            let is = |names: &str| names.split(',').any(|name| name == controller);
            let mount = mount(&|kind, options| kind == "cgroup" && is(options))?;
            let group = groups.lines().find_map(|line| {
                let (names, group) = line.split_once(':')?.1.split_once(':')?;
                is(names).then_some(group)
            })?;
            Some(mount.join(group.trim_start_matches('/')))
        };
        let (cpu, memory) = match (v1("cpu"), v1("memory")) {
            (None, None) => mount(&|kind, _| kind == "cgroup2").map(|unified| (unified.clone(), unified))?,
            (cpu, memory) => (cpu?, memory?),
        };
        Some(Self { cpu, memory })
    }
}

/// A control group, which is removed with this value. Its processes must have ended by then.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) memory_mb: u32,
    groups: Vec<PathBuf>,
    /// The CPU share: a file of the kernel, and what it has to contain.
    share: (PathBuf, String),
}

impl Limits {
    /// Limits the CPU time of the group to its share.
    pub(crate) fn limit_cpu(&self) -> Result<(), BenchError> {
        write(&self.share.0, &self.share.1)
    }

    /// Creates a group with this memory, and the CPU share of a Lambda function with it, which applies after [`Self::limit_cpu`].
    ///
    /// # Errors
    ///
    /// Returns [`BenchError::Failed`] with the first file that could not be written.
    pub(crate) fn create(controllers: &Controllers, memory_mb: u32) -> Result<Self, BenchError> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{number}", std::process::id());
        let (cpu, memory) = (controllers.cpu.join(&name), controllers.memory.join(&name));
        let (period, quota) = (PERIOD.as_micros(), quota(memory_mb).as_micros());
        let unified = controllers.is_unified();
        let share = match unified {
            true => (cpu.join("cpu.max"), format!("{quota} {period}")),
            false => (cpu.join("cpu.cfs_quota_us"), quota.to_string()),
        };
        let mut limits = Self {
            memory_mb,
            groups: Vec::new(),
            share,
        };
        // The group of the CPU is entered last, so that its quota remains for the program.
        for group in std::iter::once(&memory).chain((!unified).then_some(&cpu)) {
            refused(group, fs::create_dir(group))?;
            limits.groups.push(group.clone());
        }
        let bytes = (u64::from(memory_mb) * 1024 * 1024).to_string();
        if unified {
            write(&memory.join("memory.max"), &bytes)?;
        } else {
            write(&cpu.join("cpu.cfs_period_us"), &period.to_string())?;
            write(&memory.join("memory.limit_in_bytes"), &bytes)?;
        }
        Ok(limits)
    }

    /// Returns the command that starts a program in the group: a program and its arguments.
    pub(crate) fn command(&self, program: &Path, arguments: &[String]) -> (PathBuf, Vec<String>) {
        let groups: Vec<_> = self.groups.iter().map(|group| group.display().to_string()).collect();
        let enter = ["-c".to_owned(), ENTER.to_owned(), "sh".to_owned(), groups.join(" ")];
        let program = std::iter::once(program.display().to_string());
        let arguments = enter.into_iter().chain(program).chain(arguments.iter().cloned());
        (PathBuf::from(SHELL), arguments.collect())
    }

    /// Waits for the program of a process that was started with [`Self::command`], and returns the time. The shell takes up to 20 ms to enter
    /// the groups, because the kernel waits for all CPUs.
    pub(crate) fn entered(pid: u32) -> Instant {
        let shell = fs::canonicalize(SHELL).ok();
        let program = format!("/proc/{pid}/exe");
        while fs::read_link(&program).is_ok_and(|program| Some(program) == shell) {
            std::thread::sleep(Duration::from_micros(100));
        }
        Instant::now()
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for group in &self.groups {
            // Processes that were killed a moment ago may not be reaped yet.
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Returns the CPU time of each period.
fn quota(memory_mb: u32) -> Duration {
    PERIOD * memory_mb / VCPU_MEMORY_MB
}

fn write(path: &Path, value: &str) -> Result<(), BenchError> {
    refused(path, fs::write(path, value))
}

fn refused(path: &Path, result: io::Result<()>) -> Result<(), BenchError> {
    result.map_err(|error| BenchError::Failed(format!("cannot use the control group {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_hierarchies_of_both_versions_are_found() {
        let v1 = "\
            25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n\
            27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/service/1\n2:cpu,cpuacct:/\n0::/\n";
        let v2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        for (mounts, groups, expected) in [
            (
                v1,
                groups,
                Some(["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory/service/1"]),
            ),
            (v2, "0::/user.slice\n", Some(["/sys/fs/cgroup"; 2])),
            // Without the memory controller, and without any.
            (&v1.replace("rw,memory", "rw,pids"), groups, None),
            ("", "", None),
        ] {
            let expected = expected.map(|folders| folders.map(PathBuf::from));
            let expected = expected.map(|[cpu, memory]| Controllers { cpu, memory });
            assert_eq!(Controllers::parse(mounts, groups), expected, "{mounts}");
        }
    }

    #[test]
    fn the_share_is_proportional_to_the_memory() {
        for (memory, micros) in [(128, 1447), (256, 2894), (1769, 20_000)] {
            assert_eq!(quota(memory).as_micros(), micros, "{memory}");
        }
    }

    /// Where groups cannot be created, the comparison is skipped, and so is this test.
    #[test]
    fn a_program_runs_in_its_group_and_its_start_is_not_that_of_the_shell() {
        let Ok(controllers) = Controllers::find() else { return };
        let limits = Limits::create(&controllers, 128).unwrap();
        limits.limit_cpu().unwrap();
        let program = fs::canonicalize("/bin/cat").unwrap();
        let (shell, arguments) = limits.command(&program, &["/proc/self/cgroup".to_owned(), "-".to_owned()]);
        // It reads until the pipe is closed.
        let child = Command::new(shell)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        Limits::entered(child.id());
        assert_eq!(fs::read_link(format!("/proc/{}/exe", child.id())).unwrap(), program);
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let groups = limits.groups.clone();
        let name = groups[0].file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(printed.matches(&name).count(), groups.len(), "{printed}");
        drop(limits);
        assert!(groups.iter().all(|group| !group.exists()));
    }
}
