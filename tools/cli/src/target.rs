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
use operations::connection::Connection;
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

/// Returns the key in a line of a file, which [`Connection::entity`] accepts: key attributes with a space in between, or a JSON object.
///
/// # Errors
///
/// As [`Target::subject`].
pub(crate) fn id_of_line(connection: &Connection, line: &str) -> Result<String, CliError> {
    let table = connection.store.attached_table().filter(|table| !is_json(table, line));
    let words = line.splitn(table.map_or(1, |table| table.keys().count()), ' ');
    Ok(first_id(connection, &words.map(str::to_owned).collect::<Vec<_>>(), 0..=0)?.0)
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
    let count = table.map_or(1, |table| table.keys().count());
    let Some((key, words)) = words.split_at_checked(count) else {
        return Err(form(connection, words, None));
    };
    if !versions.contains(&words.len()) {
        return Err(form(connection, key, Some((words, *versions.end()))));
    }
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
    json.map_err(|error| CliError::Usage(format!("{error}: {}", order(table.table(), &keys(Some(table))))))
}

/// Returns the key attributes with their types.
fn keys(table: Option<&AttachedTable>) -> Vec<(&str, &str)> {
    match table {
        Some(table) => table.keys().map(|key| (&*key.name, key.kind.as_str())).collect(),
        None => vec![("PK", "S")],
    }
}

fn order(table: &str, keys: &[(&str, &str)]) -> String {
    let typed: Vec<_> = keys.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
    format!("the key of {table} is {}", typed.join(", then "))
}

/// Returns the error of a wrong number of arguments: which is missing or too many, and the command with those that were typed.
/// `versions` has the arguments after the key and their maximum number, `None` for an incomplete key.
fn form(connection: &Connection, key: &[String], versions: Option<(&[String], usize)>) -> CliError {
    let (name, command) = (table_name(&connection.table), next::command());
    let keys = keys(connection.store.attached_table());
    let spaced = |word: &String| [" ".to_owned(), argument(word)];
    let typed = |words: &[String]| words.iter().flat_map(spaced).collect::<String>();
    let (typed_key, order) = (typed(key), order(name, &keys));
    CliError::Usage(match versions.map(|(words, max)| words.split_at_checked(max)) {
        None => {
            let missing = keys.get(key.len()..).unwrap_or_default();
            let names: String = missing.iter().flat_map(|(name, _)| [" ", name]).collect();
            let first = missing
                .first()
                .map_or_else(String::new, |(name, kind)| format!("{name} ({kind})"));
            format!(
                "the key attribute {first} is missing: {order}: `{command}{typed_key}{names}`; the key can be one JSON object"
            )
        }
        Some(Some((words, [surplus, ..]))) => format!(
            "{} is one argument too many: {order}: `{command}{typed_key}{}`",
            argument(surplus),
            typed(words)
        ),
        Some(_) => {
            format!("VERSION is missing: `{command}{typed_key} VERSION`; `vzero log{typed_key}` lists the versions")
        }
    })
}
