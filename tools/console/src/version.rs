//! One version, whole.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use shared::domain::{Item, entity::EntityId, size, version::Version, view::VersionView};

use super::{
    address,
    app::App,
    page::{Place, View},
    query::{self, given, link},
    time,
    value::{self, Much},
};
use crate::error::PageError;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    version: Option<String>,
    #[serde(default, deserialize_with = "given")]
    done: Option<String>,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query::entity(query.id.as_deref())?;
    let latest = latest(app, &entity).await?;
    let head = latest.version;
    let view = match query::version("version", query.version.as_deref())? {
        Some(version) if version != head => one(app, &entity, version).await?,
        _ => latest,
    };
    let mut json = view.to_json();
    json["Time"] = json!(view.time().ok().map(time::iso));
    json["RequestID"] = json!(view.request_id);
    json["Size"] = json!(size::of_item(&view.attributes));
    json["Latest"] = json!(head);
    Ok(View {
        title: format!("Version {} of {}", view.version, entity.as_str()),
        place: Place::Entities,
        body: body(app, &view, head, query.done.as_deref()),
        json,
    })
}

/// The latest version of an entity that has to be there.
pub(super) async fn latest(app: &App, entity: &EntityId) -> Result<VersionView, PageError> {
    let latest = app.store().latest(entity, app.consistent()).await?;
    latest.ok_or_else(|| PageError::NotFound(format!("there is no {}", entity.as_str())))
}

/// A version that has to be there.
pub(super) async fn one(app: &App, entity: &EntityId, version: Version) -> Result<VersionView, PageError> {
    if let Some(view) = app.store().version(entity, version, app.consistent()).await? {
        return Ok(view);
    }
    let floor = app.store().floor(entity, app.consistent()).await?;
    Err(PageError::NotFound(if version < floor {
        format!("version {version} was pruned: history begins at version {floor}")
    } else {
        format!("there is no version {version} of {}", entity.as_str())
    }))
}

/// The way back to the entity.
pub(super) fn crumbs(entity: &EntityId) -> Markup {
    html! {
        p.crumbs {
            a href="/" { "Entities" } " › "
            a.key href=(link("/entity", [("id", Some(entity.as_str().to_owned()))])) { (value::word(entity.as_str())) }
        }
    }
}

fn body(app: &App, view: &VersionView, head: Version, done: Option<&str>) -> Markup {
    let (entity, version) = (&view.entity, view.version.get());
    let done = match done {
        Some("Written") => Some("was written"),
        Some("Duplicate") => Some("was written before, by this very form"),
        Some("Unchanged") => Some("is already so: nothing was written"),
        _ => None,
    };
    html! {
        (crumbs(entity))
        h1 { "Version " (version) @if view.version == head { ", the latest" } @if view.deleted { " " span.tag.dead { "deleted" } } }
        @if let Some(done) = done { p.note.good role="status" { "Version " (version) " " (done) "." } }
        nav.pages aria-label="Neighbours" {
            @if version > 1 { a rel="prev" href=(address::version(entity.as_str(), version - 1)) { "Version " (version - 1) } }
            @if view.version < head { a rel="next" href=(address::version(entity.as_str(), version + 1)) { "Version " (version + 1) } }
            @if version > 1 { a href=(address::compare(entity, version - 1, version)) { "What it changed" } }
            @if view.version < head {
                a href=(address::compare(entity, version, head.get())) { "What changed since" }
                @if app.writes.is_some() {
                    a href=(link("/restore", [("id", Some(entity.as_str().to_owned())), ("version", Some(version.to_string()))])) { "Restore…" }
                }
            }
        }
        dl.facts {
            dt { "Time" } dd { @match view.time() { Ok(time) => (time::shown(time)), Err(_) => span.muted { "not said" } } }
            @for name in ["Actor", "Reason"] {
                @if let Some(said) = view.attributes.get(name) { dt { (name) } dd { (value::value(said, Much::SOME)) } }
            }
            @if let Some(request) = &view.request_id { dt { "Request" } dd { (value::word(request)) } }
            dt { "Size" } dd { (value::bytes(size::of_item(&view.attributes))) ", " (view.attributes.len()) " attributes" }
        }
        h2 { "Attributes" }
        (attributes(&view.attributes, Much::ALL))
    }
}

/// The attributes of an item, by name.
pub(super) fn attributes(item: &Item, much: Much) -> Markup {
    let mut sorted: Vec<_> = item.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    html! {
        @if sorted.is_empty() { p.muted { "It has none." } }
        dl.facts {
            @for (name, value) in sorted.iter().take(much.members) {
                dt { (value::name(name)) }
                dd { (value::value(value, much)) }
            }
        }
        @if sorted.len() > much.members { p.muted { "and " (sorted.len() - much.members) " more" } }
    }
}
