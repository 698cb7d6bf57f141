//! Health of the table: an audit, and plots of the write rate and the lag of history.

pub(super) mod audit;
mod plot;
pub(super) mod sampler;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Number, Value, json};
use shared::{
    domain::{audit::Finding, entity::EntityId, time::EpochMillis},
    logging::chain,
};

use self::{
    audit::{End, Report},
    plot::{Plot, thousandths},
    sampler::{Point, Snapshot},
};
use super::{
    app::App,
    page::{self, FormResponse, Section, View},
    query::Param,
    time,
};
use crate::error::PageError;

/// Interval at which the page updates a running audit, in milliseconds.
const AUDIT_REFRESH: u32 = 1000;
/// Interval at which the page updates the plots, in milliseconds.
const PLOTS_REFRESH: u32 = 4000;
const MAX_ROWS: usize = 20;
/// Maximum number of displayed findings. JSON contains all that are kept.
const MAX_FINDINGS: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    /// Part of the page that is updated: `audit` takes no sample.
    part: Param,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let snapshot = match query.part.as_deref() {
        None => app.samples.lock().await.snapshot(&app.connection).await,
        Some("audit") => app.samples.lock().await.last(),
        Some(_) => {
            return Err(PageError::Unexpected {
                field: "part",
                expected: "audit",
            });
        }
    };
    let report = app.audit.report();
    let json = json!({
        "Audit": report.as_ref().map(Report::to_json),
        "Sampled": samples_json(&snapshot),
        "csrf": app.secrets.csrf(),
    });
    Ok(View {
        title: "Health".to_owned(),
        section: Section::Health,
        body: html! {
            h1 { "Health" }
            p { a href="/health" { "Refresh" } }
            (plots(&snapshot))
            (audit(app, report.as_ref()))
        },
        json,
    })
}

/// Starts an audit. Read-only consoles allow it, because it writes nothing.
pub(super) fn start(app: &App) -> FormResponse {
    app.audit.start(&app.connection, app.lag, app.max_read_units);
    to_health(app)
}

pub(super) fn stop(app: &App) -> FormResponse {
    app.audit.stop();
    to_health(app)
}

fn to_health(app: &App) -> FormResponse {
    let report = app.audit.report();
    FormResponse::SeeOther(
        "/health#audit".to_owned(),
        json!({"Audit": report.as_ref().map(Report::to_json)}),
    )
}

fn audit(app: &App, report: Option<&Report>) -> Markup {
    let is_running = report.is_some_and(|report| report.end.is_none());
    html! {
        section aria-labelledby="audit-heading" {
            h2 #audit-heading { "Audit" }
            p {
                "An audit reads the whole table and reports missing versions, unexpected versions, and latest items that differ from their "
                "version. It writes nothing. It consumes half a read unit per 4 KB of the table"
                @if let Some(units) = app.max_read_units { ", at most " (units) " read units per second" }
                "."
            }
            div #audit data-refresh=[is_running.then_some(AUDIT_REFRESH)] data-refresh-from="/health?part=audit" {
                @if let Some(report) = report { (progress(app, report)) }
                @if is_running {
                    form.inline method="post" action="/health/audit/stop" { (page::csrf(app)) button #audit-button { "Stop" } }
                } @else {
                    form.inline method="post" action="/health/audit" {
                        (page::csrf(app))
                        button #audit-button { "Start audit" }
                    }
                }
                @if let Some(report) = report { (findings(report)) }
            }
        }
    }
}

fn progress(app: &App, report: &Report) -> Markup {
    let counts = report.counts();
    let found: u64 = counts.findings.values().sum();
    let until = report.end.as_ref().map_or_else(time::now, |(ended, _)| *ended);
    html! {
        p #audit-state role="status" {
            @match (&report.end, found) {
                (None, _) => "The audit is running.",
                (Some((_, End::Stopped)), _) => "The audit was stopped.",
                (Some((_, End::Failed(error))), _) => { "The audit failed: " (chain(error)) },
                (Some((_, End::Done)), 0) => "The audit is complete: no findings.",
                (Some((_, End::Done)), 1) => "The audit is complete: 1 finding.",
                (Some((_, End::Done)), found) => { "The audit is complete: " (found) " findings." },
            }
        }
        @if report.end.is_none() && report.approximate_items > 0 {
            progress max=(report.approximate_items.max(counts.items)) value=(counts.items) aria-label="Items read" {}
        }
        dl.facts {
            dt { "Items read" } dd { (counts.items) @if report.approximate_items > 0 { " of about " (report.approximate_items) } }
            dt { "Entities" } dd { (counts.entities) }
            dt { "Versions" } dd { (counts.versions) }
            dt { "Read units" } dd { (format!("{:.1}", report.read_units)) }
            dt { "Started" } dd { (time::iso(report.started)) }
            @if let Some((ended, _)) = &report.end { dt { "Ended" } dd { (time::iso(*ended)) } }
            dt { "Duration" } dd { (duration(report.started, until)) }
        }
        @if report.end.is_none() {
            p.muted { "A missing version becomes a finding after " (app.lag.as_secs()) " seconds, because it may still arrive." }
        }
    }
}

fn findings(report: &Report) -> Markup {
    let counts = report.counts();
    html! {
        @if !counts.findings.is_empty() {
            h3 { "Findings" }
            dl.facts { @for (kind, count) in &counts.findings { dt { (kind) } dd { (count) } } }
            p { code { "vzero admin repair --all --dry-run" } " shows how to repair them." }
            div #findings-table .scroll role="region" aria-label="Findings" tabindex="0" {
                table {
                    caption { "Findings" }
                    thead { tr { th scope="col" { "Finding" } th scope="col" { "Details" } } }
                    tbody { @for (entity, one) in report.findings.iter().take(MAX_FINDINGS) { (finding(entity, one)) } }
                }
            }
            @let more = report.findings_not_kept() + report.findings.len().saturating_sub(MAX_FINDINGS) as u64;
            @if more > 0 { p.muted { "and " (more) " more" } }
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

fn plots(snapshot: &Snapshot) -> Markup {
    let now = snapshot.points.last().map_or_else(time::now, |last| last.at);
    let before = |point: &Point| u64::try_from(now.get().saturating_sub(point.at.get())).unwrap_or(0);
    let rates: Vec<_> = snapshot
        .points
        .iter()
        .filter_map(|point| Some((before(point), point.rate?)))
        .collect();
    let lags: Vec<_> = snapshot
        .points
        .iter()
        .map(|point| (before(point), point.lag.saturating_mul(1000)))
        .collect();
    let last = snapshot.points.last();
    let rate = last
        .and_then(|last| last.rate)
        .map_or_else(|| "unknown".to_owned(), thousandths);
    let lag = last.map_or_else(|| "unknown".to_owned(), |last| last.lag.to_string());
    html! {
        section aria-labelledby="rate-heading" {
            h2 #rate-heading { "Write rate and lag" }
            div #plots data-refresh=(PLOTS_REFRESH) {
                @if let Some(why) = &snapshot.error { p.note.bad { "Cannot take a sample: " (why) } }
                div.columns {
                    div {
                        h3 { "Versions per second: " (rate) }
                        (Plot {
                            id: "rate",
                            title: "Versions per second",
                            description: &format!("Last sample: {rate}"),
                            points: &rates,
                        }.svg())
                    }
                    div {
                        h3 { "Versions not in history yet: " (lag) }
                        (Plot {
                            id: "lag",
                            title: "Versions not in history yet",
                            description: &format!("Last sample: {lag}"),
                            points: &lags,
                        }.svg())
                    }
                }
                (coverage(snapshot))
                (sampled(snapshot))
                (values(&snapshot.points))
            }
        }
    }
}

fn coverage(snapshot: &Snapshot) -> Markup {
    html! {
        p.muted {
            @if snapshot.is_all { "Based on all " (snapshot.entities.len()) " entities" } @else { "Based on " (snapshot.entities.len()) " of the entities" }
            ". While this page is open, a sample is taken at most every 2 seconds, and kept for 30 minutes. The last sample consumed "
            (format!("{:.1}", snapshot.units)) " read units."
        }
    }
}

fn sampled(snapshot: &Snapshot) -> Markup {
    html! {
        details #sampled {
            summary #sampled-summary { "Show the sampled entities" }
            div #sampled-table .scroll role="region" aria-label="Sampled entities" tabindex="0" {
                table {
                    caption { "Sampled entities" }
                    thead { tr { th scope="col" { "Entity" } th.right scope="col" { "Latest version" } th scope="col" { "Not in history yet" } } }
                    tbody { @for (entity, version, behind) in &snapshot.entities {
                        tr { th scope="row" { (page::entity_link(entity.as_str())) } td.right { (version) } td { (behind) } }
                    } }
                }
            }
        }
    }
}

fn values(points: &[Point]) -> Markup {
    html! {
        details #samples {
            summary #samples-summary { "Show the last samples as a table" }
            div #samples-table .scroll role="region" aria-label="Last samples" tabindex="0" {
                table {
                    caption { "Last samples" }
                    thead { tr {
                        th scope="col" { "Time (UTC)" } th scope="col" { "Versions per second" } th scope="col" { "Not in history yet" }
                    } }
                    tbody { @for point in points.iter().rev().take(MAX_ROWS) {
                        tr {
                            th scope="row" { (time::iso(point.at)) }
                            td { @if let Some(rate) = point.rate { (thousandths(rate)) } @else { "Unknown" } }
                            td { (point.lag) }
                        }
                    } }
                }
            }
        }
    }
}

fn samples_json(snapshot: &Snapshot) -> Value {
    let rate = |rate: u64| thousandths(rate).parse::<Number>().ok();
    json!({
        "Entities": snapshot.entities.len(), "All": snapshot.is_all, "ReadUnits": snapshot.units, "Error": snapshot.error,
        "Samples": snapshot.points.iter().map(|point| json!({
            "Time": time::iso(point.at), "VersionsPerSecond": point.rate.and_then(rate), "Lag": point.lag,
        })).collect::<Vec<_>>(),
    })
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
