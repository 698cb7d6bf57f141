//! The machine and the software of a run.

use std::{fs, process::Command};

use crate::subject::installed;

/// Returns a line for the machine, for the system, and for the version of each language.
pub(crate) fn facts() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let mut facts = vec![
        format!(
            "Machine: {cores} cores of {}, {memory} of memory",
            field(&cpuinfo, "model name")
        ),
        format!("System: {}", first_line("uname", &["-sr"])),
        format!("Rust: {}", first_line("rustc", &["--version"])),
    ];
    let python = installed().join("python/bin/python");
    if python.exists() {
        let script = "import platform, boto3, importlib.metadata as m; \
                      print(platform.python_version(), 'boto3', boto3.__version__, 'awslambdaric', m.version('awslambdaric'))";
        facts.push(format!(
            "Python: {}",
            first_line(&python.display().to_string(), &["-c", script])
        ));
    }
    let sdk = installed().join("node/node_modules/@aws-sdk/client-dynamodb/package.json");
    if let Ok(package) = fs::read_to_string(sdk) {
        let package: serde_json::Value = serde_json::from_str(&package).unwrap_or_default();
        let version = package["version"].as_str().unwrap_or("unknown").to_owned();
        facts.push(format!(
            "Node: {} @aws-sdk/client-dynamodb {version}",
            first_line("node", &["--version"])
        ));
    }
    facts
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}
