//! What a line of a script expects of its output.

use serde_json::Value;

use crate::command::Run;

impl Run {
    /// Checks expectations:
    ///
    /// | expectation | of |
    /// |---|---|
    /// | `{…}` | the last line of standard output: it has at least these members |
    /// | `+ {…}` | one of the lines of standard output: it has at least these members |
    /// | `= {…}` | the only line of standard output: it is this |
    /// | `Name […]` | this member of each line of standard output |
    /// | `/Name/0/Name …` | the value at this place of the last line |
    /// | `/Name > 7` | the number at this place |
    /// | `some /Name` | the value at this place: it is not null |
    /// | `~ text`, `!~ text` | standard output: it contains the text, or does not |
    /// | `err text`, `!err text` | standard error: it contains the text, or does not |
    /// | `3 text` | the exit code, and standard error: all of it, its beginning if the text ends with `…`, or `nothing` |
    ///
    /// Without a code, it is 0.
    pub(crate) fn check(&self, line: &str, expectations: &[&str]) {
        let (mut code, mut has_output) = (0, false);
        for expected in expectations {
            let is_met = match expected.split_once(' ').unwrap_or((expected, "…")) {
                (exit, said) if exit.parse::<i32>().is_ok() => {
                    code = exit.parse().unwrap();
                    self.says(said)
                }
                (kind, _) => {
                    has_output |= !["err", "!err", "!~"].contains(&kind);
                    self.has(expected)
                }
            };
            assert!(is_met, "{line}: {expected}: {self:?}");
        }
        assert_eq!(self.code, code, "{line}: {self:?}");
        let is_failure = [2, 3, 5].contains(&code);
        assert!(has_output || !is_failure || self.stdout.is_empty(), "{line}: {self:?}");
    }

    fn says(&self, said: &str) -> bool {
        match said.strip_suffix('…') {
            Some(beginning) => self.stderr.starts_with(beginning),
            None if said == "nothing" => self.stderr.is_empty(),
            None => self.stderr.trim_end_matches('\n') == said,
        }
    }

    fn has(&self, expected: &str) -> bool {
        let json =
            |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{expected}: {error}"));
        let has_members = |line: &Value, text: &str| {
            let members = json(text);
            members
                .as_object()
                .unwrap()
                .iter()
                .all(|(name, value)| line[name] == *value)
        };
        let (kind, text) = expected.split_once(' ').unwrap_or((expected, ""));
        match kind {
            "~" => self.stdout.contains(text),
            "!~" => !self.stdout.contains(text),
            "err" => self.stderr.contains(text),
            "!err" => !self.stderr.contains(text),
            "=" => self.json() == json(text),
            "+" => self.lines.iter().any(|line| has_members(line, text)),
            "some" => !self.at(text).is_null(),
            _ if kind.starts_with('{') => has_members(self.last(), expected),
            _ if kind.starts_with('/') => match text.strip_prefix("> ") {
                Some(least) => self.at(kind).as_f64().unwrap() > least.parse().unwrap(),
                None => *self.at(kind) == json(text),
            },
            name => self.lines.iter().map(|line| line[name].clone()).collect::<Value>() == json(text),
        }
    }

    fn last(&self) -> &Value {
        self.lines.last().unwrap_or_else(|| panic!("no line: {self:?}"))
    }

    /// Returns the value at a place of the last line, null if there is none.
    pub(crate) fn at(&self, place: &str) -> &Value {
        let found = self.last().pointer(place.trim_end_matches('/'));
        found.unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use crate::command::{Run, json_lines};

    fn check(line: &str) {
        let mut parts = line.split(" => ");
        let (code, stdout, stderr) = match parts.next().unwrap() {
            "two" => (0, "{\"A\": 1}\n{\"A\": 2, \"B\": [{\"C\": 3}]}\n", "note: x\n"),
            "one" => (0, "{\"A\": 1}\n", ""),
            _ => (3, "", "error: none\n"),
        };
        let run = Run {
            code,
            lines: json_lines(stdout),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        run.check(line, &parts.collect::<Vec<_>>());
    }

    #[test]
    fn each_expectation_can_fail() {
        for (expected, wrong) in [
            (r#"two => {"A": 2} => 0 note: x"#, r#"two => {"A": 1}"#),
            (r#"two => + {"A": 1}"#, r#"two => + {"A": 1, "B": 2}"#),
            (r#"one => = {"A": 1} => 0 nothing"#, "one => = {}"),
            ("two => A [1, 2]", "two => A [1]"),
            ("two => /B/0/C 3", "two => /B/0/C 4"),
            ("two => /B/0/C > 2", "two => /B/0/C > 3"),
            ("two => some /B", "one => some /B"),
            (r#"two => ~ "B""#, "two => ~ D"),
            ("two => !~ D", "two => !~ B"),
            ("three => 3 => err none", "three => 3 => err x"),
            ("three => 3 => !err x", "three => 3 => !err none"),
            ("three => 3 error: none", "three => 3 error: no"),
            ("three => 3 error: no…", "three => 3 none…"),
            ("three => 3", "three => 2"),
            ("one => 0", "three => 0"),
            ("one => 0 nothing", "two => 0 nothing"),
            ("one", "three"),
            ("one => {}", "three => {} => 3"),
        ] {
            check(expected);
            assert!(catch_unwind(|| check(wrong)).is_err(), "{wrong}");
        }
    }
}
