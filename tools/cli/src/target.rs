//! Positional arguments of a command: the key of an item, then versions.
//!
//! | table | key |
//! |---|---|
//! | versioned | one word, the partition key of the entity |
//! | attached | one word for each key attribute, in the order of the key schema, or one JSON object |

use std::ops::RangeInclusive;

use attach::shell::argument;
use clap::Arg;
use clap_complete::engine::ArgValueCompleter;
use operations::{connection::Connection, error::OperationError};
use shared::domain::{
    attached::{AttachedTable, key},
    layout::table_name,
};

use crate::{completion, error::CliError, next, selector::Subject};

/// The key of an item, as one argument or one for each key attribute, then versions. Or the keys of several items.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Key of the item: the partition key of the entity; of any table, its key attributes in their order, or a JSON object
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true, add = ArgValueCompleter::new(completion::keys))]
    words: Vec<String>,
}

/// Makes the argument of [`Target`] optional with the option `--all`.
pub(crate) fn unless_all(words: Arg) -> Arg {
    let words = words.required(false).required_unless_present("all");
    words.conflicts_with("all")
}

impl Target {
    /// Returns the item, with the arguments that follow its key, of which there are `versions`.
    ///
    /// # Errors
    ///
    /// Returns [`CliError`] with the form of the command if there are too few or too many arguments, or if a key attribute is not of
    /// its type.
    pub(crate) fn subject<'a>(
        &'a self,
        connection: &'a Connection,
        versions: RangeInclusive<usize>,
    ) -> Result<Subject<'a>, CliError> {
        let (id, words) = first_id(connection, &self.words, versions)?;
        let key = arguments(&self.words[..self.words.len() - words.len()]);
        next::set_key(&key);
        Ok(Subject {
            entity: connection.entity(&id)?,
            connection,
            id,
            key,
            words,
        })
    }

    /// Returns the keys of all items, which [`Connection::entity`] accepts.
    ///
    /// # Errors
    ///
    /// As [`Self::subject`].
    pub(crate) fn ids(&self, connection: &Connection) -> Result<Vec<String>, CliError> {
        let (mut words, mut ids) = (&*self.words, Vec::new());
        while !words.is_empty() {
            let (id, others) = first_id(connection, words, 0..=usize::MAX)?;
            ids.push(id);
            words = others;
        }
        Ok(ids)
    }

    /// Returns the arguments as a shell reads them.
    pub(crate) fn arguments(&self) -> String {
        arguments(&self.words)
    }
}

fn arguments(words: &[String]) -> String {
    words.iter().map(|word| argument(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the first key of arguments, and the arguments that follow it.
fn first_id<'a>(
    connection: &Connection,
    words: &'a [String],
    versions: RangeInclusive<usize>,
) -> Result<(String, &'a [String]), CliError> {
    let table = connection.store.attached_table();
    let table = table.filter(|table| !is_json(table, &words[0]));
    let split = words.split_at_checked(table.map_or(1, |table| table.keys().count()));
    let split = split.filter(|(_, words)| versions.contains(&words.len()));
    let (key, words) = split.ok_or_else(|| form(connection, &versions))?;
    let id = table.map_or_else(|| Ok(key[0].clone()), |table| of_words(table, key))?;
    Ok((id, words))
}

/// Returns `true` if the word is a JSON object with key attributes of the table.
fn is_json(table: &AttachedTable, word: &str) -> bool {
    let parsed = word.starts_with('{').then(|| shared::json::parse(word).ok()).flatten();
    parsed.is_some_and(|object| table.keys().any(|key| object.get(&key.name).is_some()))
}

/// Returns the JSON of a key whose attributes are words.
fn of_words(table: &AttachedTable, words: &[String]) -> Result<String, CliError> {
    let item = key::of_texts(table, words.iter().map(String::as_str));
    let json = item.and_then(|item| key::to_json(table, &item));
    Ok(json.map_err(OperationError::from)?)
}

/// Returns the error of a wrong number of arguments: the key attributes with their types, and the form of the command.
fn form(connection: &Connection, versions: &RangeInclusive<usize>) -> CliError {
    let (name, command) = (table_name(&connection.table), next::command());
    let keys: Vec<_> = match connection.store.attached_table() {
        Some(table) => table.keys().map(|key| (&*key.name, key.kind.as_str())).collect(),
        None => vec![("PK", "S")],
    };
    let (typed, names): (Vec<_>, Vec<_>) = keys
        .iter()
        .map(|(name, kind)| (format!("{name} ({kind})"), *name))
        .unzip();
    let form = match (versions.start(), versions.end()) {
        (0, 0) => "",
        (0, 1) => " [VERSION]",
        (1, 1) => " VERSION",
        (_, &usize::MAX) => " …",
        _ => " [VERSION] [VERSION]",
    };
    let json = if keys.len() > 1 {
        "; the key can be one JSON object"
    } else {
        ""
    };
    CliError::Usage(format!(
        "the key of {name} is {}: `{command} {}{form}`{json}",
        typed.join(", then "),
        names.join(" ")
    ))
}
