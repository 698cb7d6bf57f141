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

/// Arguments of a command: a list, or text whose words are separated by spaces. Single quotes group words.
pub trait Arguments {
    fn words(&self) -> Vec<String>;
}

impl Arguments for str {
    fn words(&self) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
        for character in self.chars() {
            match character {
                '\'' => {
                    is_quoted = !is_quoted;
                    word.get_or_insert_default();
                }
                ' ' if !is_quoted => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        assert!(!is_quoted, "a quote is open in {self}");
        words.extend(word);
        words
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

macro_rules! lists {
    ($([$($length:tt)*] $list:ty),*) => {
        $(impl<T: AsRef<str>, $($length)*> Arguments for $list {
            fn words(&self) -> Vec<String> {
                self.iter().map(|word| word.as_ref().to_owned()).collect()
            }
        })*
    };
}

lists!([] [T], [const N: usize] [T; N], [] Vec<T>);

impl<A: Arguments + ?Sized> Arguments for &A {
    fn words(&self) -> Vec<String> {
        (**self).words()
    }
}

/// Runs the commands of a text, one a line, and checks what follows ` => `, any number of times:
///
/// | expectation | of |
/// |---|---|
/// | `{…}` | the last line of standard output: it has at least these members |
/// | `= {…}` | the only line of standard output: it has these members and no others |
/// | `Name […]` | this member of each line of standard output |
/// | `/Name/0/Name …` | the value at this place of the last line |
/// | `~ text` | standard output: it contains the text |
/// | `3 text` | the exit code, and standard error: all of it, its beginning if the text ends with `…`, or `nothing` |
///
/// Without a code, it is 0. Lines that begin with `//` are comments.
pub fn check(run: impl Fn(&str) -> Run, text: &str) {
    for line in text.lines().map(str::trim_start) {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let mut parts = line.split(" => ");
        let ran = run(parts.next().unwrap());
        let (mut code, mut has_output) = (0, false);
        for expected in parts {
            if expected.starts_with(|c: char| c.is_ascii_digit()) {
                code = ran.check_failure(line, expected);
            } else {
                ran.check_output(line, expected);
                has_output = true;
            }
        }
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(
            has_output || ![2, 3, 5].contains(&code) || ran.stdout.is_empty(),
            "{line}: {ran:?}"
        );
    }
}

impl Run {
    fn check_failure(&self, line: &str, expected: &str) -> i32 {
        let (code, said) = expected.split_once(' ').unwrap_or((expected, "…"));
        let is_said = match said.strip_suffix('…') {
            Some(beginning) => self.stderr.starts_with(beginning),
            None if said == "nothing" => self.stderr.is_empty(),
            None => self.stderr.trim_end_matches('\n') == said,
        };
        assert!(is_said, "{line}: {self:?}");
        code.parse().unwrap()
    }

    fn check_output(&self, line: &str, expected: &str) {
        if let Some(text) = expected.strip_prefix("~ ") {
            return assert!(self.stdout.contains(text), "{line}: {}", self.stdout);
        }
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{line}: {error}"));
        let last = || self.lines.last().unwrap_or_else(|| panic!("{line}: {self:?}"));
        let (found, expected) = match expected.split_once(' ') {
            Some(("=", exact)) => (self.json(), json(exact)),
            _ if expected.starts_with('{') => {
                let expected = json(expected);
                let members = expected.as_object().unwrap().keys();
                (
                    members.map(|name| (name.clone(), last()[name].clone())).collect(),
                    expected,
                )
            }
            Some((place, value)) if place.starts_with('/') => {
                (last().pointer(place).cloned().unwrap_or_default(), json(value))
            }
            Some((name, values)) => (self.lines.iter().map(|line| line[name].clone()).collect(), json(values)),
            None => panic!("{line}: {expected} is no expectation"),
        };
        assert_eq!(found, expected, "{line}: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn run(arguments: &str) -> Run {
        let (code, stdout, stderr) = match arguments {
            "two" => (0, "{\"A\": 1}\n{\"A\": 2, \"B\": [{\"C\": 3}]}\n", "note: x\n"),
            "one" => (0, "{\"A\": 1}\n", ""),
            _ => (3, "", "error: none\n"),
        };
        Run {
            code,
            lines: json_lines(stdout),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn each_expectation_can_fail() {
        for (expected, wrong) in [
            (r#"two => {"A": 2} => 0 note: x"#, r#"two => {"A": 1}"#),
            (r#"one => = {"A": 1} => 0 nothing"#, "one => = {}"),
            ("two => A [1, 2]", "two => A [1]"),
            ("two => /B/0/C 3", "two => /B/0/C 4"),
            (r#"two => ~ "B""#, "two => ~ D"),
            ("three => 3 error: none", "three => 3 error: no"),
            ("three => 3 error: no…", "three => 3 none…"),
            ("three => 3", "three => 2"),
            ("one => 0", "three => 0"),
            ("one => 0 nothing", "two => 0 nothing"),
            ("// a comment", "three"),
        ] {
            check(run, expected);
            assert!(catch_unwind(|| check(run, wrong)).is_err(), "{wrong}");
        }
        assert_eq!("a '' 'b c'=d".words(), ["a", "", "b c=d"]);
    }
}
