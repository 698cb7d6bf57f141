//! Changes for people: a block for each, with its path, its kind and what differs in its values.
//!
//! ```text
//! Lines[0]  moved from [2]
//! Note  changed
//!     …the [-red-]{+blue+} door
//! Total  changed
//!     248 → "5"
//! ```

use std::collections::HashMap;

use console::style;
use item_diff::{
    change::{Change, Changes, Kind},
    detail::{Detail as Difference, LONG_TEXT, Part, Side, TextChange},
    line::{difference, element_text, origin, path_text, value_text, value_texts},
};
use serde_json::Value;
use shared::{
    domain::{AttributeValue, Item},
    printable,
};

use super::{Output, print_json, print_styled};
use crate::error::CliError;

/// Maximum number of characters of a value, without `--full`.
const MAX_CHARS: usize = 1_000;
/// Line in place of changes.
pub(super) const NO_CHANGES: &str = "(no changes)";
/// Number of equal characters around a part of a text that differs.
const CONTEXT_CHARS: usize = 40;
/// Number of equal lines around those that differ.
const CONTEXT_LINES: usize = 2;

/// Parts of the output of `vzero log`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Detail {
    /// Show the diff of each version
    #[arg(short, long)]
    pub(crate) patch: bool,
    /// Show the numbers of changes in place of the changes
    #[arg(long)]
    pub(crate) stat: bool,
}

impl Output {
    /// Prints changes that a command would make, as the member `Changes` of an object, or in blocks.
    pub(crate) fn planned(&self, mut about: Value, changes: &Changes<'_>) -> Result<(), CliError> {
        if !self.is_json() {
            return print_styled(&block_lines(changes, self.is_full).join("\n"));
        }
        if let Value::Object(members) = &mut about {
            members.extend(changes.to_json());
        }
        print_json(&about)
    }

    /// Prints changes in blocks below a heading, and lines after them.
    pub(crate) fn below(&self, heading: &str, changes: &Changes<'_>, notes: &[String]) -> Result<(), CliError> {
        let mut lines = vec![style(printable::line(heading)).underlined().to_string()];
        if !changes.changes.is_empty() {
            lines.extend(block_lines(changes, self.is_full));
        }
        lines.extend(
            notes
                .iter()
                .map(|note| style(printable::line(note)).yellow().to_string()),
        );
        print_styled(&lines.join("\n"))
    }
}

/// Returns the numbers of changes: `2 added, 1 moved`.
pub(super) fn counts(changes: &Changes<'_>) -> String {
    let count = |kind| changes.changes.iter().filter(|change| change.kind() == kind).count();
    let counts = ["added", "removed", "changed", "moved"].map(|kind| (count(kind), kind));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, kind)| format!("{count} {kind}")).collect();
    if counts.is_empty() {
        NO_CHANGES.to_owned()
    } else {
        counts.join(", ")
    }
}

/// Returns the lines of the blocks. They have no hidden characters but for colors, which only a terminal gets.
pub(super) fn block_lines(changes: &Changes<'_>, is_full: bool) -> Vec<String> {
    let max = if is_full { usize::MAX } else { MAX_CHARS };
    let mut lines: Vec<_> = changes.changes.iter().flat_map(|change| block(change, max)).collect();
    lines.extend(changes.changes.is_empty().then(|| NO_CHANGES.to_owned()));
    let coarse = changes.coarse.iter().map(path_text);
    lines.extend(coarse.map(|path| format!("{path} is too different: more than necessary is shown as changed")));
    lines
}

fn block(change: &Change<'_>, max: usize) -> Vec<String> {
    let (mut kind, path) = (change.kind().to_owned(), style(path_text(&change.path)).bold());
    let values = match &change.kind {
        Kind::Added(value) => vec![marked('+', &shortened(&value_text(value), max))],
        Kind::Removed(value) => vec![marked('-', &shortened(&value_text(value), max))],
        Kind::Changed(from, to) => changed(from, to, max),
        Kind::Moved(from, _) => {
            kind = format!("{kind} from {}", origin(&change.path, from));
            Vec::new()
        }
    };
    let values = values.into_iter().map(|line| format!("    {line}"));
    std::iter::once(format!("{path}  {kind}")).chain(values).collect()
}

fn changed(from: &AttributeValue, to: &AttributeValue, max: usize) -> Vec<String> {
    let element = |sign, element: &AttributeValue| marked(sign, &shortened(&element_text(element), max));
    match Difference::of(from, to) {
        Difference::Text(text) => text_lines(&text, max),
        Difference::Json(values) => {
            let wrapped = |value: AttributeValue| Item::from(HashMap::from([("JSON".to_owned(), value)]));
            let (old, new) = (wrapped(values.0), wrapped(values.1));
            match (Changes::between(Some(&old), Some(&new)), from, to) {
                // The texts differ in spaces, or in the form of a number.
                (changes, AttributeValue::S(from), AttributeValue::S(to)) if changes.changes.is_empty() => {
                    text_lines(&TextChange::between(from, to), max)
                }
                (changes, ..) => block_lines(&changes, max == usize::MAX),
            }
        }
        Difference::Set(set) => {
            let added = set.added.iter().map(|one| element('+', one));
            added.chain(set.removed.iter().map(|one| element('-', one))).collect()
        }
        Difference::Binary {
            lengths: (from, to),
            first,
        } => {
            vec![format!("{from} bytes → {to} bytes, which differ from byte {first} on")]
        }
        Difference::Whole => {
            let (from, to) = value_texts(from, to);
            match from.chars().count().max(to.chars().count()) {
                longest if longest > max => vec![difference(&from, &to, max)],
                0..=LONG_TEXT => vec![format!("{} → {}", style(from).red(), style(to).green())],
                _ => vec![marked('-', &from), marked('+', &to)],
            }
        }
    }
}

fn marked(sign: char, text: &str) -> String {
    let line = style(format!("{sign} {text}"));
    if sign == '+' { line.green() } else { line.red() }.to_string()
}

fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!(
            "{}… (--full shows all {} characters)",
            &text[..end],
            text.chars().count()
        ),
        None => text.to_owned(),
    }
}

fn text_lines(change: &TextChange<'_>, max: usize) -> Vec<String> {
    let mut lines = match change.by_lines {
        true => by_lines(&change.parts),
        false => vec![by_words(&change.parts, max)],
    };
    lines.extend(
        change
            .is_coarse
            .then(|| "(too different: more than necessary is shown as changed)".to_owned()),
    );
    lines
}

/// Returns `the [-red-]{+blue+} door`, with the context of each part that differs.
fn by_words(parts: &[Part<'_>], max: usize) -> String {
    let last = parts.len().saturating_sub(1);
    let text = parts.iter().enumerate().map(|(index, part)| {
        let text = printable::line(part.text);
        match part.side {
            Side::Removed => style(format!("[-{}-]", shortened(&text, max))).red().to_string(),
            Side::Added => style(format!("{{+{}+}}", shortened(&text, max))).green().to_string(),
            Side::Both => {
                let chars: Vec<_> = text.chars().collect();
                context(&chars, '…', CONTEXT_CHARS, (index == 0, index == last)).collect()
            }
        }
    });
    text.collect()
}

/// Returns the lines that differ, with a sign, and their context.
fn by_lines(parts: &[Part<'_>]) -> Vec<String> {
    let ends = |other| {
        parts
            .iter()
            .rfind(|part| part.side != other)
            .is_none_or(|part| part.text.ends_with('\n'))
    };
    let differ_in_end = ends(Side::Removed) != ends(Side::Added);
    let visible = |text: &str| {
        let line = text.strip_suffix('\n').unwrap_or(text);
        // Spaces at the end would not be visible.
        let line = if line.trim_end() == line {
            line.to_owned()
        } else {
            format!("{line:?}")
        };
        let end = if differ_in_end && !text.ends_with('\n') {
            " (no line feed at the end)"
        } else {
            ""
        };
        printable::line(&line).into_owned() + end
    };
    let (mut lines, last) = (Vec::new(), parts.len().saturating_sub(1));
    for (index, part) in parts.iter().enumerate() {
        let texts: Vec<_> = part.text.split_inclusive('\n').map(visible).collect();
        match part.side {
            Side::Removed => lines.extend(texts.iter().map(|text| marked('-', text))),
            Side::Added => lines.extend(texts.iter().map(|text| marked('+', text))),
            Side::Both => {
                let shown = context(&texts, "…".to_owned(), CONTEXT_LINES, (index == 0, index == last));
                lines.extend(shown.map(|line| format!("  {line}")));
            }
        }
    }
    lines
}

/// Returns the context after one part and before the next one, with `dots` in place of what is between.
fn context<T: Clone>(all: &[T], dots: T, max: usize, (is_first, is_last): (bool, bool)) -> impl Iterator<Item = T> {
    let start = if is_first { 0 } else { max.min(all.len()) };
    let end = all.len() - if is_last { 0 } else { max.min(all.len() - start) };
    let dots = (start < end).then_some(dots);
    all[..start]
        .iter()
        .cloned()
        .chain(dots)
        .chain(all[end..].iter().cloned())
}
