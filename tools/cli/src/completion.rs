//! Shell completion: of commands and options, and of the keys of items from the table.
//!
//! The script of a shell runs `vzero` with the words of the command line. Keys are those of one page of at most [`PAGE`] items, and none
//! if the table does not respond in time.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
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
const TIMEOUT: Duration = Duration::from_secs(1);
const PAGE: i32 = 1000;

static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();

/// Answers a script that asks for completions, and ends the process.
pub(crate) fn answer(command: fn() -> Command) {
    let _ = COMMAND.set(command);
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints the script.
pub(crate) fn script(shell: Shell) -> Result<(), CliError> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string());
    let shell = shell.ok_or_else(|| CliError::Usage("expected bash, zsh or fish".to_owned()))?;
    Ok(shell.write_registration(VARIABLE, "vzero", "vzero", "vzero", &mut io::stdout())?)
}

/// Returns the keys that begin with a text. The command line has the global options, and the key attributes before it.
pub(crate) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = current.to_str().and_then(found).unwrap_or_default();
    found.into_iter().map(CompletionCandidate::new).collect()
}

fn found(current: &str) -> Option<Vec<String>> {
    let matches = COMMAND.get()?()
        .ignore_errors(true)
        .try_get_matches_from(words())
        .ok()?;
    let (globals, typed) = (Globals::from_arg_matches(&matches).ok()?, typed(&matches));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let read = async {
        let sdk = connection::sdk_config(&globals).await.ok()?;
        let connection = connection::open(&globals, Width::Read, false, sdk).await.ok()?;
        let (store, all) = (&connection.store, Segment { index: 0, total: 1 });
        let page = scan_segment(store, store.latest_table(), all, None, Some(PAGE), false).await;
        let items = page.ok()?.0.into_iter();
        Some(items.filter_map(|item| next_key(&connection, &typed, &item)).collect())
    };
    let read = runtime.block_on(async { tokio::time::timeout(TIMEOUT, read).await });
    runtime.shutdown_background();
    let mut found: Vec<_> = read.ok()??;
    // A shell does not quote what it inserts.
    found.retain(|key| key.starts_with(current) && argument(key) == *key);
    found.sort_unstable();
    found.dedup();
    Some(found)
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
fn words() -> Vec<OsString> {
    let words: Vec<_> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = env::var(INDEX).ok().and_then(|index| index.parse().ok());
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
