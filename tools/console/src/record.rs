//! Who recorded a version, when, why, and with which request: shown apart from the attributes of the item.

use item_diff::{line::text_of, versions::erased_lines};
use maud::{Markup, html};
use serde_json::{Value, json};
use shared::domain::{
    version::Version,
    view::{VersionView, time_of},
};

use super::{
    address, time,
    value::{self, DisplayLimits},
};

/// Maximum number of characters of a value in a title.
const MAX_TITLE: usize = 40;

/// Name of a fact about a version, and its value, if the version has one.
type Fact = (&'static str, Option<Markup>);

/// Returns [`VersionView::to_json`] with `Time`: the client's time, or null.
pub(super) fn view_json(view: &VersionView) -> Value {
    let mut json = view.to_json();
    json["Time"] = json!(time_of(&view.attributes).ok().map(time::iso));
    json
}

/// Renders the time at which a version was recorded.
pub(super) fn created(view: &VersionView) -> Markup {
    html! {
        @match view.recorded_at {
            Some(recorded) => (time::recorded(recorded)),
            None => span.muted { "Unknown" },
        }
        @if view.recorded_by_stream { " (from the stream)" }
    }
}

/// Renders the terms and descriptions of a list of facts. `created` is the name of the time.
pub(super) fn facts(view: &VersionView, created: &'static str) -> Markup {
    html! {
        @for (name, value) in all(view, created) {
            @if let Some(value) = value { dt { (name) } dd { (value) } }
        }
    }
}

/// Renders a mark for an actor that the version before has, too: another one may have made the change.
pub(super) fn unchanged(view: &VersionView) -> Markup {
    html! { @if view.actor_unchanged { abbr title="The version before has this actor, too, so another one may have made the change" { "?" } } }
}

/// Renders what was erased, a line for each value.
pub(super) fn erased(lines: &[(String, String)]) -> Markup {
    html! { @for (path, text) in lines { div { (path) ": " (text) } } }
}

fn all(view: &VersionView, created: &'static str) -> [Fact; 11] {
    let change = view.change.as_ref();
    let mark = change.and_then(|change| Some((change.origin.mark()?, change.after)));
    let omission = change.and_then(|change| change.omission);
    let erased = erased_lines(&view.erased);
    let value = |value| value::value(value, DisplayLimits::ITEM);
    let link = |from: Version| html! { a href=(address::version("/version", view.entity.as_str(), from.get())) { "Version " (from) } };
    [
        (created, Some(self::created(view))),
        (
            "Mark",
            mark.map(|(mark, after)| html! { (mark) @if let Some(after) = after { ", after version " (after) } }),
        ),
        (
            "State",
            omission.map(|omission| html! { "Not known: it did not fit (" (omission.bytes) " bytes)" }),
        ),
        ("Erased", (!erased.is_empty()).then(|| self::erased(&erased))),
        ("Time (client)", time_of(&view.attributes).ok().map(time::shown)),
        (
            "Actor",
            view.actor
                .as_ref()
                .map(|actor| html! { (value(actor)) (unchanged(view)) }),
        ),
        ("Reason", view.reason.as_ref().map(value)),
        (
            "Change set",
            view.change_set.as_ref().map(|set| {
                let size = view.change_set_size.map(|size| format!(", {size} entities"));
                html! { (value(set)) (size.unwrap_or_default()) }
            }),
        ),
        ("Sender", view.sender.as_deref().map(value::word)),
        ("Restored from", view.restored_from.map(link)),
        ("Request ID", view.request_id.as_deref().map(value::word)),
    ]
}

/// Returns the facts for a title, as in `, 2026-11-22T06:24:48Z, actor amy, request r1`.
pub(super) fn title(view: &VersionView) -> String {
    let recorded = view.recorded_at.map(|recorded| format!("{}Z", time::exact(recorded)));
    let mut title = recorded.map_or_else(String::new, |recorded| format!(", {recorded}"));
    if view.recorded_by_stream {
        title.push_str(" (from the stream)");
    }
    for (name, value) in [
        ("actor", view.actor.as_ref().map(text_of)),
        ("reason", view.reason.as_ref().map(text_of)),
        ("sender", view.sender.clone()),
        ("restored from version", view.restored_from.map(|from| from.to_string())),
        ("request", view.request_id.clone()),
    ] {
        if let Some(value) = value {
            title.extend([", ", name, " ", &value::visible(&value, MAX_TITLE)]);
        }
    }
    title
}
