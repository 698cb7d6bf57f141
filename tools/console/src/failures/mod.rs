//! Failure documents of the on-failure destination: causes and records.

mod document_view;
pub(super) mod quarantine;
mod show;

use maud::{Markup, html};
use operations::{
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Listed, Replay, Services},
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    document_view::{DocumentView, Outcome, RecordView},
    show::{MAX_RECORDS, next},
};
use super::{
    app::App,
    background,
    page::{Section, View},
    query::Param,
};
use crate::error::PageError;

const MAX_DOCUMENTS: usize = 50;
/// Maximum number of documents of each source on the page of all sources.
const MAX_OF_EACH: usize = 10;
const MAX_LISTED_RECORDS: usize = 10;
/// Maximum visibility timeout of messages that are only displayed, in seconds.
const MAX_VISIBILITY_TIMEOUT: u16 = 120;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    source: Param,
    document: Param,
    after: Param,
    from: Param,
}

/// Returns a source of the command line by its number. A request cannot name any other.
pub(super) fn source<'a>(app: &'a App, number: &Param) -> Result<(usize, &'a Source), PageError> {
    let number = number.required("source")?;
    let index: Option<usize> = number.parse().ok();
    let found = index.and_then(|index| Some((index, app.sources.get(index)?)));
    found.ok_or_else(|| PageError::NotFound("there is no such source".to_owned()))
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    match (&*query.source, &*query.document) {
        (None, Some(_)) => Err(PageError::Missing("source")),
        (None, None) => all(app).await,
        (Some(_), None) => one_source(app, &query).await,
        (Some(_), Some(name)) => one_document(app, &query, name).await,
    }
}

async fn all(app: &App) -> Result<View, PageError> {
    let max = if app.sources.len() > 1 {
        MAX_OF_EACH
    } else {
        MAX_DOCUMENTS
    };
    let (mut sections, mut sources): (Vec<Markup>, Vec<Value>) = (Vec::new(), Vec::new());
    for (index, source) in app.sources.iter().enumerate() {
        let listed = list(app, source, None, max).await;
        sources.push(to_json(index, source, listed.as_ref()));
        sections.push(show::source(app, index, source, listed.as_ref()));
    }
    Ok(View {
        title: "Failures".to_owned(),
        section: Section::Failures,
        body: html! {
            h1 { "Failure documents" }
            @if app.sources.is_empty() {
                p.note { "No source of failure documents is configured. Start the console with " code { "--from SOURCE" } ": a folder, "
                    code { "s3://bucket/prefix" } ", or the URL of the dead-letter queue." }
            }
            @for section in sections { (section) }
        },
        json: json!({"Sources": sources}),
    })
}

async fn one_source(app: &App, query: &Query) -> Result<View, PageError> {
    let (index, source) = source(app, &query.source)?;
    let listed = list(app, source, query.after.0.clone(), MAX_DOCUMENTS).await?;
    Ok(View {
        title: "Failures".to_owned(),
        section: Section::Failures,
        body: html! {
            p { a href="/failures" { "All failure documents" } }
            h1 { "Failure documents" }
            (show::source(app, index, source, Ok(&listed)))
        },
        json: to_json(index, source, Ok(&listed)),
    })
}

async fn one_document(app: &App, query: &Query, name: &str) -> Result<View, PageError> {
    let (index, source) = source(app, &query.source)?;
    let from = query.from.as_deref().unwrap_or("0").parse();
    let from: usize = from.map_err(|_| PageError::Unexpected {
        field: "from",
        expected: "the number of a record",
    })?;
    let shown = document(app, source, name.to_owned(), from).await?;
    let shown = shown.ok_or_else(no_document)?;
    let mut json = shown.to_json(true);
    json["Source"] = json!(index);
    json["ShownFrom"] = json!(from);
    Ok(View {
        title: "Failure document".to_owned(),
        section: Section::Failures,
        body: show::document(app, index, source, &shown, from),
        json,
    })
}

pub(super) fn no_document() -> PageError {
    PageError::NotFound("there is no such document: it may have been deleted".to_owned())
}

/// Reads a page of a source. It runs in the background, because messages that it hides must become visible again.
async fn list(
    app: &App,
    source: &Source,
    after: Option<String>,
    max: usize,
) -> Result<Listed<DocumentView>, PageError> {
    let (connection, services, source) = (app.connection.clone(), display_services(app), source.clone());
    let digits = app.store().digits();
    background::run(async move || {
        let feed = Feed::new(&connection, &services, &Silent);
        let view = |entry| DocumentView::new(entry, digits, MAX_LISTED_RECORDS);
        Ok(feed.page(&source, after.as_deref(), max, view).await?)
    })
    .await
}

/// Returns the services with a short visibility timeout, so that messages reappear soon if the console is stopped.
fn display_services(app: &App) -> Services {
    let visibility_timeout = app.services.visibility_timeout.min(MAX_VISIBILITY_TIMEOUT);
    Services {
        visibility_timeout,
        ..app.services.clone()
    }
}

async fn document(app: &App, source: &Source, name: String, from: usize) -> Result<Option<DocumentView>, PageError> {
    let (connection, services, source) = (app.connection.clone(), display_services(app), source.clone());
    let digits = app.store().digits();
    background::run(async move || {
        let feed = Feed::new(&connection, &services, &Silent);
        let Some(mut entry) = feed.entry(&source, &name).await? else {
            return Ok(None);
        };
        let replay = Replay::new(&connection, &services, true);
        let (mut records, mut is_own) = (Vec::new(), false);
        if let Ok(document) = &mut entry.document {
            let stream_arn = document.batch.as_ref().map(|batch| batch.stream_arn.as_str());
            is_own = match stream_arn {
                Some(arn) => replay.reader.is_own(arn).await?,
                None => true,
            };
            records = match (&mut document.records, &document.batch) {
                (Some(own), _) => std::mem::take(own),
                // A document without records refers to a range of the stream.
                (None, Some(batch)) if is_own => replay.reader.stream.fetch(batch).await?.records,
                (None, _) => Vec::new(),
            };
        }
        let count = records.len() as u64;
        let mut shown = DocumentView::new(entry, digits, 0);
        if let Ok(document) = &mut shown.document {
            if document.has_records {
                document.size = count;
            }
            let records = records.get(from..).unwrap_or_default();
            let records = records.get(..MAX_RECORDS).unwrap_or(records);
            document.records = records.iter().map(|raw| RecordView::new(raw, digits)).collect();
            if is_own {
                let processed = replay.try_all(records).await;
                for (record, processed) in document.records.iter_mut().zip(&processed) {
                    record.outcome = Some(Outcome::of(processed));
                }
            }
        }
        Ok(Some(shown))
    })
    .await
}

fn to_json(index: usize, source: &Source, listed: Result<&Listed<DocumentView>, &PageError>) -> Value {
    let mut json = json!({"Source": index, "Name": source.to_string()});
    match listed {
        Err(error) => json["Error"] = json!(shared::logging::chain(error)),
        Ok(listed) => {
            json["Absent"] = json!(listed.is_absent);
            json["Documents"] = listed.entries.iter().map(|document| document.to_json(false)).collect();
            json["More"] = json!(listed.has_more);
            json["Next"] = json!(next(index, source, listed));
        }
    }
    json
}
