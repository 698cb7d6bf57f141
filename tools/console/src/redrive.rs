//! What a redrive would do, and the redrive.

use std::sync::Arc;

use axum::http::StatusCode;
use maud::{Markup, html};
use operations::{
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Replay, Tally},
};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::logging::chain;
use tokio::sync::OwnedMutexGuard;

use super::{
    address,
    app::App,
    aside, failures,
    page::{self, Answer, Place, View},
    query::{given, link},
    value,
};
use crate::error::PageError;

/// The most names of each kind that are shown. JSON has all.
const NAMES: usize = 200;

/// What an address or a form asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    source: Option<String>,
    #[serde(default, deserialize_with = "given")]
    document: Option<String>,
}

/// What it would do.
pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let (index, source) = failures::source(app, query.source.as_deref())?;
    let (tally, fed) = run(app, source, query.document.clone(), true).await?;
    fed?;
    let mut json = tally.summary(true);
    json["AllowWrite"] = json!(app.writes.is_some());
    if app.writes.is_some() {
        json["Form"] = json!({
            "Action": "/redrive", "csrf": app.secrets.csrf(), "source": index.to_string(), "document": query.document,
        });
    }
    let body = html! {
        (way_back(index, source, query.document.as_deref()))
        h1 { "What a redrive would do" }
        p { "Each record is made into its version item by stream-fn's own code. No version is overwritten." }
        (summary(&tally, true))
        @match (&app.writes, tally.would_change()) {
            (None, _) => p.note { "The console is read-only: nothing was done. Start it with " code { "--allow-write" } " to redrive from here, or use "
                code { "vzero redrive" } "." },
            (Some(_), false) => p.note { "There is nothing to do." },
            (Some(_), true) => form method="post" action="/redrive" {
                (page::csrf(app))
                input type="hidden" name="source" value=(index);
                @if let Some(name) = &query.document { input type="hidden" name="document" value=(name); }
                button { "Redrive" }
            },
        }
    };
    Ok(View {
        title: "Redrive".to_owned(),
        place: Place::Failures,
        body,
        json,
    })
}

/// Does it.
pub(super) async fn post(app: &App, query: Query) -> Result<Answer, PageError> {
    app.writes()?;
    let (index, source) = failures::source(app, query.source.as_deref())?;
    let (tally, fed) = run(app, source, query.document.clone(), false).await?;
    let broken_off = fed.err().map(|error| chain(&error));
    let mut json = tally.summary(false);
    if let Some(why) = &broken_off {
        json["Error"] = json!(why);
    }
    let body = html! {
        (way_back(index, source, query.document.as_deref()))
        h1 { "What the redrive did" }
        @if let Some(why) = broken_off { p.note.bad role="alert" { "It was broken off: " (why) ". What was done before stays done." } }
        (summary(&tally, false))
    };
    Ok(Answer::View(View {
        title: "Redriven".to_owned(),
        place: Place::Failures,
        body,
        json,
    }))
}

/// What `vzero redrive` does, of a source or of one document of it.
///
/// What was done before an error is in the tally.
async fn run(
    app: &App,
    source: &Source,
    name: Option<String>,
    is_dry: bool,
) -> Result<(Tally, Result<(), PageError>), PageError> {
    let guard = (!is_dry).then(|| alone(app)).transpose()?;
    let (connection, services, source) = (app.connection.clone(), app.services.clone(), source.clone());
    aside::run(async move || {
        let _guard = guard;
        let feed = Feed::new(&connection, &services, &Silent);
        let replay = Replay::new(&connection, &services, is_dry);
        let mut tally = Tally::default();
        let fed = match name {
            None => feed
                .all(std::slice::from_ref(&source), &replay, &mut tally)
                .await
                .map_err(PageError::from),
            Some(name) => match feed.one(&source, &name, &replay, &mut tally).await {
                Ok(false) => Err(PageError::NotFound(
                    "there is no such document, or no longer".to_owned(),
                )),
                done => done.map(drop).map_err(PageError::from),
            },
        };
        match fed {
            // There is nothing to tell of then.
            Err(error) if error.status() == StatusCode::NOT_FOUND => Err(error),
            fed => Ok((tally, fed)),
        }
    })
    .await
}

/// One at a time changes much.
pub(super) fn alone(app: &App) -> Result<OwnedMutexGuard<()>, PageError> {
    let taken = Arc::clone(&app.busy).try_lock_owned();
    taken.map_err(|_| PageError::Conflict("another redrive or repair of this console is under way".to_owned()))
}

fn way_back(index: usize, source: &Source, document: Option<&str>) -> Markup {
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
            (Ok(()), false) => p.good role="status" { "All is in history." },
            (Ok(()), true) => p.good role="status" { "All would be in history." },
            (Err(error), false) => p.bad role="status" { (error) },
            (Err(error), true) => p.bad role="status" { "If it were done now, " (error) },
        }
        div.scroll role="region" aria-label="Counts" tabindex="0" {
            table {
                caption { @if is_dry { "What would become of the records" } @else { "What became of the records" } }
                thead { tr { th scope="col" { "What" } th scope="col" { "How many" } } }
                tbody { @for (name, count) in shown { tr { th scope="row" { (name) } td { (count) } } } }
            }
        }
        @for (name, list) in tally.lists() {
            @if !list.is_empty() {
                h2 { (name) }
                ul {
                    @for one in list.iter().take(NAMES) { li { (named(one)) } }
                    @if list.len() > NAMES { li.muted { "and " (list.len() - NAMES) " more" } }
                }
            }
        }
    }
}

/// `{"ID": …, "Version": 7, "Reason": …}` as words, with a link to the entity.
pub(super) fn named(one: &Value) -> Markup {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let members: Vec<_> = one.as_object().into_iter().flatten().collect();
    html! {
        @for (at, (name, member)) in members.iter().enumerate() {
            @if at > 0 { ", " }
            @match (name.as_str(), member.as_str()) {
                ("ID", Some(id)) => a href=(link("/entity", [("id", Some(id.to_owned()))])) { (value::word(id)) },
                _ => { (name) " " (value::word(&text(member))) }
            }
        }
    }
}
