//! Page of a single version.

use maud::{Markup, html};
use serde_json::json;
use shared::{
    domain::{entity::EntityId, names, recorded_at::RecordedAt, size, version::Version, view::VersionView},
    printable,
};

use super::{
    address,
    app::App,
    current,
    page::{View, deleted, entity_link},
    query::Query,
    record, seal,
    value::{self, DisplayLimits},
};
use crate::error::PageError;

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let newest = latest(app, &entity).await?;
    let latest = newest.version;
    let view = match query.version("version")? {
        Some(version) if version != latest => one(app, &entity, version).await?,
        _ => newest,
    };
    let mut json = record::view_json(&view);
    json["Size"] = json!(size::of_item(&view.attributes));
    json["Latest"] = json!(latest);
    let seal = seal::of_version(app, &entity, view.version, &mut json).await;
    let raw = serde_json::to_string_pretty(&json["Attributes"]).unwrap_or_default();
    let raw = printable::json(&raw);
    let title = format!("Version {} of {}", view.version, current::title(&entity));
    Ok(View::new(
        title,
        body(app, &view, latest, query.text("done"), &raw, &seal),
        json,
    ))
}

pub(super) async fn latest(app: &App, entity: &EntityId) -> Result<VersionView, PageError> {
    let store = app.store();
    let latest = if store.attached_table().is_some() {
        // The newest version can be late, and never was the latest.
        store.latest(entity, app.consistent()).await?
    } else {
        let newest = store.newest(entity, app.consistent()).await?;
        newest.map(|(version, item)| store.view(entity, version, item))
    };
    let latest = latest.ok_or_else(|| PageError::no_entity(entity))?;
    with_time(app, latest).await
}

/// Adds the time at which the latest version was recorded, if only its version item has one: another program wrote it.
pub(super) async fn with_time(app: &App, mut latest: VersionView) -> Result<VersionView, PageError> {
    if latest.recorded_at.is_none() {
        let key = app.store().digits().version_key(latest.version);
        let item = app.store().get(&latest.entity, &key, app.consistent()).await?;
        latest.recorded_at = item.as_ref().and_then(RecordedAt::of);
        latest.recorded_by_stream = item.is_some_and(|item| item.contains_key(names::RECORDED_BY));
    }
    Ok(latest)
}

pub(super) async fn one(app: &App, entity: &EntityId, version: Version) -> Result<VersionView, PageError> {
    if let Some(view) = app.store().version(entity, version, app.consistent()).await? {
        return Ok(view);
    }
    let floor = app.store().floor(entity, app.consistent()).await?;
    Err(match version < floor {
        true => PageError::NotFound(format!(
            "version {version} was pruned: history begins at version {floor}"
        )),
        false => PageError::no_version(entity, version),
    })
}

/// Returns an error if the state of a version is not known.
pub(super) fn is_known(view: &VersionView) -> Result<(), PageError> {
    match view.is_omitted() {
        true => Err(PageError::NotFound(format!(
            "the state of version {} is not known: it did not fit, and its record is in quarantine",
            view.version
        ))),
        false => Ok(()),
    }
}

pub(super) fn breadcrumbs(entity: &EntityId) -> Markup {
    html! {
        p.crumbs {
            a href=(address::page("/")) { "Entities" } " › "
            (entity_link(entity.as_str()))
        }
    }
}

fn body(app: &App, view: &VersionView, latest: Version, done: Option<&str>, raw: &str, seal: &Markup) -> Markup {
    let (id, version) = (view.entity.as_str(), view.version.get());
    let done = match done {
        Some("Written") => Some("was created"),
        Some("Duplicate") => Some("was already created by this form"),
        Some("Unchanged") => Some("is already in this state: no version was created"),
        Some("Sent") => Some("is the latest until the stream has delivered the change that was made"),
        _ => None,
    };
    html! {
        (breadcrumbs(&view.entity))
        h1 { "Version " (version) @if view.version == latest { " (latest)" } (deleted(view.deleted)) }
        @if let Some(done) = done { p.note.good role="status" { "Version " (version) " " (done) "." } }
        nav.pages aria-label="Versions" {
            @if version > 1 { a rel="prev" href=(address::version("/version", id, version - 1)) { "Version " (version - 1) } }
            @if view.version < latest { a rel="next" href=(address::version("/version", id, version + 1)) { "Version " (version + 1) } }
            @if version > 1 { a href=(address::compare(id, version - 1, version)) { "Compare with previous" } }
            a href=(address::version("/blame", id, version)) { "Blame" }
            @if view.version < latest {
                a href=(address::compare(id, version, latest.get())) { "Compare with latest" }
                @if app.allows_writes() { a href=(address::version("/restore", id, version)) { "Restore…" } }
            }
            @if app.allows_writes() { a href=(address::version("/changes/undo", id, version)) { "Undo…" } }
        }
        dl.facts {
            (record::facts(view, "Created"))
            dt { "Size" } dd { (value::bytes(size::of_item(&view.attributes))) ", " (view.attributes.len()) " attributes" }
        }
        (seal)
        h2 { "Attributes" }
        (value::attributes(&view.attributes, DisplayLimits::FULL, usize::MAX))
        details {
            summary { "Raw JSON" }
            p { button.copy type="button" hidden data-copy-from="raw" { "Copy JSON" } " " a href={ (address::version("/version", id, version)) "&format=json" } { "Open as a document" } }
            pre #raw tabindex="0" role="region" aria-label="Raw JSON" { (raw) }
        }
    }
}
