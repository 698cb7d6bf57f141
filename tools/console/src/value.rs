//! Attribute values for the eye.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{Markup, html};
use shared::domain::{AttributeValue, size};

/// How much of a value is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Much {
    /// The most characters of a text.
    pub(super) characters: usize,
    /// The most members of a list, map or set.
    pub(super) members: usize,
    /// Down to how many levels.
    pub(super) levels: usize,
}

impl Much {
    /// A line in a table.
    pub(super) const LITTLE: Self = Self {
        characters: 80,
        members: 4,
        levels: 2,
    };
    /// One item among others on a page.
    pub(super) const SOME: Self = Self {
        characters: 300,
        members: 30,
        levels: 5,
    };
    /// All of it.
    pub(super) const ALL: Self = Self {
        characters: usize::MAX,
        members: usize::MAX,
        levels: 64,
    };
}

/// A value, with its type where that is not plain.
pub(super) fn value(value: &AttributeValue, much: Much) -> Markup {
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    let Some(levels) = much.levels.checked_sub(1) else {
        return html! { span.more { "… " (bytes(size::of_value(value))) } };
    };
    let inner = Much { levels, ..much };
    match value {
        S(string) => text(string, much),
        N(number) => html! { span.number { (number) } },
        Bool(value) => html! { span.word { (value) } },
        Null(_) => html! { span.word { "null" } },
        B(binary) => self::binary(binary, much),
        Ss(texts) => set("strings", texts, much, |each| text(each, much)),
        Ns(numbers) => set("numbers", numbers, much, |each| html! { span.number { (each) } }),
        Bs(binaries) => set("binaries", binaries, much, |each| binary(each, much)),
        L(values) if values.is_empty() => html! { span.word { "[ ]" } },
        L(values) => html! {
            ol.nested start="0" {
                @for each in values.iter().take(much.members) { li { (self::value(each, inner)) } }
                (more(values.len(), much))
            }
        },
        M(members) if members.is_empty() => html! { span.word { "{ }" } },
        M(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            html! {
                ul.nested {
                    @for (name, each) in sorted.into_iter().take(much.members) {
                        li { (self::name(name)) ": " (self::value(each, inner)) }
                    }
                    (more(members.len(), much))
                }
            }
        }
    }
}

/// The name of an attribute or a member.
pub(super) fn name(name: &str) -> Markup {
    html! { bdi.name { (visible(name, 256)) } }
}

/// A key, an actor, or another text that stands by itself.
pub(super) fn word(word: &str) -> Markup {
    html! { bdi { (visible(word, 256)) } }
}

/// A text that stands where there is no markup, such as a title.
pub(super) fn plain(text: &str) -> String {
    visible(text, 512)
}

/// A number of bytes.
pub(super) fn bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

fn text(text: &str, much: Much) -> Markup {
    html! { bdi.text { (visible(text, much.characters)) } @if text.is_empty() { span.word { "empty" } } }
}

fn binary(binary: &[u8], much: Much) -> Markup {
    let shown = binary.get(..much.characters / 4 * 3).unwrap_or(binary);
    html! {
        span.word { "binary, " (bytes(binary.len())) } " "
        span.binary { (STANDARD.encode(shown)) @if shown.len() < binary.len() { "…" } }
    }
}

fn set<T>(what: &str, values: &[T], much: Much, show: impl Fn(&T) -> Markup) -> Markup {
    html! {
        span.word { "set of " (values.len()) " " (what) }
        ul.nested.set {
            @for each in values.iter().take(much.members) { li { (show(each)) } }
            (more(values.len(), much))
        }
    }
}

fn more(members: usize, much: Much) -> Markup {
    let more = members.saturating_sub(much.members);
    html! { @if more > 0 { li.more { "… and " (more) " more" } } }
}

/// A text of which nothing is hidden: control characters, and those that turn the writing around, are named. What is longer
/// than that is cut.
fn visible(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most.saturating_mul(4)));
    for (at, character) in text.chars().enumerate() {
        if at == most {
            shown.extend(["… ", &bytes(text.len()), " in all"]);
            break;
        }
        let is_hidden = character.is_control() && !['\n', '\t'].contains(&character)
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        match is_hidden {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(json: serde_json::Value, much: Much) -> String {
        value(
            &serde_json::from_value::<shared::domain::Item>(json!({"A": json})).unwrap()["A"],
            much,
        )
        .into_string()
    }

    #[test]
    fn markup_in_a_value_is_a_text() {
        const SCRIPT: &str = "<script>alert(1)</script>";
        for value in [
            json!({"S": SCRIPT}),
            json!({"SS": [SCRIPT]}),
            json!({"L": [{"S": SCRIPT}]}),
            json!({"M": {SCRIPT: {"S": SCRIPT}}}),
            json!({"M": {"a": {"L": [{"M": {SCRIPT: {"NULL": true}}}]}}}),
        ] {
            for much in [Much::LITTLE, Much::SOME, Much::ALL] {
                let html = shown(value.clone(), much);
                let is_cut = html.contains("class=\"more\"");
                assert!(
                    !html.contains("<script") && (is_cut || html.contains("&lt;script")),
                    "{html}"
                );
            }
        }
    }

    #[test]
    fn what_is_long_or_deep_is_cut() {
        let long = "x".repeat(100_000);
        assert!(shown(json!({"S": long}), Much::LITTLE).len() < 200);
        assert!(shown(json!({"S": long}), Much::ALL).contains(&long));
        assert!(shown(json!({"B": "AAAA".repeat(9999)}), Much::LITTLE).len() < 300);
        let many: Vec<_> = (0..1000).map(|n| json!({"N": n.to_string()})).collect();
        assert!(shown(json!({"L": many}), Much::LITTLE).contains("996 more"));
        let deep = (0..30).fold(json!({"N": "7"}), |inner, _| json!({"L": [inner]}));
        assert!(!shown(deep.clone(), Much::SOME).contains('7'));
        assert!(shown(deep, Much::ALL).contains('7'));
    }

    #[test]
    fn nothing_is_hidden_in_a_text() {
        assert!(shown(json!({"S": "a\u{202e}b\u{0}c\u{200b}"}), Much::ALL).contains("a\\u{202e}b\\u{0}c\\u{200b}"));
        assert!(shown(json!({"S": ""}), Much::ALL).contains("empty"));
    }

    #[test]
    fn numbers_keep_their_digits() {
        let digits = "12345678901234567890.123456789012345678";
        assert!(shown(json!({"N": digits}), Much::LITTLE).contains(digits));
    }

    #[test]
    fn sizes() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (409_600, "400.0 KiB"),
            (1_048_576, "1.0 MiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
