//! Preview of a redrive, and the redrive.

use axum::http::StatusCode;
use maud::{Markup, html};
use operations::{
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Replay, Tally},
};
use serde::Deserialize;
use serde_json::json;
use shared::logging::chain;

use super::{
    address,
    app::App,
    background, failures,
    page::{self, FormResponse, Section, View},
    query::Param,
    value,
};
use crate::error::PageError;

/// Maximum number of displayed entries of each list. JSON contains all.
const MAX_ENTRIES: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    source: Param,
    document: Param,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let (index, source) = failures::source(app, &query.source)?;
    let (tally, result) = run(app, source, query.document.0.clone(), true).await?;
    result?;
    let mut json = tally.summary(true);
    json["AllowWrite"] = json!(app.writes.is_some());
    if app.writes.is_some() {
        json["Form"] = json!({
            "Action": "/redrive", "csrf": app.secrets.csrf(), "source": index.to_string(), "document": *query.document,
        });
    }
    let body = html! {
        (breadcrumbs(index, source, query.document.as_deref()))
        h1 { "Redrive preview" }
        p { "Each record is processed by the code of stream-fn. Existing versions are not overwritten." }
        (summary(&tally, true))
        @match (&app.writes, tally.would_change()) {
            (None, _) => (page::read_only("redrive")),
            (Some(_), false) => p.note { "There are no records to redrive." },
            (Some(_), true) => form method="post" action="/redrive" {
                (page::csrf(app))
                input type="hidden" name="source" value=(index);
                @if let Some(name) = query.document.as_deref() { input type="hidden" name="document" value=(name); }
                button { "Redrive" }
            },
        }
    };
    Ok(View {
        title: "Redrive".to_owned(),
        section: Section::Failures,
        body,
        json,
    })
}

pub(super) async fn post(app: &App, query: Query) -> Result<FormResponse, PageError> {
    app.writes()?;
    let (index, source) = failures::source(app, &query.source)?;
    let (tally, result) = run(app, source, query.document.0.clone(), false).await?;
    let interrupted = result.err().map(|error| chain(&error));
    let mut json = tally.summary(false);
    if let Some(why) = &interrupted {
        json["Error"] = json!(why);
    }
    let body = html! {
        (breadcrumbs(index, source, query.document.as_deref()))
        h1 { "Redrive result" }
        @if let Some(why) = interrupted { p.note.bad role="alert" { "The redrive stopped early: " (why) ". Versions stored before the error are kept." } }
        (summary(&tally, false))
    };
    Ok(FormResponse::View(View {
        title: "Redriven".to_owned(),
        section: Section::Failures,
        body,
        json,
    }))
}

/// Redrives a source or one of its documents, like `vzero admin redrive`. The tally contains the records before an error.
async fn run(
    app: &App,
    source: &Source,
    name: Option<String>,
    is_dry: bool,
) -> Result<(Tally, Result<(), PageError>), PageError> {
    let guard = (!is_dry).then(|| app.lock()).transpose()?;
    let (connection, services, source) = (app.connection.clone(), app.services.clone(), source.clone());
    background::run(async move || {
        let _guard = guard;
        let feed = Feed::new(&connection, &services, &Silent);
        let replay = Replay::new(&connection, &services, is_dry);
        let mut tally = Tally::default();
        let result = match name {
            None => feed
                .all(std::slice::from_ref(&source), &replay, &mut tally)
                .await
                .map_err(PageError::from),
            Some(name) => match feed.one(&source, &name, &replay, &mut tally).await {
                Ok(false) => Err(failures::no_document()),
                processed => processed.map(drop).map_err(PageError::from),
            },
        };
        match result {
            // Then the tally is empty.
            Err(error) if error.status() == StatusCode::NOT_FOUND => Err(error),
            result => Ok((tally, result)),
        }
    })
    .await
}

fn breadcrumbs(index: usize, source: &Source, document: Option<&str>) -> Markup {
    html! {
        p {
            a href=(address::document("/failures", index, None)) { (value::word(&source.to_string())) }
            @if let Some(name) = document { " › " a href=(address::document("/failures", index, Some(name))) { (value::word(name)) } }
        }
    }
}

fn summary(tally: &Tally, is_dry: bool) -> Markup {
    let counts = tally.counts(is_dry);
    let counts: Vec<_> = counts.as_object().into_iter().flatten().collect();
    let shown = counts.iter().filter(|(name, _)| *name != "DryRun");
    html! {
        @match (tally.verdict(), is_dry) {
            (Ok(()), false) => p.good role="status" { "All records are in history." },
            (Ok(()), true) => p.good role="status" { "All records would be in history." },
            (Err(error), false) => p.bad role="status" { (error) },
            (Err(error), true) => p.bad role="status" { "Expected result: " (error) },
        }
        div.scroll role="region" aria-label="Counts" tabindex="0" {
            table {
                caption { @if is_dry { "Expected outcomes" } @else { "Outcomes" } }
                thead { tr { th scope="col" { "Outcome" } th scope="col" { "Count" } } }
                tbody { @for (name, count) in shown { tr { th scope="row" { (name) } td { (count) } } } }
            }
        }
        @for (name, list) in tally.lists() {
            @if !list.is_empty() {
                h2 { (name) }
                ul {
                    @for entry in list.iter().take(MAX_ENTRIES) { li { (page::members(entry, "")) } }
                    @if list.len() > MAX_ENTRIES { li.muted { "and " (list.len() - MAX_ENTRIES) " more" } }
                }
            }
        }
    }
}
