//! What differs in one changed value: words or lines of texts, elements of sets, bytes of binaries, values of JSON in texts.

use std::time::{Duration, Instant};

use shared::{
    domain::{AttributeValue, plain},
    json,
};
use similar::{Algorithm, capture_diff_slices_deadline};

pub use self::set::SetChange;

mod set;

/// Number of characters from which a text is compared by words.
pub const LONG_TEXT: usize = 60;
/// Time after which the rest of two texts is one change.
const TIME: Duration = Duration::from_millis(50);
/// Number of bytes up to which a text is read as JSON.
const MAX_JSON: usize = 400 * 1024;
/// Number of characters from which a removed and an added part are trimmed to the characters that differ.
const LONG_WORD: usize = 32;

/// Difference within a changed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Detail<'a> {
    /// Texts of more than one line, or long ones.
    Text(TextChange<'a>),
    /// Texts that are JSON objects or lists, as these values.
    Json(Box<(AttributeValue, AttributeValue)>),
    /// Sets of one type.
    Set(SetChange),
    /// Binaries, with the first byte that differs, from 0.
    Binary {
        /// Lengths in bytes.
        lengths: (usize, usize),
        /// Index of the first byte that differs.
        first: usize,
    },
    /// Other values, which are shown as a whole, with their types if these differ.
    Whole,
}

/// Difference of two texts.
#[derive(Debug, Clone, PartialEq)]
pub struct TextChange<'a> {
    /// `true` if the texts are compared by lines, `false` by words.
    pub by_lines: bool,
    /// Parts in their order.
    pub parts: Vec<Part<'a>>,
    /// `true` if the comparison ended early, so that parts can be larger than what differs.
    pub is_coarse: bool,
}

/// Part of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Texts that have the part.
    pub side: Side,
    /// The part.
    pub text: &'a str,
}

/// Texts that have a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Both texts.
    Both,
    /// Only the first text.
    Removed,
    /// Only the second text.
    Added,
}

impl<'a> Detail<'a> {
    /// Compares the two values of a change.
    pub fn of(from: &'a AttributeValue, to: &'a AttributeValue) -> Self {
        match (from, to) {
            (AttributeValue::S(from), AttributeValue::S(to)) => match json_of(from).zip(json_of(to)) {
                Some(values) => Self::Json(Box::new(values)),
                None if is_long(from) || is_long(to) => Self::Text(TextChange::between(from, to)),
                None => Self::Whole,
            },
            (AttributeValue::B(from), AttributeValue::B(to)) => {
                let (from, to): (&[u8], &[u8]) = (from.as_ref(), to.as_ref());
                let equal = from.iter().zip(to).take_while(|(from, to)| from == to);
                Self::Binary {
                    lengths: (from.len(), to.len()),
                    first: equal.count(),
                }
            }
            _ => SetChange::between(from, to).map_or(Self::Whole, Self::Set),
        }
    }
}

fn is_long(text: &str) -> bool {
    text.contains('\n') || text.chars().nth(LONG_TEXT).is_some()
}

/// Returns the object or list in a text.
fn json_of(text: &str) -> Option<AttributeValue> {
    let is_json = text.trim_start().starts_with(['{', '[']) && text.len() <= MAX_JSON;
    let value = is_json.then(|| json::parse(text).ok()).flatten()?;
    plain::from_json(value)
        .ok()
        .filter(|value| matches!(value, AttributeValue::M(_) | AttributeValue::L(_)))
}

impl<'a> TextChange<'a> {
    /// Compares two texts: by lines if one has more than one line, else by words.
    pub fn between(from: &'a str, to: &'a str) -> Self {
        let by_lines = from.contains('\n') || to.contains('\n');
        let split = |text: &'a str| {
            if by_lines {
                text.split_inclusive('\n').collect()
            } else {
                words(text)
            }
        };
        let (old, new): (Vec<_>, Vec<_>) = (split(from), split(to));
        let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
        let start = old.iter().zip(&new).take_while(same).count();
        let prefix: usize = old[..start].iter().map(|token| token.len()).sum();
        let (old, new) = (&old[start..], &new[start..]);
        let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
        let deadline = Instant::now() + TIME;
        let operations = capture_diff_slices_deadline(Algorithm::Patience, old, new, Some(deadline));
        let is_coarse = Instant::now() > deadline;
        let length = |tokens: &[&str]| tokens.iter().map(|token| token.len()).sum::<usize>();
        let mut parts = Vec::new();
        push(&mut parts, Side::Both, &from[..prefix]);
        let mut at = (prefix, prefix);
        for operation in operations {
            let lengths = (length(&old[operation.old_range()]), length(&new[operation.new_range()]));
            let (removed, added) = (&from[at.0..at.0 + lengths.0], &to[at.1..at.1 + lengths.1]);
            at = (at.0 + lengths.0, at.1 + lengths.1);
            match removed == added {
                true => push(&mut parts, Side::Both, removed),
                false if by_lines => replace(&mut parts, removed, added),
                false => replace_trimmed(&mut parts, removed, added),
            }
        }
        push(&mut parts, Side::Both, &from[at.0..]);
        Self {
            by_lines,
            parts,
            is_coarse,
        }
    }
}

fn push<'a>(parts: &mut Vec<Part<'a>>, side: Side, text: &'a str) {
    if !text.is_empty() {
        parts.push(Part { side, text });
    }
}

fn replace<'a>(parts: &mut Vec<Part<'a>>, removed: &'a str, added: &'a str) {
    push(parts, Side::Removed, removed);
    push(parts, Side::Added, added);
}

/// Adds a removed and an added part. Of long ones, only the characters that differ.
fn replace_trimmed<'a>(parts: &mut Vec<Part<'a>>, removed: &'a str, added: &'a str) {
    let is_short = |text: &str| text.chars().nth(LONG_WORD).is_none();
    if is_short(removed) && is_short(added) {
        return replace(parts, removed, added);
    }
    let same = |pair: &((usize, char), char)| pair.0.1 == pair.1;
    let start = removed.char_indices().zip(added.chars()).find(|pair| !same(pair));
    let start = start.map_or(removed.len().min(added.len()), |((at, _), _)| at);
    let (left, right) = (&removed[start..], &added[start..]);
    let equal = left
        .chars()
        .rev()
        .zip(right.chars().rev())
        .take_while(|(left, right)| left == right);
    let end: usize = equal.map(|(char, _)| char.len_utf8()).sum();
    push(parts, Side::Both, &removed[..start]);
    replace(parts, &left[..left.len() - end], &right[..right.len() - end]);
    push(parts, Side::Both, &left[left.len() - end..]);
}

/// Splits a text into words, spaces and other characters.
fn words(text: &str) -> Vec<&str> {
    let class = |char: char| match (char.is_alphanumeric(), char.is_whitespace()) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let (mut words, mut start, mut last) = (Vec::new(), 0, None);
    for (index, char) in text.char_indices() {
        let class = class(char);
        if index > 0 && (class.is_none() || Some(class) != last) {
            words.push(&text[start..index]);
            start = index;
        }
        last = Some(class);
    }
    words.push(&text[start..]);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(json: &serde_json::Value) -> AttributeValue {
        let item: shared::domain::Item = serde_json::from_value(json!({"V": json})).unwrap();
        item.get("V").unwrap().clone()
    }

    /// Returns the parts as `same[-removed-]{+added+}`, and checks that they are both texts.
    fn parts(from: &str, to: &str) -> String {
        let change = TextChange::between(from, to);
        let side = |side| {
            change
                .parts
                .iter()
                .filter(move |part| part.side != side)
                .map(|part| part.text)
        };
        assert_eq!(side(Side::Added).collect::<String>(), from);
        assert_eq!(side(Side::Removed).collect::<String>(), to);
        let texts = change.parts.iter().map(|part| match part.side {
            Side::Both => part.text.to_owned(),
            Side::Removed => format!("[-{}-]", part.text),
            Side::Added => format!("{{+{}+}}", part.text),
        });
        texts.collect()
    }

    #[test]
    fn texts_are_compared_by_words_or_lines() {
        for (from, to, expected) in [
            ("the red door", "the blue door", "the [-red-]{+blue+} door"),
            ("a\nb\nc\n", "a\nx\nc\nd", "a\n[-b\n-]{+x\n+}c\n{+d+}"),
            ("", "new", "{+new+}"),
            ("https://a/b?c=1", "https://a/b?c=2", "https://a/b?c=[-1-]{+2+}"),
            ("é ü", "é ö", "é [-ü-]{+ö+}"),
        ] {
            assert_eq!(parts(from, to), expected);
        }
        let (a, b) = ("ab".repeat(500), format!("{}x{}", "ab".repeat(200), "ab".repeat(300)));
        assert_eq!(
            parts(&a, &b),
            format!("{}{{+x+}}{}", "ab".repeat(200), "ab".repeat(300))
        );
        assert_eq!(parts(&"aa".repeat(50), &"aa".repeat(40)).matches("-]").count(), 1);
    }

    #[test]
    fn each_type_has_its_detail() {
        let detail =
            |from: &serde_json::Value, to: &serde_json::Value| format!("{:?}", Detail::of(&value(from), &value(to)));
        let long = |word: &str| json!({"S": format!("{} {word}", "word ".repeat(20))});
        for (from, to, expected) in [
            (json!({"S": "a"}), json!({"S": "b"}), "Whole"),
            (long("a"), long("b"), "Text(TextChange { by_lines: false"),
            (
                json!({"S": "a\nb"}),
                json!({"S": "a\nc"}),
                "Text(TextChange { by_lines: true",
            ),
            (json!({"S": "{\"a\":1}"}), json!({"S": "{\"a\":2}"}), "Json((M("),
            (json!({"S": "{\"a\":1"}), json!({"S": "{\"a\":2}"}), "Whole"),
            (
                json!({"B": "AAE="}),
                json!({"B": "AAI="}),
                "Binary { lengths: (2, 2), first: 1 }",
            ),
            (json!({"SS": ["a"]}), json!({"SS": ["b"]}), "Set(SetChange"),
            (json!({"N": "1"}), json!({"S": "1"}), "Whole"),
        ] {
            assert!(detail(&from, &to).starts_with(expected), "{}", detail(&from, &to));
        }
    }

    #[test]
    fn texts_of_an_item_are_compared_in_bounded_time() {
        let text = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            std::iter::repeat_with(|| format!("{} ", random.u16(..)))
                .take(70_000)
                .collect::<String>()
        };
        let start = Instant::now();
        let (a, b) = (text(1), text(2));
        assert!(TextChange::between(&a, &b).is_coarse);
        assert!(!TextChange::between(&a, &format!("{a} new")).is_coarse);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
