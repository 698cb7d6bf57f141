//! Page of the whole table: its versions in the order of their times, with counts, and the undo of those that a filter selects.
//!
//! ```text
//! filter ─▶ cost ─▶ search in the background ─▶ result on disk ─▶ counts, time line, pages of versions ─▶ undo
//!                                                ▲ narrower filter
//! ```
//!
//! A table has one result and one undo at a time. A new one replaces it.

mod cost;
mod drawing;
mod entity;
mod filter;
mod form;
mod line;
pub(super) mod plan;
mod scan;
mod selected;
mod summary;
pub(super) mod undo;

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Value, json};
use shared::domain::{entity::EntityId, recorded_at::RecordedAt, version::Version};

use self::{
    filter::Filter,
    form::{CHANGES, REFRESH, UNDO, cost, post, shown},
    line::Line,
    scan::Scan,
    selected::PICK,
    summary::Summary,
};
use super::{
    address,
    app::App,
    page::{self, FormResponse, View, count, entity_link, picker},
    query::Query,
    secrets::CSRF,
    time, value,
};
use crate::{error::PageError, lock::lock};

const STOP: &str = "/changes/stop";
const REPORT: &str = "/changes/report";
/// Maximum number of characters of a value in the list.
const MAX_TEXT: usize = 60;
const THEN: &str = "Then it reads each version that the filter selects, and the one before it";

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let filter = Filter::of(query)?;
    let scan = lock(&app.changes.scan).clone();
    let mut json =
        json!({"Filter": filter.pairs().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Value>()});
    let is_kept = |scan: &Arc<Scan>| match scan.job.state() {
        state if state.name == "Done" => filter.is_within(&scan.filter),
        _ => filter == scan.filter,
    };
    let (content, running) = match scan.as_ref().filter(|scan| is_kept(scan)) {
        None => (before(app, &filter, scan.as_deref(), &mut json).await?, false),
        Some(scan) => {
            let state = scan.job.state();
            json["State"] = state.name.into();
            let content = match state.name {
                "Running" => Markup::default(),
                "Done" => result(app, scan, &filter, query, &mut json).await?,
                _ => before(app, &filter, None, &mut json).await?,
            };
            let content = html! { (form::state(app, &state, "Done", STOP)) (content) };
            (content, state.name == "Running")
        }
    };
    Ok(View {
        title: "Changes".to_owned(),
        section: CHANGES,
        body: html! {
            h1 { "Changes" }
            (filters(&filter))
            div #changes data-refresh=[running.then_some(REFRESH)] { (content) }
        },
        json,
    })
}

/// Returns a filter in words, and the newest versions of the last result that it selects, at most `max`.
pub(super) async fn versions(
    app: &App,
    query: &Query,
    max: usize,
) -> Result<(String, Vec<(EntityId, Version)>), PageError> {
    let (filter, store) = (Filter::of(query)?, app.store().clone());
    let (text, scan) = (filter.text(), lock(&app.changes.scan).clone());
    let scan = scan.filter(|scan| scan.job.state().name == "Done" && filter.is_within(&scan.filter));
    let scan =
        scan.ok_or_else(|| PageError::NotFound("no result of this filter: read its versions first".to_owned()))?;
    let read = move || {
        let mut versions = Vec::new();
        for line in lock(&scan.found)
            .as_mut()
            .map(|found| found.lines.read_from(0))
            .transpose()?
            .into_iter()
            .flatten()
        {
            let (line, _) = line?;
            if versions.len() < max && filter.selects(&line, &store) {
                versions.push((EntityId::new(line.entity.as_str())?, line.version));
            }
        }
        Ok::<_, PageError>(versions)
    };
    let read = tokio::task::spawn_blocking(read).await;
    Ok((
        text,
        read.map_err(|_| PageError::Conflict("the result cannot be read".to_owned()))??,
    ))
}

/// Starts a scan. Read-only consoles allow it, because it writes nothing.
pub(super) async fn start(app: &App, query: &Query) -> Result<FormResponse, PageError> {
    let filter = Filter::of(query)?;
    let to = filter.address(CHANGES, &[]);
    *lock(&app.changes.scan) = Some(Arc::new(Scan::start(&app.connection, &app.options, filter)));
    Ok(FormResponse::SeeOther(to, json!({"State": "Running"})))
}

/// Stops the scan.
pub(super) async fn stop(app: &App, _: &Query) -> Result<FormResponse, PageError> {
    let scan = lock(&app.changes.scan).clone();
    let to = scan
        .as_ref()
        .map_or_else(|| address::page(CHANGES), |scan| scan.filter.address(CHANGES, &[]));
    if let Some(scan) = scan {
        scan.job.stop();
    }
    Ok(FormResponse::SeeOther(to, json!({"State": "Stopped"})))
}

/// Renders the cost of a search, and the form that starts it.
async fn before(app: &App, filter: &Filter, last: Option<&Scan>, json: &mut Value) -> Result<Markup, PageError> {
    let cost = cost(app, &filter.scanned, THEN, json).await?;
    Ok(html! {
        @if let Some(last) = last {
            p { a href=(last.filter.address(CHANGES, &[])) { "Last result" } ": " (value::word(&last.filter.text())) }
        }
        (cost) (start_form(app, filter, json))
    })
}

fn start_form(app: &App, filter: &Filter, json: &mut Value) -> Markup {
    let mut fields = vec![(CSRF, app.secrets.csrf.as_str().to_owned())];
    fields.extend(filter.pairs());
    let button = html! { button #changes-start { "Read the versions" } };
    post(CHANGES, &fields, &button, json)
}

fn filters(filter: &Filter) -> Markup {
    let text = |label: &str, name: &str, value: Option<&str>| {
        html! { label { (label) " " input type="text" name=(name) value=[value] size="14" maxlength="2048" autocomplete="off" spellcheck="false"; } }
    };
    let path = filter.path.as_ref().map(ToString::to_string);
    html! {
        form.row method="get" action=(CHANGES) {
            (page::table_field())
            (picker("Since", "since", filter.scanned.since, false))
            (picker("Until", "until", filter.scanned.until, false))
            (text("Actor", "actor", filter.scanned.actor.as_deref()))
            (text("Reason", "reason", filter.scanned.reason.as_deref()))
            (text("Change set", "change_set", filter.scanned.change_set.as_deref()))
            (text("Key begins with", "prefix", filter.scanned.entity_prefix.as_deref()))
            (text("Changed path", "path", path.as_deref()))
            button { "Filter" }
            @if *filter != Filter::default() { a href=(address::page(CHANGES)) { "Clear filter" } }
        }
    }
}

/// Renders the versions of a result that the filter selects.
async fn result(
    app: &App,
    scan: &Arc<Scan>,
    filter: &Filter,
    query: &Query,
    json: &mut Value,
) -> Result<Markup, PageError> {
    let page = query.parsed("page", str::parse::<u64>)?.unwrap_or(1).max(1);
    let (scan, store, wanted) = (Arc::clone(scan), app.store().clone(), filter.clone());
    // A large file is read.
    let read = tokio::task::spawn_blocking(move || Summary::of(&scan, &wanted, &store, page - 1)).await;
    let summary = read.map_err(|_| PageError::Conflict("the result cannot be read".to_owned()))??;
    json["Counts"] = summary.to_json();
    json["List"] = summary.lines.iter().map(Line::json).collect();
    json["CompleteUntil"] = summary.completeness["CompleteUntil"].clone();
    json["RestsOn"] = summary.completeness["RestsOn"].clone();
    let is_last = page >= summary.page_count();
    let rows = html! { @for (at, line) in summary.lines.iter().enumerate() { (row(at, line)) } };
    let columns = "Select Time Entity Version Changes Actor Reason Set"
        .split(' ')
        .collect::<Vec<_>>();
    let pages = html! {
        nav.pages aria-label="Pages" {
            @if page > 1 {
                a href=(filter.address(CHANGES, &[])) { "Newest" }
                a rel="prev" href=(filter.address(CHANGES, &[("page", (page - 1).to_string())])) { "Newer" }
            }
            @if !is_last { a rel="next" href=(filter.address(CHANGES, &[("page", (page + 1).to_string())])) { "Older" } }
        }
    };
    Ok(html! {
        h2 { (count(summary.tally.versions, "version")) }
        (drawing::time_line(&summary, filter))
        (drawing::counts(&summary, filter))
        p {
            @match filter.selection() {
                Ok(_) => a href=(filter.address(UNDO, &[])) { "Undo these changes…" },
                Err(_) => span.muted { "To undo changes, filter by a time, an actor, a reason or a change set, and by no path." },
            }
        }
        @if filter.scanned.change_set.is_some() { p { a href=(filter.address(REPORT, &[])) { "Evidence report" } } }
        h2 { "Versions, newest first" }
        @if !summary.lines.is_empty() {
            form method="get" action=(UNDO) {
                (page::table_field())
                (page::table("Versions", &columns, &rows))
                p { button #undo-selected { "Undo selected versions…" } }
            }
        }
        (pages)
        @if is_last { (end(&summary)) }
        (shown(app, &summary.cost, THEN, json))
        (start_form(app, filter, json))
    })
}

fn row(at: usize, line: &Line) -> Markup {
    let (id, version) = (line.entity.as_str(), line.version.get());
    let shown =
        |text: &Option<String>| html! { @if let Some(text) = text { bdi { (value::visible(text, MAX_TEXT)) } } };
    let time = line.time();
    html! {
        tr {
            td { input type="checkbox" name={ (PICK) (at) } value=(json!([id, version])) aria-label={ "Select version " (version) " of " (value::plain(id)) }; }
            td { @match time { Some(time) => (time::brief(time.floor_millis())), None => span.muted { "Unknown" } } }
            th scope="row" { (entity_link(id)) }
            td.right { a href=(address::version("/version", id, version)) { (version) } }
            td {
                @if line.deleted { span.tag.dead { "deleted" } " " }
                @if let Some(mark) = &line.mark { span.tag { (mark) } " " }
                @match &line.changes { Some(text) => bdi { (text) }, None => span.muted { "not known" } }
            }
            td { (shown(&line.actor)) @if line.actor_unchanged { abbr title="The version before has this actor, too" { "?" } } }
            td { (shown(&line.reason)) }
            td { (shown(&line.change_set)) }
        }
    }
}

/// Says until when the list is complete, and what that rests on.
fn end(summary: &Summary) -> Markup {
    let rests = &summary.completeness["RestsOn"];
    let without_time = rests["InQuarantineWithoutTime"].as_u64().unwrap_or_default();
    let why = [
        ("OldestMissingVersion", "the oldest version that history lacks"),
        ("OldestInQuarantine", "the oldest record in quarantine"),
    ];
    let why = why
        .iter()
        .find(|(name, _)| rests[*name] == summary.completeness["CompleteUntil"]);
    let until = summary.completeness["CompleteUntil"].as_str().unwrap_or_default();
    let not_known = rests["NotKnown"].as_array();
    let is_index = not_known.is_some_and(|names| names.iter().any(|name| name == "Quarantine"));
    html! {
        p.note {
            "Complete until " @if let Ok(until) = RecordedAt::parse(until) { (time::brief(until.floor_millis())) } " ("
            (why.map_or("2 minutes before the search", |(_, why)| *why))
            "), unless the stream, " @if is_index { "quarantine " } "or failure documents hold older versions."
            @if without_time > 0 { " " (count(without_time, "record")) " in quarantine without a time." }
            @if summary.undated > 0 { " " (count(summary.undated, "version")) " left out because their time is not known." }
            @if summary.missing > 0 { " " (count(summary.missing, "version")) " left out: removed meanwhile, or not in the history yet." }
        }
    }
}
