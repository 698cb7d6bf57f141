//! The two values of a change. What differs in them is marked, and equal parts are shortened to their context.

use std::mem::discriminant;

use item_diff::detail::{Detail, Part, Side, TextChange};
use maud::{Markup, html};
use shared::domain::AttributeValue;

use crate::{
    page::{count, more},
    value::{self, DisplayLimits},
};

/// Number of equal characters, and of equal lines, beside a difference.
const CONTEXT: (usize, usize) = (40, 3);
/// Maximum number of characters of a part that differs, and of a line of context.
const MAX_CHARACTERS: usize = 400;
/// Maximum number of parts of a text, and of lines of a part.
const MAX_PARTS: usize = 60;
/// Maximum number of bytes from the first one that differs.
const MAX_BYTES: usize = 8;

/// Renders the old and the new value, which a style sheet puts below or beside each other.
pub(super) fn sides(from: Option<Markup>, to: Option<Markup>) -> Markup {
    html! {
        div.sides {
            @for (class, sign, what, value) in [("from", "−", "Old: ", from), ("to", "+", "New: ", to)] {
                @if let Some(value) = value {
                    div class=(class) { span.sign aria-hidden="true" { (sign) } div { span.hidden { (what) } (value) } }
                }
            }
        }
    }
}

pub(super) fn changed(pair: (&AttributeValue, &AttributeValue), detail: &Detail<'_>, limits: DisplayLimits) -> Markup {
    use AttributeValue::{B, S};
    let is_typed = discriminant(pair.0) != discriminant(pair.1);
    let value = |value: &AttributeValue| {
        Some(html! { @if is_typed { span.tag { (value::kind(value)) } " " } (value::value(value, limits)) })
    };
    let elements = |elements: &[AttributeValue]| {
        let list = html! {
            ul.nested.set { @for each in elements.iter().take(limits.members) { li { (value::value(each, limits)) } } }
            (more(elements.len().saturating_sub(limits.members), ""))
        };
        (!elements.is_empty()).then_some(list)
    };
    match (detail, pair.0, pair.1) {
        (Detail::Text(change), _, _) => text(change),
        (Detail::Set(set), _, _) => html! {
            (sides(elements(&set.removed), elements(&set.added)))
            @if set.same > 0 { p.muted { (count(set.same as u64, "unchanged element")) } }
        },
        (Detail::Binary { first, .. }, B(from), B(to)) => {
            let side = |bytes: &[u8]| {
                Some(html! {
                    span.word { "binary, " (value::bytes(bytes.len())) ", first difference at byte " (first) } " "
                    span.binary { @for byte in bytes.iter().skip(*first).take(MAX_BYTES) { (format!("{byte:02x} ")) } }
                })
            };
            sides(side(from), side(to))
        }
        (_, S(from), S(to)) => words(&TextChange::between(from, to)),
        (_, from, to) => sides(value(from), value(to)),
    }
}

pub(super) fn text(change: &TextChange<'_>) -> Markup {
    html! {
        @if change.is_coarse { p.muted { "The texts differ too much to find every equal part." } }
        @if change.by_lines { (lines(&change.parts)) } @else { (words(change)) }
    }
}

fn words(change: &TextChange<'_>) -> Markup {
    sides(Some(marked(change, Side::Removed)), Some(marked(change, Side::Added)))
}

/// Renders one of two texts, in which the parts that only this one has are marked.
fn marked(change: &TextChange<'_>, side: Side) -> Markup {
    let last = change.parts.len().saturating_sub(1);
    let parts = change.parts.iter().enumerate();
    let parts: Vec<_> = parts
        .filter(|(_, part)| [Side::Both, side].contains(&part.side))
        .collect();
    let context = |is_end: bool| if is_end { 0 } else { CONTEXT.0 };
    html! {
        bdi.text {
            @for (index, part) in parts.iter().take(MAX_PARTS) {
                @match part.side {
                    Side::Both => (excerpt(part.text, context(*index == 0), context(*index == last))),
                    side => (mark(side, part.text)),
                }
            }
            @if parts.is_empty() { span.word { "empty" } }
        }
        (more(parts.len().saturating_sub(MAX_PARTS), " parts"))
    }
}

fn mark(side: Side, text: &str) -> Markup {
    let text = excerpt(text, MAX_CHARACTERS, CONTEXT.0);
    html! { @if side == Side::Removed { del { (text) } } @else { ins { (text) } } }
}

/// Renders the first and the last characters of a text.
fn excerpt(text: &str, head: usize, tail: usize) -> Markup {
    let total = text.chars().count();
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    let shown = |text: &str| value::visible(text, usize::MAX);
    html! {
        @if total <= head + tail + CONTEXT.0 { (shown(text)) } @else {
            (shown(&text[..at(head)])) span.more { "… " (total - head - tail) " characters …" } (shown(&text[at(total - tail)..]))
        }
    }
}

fn lines(mut parts: &[Part<'_>]) -> Markup {
    let mut hunks = Vec::new();
    while let Some((part, rest)) = parts.split_first() {
        let (hunk, rest) = match (part.side, rest.split_first()) {
            (Side::Both, _) => (context(part.text, hunks.is_empty(), rest.is_empty()), rest),
            (Side::Added, _) => (hunk("", part.text), rest),
            (_, Some((next, rest))) if next.side == Side::Added => (hunk(part.text, next.text), rest),
            _ => (hunk(part.text, ""), rest),
        };
        hunks.push(hunk);
        parts = rest;
    }
    html! { @for hunk in hunks.iter().take(MAX_PARTS) { (hunk) } (more(hunks.len().saturating_sub(MAX_PARTS), " parts")) }
}

fn split(text: &str) -> Vec<&str> {
    text.split_terminator('\n').collect()
}

/// Renders equal lines, without those that are far from a difference.
fn context(text: &str, is_first: bool, is_last: bool) -> Markup {
    let lines = split(text);
    let beside = |is_end: bool| if is_end { 0 } else { CONTEXT.1 };
    let skipped = (lines.len() - beside(is_last).min(lines.len())).saturating_sub(beside(is_first));
    let skipped = beside(is_first)..beside(is_first) + skipped;
    html! {
        div.context { @for (index, line) in lines.iter().enumerate() {
            @if index == skipped.start && skipped.len() > 1 { div.more { "… " (count(skipped.len() as u64, "unchanged line")) } }
            @if skipped.len() < 2 || !skipped.contains(&index) { div.text { (value::visible(line, MAX_CHARACTERS)) } }
        } }
    }
}

/// Renders removed and added lines. In a pair of them, the words that differ are marked.
fn hunk(removed: &str, added: &str) -> Markup {
    let (old, new) = (split(removed), split(added));
    let pairs = old.iter().zip(&new).take(MAX_PARTS);
    let pairs: Vec<_> = pairs.map(|(old, new)| TextChange::between(old, new)).collect();
    let side = |lines: &[&str], is_cut: bool, side: Side| {
        html! {
            @for (index, line) in lines.iter().enumerate().take(MAX_PARTS) {
                div { @match pairs.get(index) { Some(pair) => (marked(pair, side)), None => bdi.text { (mark(side, line)) } } }
            }
            (more(lines.len().saturating_sub(MAX_PARTS), " lines"))
            @if is_cut { span.more { "No line break at the end" } }
        }
    };
    let is_cut = |text: &str, other: &str| !text.ends_with('\n') && other.ends_with('\n');
    let from = side(&old, is_cut(removed, added), Side::Removed);
    let to = side(&new, is_cut(added, removed), Side::Added);
    sides((!old.is_empty()).then_some(from), (!new.is_empty()).then_some(to))
}
