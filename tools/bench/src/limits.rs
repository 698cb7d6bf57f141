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

use thiserror::Error;

/// Memory at which a function has one vCPU, in MB.
pub(crate) const VCPU_MEMORY_MB: u32 = 1769;
/// Period of the quota: an assumption, since AWS does not document it. A longer period would let a start use the CPU freely for
/// longer, and then wait for longer.
const PERIOD: Duration = Duration::from_millis(20);
const SHELL: &str = "/bin/sh";
/// Moves the shell into the groups, and replaces it by the program.
const ENTER: &str = r#"for group in $1; do echo $$ > "$group/cgroup.procs" || exit 1; done; shift; exec "$@""#;

#[derive(Debug, Error)]
pub(crate) enum LimitError {
    #[error("this system has no control groups for {0}")]
    NoController(&'static str),
    #[error("cannot use the control group {}", path.display())]
    Group { path: PathBuf, source: io::Error },
}

/// The folders in which groups are created: one for both controllers in version 2, one for each in version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Controllers {
    V1 { cpu: PathBuf, memory: PathBuf },
    V2(PathBuf),
}

impl Controllers {
    /// Finds the controllers of this system, and tries to create a group.
    ///
    /// # Errors
    ///
    /// Returns [`LimitError`] if the system has no such controllers, or does not let this process create groups.
    pub(crate) fn find() -> Result<Self, LimitError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let controllers = Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))?;
        if let Self::V2(parent) = &controllers {
            let available = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
            for controller in ["cpu", "memory"] {
                if !available.split_whitespace().any(|name| name == controller) {
                    return Err(LimitError::NoController(controller));
                }
            }
            write(parent, "cgroup.subtree_control", "+cpu +memory")?;
        }
        Limits::create(&controllers, VCPU_MEMORY_MB)?;
        Ok(controllers)
    }

    /// Reads the mounted hierarchies, and in version 1 the group of this process, from the texts of the kernel.
    fn parse(mounts: &str, groups: &str) -> Result<Self, LimitError> {
        let v1 = |controller: &'static str| {
            let mount = mounts.lines().find_map(|line| mounted(line, Some(controller)))?;
            let group = groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (names, group) = (parts.next()?, parts.next()?);
                names.split(',').any(|name| name == controller).then_some(group)
            })?;
            Some(mount.join(group.trim_start_matches('/')))
        };
        match (v1("cpu"), v1("memory")) {
            (Some(cpu), Some(memory)) => Ok(Self::V1 { cpu, memory }),
            (None, None) => {
                let mount = mounts.lines().find_map(|line| mounted(line, None));
                mount.map(Self::V2).ok_or(LimitError::NoController("CPU and memory"))
            }
            (None, _) => Err(LimitError::NoController("cpu")),
            (_, None) => Err(LimitError::NoController("memory")),
        }
    }
}

/// Returns the folder of a mounted hierarchy: of this controller of version 1, or of version 2.
fn mounted(line: &str, controller: Option<&str>) -> Option<PathBuf> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let (kind, _, options) = (system.next()?, system.next()?, system.next()?);
    let is_wanted = match controller {
        Some(controller) => kind == "cgroup" && options.split(',').any(|option| option == controller),
        None => kind == "cgroup2",
    };
    is_wanted.then(|| mount.split(' ').nth(4).map(PathBuf::from)).flatten()
}

/// A control group, which is removed with this value. Its processes must have ended by then.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) memory_mb: u32,
    groups: Vec<PathBuf>,
    share: Share,
}

/// The CPU share of a group: a file of the kernel, and what it has to contain.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    group: PathBuf,
    file: &'static str,
    quota: String,
}

impl Share {
    /// Limits the CPU time of the group.
    ///
    /// # Errors
    ///
    /// Returns [`LimitError::Group`] if the kernel rejects it.
    pub(crate) fn apply(&self) -> Result<(), LimitError> {
        write(&self.group, self.file, &self.quota)
    }
}

impl Limits {
    /// Creates a group with this memory, and the CPU share of a Lambda function with it.
    ///
    /// # Errors
    ///
    /// Returns [`LimitError::Group`] with the first file that could not be written.
    pub(crate) fn create(controllers: &Controllers, memory_mb: u32) -> Result<Self, LimitError> {
        let limits = Self::unlimited_cpu(controllers, memory_mb)?;
        limits.share.apply()?;
        Ok(limits)
    }

    /// Creates a group with this memory, whose CPU share applies only after [`Share::apply`].
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub(crate) fn unlimited_cpu(controllers: &Controllers, memory_mb: u32) -> Result<Self, LimitError> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{number}", std::process::id());
        let (period, quota) = (PERIOD.as_micros(), quota(memory_mb).as_micros());
        let (parents, memory_file, share) = match controllers {
            Controllers::V1 { cpu, memory } => (
                vec![cpu, memory],
                "memory.limit_in_bytes",
                ("cpu.cfs_quota_us", quota.to_string()),
            ),
            Controllers::V2(parent) => (vec![parent], "memory.max", ("cpu.max", format!("{quota} {period}"))),
        };
        let groups: Vec<_> = parents.into_iter().map(|parent| parent.join(&name)).collect();
        let (Some(cpu), Some(memory)) = (groups.first().cloned(), groups.last().cloned()) else {
            return Err(LimitError::NoController("CPU and memory"));
        };
        let mut limits = Self {
            memory_mb,
            groups: Vec::new(),
            share: Share {
                group: cpu.clone(),
                file: share.0,
                quota: share.1,
            },
        };
        for group in groups {
            limits.add(group)?;
        }
        if matches!(controllers, Controllers::V1 { .. }) {
            write(&cpu, "cpu.cfs_period_us", &period.to_string())?;
        }
        write(&memory, memory_file, &(u64::from(memory_mb) * 1024 * 1024).to_string())?;
        Ok(limits)
    }

    pub(crate) fn share(&self) -> Share {
        self.share.clone()
    }

    fn add(&mut self, group: PathBuf) -> Result<(), LimitError> {
        fs::create_dir(&group).map_err(|source| LimitError::Group {
            path: group.clone(),
            source,
        })?;
        self.groups.push(group);
        Ok(())
    }

    /// Returns the command that starts a program in the group: a program and its arguments.
    pub(crate) fn command(&self, program: &Path, arguments: &[String]) -> (PathBuf, Vec<String>) {
        // The group of the CPU is the last one, so that its quota remains for the program.
        let groups = self.groups.iter().rev().map(|group| group.display().to_string());
        let groups: Vec<_> = groups.collect();
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

fn write(group: &Path, file: &str, value: &str) -> Result<(), LimitError> {
    let path = group.join(file);
    fs::write(&path, value).map_err(|source| LimitError::Group { path, source })
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
        let check = |mounts: &str, groups: &str, expected: Option<Controllers>| {
            assert_eq!(Controllers::parse(mounts, groups).ok(), expected, "{mounts}");
        };
        let (cpu, memory) = (
            PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"),
            PathBuf::from("/sys/fs/cgroup/memory/service/1"),
        );
        check(v1, groups, Some(Controllers::V1 { cpu, memory }));
        check(v2, "0::/user.slice\n", Some(Controllers::V2("/sys/fs/cgroup".into())));
        // Without the memory controller, and without any.
        check(&v1.replace("rw,memory", "rw,pids"), groups, None);
        check("", "", None);
    }

    #[test]
    fn the_share_is_proportional_to_the_memory() {
        for (memory, micros) in [(128, 1447), (256, 2894), (1769, 20_000)] {
            assert_eq!(quota(memory).as_micros(), micros, "{memory}");
        }
    }

    /// Where groups cannot be created, the comparison is skipped, and so is this test.
    #[test]
    fn a_program_runs_in_its_group() {
        let Ok(controllers) = Controllers::find() else { return };
        let limits = Limits::create(&controllers, 128).unwrap();
        let (program, arguments) = limits.command(Path::new("/bin/cat"), &["/proc/self/cgroup".to_owned()]);
        let output = Command::new(program).args(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let groups = limits.groups.clone();
        let name = groups[0].file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(printed.matches(&name).count(), groups.len(), "{printed}");
        drop(limits);
        assert!(groups.iter().all(|group| !group.exists()));
    }

    #[test]
    fn a_start_is_measured_from_the_program_not_from_the_shell() {
        let Ok(controllers) = Controllers::find() else { return };
        let limits = Limits::create(&controllers, 128).unwrap();
        let program = fs::canonicalize("/bin/cat").unwrap();
        let (shell, arguments) = limits.command(&program, &[]);
        // It reads until the pipe is closed.
        let mut child = Command::new(shell)
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Limits::entered(child.id());
        assert_eq!(fs::read_link(format!("/proc/{}/exe", child.id())).unwrap(), program);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
