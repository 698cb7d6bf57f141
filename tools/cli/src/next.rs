//! The next command to type, which each error and note ends with: complete, with the global options of this invocation.
//!
//! A text names a command as `` `vzero log E` ``. When it is printed, the options follow: `` `vzero log E --table Orders` ``.

use std::{borrow::Cow, env, sync::OnceLock};

use attach::shell::argument;
use operations::error::OperationError;
use shared::{dynamodb::read::versions::ReadError, logging::chain};
use writer_fn::counter::WriteError;

use crate::globals::{Globals, TABLE};

const START: &str = "`vzero ";

struct Invocation {
    /// The options that select a table, unless it is the default, and its history: each name with the whole text.
    options: Vec<(&'static str, String)>,
    /// Returns the program and the command, such as `vzero log`.
    command: fn() -> String,
}

static INVOCATION: OnceLock<Invocation> = OnceLock::new();
/// Key of the item of this invocation, as arguments.
static KEY: OnceLock<String> = OnceLock::new();

/// Keeps the options of this invocation.
pub(crate) fn set(globals: &Globals, command: fn() -> String) {
    let table = Some(&globals.table).filter(|table| *table != TABLE);
    let file = globals.attached.as_ref().map(|file| file.display().to_string());
    let options = [
        ("table", table),
        ("endpoint-url", globals.endpoint_url.as_ref()),
        ("profile", globals.profile.as_ref()),
        ("region", globals.region.as_ref()),
        ("history-table", globals.history_table.as_ref()),
        ("attached", file.as_ref()),
    ];
    let text = |(name, value): (&'static str, Option<&String>)| Some((name, format!(" --{name} {}", argument(value?))));
    let _ = INVOCATION.set(Invocation {
        options: options.into_iter().filter_map(text).collect(),
        command,
    });
}

/// Returns the program and the command of this invocation.
pub(crate) fn command() -> String {
    INVOCATION
        .get()
        .map_or_else(String::new, |invocation| (invocation.command)())
}

pub(crate) fn set_key(key: &str) {
    let _ = KEY.set(key.to_owned());
}

/// Returns this invocation with one more option, if it is not empty.
pub(crate) fn again(option: &str) -> String {
    let arguments = env::args_os().skip(1);
    let mut arguments: Vec<_> = arguments.map(|word| argument(&word.to_string_lossy())).collect();
    let end = arguments.iter().position(|argument| argument == "--");
    let end = end.unwrap_or(arguments.len());
    arguments.splice(end..end, Some(option.to_owned()).filter(|option| !option.is_empty()));
    format!("`vzero {}`", arguments.join(" "))
}

/// Returns the text of an error about the item of this invocation, with the next command. `None` if it has none, or one already.
pub(crate) fn of_item(error: &OperationError) -> Option<String> {
    use OperationError as E;
    let (key, text) = (KEY.get()?, chain(error));
    let next = match error {
        E::Expected { latest: 0, .. } => "`vzero console` lists the keys".to_owned(),
        E::Expected { expected, latest } if (1..*latest).contains(expected) => {
            format!("`vzero diff {key} {expected} {latest}` shows what changed")
        }
        E::Expected { .. } | E::Stale(_) | E::Write(WriteError::TimeUnreadable { .. }) => {
            format!("`vzero show {key}` shows the latest version")
        }
        E::Write(WriteError::RequestIdReused { version }) => format!("`vzero show {key} {version}` shows it"),
        E::Held(_) => format!("`vzero admin hold {key} --release` releases it"),
        E::Changed => format!("`vzero show {key}` shows the change"),
        E::Differs => format!("try again, or run `vzero admin audit {key}`"),
        E::Refused(_) | E::NothingBefore { .. } => format!("`vzero log {key}` lists the versions"),
        E::NotInHistory { .. } => format!("`vzero admin lag {key}` shows where it ends"),
        E::Omitted => format!("`vzero admin quarantine {key} --output json` shows it"),
        E::TooManyAttributes { .. } => format!("`vzero admin delete {key}`"),
        E::Expired { .. } => again("--allow-expired"),
        E::WrittenAgain | E::Write(WriteError::Contended { .. }) => again(""),
        E::Write(WriteError::Latest(_) | WriteError::FailedWithoutViolation | WriteError::Taken { .. })
        | E::Read(ReadError::Latest(_)) => format!("`vzero admin audit {key}` examines it"),
        E::Write(WriteError::CounterMissing { .. }) | E::Read(ReadError::Uncounted) => {
            let named = text.replace("vzero admin repair ID", &format!("vzero admin repair {key}"));
            return Some(named);
        }
        _ => return None,
    };
    Some(format!("{text}: {next}"))
}

/// Adds the options to the commands that a text names.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    let Some(invocation) = INVOCATION.get().filter(|_| text.contains(START)) else {
        return text.into();
    };
    let mut parts = text.split(START);
    let mut completed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (command, rest) = part.split_once('`').unwrap_or((part, ""));
        if !command.contains(' ') && command != "console" {
            // The name of a command, which needs arguments.
            completed.extend([START, part]);
            continue;
        }
        // `attach` has the table as an argument.
        let has = |name: &str| {
            let is_given = [' ', '='].iter().any(|end| command.contains(&format!("--{name}{end}")));
            is_given || name == "table" && command.starts_with("attach ")
        };
        let (command, values) = command
            .split_once(" -- ")
            .map_or((command, String::new()), |(command, values)| {
                (command, format!(" -- {values}"))
            });
        let missing = invocation.options.iter().filter(|(name, _)| !has(name));
        let missing: String = missing.map(|(_, text)| text.as_str()).collect();
        completed.extend([START, command, &missing, &values, "`", rest]);
    }
    completed.into()
}
