//! Output of a command.

use std::process::{Child, Output};

use serde_json::Value;

#[derive(Debug)]
pub struct Run {
    /// Exit code, or -1 after a signal.
    pub code: i32,
    /// Lines of standard output that are JSON.
    pub lines: Vec<Value>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn wait(child: Child) -> Self {
        child.wait_with_output().unwrap().into()
    }

    /// Returns the only line, or null if there is none.
    pub fn json(&self) -> Value {
        assert!(self.stdout.lines().count() <= 1, "{}", self.stdout);
        self.lines.first().cloned().unwrap_or_default()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            lines: json_lines(&stdout),
            stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Returns these members of a JSON object, as an array.
pub fn members(object: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| object[*name].clone()).collect()
}
