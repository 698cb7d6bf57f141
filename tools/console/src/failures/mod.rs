//! Failure documents: why records were given up, and what they were.

mod show;
pub(super) mod told;

use maud::{Markup, html};
use operations::{
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Listed, Replay, Services},
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    show::{RECORDS, next},
    told::{Outcome, Told},
};
use super::{
    app::App,
    aside,
    page::{Place, View},
    query::given,
};
use crate::error::PageError;

/// The most documents of a page.
const DOCUMENTS: usize = 50;
/// The most of each source, where there are several.
const OF_EACH: usize = 10;
/// The most records that are shown of a document among others.
const FEW_RECORDS: usize = 10;

/// How long a look at a queue hides its messages from others at most, in seconds.
const LOOK_SECONDS: u16 = 120;

/// What an address asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    source: Option<String>,
    #[serde(default, deserialize_with = "given")]
    document: Option<String>,
    #[serde(default, deserialize_with = "given")]
    after: Option<String>,
    #[serde(default, deserialize_with = "given")]
    from: Option<String>,
}

/// A source of the command line: no request names another.
pub(super) fn source<'a>(app: &'a App, number: Option<&str>) -> Result<(usize, &'a Source), PageError> {
    let number = number.ok_or_else(|| PageError::Invalid("the address names no source: source".to_owned()))?;
    let index: Option<usize> = number.parse().ok();
    let found = index.and_then(|index| Some((index, app.sources.get(index)?)));
    found.ok_or_else(|| PageError::NotFound("there is no such source".to_owned()))
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    match (&query.source, &query.document) {
        (None, Some(_)) => Err(PageError::Invalid("the address names no source: source".to_owned())),
        (None, None) => all(app).await,
        (Some(_), None) => one_source(app, &query).await,
        (Some(_), Some(name)) => one_document(app, &query, name).await,
    }
}

async fn all(app: &App) -> Result<View, PageError> {
    let most = if app.sources.len() > 1 { OF_EACH } else { DOCUMENTS };
    let (mut sections, mut sources): (Vec<Markup>, Vec<Value>) = (Vec::new(), Vec::new());
    for (index, source) in app.sources.iter().enumerate() {
        let listed = list(app, source, None, most).await;
        sources.push(to_json(index, source, listed.as_ref()));
        sections.push(show::source(app, index, source, listed.as_ref()));
    }
    Ok(View {
        title: "Failures".to_owned(),
        place: Place::Failures,
        body: html! {
            h1 { "Failure documents" }
            @if app.sources.is_empty() {
                p.note { "The console was told of no failure documents: start it with " code { "--from SOURCE" } ", a folder, "
                    code { "s3://bucket/prefix" } ", or the URL of the dead-letter queue." }
            }
            @for section in sections { (section) }
        },
        json: json!({"Sources": sources}),
    })
}

async fn one_source(app: &App, query: &Query) -> Result<View, PageError> {
    let (index, source) = source(app, query.source.as_deref())?;
    let listed = list(app, source, query.after.clone(), DOCUMENTS).await?;
    Ok(View {
        title: "Failures".to_owned(),
        place: Place::Failures,
        body: html! {
            p { a href="/failures" { "All failure documents" } }
            h1 { "Failure documents" }
            (show::source(app, index, source, Ok(&listed)))
        },
        json: to_json(index, source, Ok(&listed)),
    })
}

async fn one_document(app: &App, query: &Query, name: &str) -> Result<View, PageError> {
    let (index, source) = source(app, query.source.as_deref())?;
    let from = query.from.as_deref().unwrap_or("0").parse();
    let from: usize = from.map_err(|_| PageError::Invalid("from: it is the number of a record".to_owned()))?;
    let told = document(app, source, name.to_owned(), from).await?;
    let told = told.ok_or_else(|| PageError::NotFound("there is no such document, or no longer".to_owned()))?;
    let mut json = told.to_json(true);
    json["Source"] = json!(index);
    json["ShownFrom"] = json!(from);
    Ok(View {
        title: "Failure document".to_owned(),
        place: Place::Failures,
        body: show::document(app, index, source, &told, from),
        json,
    })
}

/// A page of a source. What hides messages goes on to the end though nobody waits for it any more.
async fn list(app: &App, source: &Source, after: Option<String>, most: usize) -> Result<Listed<Told>, PageError> {
    let (connection, services, source) = (app.connection.clone(), for_a_look(app), source.clone());
    let digits = app.store().digits();
    aside::run(async move || {
        let feed = Feed::new(&connection, &services, &Silent);
        let tell = |entry| Told::of(entry, digits, 0, FEW_RECORDS);
        Ok(feed.page(&source, after.as_deref(), most, tell).await?)
    })
    .await
}

/// Messages are hidden for a moment only: if the console is ended meanwhile, they come back soon.
fn for_a_look(app: &App) -> Services {
    let visibility_timeout = app.services.visibility_timeout.min(LOOK_SECONDS);
    Services {
        visibility_timeout,
        ..app.services.clone()
    }
}

async fn document(app: &App, source: &Source, name: String, from: usize) -> Result<Option<Told>, PageError> {
    let (connection, services, source) = (app.connection.clone(), for_a_look(app), source.clone());
    let digits = app.store().digits();
    aside::run(async move || {
        let feed = Feed::new(&connection, &services, &Silent);
        let Some(mut entry) = feed.entry(&source, &name).await? else {
            return Ok(None);
        };
        let replay = Replay::new(&connection, &services, true);
        let (mut records, mut is_own) = (Vec::new(), false);
        if let Ok(document) = &mut entry.document {
            let stream_arn = document.batch.as_ref().map(|batch| batch.stream_arn.as_str());
            is_own = replay.reader.is_own(stream_arn);
            records = match (&mut document.records, &document.batch) {
                (Some(own), _) => std::mem::take(own),
                // A document that has no records says where in the stream they were.
                (None, Some(batch)) if is_own => replay.reader.stream.fetch(batch).await?.records,
                (None, _) => Vec::new(),
            };
        }
        let count = records.len() as u64;
        let mut told = Told::of(entry, digits, 0, 0);
        if let Ok(document) = &mut told.document {
            if document.has_records {
                document.size = count;
            }
            let records = told::part(&records, from, RECORDS);
            document.records = told::of_records(records, digits);
            if is_own {
                let done = replay.try_all(records).await;
                for (record, done) in document.records.iter_mut().zip(&done) {
                    record.outcome = Some(Outcome::of(done));
                }
            }
        }
        Ok(Some(told))
    })
    .await
}

fn to_json(index: usize, source: &Source, listed: Result<&Listed<Told>, &PageError>) -> Value {
    let mut json = json!({"Source": index, "Name": source.to_string()});
    match listed {
        Err(error) => json["Error"] = json!(shared::logging::chain(error)),
        Ok(listed) => {
            json["Absent"] = json!(listed.is_absent);
            json["Documents"] = listed.entries.iter().map(|told| told.to_json(false)).collect();
            json["More"] = json!(listed.has_more);
            json["Next"] = json!(next(index, source, listed));
        }
    }
    json
}
