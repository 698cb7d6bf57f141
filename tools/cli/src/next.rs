//! The next command to type, which each error and note ends with: complete, with the global options of this invocation.
//!
//! A text names a command as `` `vzero log E` ``. When it is printed, the options follow: `` `vzero log E --table Orders` ``.

use std::{borrow::Cow, sync::OnceLock};

use attach::shell::argument;

use crate::globals::{Globals, TABLE};

const START: &str = "`vzero ";

struct Invocation {
    /// The options that select a table, unless it is the default, and its history: each name with the whole text.
    options: Vec<(&'static str, String)>,
    /// Returns the program and the command, such as `vzero log`.
    command: fn() -> String,
}

static INVOCATION: OnceLock<Invocation> = OnceLock::new();

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
        let has =
            |name: &str| command.contains(&format!("--{name} ")) || name == "table" && command.starts_with("attach ");
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
