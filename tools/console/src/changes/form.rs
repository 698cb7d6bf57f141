//! Parts of the pages that start work: its cost, its form and its state.

use maud::{Markup, html};
use operations::table_size::TableSize;
use serde_json::{Value, json};
use shared::dynamodb::client::error::ServiceError;

use super::job::State;
use crate::{
    address,
    app::App,
    page::{self, count},
    value,
};

pub(super) const CHANGES: &str = "/changes";
pub(super) const UNDO: &str = "/changes/undo";
/// Interval at which a page shows the progress, in milliseconds.
pub(super) const REFRESH: u32 = 1000;

/// Renders what a scan costs, and at most the reads after it.
pub(super) async fn cost(app: &App, then: &str, json: &mut Value) -> Markup {
    let size: Result<_, ServiceError> = TableSize::of(app.store()).await;
    let names: Vec<_> = app.store().tables().collect();
    #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
    let units = size.as_ref().ok().map(|size| {
        let each = (size.bytes.checked_div(size.items).unwrap_or_default())
            .div_ceil(4096)
            .max(1);
        let each = each as f64 * if app.consistent() { 1.0 } else { 0.5 };
        [(size.bytes as f64 / 8192.0).ceil(), 2.0 * size.items as f64 * each]
    });
    let price = |units: f64| {
        app.options
            .cost
            .map(|cost| format!(", USD {:.2} on demand", cost(units, 0.0)))
    };
    json["Estimate"] = json!({"Items": size.as_ref().ok().map(|size| size.items), "ReadUnits": units});
    html! {
        p {
            "A scan reads all of " @for (at, name) in names.iter().enumerate() { @if at > 0 { " and " } (value::word(name)) }
            @match size.ok().zip(units) {
                Some((size, [scan, reads])) => {
                    ": about " (count(size.items, "item")) ", " (size.bytes.div_ceil(1_000_000)) " MB, "
                    (format!("{scan:.0} read units")) (price(scan).unwrap_or_default()) ". " (then) ": at most "
                    (format!("{reads:.0} read units")) (price(reads).unwrap_or_default())
                },
                None => { ". Its size is not known. " (then) },
            }
            @if let Some(units) = app.options.max_read_units { ", at most " (units) " read units per second" }
            "."
        }
    }
}

/// Renders a form with hidden fields, and adds it to JSON.
pub(super) fn post(action: &str, hidden: &[(&'static str, String)], more: &Markup, json: &mut Value) -> Markup {
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

/// Renders the state of work. The form that stops it is sent to this address.
pub(super) fn state(app: &App, state: &State, stop: &str) -> Markup {
    let (done, all) = state.done;
    html! {
        p #job-state role="status" { (state.name) @if !state.failure.is_empty() { ": " (value::plain(&state.failure)) } "." }
        @if state.name == "Running" {
            @if all > 0 { progress max=(all.max(done)) value=(done) aria-label="Progress" {} }
            p { (done) @if all > 0 { " of about " (all) } }
            form.inline method="post" action=(address::page(stop)) { (page::csrf(app)) button #job-stop { "Stop" } }
        }
    }
}
