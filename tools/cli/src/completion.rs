//! Shell completion: of commands and options, and of the keys of items from the table.
//!
//! The script of a shell runs `vzero` with the words of the command line. Keys are those of one page of at most [`PAGE`] items, and none
//! if the table does not respond in time.
//!
//! bash and zsh pass words as they are typed, with their quotes, fish only the last one. zsh and fish quote what they insert, bash does not.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    sync::OnceLock,
    time::Duration,
};

use attach::shell::argument;
use clap::{ArgMatches, Command, FromArgMatches as _};
use clap_complete::{CompleteEnv, Shell, engine::CompletionCandidate, env::Shells};
use operations::{
    connection::Connection,
    segments::scan::{Segment, scan_segment},
};
use shared::domain::{
    Item,
    attached::key,
    keys::{LATEST_KEY, partition_key_of, sort_key_of},
};

use crate::{
    connection::{self, Width},
    error::CliError,
    globals::Globals,
};

/// Variable in which the script names its shell.
const VARIABLE: &str = "COMPLETE";
/// Variable with the index of the word that is completed. Without it, it is the last one.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
/// Variable with the word that is completed, as it is typed: bash passes it without an open quote.
const WORD: &str = "VZERO_WORD";
const TIMEOUT: Duration = Duration::from_secs(1);
const PAGE: i32 = 1000;

static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();
static SHELL: OnceLock<Option<String>> = OnceLock::new();

/// Answers a script that asks for completions, and ends the process.
pub(crate) fn answer(command: fn() -> Command) {
    let _ = (COMMAND.set(command), SHELL.set(variable(VARIABLE)));
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints the script.
pub(crate) fn script(shell: Shell) -> Result<(), CliError> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string());
    let shell = shell.ok_or_else(|| CliError::Usage("expected bash, zsh or fish".to_owned()))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "vzero", "vzero", "vzero", &mut script)?;
    let typed = format!("local -x {WORD}=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    local IFS=$'\\013'");
    let script = String::from_utf8_lossy(&script).replace("local IFS=$'\\013'", &typed);
    Ok(io::stdout().write_all(script.as_bytes())?)
}

/// Returns the keys that begin with a text. The command line has the global options, and the key attributes before it.
pub(crate) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = current.to_str().and_then(found).unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

fn found(current: &str) -> Option<Vec<String>> {
    let (command, shell) = (COMMAND.get()?, SHELL.get()?);
    let (shell, current) = (shell.as_deref()?, variable(WORD).unwrap_or_else(|| current.to_owned()));
    let (word, words) = (unquoted(&current), words());
    let is_escaped = words.iter().any(|word| word == "--");
    let matches = command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let (globals, mut typed) = (Globals::from_arg_matches(&matches).ok()?, typed(&matches));
    if shell != "fish" {
        typed = typed.iter().map(|word| unquoted(word)).collect();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let read = async {
        let sdk = connection::sdk_config(&globals).await.ok()?;
        let (connection, _) = connection::open(&globals, Width::Read, false, sdk).await.ok()?;
        let (store, all) = (&connection.store, Segment { index: 0, total: 1 });
        let page = scan_segment(store, store.latest_table(), all, None, Some(PAGE), false).await;
        let items = page.ok()?.0.into_iter();
        Some(items.filter_map(|item| next_key(&connection, &typed, &item)).collect())
    };
    let read = runtime.block_on(async { tokio::time::timeout(TIMEOUT, read).await });
    runtime.shutdown_background();
    let mut found: Vec<_> = read.ok()??;
    // Another word with a hyphen is an option.
    let is_option = |key: &str| !is_escaped && key.starts_with('-') && key.parse::<f64>().is_err();
    found.retain(|key| key.starts_with(&word) && !is_option(key) && !key.contains(char::is_control));
    if shell == "bash" {
        found = found.iter().map(|key| quoted(key, &current)).collect();
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// Returns the text of a word as it is typed, whose last quote can be open.
fn unquoted(word: &str) -> String {
    let (mut text, mut quote, mut rest) = (String::new(), None, word.chars().peekable());
    while let Some(character) = rest.next() {
        let is_kept = |next: &char| quote == Some('"') && !"$`\"\\".contains(*next);
        match character {
            '\\' if quote != Some('\'') && !rest.peek().is_some_and(is_kept) => text.extend(rest.next()),
            '\'' | '"' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            _ => text.push(character),
        }
    }
    text
}

/// Returns a key as bash inserts it in place of a word, after its open quote.
fn quoted(key: &str, word: &str) -> String {
    let special = match word.chars().next() {
        Some('\'') => return key.replace('\'', r"'\''"),
        Some('"') => "$`\"\\",
        _ if argument(key) == key => return key.to_owned(),
        _ => " \"#$&'()*;<>?[\\]^`{|}~!",
    };
    let escaped = key.chars().flat_map(|character| {
        let escape = special.contains(character).then_some('\\');
        escape.into_iter().chain([character])
    });
    escaped.collect()
}

/// Returns the key attribute of an item that follows those that are typed.
fn next_key(connection: &Connection, typed: &[String], item: &Item) -> Option<String> {
    let Some(table) = connection.store.attached_table() else {
        let is_latest = typed.is_empty() && sort_key_of(item) == Some(LATEST_KEY);
        return partition_key_of(item).filter(|_| is_latest).map(str::to_owned);
    };
    let mut texts = table.keys().filter_map(|key| key::to_text(item.get(&key.name)?));
    let typed = &typed[typed.len() / table.keys().count() * table.keys().count()..];
    let is_same = typed.iter().all(|typed| texts.next().as_ref() == Some(typed));
    texts.next().filter(|_| is_same)
}

/// Returns the words before the one that is completed.
#[allow(clippy::disallowed_methods, reason = "the script names the word in a variable")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

fn words() -> Vec<OsString> {
    let words: Vec<_> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = variable(INDEX).and_then(|index| index.parse().ok());
    let count = index.unwrap_or(words.len().saturating_sub(1));
    words.into_iter().take(count).collect()
}

/// Returns the arguments of the innermost command that are typed already.
fn typed(matches: &ArgMatches) -> Vec<String> {
    let mut level = matches;
    while let Some((_, inner)) = level.subcommand() {
        level = inner;
    }
    let words = level.try_get_many::<String>("words").ok().flatten();
    words.into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::{quoted, unquoted};

    #[test]
    fn bash_reads_a_key_as_it_was_inserted() {
        for key in [
            "customer 2",
            "it's",
            "a\"b",
            "$x`y`",
            r"back\slash",
            "#1",
            "~",
            "a*b?[c]",
            "{a,b}",
            "é 1",
            "x;y|z&(w)<>!",
        ] {
            for quote in ["", "'", "\""] {
                let line = format!("printf %s {quote}{}{quote}", quoted(key, quote));
                let read = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
                assert_eq!(String::from_utf8(read.stdout).unwrap(), key, "{line}");
                assert_eq!(unquoted(line.strip_prefix("printf %s ").unwrap()), key, "{line}");
            }
        }
        for (word, text) in [("'a b", "a b"), (r"a\ b\", "a b"), (r#""a\b\$""#, r"a\b$"), ("", "")] {
            assert_eq!(unquoted(word), text, "{word}");
        }
    }
}
