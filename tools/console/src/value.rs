//! Rendering of attribute values, as inert text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use item_diff::path::Path;
use maud::{Markup, html};
use shared::{
    domain::{AttributeValue, Item, size},
    printable::is_hidden,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct DisplayLimits {
    pub(super) characters: usize,
    pub(super) members: usize,
    /// Maximum nesting depth.
    pub(super) levels: usize,
}

impl DisplayLimits {
    pub(super) const CELL: Self = Self::new(80, 4, 2);
    /// Limits of a key, which is a line.
    pub(super) const KEY: Self = Self::new(256, 4, 2);
    /// Limits of an item on a page with other content.
    pub(super) const ITEM: Self = Self::new(300, 30, 5);
    /// No limits, except on the nesting depth.
    pub(super) const FULL: Self = Self::new(usize::MAX, usize::MAX, 64);

    const fn new(characters: usize, members: usize, levels: usize) -> Self {
        Self {
            characters,
            members,
            levels,
        }
    }
}

/// Renders a value, with its type if it is not obvious.
pub(super) fn value(value: &AttributeValue, limits: DisplayLimits) -> Markup {
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    let Some(levels) = limits.levels.checked_sub(1) else {
        return html! { span.more { "… " (bytes(size::of_value(value))) } };
    };
    let inner = DisplayLimits { levels, ..limits };
    match value {
        S(string) => text(string, limits),
        N(number) => html! { span.number { (number) } },
        Bool(value) => html! { span.word { (value) } },
        Null(_) => html! { span.word { "null" } },
        B(binary) => self::binary(binary, limits),
        Ss(texts) => set("strings", texts, limits, |each| text(each, limits)),
        Ns(numbers) => set("numbers", numbers, limits, |each| html! { span.number { (each) } }),
        Bs(binaries) => set("binaries", binaries, limits, |each| binary(each, limits)),
        L(values) if values.is_empty() => html! { span.word { "[ ]" } },
        L(values) => html! {
            ol.nested start="0" {
                @for each in values.iter().take(limits.members) { li { (self::value(each, inner)) } }
                (more(values.len(), limits))
            }
        },
        M(members) if members.is_empty() => html! { span.word { "{ }" } },
        M(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            html! {
                ul.nested {
                    @for (name, each) in sorted.into_iter().take(limits.members) {
                        li { (self::name(name)) ": " (self::value(each, inner)) }
                    }
                    (more(members.len(), limits))
                }
            }
        }
    }
}

pub(super) fn name(name: &str) -> Markup {
    html! { bdi.name { (visible(name, 256)) } }
}

/// Renders a path with the quotes that it needs.
pub(super) fn path(path: &Path) -> Markup {
    html! { bdi.name { (visible(&path.to_string(), 256)) } }
}

/// Returns the name of the type of a value.
pub(super) fn kind(value: &AttributeValue) -> &'static str {
    use AttributeValue::{B, Bool, L, M, N, Null, S};
    match value {
        S(_) => "string",
        N(_) => "number",
        B(_) => "binary",
        Bool(_) => "boolean",
        Null(_) => "null",
        L(_) => "list",
        M(_) => "map",
        _ => "set",
    }
}

/// Renders a key, or another single-line text.
pub(super) fn word(word: &str) -> Markup {
    html! { bdi { (visible(word, 256)) } }
}

/// Returns a text for a place without markup, such as a title.
pub(super) fn plain(text: &str) -> String {
    visible(text, 512)
}

/// Renders up to `max` attributes of an item, ordered by name.
pub(super) fn attributes(item: &Item, limits: DisplayLimits, max: usize) -> Markup {
    let mut sorted: Vec<_> = item.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    html! {
        @if sorted.is_empty() { p.muted { "No attributes." } }
        dl.facts {
            @for (name, value) in sorted.iter().take(max) {
                dt { (self::name(name)) }
                dd { (self::value(value, limits)) }
            }
        }
        @if sorted.len() > max { p.muted { "and " (sorted.len() - max) " more" } }
    }
}

pub(super) fn bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

pub(super) fn text(text: &str, limits: DisplayLimits) -> Markup {
    html! { bdi.text { (visible(text, limits.characters)) } @if text.is_empty() { span.word { "empty" } } }
}

fn binary(binary: &[u8], limits: DisplayLimits) -> Markup {
    let shown = binary.get(..limits.characters / 4 * 3).unwrap_or(binary);
    html! {
        span.word { "binary, " (bytes(binary.len())) } " "
        span.binary { (STANDARD.encode(shown)) @if shown.len() < binary.len() { "…" } }
    }
}

fn set<T>(what: &str, values: &[T], limits: DisplayLimits, show: impl Fn(&T) -> Markup) -> Markup {
    html! {
        span.word { "set of " (values.len()) " " (what) }
        ul.nested.set {
            @for each in values.iter().take(limits.members) { li { (show(each)) } }
            (more(values.len(), limits))
        }
    }
}

fn more(members: usize, limits: DisplayLimits) -> Markup {
    let more = members.saturating_sub(limits.members);
    html! { @if more > 0 { li.more { "… and " (more) " more" } } }
}

/// Escapes control characters, invisible characters and those that change the text direction, and truncates the text.
pub(super) fn visible(text: &str, max: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(max.saturating_mul(4)));
    for (at, character) in text.chars().enumerate() {
        if at == max {
            shown.extend(["… ", &bytes(text.len()), " in all"]);
            break;
        }
        match is_hidden(character) && !['\n', '\t'].contains(&character) {
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

    fn shown(json: serde_json::Value, limits: DisplayLimits) -> String {
        value(
            &serde_json::from_value::<Item>(json!({"A": json})).unwrap()["A"],
            limits,
        )
        .into_string()
    }

    #[test]
    fn values_are_complete_and_visible_up_to_their_limits() {
        const CELL: DisplayLimits = DisplayLimits::CELL;
        const FULL: DisplayLimits = DisplayLimits::FULL;
        let (long, digits) = ("x".repeat(100_000), "12345678901234567890.123456789012345678");
        let many: Vec<_> = (0..1000).map(|n| json!({"N": n.to_string()})).collect();
        let deep = (0..30).fold(json!({"N": "7"}), |inner, _| json!({"L": [inner]}));
        for (value, limits, expected) in [
            (json!({"S": long}), FULL, long.as_str()),
            (json!({"L": many}), CELL, "996 more"),
            (deep.clone(), FULL, "7"),
            (json!({"N": digits}), CELL, digits),
            (json!({"S": ""}), FULL, "empty"),
            (
                json!({"S": "a\u{202e}b\u{0}c\u{200b}"}),
                FULL,
                "a\\u{202e}b\\u{0}c\\u{200b}",
            ),
        ] {
            assert!(shown(value, limits).contains(expected), "{expected}");
        }
        assert!(!shown(deep, DisplayLimits::ITEM).contains('7'));
        assert!(shown(json!({"S": long}), CELL).len() < 200);
        assert!(shown(json!({"B": "AAAA".repeat(9999)}), CELL).len() < 300);
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
