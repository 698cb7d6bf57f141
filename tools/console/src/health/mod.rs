//! The table's health: an audit of all of it, and how fast versions are made and written down.

pub(super) mod audit;
mod plot;
pub(super) mod sampler;

use maud::{Markup, html};
use serde_json::{Number, Value, json};
use shared::domain::{audit::Finding, entity::EntityId, time::EpochMillis};

use self::{
    audit::{End, Seen},
    plot::{Plot, thousandths},
    sampler::{Point, Sampled},
};
use super::{
    app::App,
    page::{self, Answer, Place, View},
    query::link,
    redrive::named,
    time,
};
use crate::error::PageError;

/// How often the audit is looked at again, in milliseconds.
const AUDIT_REFRESH: u32 = 1000;
/// How often the plots are.
const PLOTS_REFRESH: u32 = 4000;
/// How many samples the table has.
const ROWS: usize = 20;
/// The most findings of a page. JSON has all that are kept.
const FINDINGS: usize = 200;

pub(super) async fn view(app: &App) -> Result<View, PageError> {
    let sampled = app.samples.lock().await.look(&app.connection).await;
    let seen = app.audit.seen();
    let json = json!({
        "Audit": seen.as_ref().map(Seen::to_json),
        "Sampled": samples_json(&sampled),
        "csrf": app.secrets.csrf(),
    });
    Ok(View {
        title: "Health".to_owned(),
        place: Place::Health,
        body: html! {
            h1 { "Health" }
            p { a href="/health" { "Look again" } }
            (plots(&sampled))
            (audit(app, seen.as_ref()))
        },
        json,
    })
}

/// Begins an audit. It writes nothing, and is for everybody who may look.
pub(super) fn begin(app: &App) -> Answer {
    app.audit.begin(&app.connection, app.lag, app.max_read_units);
    to_health(app)
}

/// Breaks the audit off.
pub(super) fn stop(app: &App) -> Answer {
    app.audit.stop();
    to_health(app)
}

fn to_health(app: &App) -> Answer {
    let seen = app.audit.seen();
    Answer::SeeOther(
        "/health#audit".to_owned(),
        json!({"Audit": seen.as_ref().map(Seen::to_json)}),
    )
}

fn audit(app: &App, seen: Option<&Seen>) -> Markup {
    let is_running = seen.is_some_and(|seen| seen.end.is_none());
    html! {
        section aria-labelledby="audit-heading" {
            h2 #audit-heading { "Audit" }
            p {
                "An audit reads the whole table, and says which versions are missing or should not be there, and which latest items differ "
                "from theirs. It writes nothing. It costs half a read unit for each 4 KB of the table"
                @if let Some(units) = app.max_read_units { ", and takes at most " (units) " of them a second" }
                "."
            }
            div #audit data-refresh=[is_running.then_some(AUDIT_REFRESH)] {
                @if let Some(seen) = seen { (progress(app, seen)) }
                @if is_running {
                    form.inline method="post" action="/health/audit/stop" { (page::csrf(app)) button #audit-button { "Stop" } }
                } @else {
                    form.inline method="post" action="/health/audit" {
                        (page::csrf(app))
                        button #audit-button { @if seen.is_some() { "Audit again" } @else { "Begin an audit" } }
                    }
                }
                @if let Some(seen) = seen { (findings(seen)) }
            }
        }
    }
}

fn progress(app: &App, seen: &Seen) -> Markup {
    let counts = seen.counts();
    let found: u64 = counts.findings.values().sum();
    let until = seen.end.as_ref().map_or_else(time::now, |(ended, _)| *ended);
    html! {
        p #audit-state role="status" {
            @match (&seen.end, found) {
                (None, _) => "The audit is running.",
                (Some((_, End::Stopped)), _) => "The audit was stopped.",
                (Some((_, End::Failed(why))), _) => { "The audit failed: " (why) },
                (Some((_, End::Done)), 0) => "The audit is done: it found nothing.",
                (Some((_, End::Done)), 1) => "The audit is done: 1 finding.",
                (Some((_, End::Done)), found) => { "The audit is done: " (found) " findings." },
            }
        }
        @if seen.end.is_none() && seen.about > 0 {
            progress max=(seen.about.max(counts.items)) value=(counts.items) aria-label="Items read" {}
        }
        dl.facts {
            dt { "Items read" } dd { (counts.items) @if seen.about > 0 { " of about " (seen.about) } }
            dt { "Entities" } dd { (counts.entities) }
            dt { "Versions" } dd { (counts.versions) }
            dt { "Read units" } dd { (format!("{:.1}", seen.read_units)) }
            dt { "Began" } dd { (time::iso(seen.began)) }
            @if let Some((ended, _)) = &seen.end { dt { "Ended" } dd { (time::iso(*ended)) } }
            dt { @if seen.end.is_some() { "Took" } @else { "Takes" } } dd { (between(seen.began, until)) }
        }
        @if seen.end.is_none() {
            p.muted { "What is missing may be on its way: it is waited for " (app.lag.as_secs()) " seconds before it counts." }
        }
    }
}

fn findings(seen: &Seen) -> Markup {
    let counts = seen.counts();
    let is_done = matches!(seen.end, Some((_, End::Done)));
    html! {
        @if !counts.findings.is_empty() {
            h3 { "Findings" }
            dl.facts { @for (kind, count) in &counts.findings { dt { (kind) } dd { (count) } } }
            @if is_done { p { a href="/repair?all=1" { "What would a repair of all of them do?" } } }
            div #findings-table .scroll role="region" aria-label="Findings" tabindex="0" {
                table {
                    caption { "What was found" }
                    thead { tr { th scope="col" { "Finding" } th scope="col" { "Of what" } th scope="col" { "What to do" } } }
                    tbody { @for (entity, one) in seen.findings.iter().take(FINDINGS) { (finding(entity, one)) } }
                }
            }
            @let more = seen.unkept() + seen.findings.len().saturating_sub(FINDINGS) as u64;
            @if more > 0 { p.muted { "and " (more) " more" } }
        }
    }
}

fn finding(entity: &EntityId, finding: &Finding) -> Markup {
    let json = finding.to_json(entity);
    let members = json.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| *name != "Finding");
    let about = Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect());
    let repair = link("/repair", [("id", Some(entity.as_str().to_owned()))]);
    html! {
        tr {
            th scope="row" class=[finding.is_wrong().then_some("bad")] { (finding.name()) }
            td { (named(&about)) }
            td {
                @if finding.is_wrong() {
                    a href=(repair) aria-label={ "Repair " (entity.as_str()) } { "Repair…" }
                } @else {
                    span.muted { "nothing: it came late" }
                }
            }
        }
    }
}

fn plots(sampled: &Sampled) -> Markup {
    let now = sampled.points.last().map_or_else(time::now, |last| last.at);
    let before = |point: &Point| u64::try_from(now.get().saturating_sub(point.at.get())).unwrap_or(0);
    let rates: Vec<_> = sampled
        .points
        .iter()
        .filter_map(|point| Some((before(point), point.rate?)))
        .collect();
    let lags: Vec<_> = sampled
        .points
        .iter()
        .map(|point| (before(point), point.lag.saturating_mul(1000)))
        .collect();
    let last = sampled.points.last();
    let rate = last
        .and_then(|last| last.rate)
        .map_or_else(|| "not known yet".to_owned(), thousandths);
    let lag = last.map_or_else(|| "not known yet".to_owned(), |last| last.lag.to_string());
    html! {
        section aria-labelledby="rate-heading" {
            h2 #rate-heading { "Write rate and lag" }
            div #plots data-refresh=(PLOTS_REFRESH) {
                @if let Some(why) = &sampled.error { p.note.bad { "No sample could be taken: " (why) } }
                h3 { "Versions a second: " (rate) }
                (Plot {
                    id: "rate",
                    title: "Versions a second",
                    description: &format!("The last sample says {rate}."),
                    points: &rates,
                }.svg())
                h3 { "Versions that history does not have yet: " (lag) }
                (Plot {
                    id: "lag",
                    title: "Versions that history does not have yet",
                    description: &format!("The last sample says {lag}."),
                    points: &lags,
                }.svg())
                (of_what(sampled))
                (values(&sampled.points))
            }
        }
    }
}

fn of_what(sampled: &Sampled) -> Markup {
    html! {
        p.muted {
            @if sampled.is_all { "Of all " (sampled.entities) " entities" } @else { "Of " (sampled.entities) " of the entities" }
            ". A sample is taken while somebody looks at this page, at most one in 2 seconds, and kept for half an hour. The last one cost "
            (format!("{:.1}", sampled.units)) " read units."
        }
    }
}

fn values(points: &[Point]) -> Markup {
    html! {
        details #samples {
            summary #samples-summary { "The last samples as a table" }
            div #samples-table .scroll role="region" aria-label="The last samples" tabindex="0" {
                table {
                    caption { "The last samples" }
                    thead { tr {
                        th scope="col" { "When" } th scope="col" { "Versions a second" } th scope="col" { "Not in history yet" }
                    } }
                    tbody { @for point in points.iter().rev().take(ROWS) {
                        tr {
                            th scope="row" { (time::iso(point.at)) }
                            td { @if let Some(rate) = point.rate { (thousandths(rate)) } @else { "not known" } }
                            td { (point.lag) }
                        }
                    } }
                }
            }
        }
    }
}

fn samples_json(sampled: &Sampled) -> Value {
    let rate = |rate: u64| thousandths(rate).parse::<Number>().ok();
    json!({
        "Entities": sampled.entities, "All": sampled.is_all, "ReadUnits": sampled.units, "Error": sampled.error,
        "Samples": sampled.points.iter().map(|point| json!({
            "Time": time::iso(point.at), "VersionsPerSecond": point.rate.and_then(rate), "Lag": point.lag,
        })).collect::<Vec<_>>(),
    })
}

/// How long something took, or takes.
fn between(from: EpochMillis, to: EpochMillis) -> String {
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
    fn how_long() {
        for (millis, text) in [
            (999, "0 s"),
            (-5, "0 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
        ] {
            assert_eq!(between(EpochMillis::new(0), EpochMillis::new(millis)), text);
        }
    }
}
