//! Health of the table: an audit.

pub(super) mod audit;

use maud::{Markup, html};
use operations::audit::collection::Finding;
use serde_json::json;
use shared::domain::{entity::EntityId, time::EpochMillis};

use self::audit::Report;
use super::{
    address,
    app::App,
    current,
    page::{self, FormResponse, View, count, more},
    query::Query,
    time,
};
use crate::error::PageError;

/// Interval at which the page updates a running audit, in milliseconds.
const AUDIT_REFRESH: u32 = 1000;
/// Maximum number of displayed findings. JSON contains all that are kept.
const MAX_FINDINGS: usize = 200;

pub(super) async fn view(app: &App, _: &Query) -> Result<View, PageError> {
    let report = app.audit.report();
    let json = json!({
        "Audit": report.as_ref().map(Report::to_json),
        "csrf": app.secrets.csrf.as_str(),
    });
    Ok(View {
        title: "Health".to_owned(),
        section: "/health",
        body: html! {
            h1 { "Health" }
            p { a href=(address::page("/health")) { "Refresh" } }
            (audit(app, report.as_ref()))
        },
        json,
    })
}

/// Starts an audit. Read-only consoles allow it, because it writes nothing.
pub(super) async fn start(app: &App, _: &Query) -> Result<FormResponse, PageError> {
    app.audit.start(&app.connection, &app.options);
    Ok(to_health(app))
}

pub(super) async fn stop(app: &App, _: &Query) -> Result<FormResponse, PageError> {
    app.audit.stop();
    Ok(to_health(app))
}

fn to_health(app: &App) -> FormResponse {
    let report = app.audit.report();
    let json = json!({"Audit": report.as_ref().map(Report::to_json)});
    FormResponse::SeeOther(format!("{}#audit", address::page("/health")), json)
}

fn audit(app: &App, report: Option<&Report>) -> Markup {
    let is_running = report.is_some_and(|report| report.state.ended.is_none());
    html! {
        section aria-labelledby="audit-heading" {
            h2 #audit-heading { "Audit" }
            p {
                @if current::is_attached() {
                    "An audit reads the whole history and reports missing and unexpected versions, and items that differ from their newest "
                    "version. It writes nothing. It consumes half a read unit per 4 KB of the history, and of each item"
                } @else {
                    "An audit reads the whole table and reports missing versions, unexpected versions, and latest items that differ from their "
                    "version. It writes nothing. It consumes half a read unit per 4 KB of the table"
                }
                @if let Some(units) = app.options.max_read_units { ", at most " (units) " read units per second" }
                "."
            }
            div #audit data-refresh=[is_running.then_some(AUDIT_REFRESH)] {
                @if let Some(report) = report { (progress(app, report)) }
                @let (action, name) = if is_running { ("/health/audit/stop", "Stop") } else { ("/health/audit", "Start audit") };
                form.inline method="post" action=(address::page(action)) { (page::csrf(app)) button #audit-button { (name) } }
                @if let Some(report) = report { (findings(report)) }
            }
        }
    }
}

fn progress(app: &App, report: &Report) -> Markup {
    let (counts, state) = (&report.counts, &report.state);
    let found: u64 = counts.findings.values().sum();
    let until = state.ended.unwrap_or_else(time::now);
    html! {
        p #audit-state role="status" {
            @match (state.name, found) {
                ("Running", _) => "The audit is running.",
                ("Stopped", _) => "The audit was stopped.",
                ("Failed", _) => { "The audit failed: " (state.failure) },
                (_, 0) => "The audit is complete: no findings.",
                (_, found) => { "The audit is complete: " (count(found, "finding")) "." },
            }
        }
        @if state.ended.is_none() && report.approximate_items > 0 {
            progress max=(report.approximate_items.max(counts.items)) value=(counts.items) aria-label="Items read" {}
        }
        dl.facts {
            dt { "Items read" } dd { (counts.items) @if report.approximate_items > 0 { " of about " (report.approximate_items) } }
            dt { "Entities" } dd { (counts.entities) }
            dt { "Versions" } dd { (counts.versions) }
            dt { "Read units" } dd { (format!("{:.1}", report.read_units)) }
            dt { "Started" } dd { (time::iso(state.began)) }
            @if let Some(ended) = state.ended { dt { "Ended" } dd { (time::iso(ended)) } }
            dt { "Duration" } dd { (duration(state.began, until)) }
        }
        @if state.ended.is_none() {
            p.muted { "A missing version becomes a finding after " (app.options.lag.as_secs()) " seconds, because it may still arrive." }
        }
    }
}

fn findings(report: &Report) -> Markup {
    let counts = &report.counts;
    let shown = html! { @for (entity, one) in report.findings.iter().take(MAX_FINDINGS) { (finding(entity, one)) } };
    html! {
        @if !counts.findings.is_empty() {
            h3 { "Findings" }
            dl.facts { @for (kind, count) in &counts.findings { dt { (kind) } dd { (count) } } }
            @if !current::is_attached() { p { code { "vzero admin repair --all --dry-run" } " shows how to repair them." } }
            div #findings-table { (page::table("Findings", &["Finding", "Details"], &shown)) }
            (more(report.findings_not_kept() + report.findings.len().saturating_sub(MAX_FINDINGS), ""))
        }
    }
}

fn finding(entity: &EntityId, finding: &Finding) -> Markup {
    html! {
        tr {
            th scope="row" class=[finding.is_wrong().then_some("bad")] { (finding.name()) }
            td { (page::members(&finding.to_json(entity), "Finding")) }
        }
    }
}

fn duration(from: EpochMillis, to: EpochMillis) -> String {
    let seconds = to.get().saturating_sub(from.get()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (millis, text) in [
            (999, "0 s"),
            (-5, "0 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(duration(EpochMillis::new(0), EpochMillis::new(millis)), text);
        }
    }
}
