//! Arguments and text of a command. What comes from outside, such as a key, a value, an argument or a file name, is shown
//! without [hidden characters](printable::is_hidden): these can change a terminal, or make its text look different.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
};

use clap::{
    Error, Parser,
    error::{ContextValue, ErrorKind},
};
use shared::printable;

/// Writes one line. Line feeds in the text are escaped too.
///
/// # Errors
///
/// Returns the error of the stream.
pub fn write_line(stream: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(stream, "{}", printable::line(text))
}

/// Writes text of one or more lines, and a line feed.
///
/// # Errors
///
/// Returns the error of the stream.
pub fn write_lines(stream: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(stream, "{}", printable::lines(text))
}

/// Parses the command line. After a usage error, prints it in one line, with the argument in its visible form, and ends the
/// process.
pub fn arguments<A: Parser>() -> A {
    let arguments: Vec<_> = std::env::args_os().collect();
    A::try_parse_from(&arguments).unwrap_or_else(|error| {
        let error = visible::<A>(error, &arguments);
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            error.exit()
        }
        let command = command_of(A::command(), &arguments);
        let line = one_line(&error.render().to_string(), &command);
        let _ = write_line(&mut io::stderr(), &line);
        std::process::exit(error.exit_code())
    })
}

/// Returns the name of the program, with the command and its subcommands of this process.
pub fn command(program: clap::Command) -> String {
    command_of(program, &std::env::args_os().collect::<Vec<_>>())
}

/// Returns the name of the program, with the command and its subcommands that the arguments name.
fn command_of(program: clap::Command, arguments: &[OsString]) -> String {
    let mut command = program.get_name().to_owned();
    let matches = program.ignore_errors(true).try_get_matches_from(arguments).ok();
    let mut level = matches.as_ref();
    while let Some((name, inner)) = level.and_then(clap::ArgMatches::subcommand) {
        command.extend([" ", name]);
        level = Some(inner);
    }
    command
}

/// Joins the lines of a usage error, and replaces the usage by the command that shows it.
fn one_line(text: &str, command: &str) -> String {
    let paragraphs = text.trim_end().split("\n\n");
    let paragraphs = paragraphs.filter(|text| !text.starts_with("Usage:") && !text.starts_with("For more information"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs = paragraphs.map(|text| words(text).replace(": :", ":"));
    let line = paragraphs.collect::<Vec<_>>().join("; ");
    format!("{line}; `{command} --help` lists the arguments")
}

/// Returns the error for the same command line with visible arguments. Its text repeats arguments.
fn visible<A: Parser>(error: Error, arguments: &[OsString]) -> Error {
    let error = match arguments.iter().all(|argument| shown(argument) == *argument) {
        true => error,
        false => match A::try_parse_from(arguments.iter().map(|argument| shown(argument))) {
            Err(error) => error,
            // The argument is invalid only because of these characters.
            Ok(_) => A::command().error(
                ErrorKind::InvalidValue,
                "an argument contains control characters or is not UTF-8",
            ),
        },
    };
    with_visible_values(error)
}

/// Replaces values that come from environment variables.
fn with_visible_values(mut error: Error) -> Error {
    let texts = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, printable::line(text).into_owned())),
        _ => None,
    });
    for (kind, text) in texts.collect::<Vec<_>>() {
        error.insert(kind, ContextValue::String(text));
    }
    error
}

fn shown(argument: &OsStr) -> OsString {
    printable::line(&argument.to_string_lossy()).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long)]
        number: Option<u8>,
        #[arg(long, value_parser = letters)]
        letters: Option<String>,
    }

    fn letters(text: &str) -> Result<String, &'static str> {
        text.chars()
            .all(|letter| letter.is_ascii_graphic())
            .then(|| text.to_owned())
            .ok_or("no letters")
    }

    /// Returns the text that is printed for these arguments, and the same for a terminal.
    fn printed(arguments: &[&str]) -> [String; 2] {
        let arguments: Vec<_> = ["program"].iter().chain(arguments).map(OsString::from).collect();
        let error = visible::<Arguments>(Arguments::try_parse_from(&arguments).unwrap_err(), &arguments);
        let text = error.render();
        [text.to_string(), text.ansi().to_string()]
    }

    #[derive(Debug, Parser)]
    #[command(name = "program")]
    enum Commands {
        Get {
            id: String,
            #[arg(long, value_parser = ["a", "b"])]
            format: Option<String>,
        },
        /// Has commands of its own.
        State {
            #[arg(long)]
            name: Option<String>,
            #[command(subcommand)]
            states: States,
        },
    }

    #[derive(Debug, clap::Subcommand)]
    enum States {
        Put { id: String },
        Get { id: String },
    }

    #[test]
    fn a_usage_error_is_one_line_with_the_next_step() {
        for (arguments, expected) in [
            (
                &["get"][..],
                "error: the following required arguments were not provided: <ID>; `program get --help` lists the arguments",
            ),
            (
                &["gett", "E"],
                "error: unrecognized subcommand 'gett'; tip: a similar subcommand exists: 'get'; `program --help` lists the \
                 arguments",
            ),
            (
                &["get", "E", "--format", "c"],
                "error: invalid value 'c' for '--format <FORMAT>' [possible values: a, b]; `program get --help` lists the \
                 arguments",
            ),
            (
                &["state", "put", "E", "F"],
                "error: unexpected argument 'F' found; `program state put --help` lists the arguments",
            ),
            (
                &["state", "--name", "put", "get", "E", "F"],
                "error: unexpected argument 'F' found; `program state get --help` lists the arguments",
            ),
        ] {
            let arguments: Vec<_> = ["program"].iter().chain(arguments).map(OsString::from).collect();
            let error = Commands::try_parse_from(&arguments).unwrap_err();
            let command = command_of(<Commands as clap::CommandFactory>::command(), &arguments);
            assert_eq!(one_line(&error.render().to_string(), &command), expected);
        }
    }

    const HOSTILE: &str = "7\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\n";
    const VISIBLE: &str = r"7\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\n";

    #[test]
    fn an_error_shows_arguments_and_variables_without_control_characters() {
        for arguments in [
            ["--number", HOSTILE].as_slice(),
            &[HOSTILE],
            &[&format!("--{HOSTILE}")],
            &["--number", "1", HOSTILE],
        ] {
            let [text, on_terminal] = printed(arguments);
            assert!(text.contains(VISIBLE), "{text}");
            assert!(!text.replace('\n', "").contains(printable::is_hidden), "{text:?}");
            // Only clap's own colors.
            for sequence in on_terminal.split('\u{1b}').skip(1) {
                let end = sequence
                    .trim_start_matches(['[', ';'])
                    .trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == ';');
                assert!(end.starts_with('m'), "{on_terminal:?}");
            }
            assert!(
                !on_terminal.contains(['\u{7}', '\u{9b}', '\u{202e}']),
                "{on_terminal:?}"
            );
        }
        let [text, _] = printed(&["--letters", HOSTILE]);
        assert!(text.contains("an argument contains control characters"), "{text}");
        // The value of a variable is not among the arguments.
        let error = Arguments::try_parse_from(["program", "--number", HOSTILE]).unwrap_err();
        let text = with_visible_values(error).render().to_string();
        assert!(text.contains(VISIBLE), "{text}");
        assert!(!text.replace('\n', "").contains(printable::is_hidden), "{text:?}");
    }

    #[test]
    fn text_of_several_lines_keeps_its_lines() {
        let written = |write: fn(&mut Vec<u8>, &str) -> io::Result<()>| {
            let mut written = Vec::new();
            write(&mut written, "a\nb\u{85}").unwrap();
            String::from_utf8(written).unwrap()
        };
        assert_eq!(written(write_line), "a\\nb\\u{85}\n");
        assert_eq!(written(write_lines), "a\nb\\u{85}\n");
    }
}
