//! Parts of the pages that start work: its cost, its form and its state.

use maud::{Markup, html};
use operations::{all_versions::filter::VersionFilter, time_index::source::Source};
use serde_json::{Value, json};
use shared::domain::{layout::table_name, time_index::INDEX_NAME};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::cost::Cost;
use crate::{
    address,
    app::App,
    error::PageError,
    job::State,
    page::{self, count},
    value,
};

pub(super) const CHANGES: &str = "/changes";
pub(super) const UNDO: &str = "/changes/undo";
/// Interval at which a page shows the progress, in milliseconds.
pub(super) const REFRESH: u32 = 1000;

/// Renders the cost of a filter before its reads.
pub(super) async fn cost(app: &App, filter: &VersionFilter, then: &str, json: &mut Value) -> Result<Markup, PageError> {
    let (connection, limits, filter) = (app.connection.clone(), app.options.limits(), filter.clone());
    let runtime = Handle::current();
    // The queries of the index cannot move between threads.
    let cost = spawn_blocking(move || runtime.block_on(Cost::of(&connection, limits, &filter))).await;
    let cost = cost.map_err(|_| PageError::Conflict("the cost is not known".to_owned()))??;
    Ok(shown(app, &cost, then, json))
}

/// Renders the cost, with that of the reads after it.
pub(super) fn shown(app: &App, cost: &Cost, then: &str, json: &mut Value) -> Markup {
    let is_scan = cost.source == Source::Scan;
    let (names, source) = (
        app.store().tables().map(table_name),
        if is_scan { "scan" } else { "index" },
    );
    let units = |units: f64| format!("{units:.0} read units{}", app.options.price(units, 0.0));
    let [first, reads] = cost.units.map(units);
    json["Estimate"] = json!({"Items": cost.items, "ReadUnits": cost.units, "Source": source, "NoIndex": cost.why});
    html! {
        p {
            @if is_scan {
                "A scan reads all of " (value::word(&names.collect::<Vec<_>>().join(" and "))) ": about " (count(cost.items, "item")) ", "
                (cost.size.bytes.div_ceil(1_000_000)) " MB, "
            } @else {
                "The index " (INDEX_NAME) " has the versions of the period: about " (count(cost.items, "version")) ", if its partitions are alike, "
            }
            (first) ". " (then) ": " @if is_scan { "at most " } @else { "about " } (reads)
            @if let Some(units) = app.options.max_read_units { ", at most " (units) " read units per second" }
            "."
        }
        @if let Some(why) = &cost.why { p.muted { "It is a scan because " (value::plain(why)) "." } }
    }
}

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
