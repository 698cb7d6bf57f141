//! Date, commit, machine and software of a measurement.

use std::{fs, process::Command};

use serde::{Deserialize, Serialize};

use crate::subject::{installed, root};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// As 2026-11-23, in UTC.
    pub(crate) date: String,
    /// Followed by `-dirty` if files are modified; `unknown` outside a git repository.
    pub(crate) commit: String,
    /// `true` for few and small measurements.
    pub(crate) quick: bool,
}

impl Origin {
    pub(crate) fn now(quick: bool) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the date of a measurement")]
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        // Without the names of tags.
        let describe = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"];
        Self {
            date,
            commit: first_line("git", &describe).unwrap_or_else(|| "unknown".to_owned()),
            quick,
        }
    }

    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            date: "2026-11-23".to_owned(),
            commit: "0123456789ab".to_owned(),
            quick: false,
        }
    }
}

/// Returns a line for the machine, for the system, and for the version of each language.
pub(crate) fn facts() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let (model, memory) = (field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"));
    let machine = format!("Machine: {cores} cores of {model}, {memory} of memory");
    let python = "import platform, boto3, importlib.metadata as m; \
                  print(platform.python_version(), 'boto3', boto3.__version__, 'awslambdaric', m.version('awslambdaric'))";
    let sdk = installed().join("node/node_modules/@aws-sdk/client-dynamodb/package.json");
    let node = format!(
        "process.version + ' @aws-sdk/client-dynamodb ' + require({:?}).version",
        sdk.display().to_string()
    );
    let versions = [
        ("System", "uname".to_owned(), &["-sr"][..]),
        ("Rust", "rustc".to_owned(), &["--version"]),
        (
            "Python",
            installed().join("python/bin/python").display().to_string(),
            &["-c", python],
        ),
        ("Node", "node".to_owned(), &["-p", &node]),
    ];
    let versions = versions.iter().filter_map(|(name, program, arguments)| {
        // Peers that are not installed are omitted.
        Some(format!("{name}: {}", first_line(program, arguments)?))
    });
    std::iter::once(machine).chain(versions).collect()
}

/// Returns the first line that a program prints in the folder of this repository. `None` if it fails.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(str::to_owned)
}
