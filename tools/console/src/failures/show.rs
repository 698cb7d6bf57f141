//! Failure documents as HTML.

use maud::{Markup, html};
use operations::{failures::source::Source, redrive::Listed};
use shared::{domain::size, logging::chain};

use super::document_view::{Document, DocumentView, Image, Kind, Outcome, RecordView};
use crate::{
    address,
    app::App,
    error::PageError,
    page::entity_link,
    query::link,
    time,
    value::{self, DisplayLimits},
};

pub(super) const MAX_RECORDS: usize = 50;
/// Maximum number of displayed attributes of a record.
const MAX_ATTRIBUTES: usize = 200;
/// Maximum size of an image whose values are shown like those of an item. A larger one has the limits of a cell, so that the
/// markup of nested values does not make the page much larger than the document.
const MAX_IMAGE_BYTES: usize = 16 * 1024;
/// Maximum number of displayed characters of an invalid image.
const MAX_INVALID_IMAGE: usize = 2000;

pub(super) fn source(
    app: &App,
    index: usize,
    source: &Source,
    listed: Result<&Listed<DocumentView>, &PageError>,
) -> Markup {
    let heading = format!("source-{index}");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (value::word(&source.to_string())) }
            @match listed {
                Err(error) => p.note.bad role="alert" { "Cannot read this source: " (chain(error)) },
                Ok(listed) if listed.is_absent || listed.entries.is_empty() => p.good {
                    "No failure documents" @if listed.is_absent { " yet" } "."
                },
                Ok(listed) => {
                    p {
                        a href=(address::document("/redrive", index, None)) {
                            @if app.writes.is_some() { "Redrive all documents…" } @else { "Preview a redrive of all documents" }
                        }
                    }
                    @for document in &listed.entries { (article(index, document)) }
                    @if let Some(next) = next(index, source, listed) {
                        p { a rel="next" href=(next) { "Next documents" } }
                    } @else if listed.has_more {
                        p.note { "The list contains only the messages received first. A queue cannot be read page by page." }
                    }
                }
            }
        }
    }
}

/// Renders a document: its entity and version, the cause, and then where it is stored.
fn article(index: usize, shown: &DocumentView) -> Markup {
    html! {
        article.document {
            h3 { a href=(address::document("/failures", index, Some(&shown.name))) { (subject(shown)) } }
            @match &shown.document {
                Err(why) => p.bad { "Not a failure document: " (why) },
                Ok(document) => {
                    p.cause { (cause(document)) }
                    @if document.has_records {
                        (table(&format!("Records of {}", shown.name), &document.records, false))
                        @if document.size > document.records.len() as u64 {
                            p.muted { "and " (document.size - document.records.len() as u64) " more" }
                        }
                    } @else {
                        p.muted { "Open the document to read its records from the stream." }
                    }
                    p.muted {
                        (records(document.size)) ", " (value::bytes(shown.bytes)) ", document " (value::word(&shown.name))
                        @if let Some(time) = &document.context.time { ", " (value::word(time)) }
                    }
                }
            }
        }
    }
}

/// Renders the first record of a document, as in `E#1, version 3, and 2 more records`, or else the name of the document.
fn subject(shown: &DocumentView) -> Markup {
    let Ok(document) = &shown.document else {
        return value::word(&shown.name);
    };
    let first = document
        .records
        .iter()
        .find_map(|record| Some((record, record.id.as_deref()?)));
    let Some((record, id)) = first else {
        return value::word(&shown.name);
    };
    let more = document.size.saturating_sub(1);
    html! {
        (value::word(id))
        @if let Some(version) = record.version { ", version " (version) }
        @if more > 0 { ", and " (more) " more" }
    }
}

/// Renders the cause: what is wrong with the records, if that is known, and why the mapping gave up.
fn cause(document: &Document) -> Markup {
    let known = document
        .records
        .iter()
        .find_map(|record| match (&record.outcome, &record.kind) {
            (Some(Outcome::Conflict), _) => Some("the version is already stored with other attributes".to_owned()),
            (Some(Outcome::AboveLatest(why) | Outcome::Failed(why)), _) | (_, Kind::Malformed(why)) => {
                Some(why.clone())
            }
            _ => None,
        });
    let context = &document.context;
    html! {
        @if let Some(known) = &known { span.bad { (value::word(known)) } " · " }
        (value::word(context.condition.as_deref().unwrap_or("Unknown cause")))
        @if let Some(count) = context.invoke_count { ", after " (count) @if count == 1 { " invocation" } @else { " invocations" } }
        @if let Some(error) = &context.function_error { ", function error " (value::word(error)) }
    }
}

fn records(count: u64) -> String {
    match count {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    }
}

pub(super) fn document(app: &App, index: usize, source: &Source, shown: &DocumentView, from: usize) -> Markup {
    html! {
        p { a href=(address::document("/failures", index, None)) { "All documents of " (value::word(&source.to_string())) } }
        h1.key { (subject(shown)) }
        @match &shown.document {
            Err(why) => p.note.bad { "Not a failure document: " (why) },
            Ok(document) => {
                p.note.bad { "Cause: " (cause(document)) }
                p {
                    a href=(address::document("/redrive", index, Some(&shown.name))) {
                        @if app.writes.is_some() { "Redrive…" } @else { "Preview a redrive" }
                    }
                }
                h2 #records { "Records" }
                @if document.records.is_empty() {
                    p { @if document.has_records { "No records on this page." } @else { "The records are no longer in the stream." } }
                } @else {
                    @if !document.has_records { p.muted { "Read from the stream." } }
                    (table("Records of the document", &document.records, true))
                }
                (pages(index, &shown.name, document, from))
                h2 { "Document" }
                (facts(shown, document))
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
    let end = from.saturating_add(document.records.len());
    html! {
        nav.pages aria-label="Records" {
            @if from > 0 { a rel="prev" href=(page(from.saturating_sub(MAX_RECORDS))) { "Previous records" } " " }
            @if document.records.len() == MAX_RECORDS && (end as u64) < document.size {
                a rel="next" href=(page(end)) { "Next records" }
            }
        }
    }
}

fn facts(shown: &DocumentView, document: &Document) -> Markup {
    let context = &document.context;
    let facts = [
        ("Cause", &context.condition),
        ("Function", &context.function_arn),
        ("Function error", &context.function_error),
        ("Last request ID", &context.request_id),
        ("Time", &context.time),
    ];
    html! {
        dl.facts {
            dt { "Name" } dd { (value::word(&shown.name)) }
            @for (name, fact) in facts {
                @if let Some(fact) = fact { dt { (name) } dd { (value::word(fact)) } }
            }
            @if let Some(count) = context.invoke_count { dt { "Approximate invoke count" } dd { (count) } }
            @if let Some(batch) = &document.batch {
                dt { "Stream" } dd { (value::word(&batch.stream_arn)) }
                dt { "Shard" } dd { (value::word(&batch.shard)) }
                dt { "Sequence numbers" } dd { (value::word(batch.first.as_str())) " to " (value::word(batch.last.as_str())) }
            }
            dt { "Records" } dd { (document.size) }
            dt { "Size" } dd { (value::bytes(shown.bytes)) }
        }
    }
}

fn table(caption: &str, records: &[RecordView], with_images: bool) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (value::word(caption)) }
                thead { tr {
                    th scope="col" { "Entity" }
                    th scope="col" { "Version" }
                    @if with_images { th scope="col" { "Redrive result" } th scope="col" { "Time" } th scope="col" { "Image" } }
                    th scope="col" { "Event" }
                    th scope="col" { "Sequence number" }
                } }
                tbody { @for record in records { (row(record, with_images)) } }
            }
        }
    }
}

fn row(record: &RecordView, with_image: bool) -> Markup {
    html! {
        tr {
            td { @match &record.id {
                Some(id) => (entity_link(id)),
                None => span.muted { "Unknown" },
            } }
            td { @match (&record.kind, record.version, &record.id) {
                (_, Some(version), Some(id)) => a href=(address::version("/version", id, version.get())) { "version " (version) },
                (Kind::Malformed(why), ..) => span.bad { "Malformed: " (why) },
                _ => span.muted { "No version" },
            } }
            @if with_image {
                td { @match &record.outcome {
                    Some(Outcome::Recorded) => span.good { "Would be stored" },
                    Some(Outcome::AlreadyRecorded) => "Already in history",
                    Some(Outcome::Conflict) => span.bad { "Conflicts with a different item" },
                    Some(Outcome::Skipped) => "Would be skipped",
                    Some(Outcome::Purged) => "Was purged, would not be stored",
                    Some(Outcome::Pruned) => "Was pruned, would not be stored",
                    Some(Outcome::AboveLatest(why) | Outcome::Failed(why)) => span.bad { (why) },
                    None => span.muted { "Not processed: record of another table" },
                } }
                td { @if let Some(created) = record.created { (time::shown(created)) } }
                td { (image(&record.image)) }
            }
            td { @if let Some(event) = &record.event { (value::word(event)) } }
            td { @if let Some(number) = &record.number { (value::word(number.as_str())) } }
        }
    }
}

/// Returns the address of the next page. A queue has none, because it has no order.
pub(super) fn next(index: usize, source: &Source, listed: &Listed<DocumentView>) -> Option<String> {
    let last = listed.entries.last().filter(|_| listed.has_more)?;
    match source {
        Source::Queue(_) => None,
        _ => Some(link(
            "/failures",
            [("source", Some(index.to_string())), ("after", Some(last.name.clone()))],
        )),
    }
}

pub(super) fn image(image: &Image) -> Markup {
    let short = |text: &str| text.chars().take(MAX_INVALID_IMAGE).collect::<String>();
    match image {
        Image::None => html! { span.muted { "None" } },
        Image::Invalid(text) => html! { span.muted { "Not an item: " } code { (value::word(&short(text))) } },
        Image::Item(item) => {
            let limits = match size::of_item(item) > MAX_IMAGE_BYTES {
                true => DisplayLimits::CELL,
                false => DisplayLimits::ITEM,
            };
            value::attributes(item, limits, MAX_ATTRIBUTES)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(item: Value) -> String {
        image(&Image::Item(serde_json::from_value(item).unwrap())).into_string()
    }

    #[test]
    fn large_images_are_truncated() {
        let small = json!({"A": {"L": (0..20).map(|n| json!({"N": n.to_string()})).collect::<Vec<_>>()}});
        assert!(shown(small).contains(">19<"));
        let leaves = |_| json!({"L": vec![json!({"NULL": true}); 30]});
        let nested = |_| json!({"L": (0..30).map(leaves).collect::<Vec<_>>()});
        let image = (0..20).map(|n| (format!("A{n}"), json!({"L": (0..30).map(nested).collect::<Vec<_>>()})));
        let html = shown(image.collect());
        assert!(html.len() < 100_000 && html.contains("and 26 more"), "{}", html.len());
    }
}
