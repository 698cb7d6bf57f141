//! Commands of a test, and the actions of others on its table, as one text. The lines are explained at `Script::run`.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt::Display,
    fs,
    path::PathBuf,
};

use serde_json::{Value, json};
use shared::domain::version::Version;

use crate::{
    actions,
    command::Run,
    endpoint::{is_about_one_table, is_skipped},
    pages,
    table::{Document, Record, Table, with_open_payload},
    vzero::Vzero,
};

/// A table of a test, the commands on it and the actions of others. By default, those of a versioned table.
pub trait Subject: Sized {
    /// Creates the table, with this width of version keys, or with these members of a definition. `vzero` is the path of the command.
    fn create(vzero: &'static str, digits: Option<u8>, definition: &Value) -> Self;

    fn table(&self) -> &Table {
        panic!("the table has no versions of its own")
    }

    fn vzero(&self) -> &Vzero {
        self.table()
    }

    /// Returns the items of the table, by the keys of each.
    fn items(&self) -> BTreeMap<String, Value> {
        self.table().items()
    }

    /// Returns the stream records, oldest first.
    fn records(&self) -> Vec<Record> {
        self.table().records()
    }

    /// `$v07` is the sort key of version 7, `$TABLE`, `$HISTORY` and `$STREAM` are the table, its history table and the ARN of its
    /// stream.
    fn variables(&self) -> Vec<(String, String)> {
        let table = self.table();
        let key = |number| table.store.digits().version_key(Version::new(number).unwrap());
        let keys = (1..=12).map(|number| (format!("$v{number:02}"), key(number)));
        let names = [
            ("$TABLE", &*table.name),
            ("$HISTORY", table.store.history_table()),
            ("$STREAM", &table.stream_arn),
        ];
        keys.chain(names.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect()
    }

    /// Performs an action, and returns its output; `None` for an unknown action.
    fn act(&self, script: &Script<'_, Self>, kind: &str, words: &[&str]) -> Option<Value> {
        script.act_on_table(kind, words)
    }

    /// Runs a line that is no action.
    fn run(&self, line: &str) -> Run {
        self.vzero().run(line)
    }

    /// Runs a line with expectations of its own. Returns `false` if it has none.
    fn has_checked(&self, _line: &str) -> bool {
        false
    }
}

impl Subject for Table {
    fn create(vzero: &'static str, digits: Option<u8>, _: &Value) -> Self {
        digits.map_or_else(|| Self::new(vzero), |digits| Self::with_digits(vzero, digits))
    }

    fn table(&self) -> &Table {
        self
    }
}

/// Runs a script on a new table. Its first lines can name what it needs:
///
/// | line | means |
/// |---|---|
/// | `for NAME in A; B` | the script runs once for each value, which replaces `$NAME`, on a table of its own |
/// | `for DIGITS in 1; 3` | the same, with this width of version keys |
/// | `definition {…}` | members of the definition of an attached table |
/// | `one table` | the script is skipped if history has its own table |
/// | `embedded` | the script is skipped on other engines than the embedded one |
/// | `needs ROW` | the script is skipped on an engine that differs from AWS in this row of `docs/conformance.md` |
pub fn run_new<S: Subject>(vzero: &'static str, text: &str) {
    new::<S>(vzero, text, (None, &json!({}), None));
}

fn new<S: Subject>(vzero: &'static str, text: &str, options: (Option<u8>, &Value, Option<&str>)) {
    let text = text.trim_start();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (digits, definition, row) = options;
    match line.split_once(' ').unwrap_or((line, "")) {
        ("for", list) => {
            let (name, values) = list.split_once(" in ").unwrap();
            for value in values.split("; ") {
                let digits = match name {
                    "DIGITS" => value.parse().ok(),
                    _ => digits,
                };
                let rest = rest.replace(&format!("${name}"), value);
                new::<S>(vzero, &rest, (digits, definition, row));
            }
        }
        ("definition", json) => new::<S>(vzero, rest, (digits, &serde_json::from_str(json).unwrap(), row)),
        ("needs", row) => new::<S>(vzero, rest, (digits, definition, Some(row))),
        ("one", "table") if is_about_one_table() => {}
        ("embedded", "") if is_skipped("it needs the embedded DynamoDB") => {}
        ("one", "table") | ("embedded", "") => new::<S>(vzero, rest, options),
        _ => {
            let subject = S::create(vzero, digits, definition);
            if row.is_none_or(|row| !subject.vzero().endpoint.differs(&[row])) {
                run(&subject, text);
            }
        }
    }
}

/// A test for each script of these names in `tests/scripts`, on a table of this type.
#[macro_export]
macro_rules! script_tests {
    ($subject:ty; $(fn $name:ident();)*) => {
        $(#[test]
        fn $name() {
            let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/", stringify!($name), ".txt"));
            $crate::script::run_new::<$subject>(env!("CARGO_BIN_EXE_vzero"), text);
        })*
    };
}

pub struct Script<'a, S> {
    subject: &'a S,
    folder: tempfile::TempDir,
    variables: RefCell<Vec<(String, String)>>,
    /// Outputs of earlier lines, by name.
    kept: RefCell<HashMap<String, String>>,
    items: RefCell<BTreeMap<String, Value>>,
}

/// Runs the lines of a text.
pub fn run<S: Subject>(subject: &S, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut variables = subject.variables();
    let scripts = pages::root().join("tools/cli/tests/scripts");
    let folders = [("$SCRIPTS", scripts.as_path()), ("$FOLDER", folder.path())];
    variables.extend(folders.map(|(name, path)| (name.to_owned(), path.to_str().unwrap().to_owned())));
    let script = Script {
        subject,
        folder,
        variables: RefCell::new(variables),
        kept: RefCell::default(),
        items: RefCell::default(),
    };
    script.run(text);
}

/// Attributes that a restored latest item does not have, or has of its own.
const OF_REQUESTS: [&str; 5] = [
    "RecentRequests",
    "RequestsSince",
    "RequestsAhead",
    "RequestsDropped",
    "V0Id",
];

impl<S: Subject> Script<'_, S> {
    /// Runs the lines, and checks what follows ` => `, any number of times, see [`Run::check`]. Lines that begin with `//` are comments.
    /// `$FOLDER` is a folder for files, `$SCRIPTS` that of the scripts, and `$x(7)` is a text of 7 letters. The lines between
    /// `each NAME in A; B` and `end` run once for each value. `with NAME=value …` adds environment variables to those of a command, and
    /// `alone NAME=value …` runs it with no others, and without a table. More expectations:
    ///
    /// | expectation | of |
    /// |---|---|
    /// | `as NAME /Name/0/Name` | none: the text at this place of the last line replaces `$NAME` in the following lines |
    /// | `keep NAME`, `same NAME` | standard output and standard error, which are those of an earlier line |
    ///
    /// Lines that begin with `@` are actions. Those of each table:
    ///
    /// | action | effect |
    /// |---|---|
    /// | `@file NAME text` | creates a file, in which `\n` begins a line. The output of `@text NAME` is the file |
    /// | `@document NAME 0,2-3` | creates a failure document of these stream records |
    /// | `@pointer NAME 0,2-3` | creates a failure document without the records themselves |
    /// | `@edit NAME /place json` | replaces a value of a failure document; null removes it |
    /// | `@record 3` | none: the output is this stream record |
    /// | `@keep` | keeps the items of the table |
    /// | `@same` | none: the items are those that were kept; with keys, those of the one item |
    /// | `@like` | the same, without the attributes in which a restored latest item differs |
    fn run(&self, text: &str) {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if let Some(list) = line.strip_prefix("each ") {
                let (name, values) = list.split_once(" in ").unwrap();
                let (mut block, mut depth) = (String::new(), 1);
                for line in lines.by_ref() {
                    depth += i32::from(line.starts_with("each ")) - i32::from(line == "end");
                    if depth == 0 {
                        break;
                    }
                    block.extend([line, "\n"]);
                }
                for value in self.filled(values).split("; ") {
                    self.run(&block.replace(&format!("${name}"), value));
                }
            } else {
                self.line(line);
            }
        }
    }

    fn line(&self, line: &str) {
        let filled = self.filled(line);
        if filled.is_empty() || line.starts_with("//") || self.subject.has_checked(&filled) {
            return;
        }
        let mut parts = filled.split(" => ");
        let line = parts.next().unwrap_or_default();
        let run = match line.split_once(' ') {
            _ if line.starts_with('@') => self.act(&line[1..]),
            Some(("with", line)) => self.subject.vzero().run_in(line, false),
            Some(("alone", line)) => self.subject.vzero().run_in(line, true),
            _ => self.subject.run(line),
        };
        let is_own = |part: &&str| ["as ", "keep ", "same "].iter().any(|start| part.starts_with(start));
        let (own, expected): (Vec<_>, Vec<_>) = parts.partition(is_own);
        for part in own {
            self.keep(&run, part);
        }
        run.check(&filled, &expected);
    }

    fn keep(&self, run: &Run, part: &str) {
        let (kind, name) = part.split_once(' ').unwrap();
        if kind == "as" {
            let (name, place) = name.split_once(' ').unwrap();
            let value = run.at(place);
            assert!(!value.is_null(), "{part}: {run:?}");
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // A later value replaces an earlier one.
            self.variables.borrow_mut().insert(0, (format!("${name}"), value));
            return;
        }
        let output = format!("{}{}", run.stdout, run.stderr);
        let kept = self.kept.borrow_mut().insert(name.to_owned(), output.clone());
        assert!(kind == "keep" || kept == Some(output), "{part}: {run:?}");
    }

    fn filled(&self, line: &str) -> String {
        let variables = self.variables.borrow();
        let fill = |line: String, (name, value): &(String, String)| line.replace(name, value);
        let mut line = variables.iter().fold(line.to_owned(), fill);
        while let Some((start, rest)) = line.split_once("$x(") {
            let (count, end) = rest.split_once(')').unwrap();
            line = format!("{start}{}{end}", "x".repeat(count.parse().unwrap()));
        }
        line
    }

    fn act(&self, action: &str) -> Run {
        let (kind, rest) = action.split_once(' ').unwrap_or((action, ""));
        let words: Vec<_> = rest.splitn(3, ' ').collect();
        let output = self.own_action(kind, rest, &words);
        let output = output.or_else(|| self.subject.act(self, kind, &words));
        let mut output = output.unwrap_or_else(|| panic!("{action} is no action"));
        output.sort_all_objects();
        Run {
            code: 0,
            stdout: output.as_str().map_or_else(|| output.to_string(), str::to_owned),
            lines: vec![output],
            stderr: String::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self, name: &str, content: impl Display) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content.to_string()).unwrap();
    }

    fn own_action(&self, kind: &str, rest: &str, words: &[&str]) -> Option<Value> {
        match (kind, words) {
            ("file", [name, ..]) => {
                let text = rest.split_once(' ').map_or("", |(_, text)| text);
                self.store(name, text.replace("\\n", "\n"));
            }
            ("text", [name]) => return Some(self.text(name).into()),
            ("document", [name, numbers]) => self.store(name, self.document(numbers)),
            ("pointer", [name, numbers]) => {
                let mut body = self.document(numbers);
                body.as_object_mut().unwrap().remove("payload");
                self.store(name, body);
            }
            ("edit", [name, place, value]) => {
                let mut body: Value = serde_json::from_str(&self.text(name)).unwrap();
                if body["payload"].is_string() {
                    body = with_open_payload(body);
                }
                let (parent, member) = place.rsplit_once('/').unwrap();
                let parent = body.pointer_mut(parent).unwrap();
                match (serde_json::from_str(value).unwrap(), parent) {
                    (value, Value::Array(elements)) if member == "-" => elements.push(value),
                    (Value::Null, Value::Object(members)) => drop(members.remove(member)),
                    (value, parent) => parent[member] = value,
                }
                self.store(name, body);
            }
            ("record", [number]) => {
                return Some(self.subject.records()[number.parse::<usize>().unwrap()].json().clone());
            }
            ("keep", _) => drop(self.items.replace(self.subject.items())),
            ("same" | "like", _) => {
                let of = |mut items: BTreeMap<String, Value>| {
                    items.retain(|key, _| rest.is_empty() || key == rest);
                    for item in items.values_mut().filter(|_| kind == "like") {
                        item.as_object_mut()
                            .unwrap()
                            .retain(|name, _| !OF_REQUESTS.contains(&&**name));
                    }
                    items
                };
                assert_eq!(
                    of(self.subject.items()),
                    of(self.items.borrow().clone()),
                    "{kind} {rest}"
                );
            }
            _ => return None,
        }
        Some(Value::Null)
    }

    /// Returns the stream records with these numbers, such as `0,2-3`.
    pub fn records(&self, numbers: &str) -> Vec<Record> {
        let number = |text: &str| text.parse::<usize>().unwrap();
        let ranges = numbers.split(',').flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            number(first)..=number(last)
        });
        let all = self.subject.records();
        ranges.map(|number| all[number].clone()).collect()
    }

    /// Performs an action of every versioned table.
    pub fn act_on_table(&self, kind: &str, words: &[&str]) -> Option<Value> {
        actions::act(self.subject.table(), &self.items.borrow(), kind, words)
    }

    /// Returns a file of the script.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn document(&self, numbers: &str) -> Value {
        let Document { body, .. } = self.subject.vzero().document(&self.records(numbers));
        body
    }
}
