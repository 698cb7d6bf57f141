//! Parts of the pages that start work: its form and its state.

use maud::{Markup, html};
use serde_json::Value;

use crate::{address, app::App, job::State, page, value};

pub(super) const CHANGES: &str = "/changes";
pub(super) const UNDO: &str = "/changes/undo";
/// Interval at which a page shows the progress, in milliseconds.
pub(super) const REFRESH: u32 = 1000;

/// Renders a form with hidden fields, and adds it to JSON.
pub(super) fn post(action: &str, hidden: &[(&str, String)], more: &Markup, json: &mut Value) -> Markup {
    let action = address::page(action);
    let fields = hidden.iter().map(|(name, value)| (*name, value.as_str()));
    json["Form"] = fields.chain([("Action", &*action)]).collect();
    html! {
        form method="post" action=(action) {
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            (more)
        }
    }
}

/// Renders the state of work, with the text of its end. The form that stops it is sent to this address.
pub(super) fn state(app: &App, state: &State, done: &str, stop: &str) -> Markup {
    let name = if state.name == "Done" { done } else { state.name };
    let (done, all) = state.done;
    let has_failed = !state.failure.is_empty();
    html! {
        p #job-state role="status" class=[has_failed.then_some("note bad")] { (name) @if has_failed { ": " (value::plain(&state.failure)) } "." }
        @if state.name == "Running" {
            @if all > 0 { progress max=(all.max(done)) value=(done) aria-label="Progress" {} }
            p { (done) @if all > 0 { " of about " (all) } }
            form.inline method="post" action=(address::page(stop)) { (page::csrf(app)) button #job-stop { "Stop" } }
        }
    }
}
