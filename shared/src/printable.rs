//! Text from outside, made safe to show on a terminal and in a log.
//!
//! An entity, an attribute or a message id can contain control characters, which change the title of a terminal or what it
//! shows, characters that reverse the direction of a line, and characters that cannot be seen. They are
//! [hidden](is_hidden), and are replaced by their escapes:
//!
//! | function | for | `ESC` | U+202E | line feed |
//! |---|---|---|---|---|
//! | [`line()`] | a cell of a table, one line | `\u{1b}` | `\u{202e}` | `\n` |
//! | [`lines`] | text of several lines | `\u{1b}` | `\u{202e}` | unchanged |
//! | [`json`] | a JSON document, whose value does not change | `\u001b` | `\u202e` | unchanged |
//!
//! [`shortened`] bounds the length of a text.

use std::{borrow::Cow, fmt::Write as _};

/// Maximum number of characters of a [shortened] text.
pub const MAX_CHARACTERS: usize = 128;

/// Returns `true` for control characters (C0, DEL, C1), line and paragraph separators, and characters that change the
/// direction of text or are invisible. Combining characters and variation selectors belong to the letter before them.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns one line of text: each hidden character is replaced by its escape.
///
/// ```
/// use shared::printable;
///
/// assert_eq!(printable::line("a\u{1b}]0;b\u{7}\nc\u{202e}"), r"a\u{1b}]0;b\u{7}\nc\u{202e}");
/// ```
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Returns text of several lines: each hidden character but the line feed is replaced by its escape.
///
/// ```
/// use shared::printable;
///
/// assert_eq!(printable::lines("a\r\nb\u{9b}"), "a\\r\nb\\u{9b}");
/// ```
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_hidden(character) && character != '\n')
}

/// Returns a JSON document with the same value, in which hidden characters are escaped. Outside of strings, JSON has no hidden
/// characters but white space, which is unchanged; inside of strings, it has no C0 characters.
///
/// ```
/// use shared::printable;
///
/// assert_eq!(printable::json("{\"a\": \"\u{7f}\u{202e}\u{e0001}\"}\n"), "{\"a\": \"\\u007f\\u202e\\udb40\\udc01\"}\n");
/// ```
pub fn json(document: &str) -> Cow<'_, str> {
    let is_replaced = |character: char| is_hidden(character) && !['\n', '\r', '\t'].contains(&character);
    replaced(document, is_replaced, |shown, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

/// Returns a text of at most [`MAX_CHARACTERS`] characters unchanged, and the beginning of a longer one with the length that
/// it has.
///
/// ```
/// use shared::printable::shortened;
///
/// assert_eq!(shortened("id-1"), "id-1");
/// assert_eq!(shortened(&"é".repeat(1000)), format!("{}… (1000 characters)", "é".repeat(128)));
/// ```
pub fn shortened(text: &str) -> Cow<'_, str> {
    shortened_to(text, MAX_CHARACTERS)
}

/// Returns a text of at most `max` characters unchanged, and the beginning of a longer one with the length that it has.
pub(crate) fn shortened_to(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => {
            let (start, rest) = text.split_at(end);
            Cow::Owned(format!("{start}… ({} characters)", max + rest.chars().count()))
        }
        None => Cow::Borrowed(text),
    }
}

fn escaped(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    replaced(text, is_replaced, |shown, character| {
        shown.extend(character.escape_default());
    })
}

fn replaced(text: &str, is_replaced: impl Fn(char) -> bool, replace: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_replaced(character) {
            true => replace(&mut shown, character),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn controls_and_direction_changes_are_hidden_and_letters_are_not() {
        let ranges = [
            ('\0', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{200b}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2066}', '\u{2069}'),
        ];
        for character in ranges.into_iter().flat_map(|(first, last)| first..=last) {
            assert!(is_hidden(character), "{character:?}");
        }
        for character in " ~é中ع\u{a0}\u{301}👍\u{fe0f}\u{10ffff}".chars() {
            assert!(!is_hidden(character), "{character:?}");
        }
    }

    #[test]
    fn text_without_hidden_characters_is_not_copied() {
        for text in ["", "Equipment#1", "größe ✓ — 「」"] {
            assert!(matches!(line(text), Cow::Borrowed(_)));
            assert!(matches!(lines(text), Cow::Borrowed(_)));
            assert!(matches!(super::json(text), Cow::Borrowed(_)));
            assert!(matches!(shortened(text), Cow::Borrowed(_)));
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text: String) {
            prop_assert!(!line(&text).contains(is_hidden));
            prop_assert!(!lines(&text).replace('\n', "").contains(is_hidden));
        }

        #[test]
        fn a_json_document_keeps_its_value(name: String, value: String) {
            let document = json!({name: [value]});
            let shown = super::json(&document.to_string()).into_owned();
            prop_assert!(!shown.contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), document);
        }

        #[test]
        fn a_text_is_shortened_to_its_beginning(text in ".{0,300}") {
            let short = shortened(&text).into_owned();
            let count = text.chars().count();
            if count <= MAX_CHARACTERS {
                prop_assert_eq!(short, text);
            } else {
                let start: String = text.chars().take(MAX_CHARACTERS).collect();
                prop_assert_eq!(short, format!("{start}… ({count} characters)"));
            }
        }
    }
}
