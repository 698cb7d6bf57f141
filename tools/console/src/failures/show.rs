//! Failure documents as HTML.

use maud::{Markup, html};
use operations::{failures::source::Source, redrive::Listed};
use shared::logging::chain;

use super::told::{Document, Image, Kind, Outcome, TheRecord, Told};
use crate::{
    address,
    app::App,
    error::PageError,
    query::link,
    time,
    value::{self, Much},
};

/// The most records of a document's own page.
pub(super) const RECORDS: usize = 50;
/// What is shown of a value that no item can have.
const ODD: usize = 2000;

/// A source, with some of its documents.
pub(super) fn source(app: &App, index: usize, source: &Source, listed: Result<&Listed<Told>, &PageError>) -> Markup {
    let heading = format!("source-{index}");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (value::word(&source.to_string())) }
            @match listed {
                Err(error) => p.note.bad role="alert" { "It cannot be read now: " (chain(error)) },
                Ok(listed) if listed.is_absent || listed.entries.is_empty() => p.good {
                    "There are no failure documents" @if listed.is_absent { " yet" } "."
                },
                Ok(listed) => {
                    p {
                        a href=(address::document("/redrive", index, None)) {
                            @if app.writes.is_some() { "Redrive all of it…" } @else { "What would redriving all of it do?" }
                        }
                    }
                    @for told in &listed.entries { (one(index, told)) }
                    @if let Some(next) = next(index, source, listed) {
                        p { a rel="next" href=(next) { "The next documents" } }
                    } @else if listed.has_more {
                        p.note { "These are the first messages that came. There may be more: a queue cannot be paged through." }
                    }
                }
            }
        }
    }
}

/// A document among others.
fn one(index: usize, told: &Told) -> Markup {
    html! {
        article.document {
            h3 { a href=(address::document("/failures", index, Some(&told.name))) { (value::word(&told.name)) } }
            @match &told.document {
                Err(why) => p.bad { "No failure document: " (why) },
                Ok(document) => {
                    p {
                        (value::word(document.context.condition.as_deref().unwrap_or("No reason is given"))) ", "
                        (records(document.size)) ", " (value::bytes(told.bytes))
                        @if let Some(time) = &document.context.time { ", " (value::word(time)) }
                    }
                    @if document.has_records {
                        (table(&format!("Records of {}", told.name), &document.records, false))
                        @if document.size > document.records.len() as u64 {
                            p.muted { "and " (document.size - document.records.len() as u64) " more" }
                        }
                    } @else {
                        p.muted { "Its records are in the stream: the page of the document looks them up." }
                    }
                }
            }
        }
    }
}

fn records(count: u64) -> String {
    match count {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    }
}

/// A document's own page.
pub(super) fn document(app: &App, index: usize, source: &Source, told: &Told, from: usize) -> Markup {
    html! {
        p { a href=(address::document("/failures", index, None)) { "All of " (value::word(&source.to_string())) } }
        h1 { (value::word(&told.name)) }
        @match &told.document {
            Err(why) => p.note.bad { "It is no failure document: " (why) },
            Ok(document) => {
                (facts(told.bytes, document))
                p {
                    a href=(address::document("/redrive", index, Some(&told.name))) {
                        @if app.writes.is_some() { "Redrive it…" } @else { "What would redriving it do?" }
                    }
                }
                h2 #records { "Records" }
                @if document.records.is_empty() {
                    p { @if document.has_records { "There are none here." } @else { "The stream no longer has them." } }
                } @else {
                    @if !document.has_records { p.muted { "Looked up in the stream." } }
                    (table("Records of the document", &document.records, true))
                }
                (pages(index, &told.name, document, from))
            }
        }
    }
}

fn pages(index: usize, name: &str, document: &Document, from: usize) -> Markup {
    let page = |from: usize| {
        link(
            "/failures",
            [
                ("source", Some(index.to_string())),
                ("document", Some(name.to_owned())),
                ("from", Some(from.to_string())),
            ],
        )
    };
    let shown = from.saturating_add(document.records.len());
    html! {
        nav.pages aria-label="Records" {
            @if from > 0 { a rel="prev" href=(page(from.saturating_sub(RECORDS))) { "The records before" } " " }
            @if document.records.len() == RECORDS && (shown as u64) < document.size {
                a rel="next" href=(page(shown)) { "The records after" }
            }
        }
    }
}

fn facts(bytes: usize, document: &Document) -> Markup {
    let context = &document.context;
    let facts = [
        ("Why", &context.condition),
        ("Function", &context.function_arn),
        ("It failed with", &context.function_error),
        ("Last request", &context.request_id),
        ("Written", &context.time),
    ];
    html! {
        dl.facts {
            @for (name, fact) in facts {
                @if let Some(fact) = fact { dt { (name) } dd { (value::word(fact)) } }
            }
            @if let Some(count) = context.invoke_count { dt { "Tried" } dd { "about " (count) " times" } }
            @if let Some(batch) = &document.batch {
                dt { "Stream" } dd { (value::word(&batch.stream_arn)) }
                dt { "Shard" } dd { (value::word(&batch.shard)) }
                dt { "Sequence numbers" } dd { (value::word(batch.first.as_str())) " to " (value::word(batch.last.as_str())) }
            }
            dt { "Records" } dd { (document.size) }
            dt { "Size" } dd { (value::bytes(bytes)) }
        }
    }
}

fn table(caption: &str, records: &[TheRecord], with_images: bool) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (value::word(caption)) }
                thead { tr {
                    th scope="col" { "Entity" }
                    th scope="col" { "Version" }
                    th scope="col" { "Event" }
                    th scope="col" { "Sequence number" }
                    @if with_images { th scope="col" { "A redrive" } th scope="col" { "When" } th scope="col" { "Image" } }
                } }
                tbody { @for record in records { (row(record, with_images)) } }
            }
        }
    }
}

fn row(record: &TheRecord, with_image: bool) -> Markup {
    html! {
        tr {
            td { @match &record.id {
                Some(id) => a href=(link("/entity", [("id", Some(id.clone()))])) { (value::word(id)) },
                None => span.muted { "not named" },
            } }
            td { @match (&record.kind, record.version, &record.id) {
                (_, Some(version), Some(id)) => a href=(address::version(id, version.get())) { "version " (version) },
                (Kind::Malformed(why), ..) => span.bad { "Malformed: " (why) },
                _ => span.muted { "makes no version" },
            } }
            td { @if let Some(event) = &record.event { (value::word(event)) } }
            td { @if let Some(number) = &record.number { (value::word(number.as_str())) } }
            @if with_image {
                td { @match &record.outcome {
                    Some(Outcome::Recorded) => span.good { "would write it down" },
                    Some(Outcome::AlreadyRecorded) => "finds it in history",
                    Some(Outcome::Conflict) => span.bad { "meets a different item" },
                    Some(Outcome::Skipped) => "would leave it out",
                    Some(Outcome::Failed(why)) => span.bad { (why) },
                    None => span.muted { "leaves it: it is of another table" },
                } }
                td { @if let Some(created) = record.created { (time::shown(created)) } }
                td { (image(&record.image)) }
            }
        }
    }
}

/// The address of the next page. A queue has none: it has no order.
pub(super) fn next(index: usize, source: &Source, listed: &Listed<Told>) -> Option<String> {
    let last = listed.entries.last().filter(|_| listed.has_more)?;
    match source {
        Source::Queue(_) => None,
        _ => Some(link(
            "/failures",
            [("source", Some(index.to_string())), ("after", Some(last.name.clone()))],
        )),
    }
}

fn image(image: &Image) -> Markup {
    let short = |text: &str| text.chars().take(ODD).collect::<String>();
    match image {
        Image::None => html! { span.muted { "none" } },
        Image::Odd(text) => html! { span.muted { "no item: " } code { (value::word(&short(text))) } },
        Image::Item(item) => {
            let mut sorted: Vec<_> = item.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            html! {
                dl.facts { @for (name, each) in sorted {
                    dt { (value::name(name)) }
                    dd { (value::value(each, Much::SOME)) }
                } }
            }
        }
    }
}
