//! The history of an entity as a list: one line for each version, which opens to show its details.

use item_diff::line::text_of;
use maud::{Markup, html};
use shared::domain::AttributeValue;

use super::history::{Details, History, PAGE, Row};
use crate::{
    address,
    page::{count, form, picker},
    record, time,
    timeline::{self, Kind, Scale},
    value,
};

/// Maximum number of characters of the actor and the reason in the line of a version.
const MAX_TEXT: usize = 40;

/// Renders the form that filters the history.
pub(super) fn filters(history: &History) -> Markup {
    let (filter, id, newest) = (&history.filter, history.entity.as_str(), history.newest);
    let filters = html! {
        label { "Actor " input type="text" name="actor" value=[filter.actor.as_deref()] size="12" autocomplete="off"; }
        label { "Changed path " input type="text" name="path" value=[filter.path.as_ref()] placeholder="Lines[2].Price" size="14" autocomplete="off" spellcheck="false"; }
        (picker("From", "since", filter.since, false))
        (picker("Until", "until", filter.until, false))
        button { "Filter" }
        @if filter.is_active() { a href=(address::of_entity("/entity", id)) { "Clear filter" } }
    };
    let version = |label: &str, name: &str, value: Option<u64>| {
        html! { label { (label) input type="number" name=(name) min="1" max=(newest) value=[value] required; } }
    };
    let before = newest.saturating_sub(1).max(1);
    let pair = html! { (version("Compare version ", "from", Some(before))) (version("with ", "to", Some(newest))) };
    html! {
        details.filters open[filter.is_active()] {
            summary { "Filter, jump to a version or a time" }
            (form("/entity", id, &filters))
            (form("/version", id, &html! { (version("Version ", "version", None)) button { "Go to version" } }))
            (form("/as-of", id, &html! { (picker("As of", "at", None, true)) button { "Show state" } }))
            (form("/compare", id, &html! { (pair) button { "Compare" } }))
        }
    }
}

/// Renders the time line, the versions of the page, and the links to other pages.
pub(super) fn list(history: &History, by_time: bool) -> Markup {
    let marks = history.marks();
    let has_times = timeline::has_times(&marks);
    let scale = Scale {
        latest: history.latest,
        floor: history.floor,
        by_time: by_time && has_times,
    };
    html! {
        @if history.filter.is_active() {
            p role="status" {
                (count(history.rows.len() as u64, "version")) " selected of versions " (history.from) " to " (history.to) "."
                @if history.has_older() { " Choose Older to search further." }
            }
        }
        @if !marks.is_empty() {
            (timeline::drawing(&marks, scale))
            p.legend {
                (timeline::legend(&marks))
                @if has_times { a href=(history.address(Some(history.to), !by_time)) { @if by_time { "Space evenly" } @else { "Space by time" } } }
            }
        }
        (pages(history, by_time, "History pages"))
        div.log-names aria-hidden="true" { span { "Version" } span { "Changes" } span { "Actor" } span { "Reason" } span { "Time" } }
        ol.log aria-label="Versions, newest first" { @for each in &history.rows { (row(history, each)) } }
        (pages(history, by_time, "History pages, bottom"))
    }
}

fn pages(history: &History, by_time: bool, label: &str) -> Markup {
    let (is_newest, has_older) = (history.to >= history.newest, history.has_older());
    let newer = history.to.saturating_add(PAGE).min(history.newest);
    if is_newest && !has_older {
        return Markup::default();
    }
    html! {
        nav.pages aria-label=(label) {
            @if !is_newest {
                a href=(history.address(None, by_time)) { "Newest" }
                a rel="next" href=(history.address(Some(newer), by_time)) { "Newer" }
            }
            @if has_older {
                a rel="prev" href=(history.address(Some(history.from - 1), by_time)) { "Older" }
                a href=(history.address(Some(PAGE.min(history.newest)), by_time)) { "Oldest" }
            }
        }
    }
}

fn row(history: &History, row: &Row) -> Markup {
    let (number, id) = (row.version, history.entity.as_str());
    let Some(details) = &row.details else {
        return html! {
            li class=(row.kind.class()) { span.num { (number) } p.absent { span class={ "tag " (row.kind.class()) } { (row.kind.name()) } } }
        };
    };
    let view = &details.view;
    html! {
        li class=(row.kind.class()) {
            a.num href=(address::version("/version", id, number)) { (number) }
            details {
                summary {
                    span.what { (tags(row, details)) (changes(row, details)) }
                    span.who { @if let Some(actor) = &view.actor { (line(actor)) (record::unchanged(view)) } }
                    span.why { @if let Some(reason) = &view.reason { (line(reason)) } }
                    span.when { @match view.recorded_at {
                        Some(recorded) => (time::brief(recorded.floor_millis())),
                        None => span.muted { "Unknown" },
                    } }
                }
                dl.facts {
                    (record::facts(view, "Created"))
                    @if let Some(time) = details.time { dt { "Time (client)" } dd { (time::shown(time)) } }
                    dt { "Size" } dd { (value::bytes(details.size)) }
                }
                @if number > 1 { a href=(address::compare(id, number - 1, number)) { "Compare with previous" } }
            }
        }
    }
}

fn tags(row: &Row, details: &Details) -> Markup {
    html! {
        @match (row.kind, details.view.restored_from) {
            (Kind::Restored, Some(from)) => { span.tag.restored { "restored from " (from) } " " },
            (Kind::Live | Kind::Restored, _) => {},
            (kind, _) => { span class={ "tag " (kind.class()) } { (kind.name()) } " " },
        }
        @if details.is_pinned { span.tag { "pinned" } " " }
    }
}

fn changes(row: &Row, details: &Details) -> Markup {
    match &details.changes {
        None => html! { span.muted { "version " (row.version.saturating_sub(1)) " is missing" } },
        Some(text) if text.is_empty() => html! { @if row.kind == Kind::Live { span.muted { "no change" } } },
        Some(text) => html! { bdi { (text) } },
    }
}

/// Renders an actor or a reason within a line.
fn line(value: &AttributeValue) -> Markup {
    html! { bdi { (value::visible(&text_of(value), MAX_TEXT)) } }
}
