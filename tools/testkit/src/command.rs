//! Output of a command.

use std::process::{Child, Command, Output};

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

    /// Runs a program with these environment variables and no others.
    pub fn alone(program: &str, environment: &[(&str, &str)], arguments: &(impl Arguments + ?Sized)) -> Self {
        let mut command = Command::new(program);
        command.env_clear().envs(environment.iter().copied());
        command.args(arguments.words()).output().unwrap().into()
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

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
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

#[cfg(test)]
mod tests {
    use super::Arguments as _;

    #[test]
    fn quotes_group_words() {
        assert_eq!("a '' 'b c'=d".words(), ["a", "", "b c=d"]);
    }
}
