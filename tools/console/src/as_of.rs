//! An entity as it was at a time, or at a version that a slider is moved to.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use shared::{
    domain::{time::EpochMillis, version::Version, view::VersionView},
    dynamodb::read::versions::ReadError,
};

use super::{
    address,
    app::App,
    page::{Place, View},
    query::{self, given},
    time,
    value::{self, Much},
    version,
};
use crate::error::PageError;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    at: Option<String>,
    #[serde(default, deserialize_with = "given")]
    version: Option<String>,
}

/// What there is of the time that was asked for.
enum Found {
    Version(Box<VersionView>),
    /// Nothing, and why.
    Nothing(String),
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query::entity(query.id.as_deref())?;
    let at = query.at.as_deref().map(EpochMillis::parse_iso).transpose();
    let at = at.map_err(|error| PageError::invalid("at", error))?;
    let number = query::version("version", query.version.as_deref())?;
    let latest = version::latest(app, &entity).await?;
    let floor = app.store().floor(&entity, app.consistent()).await?;
    let head = latest.version;
    let found = match (at, number) {
        (Some(at), _) => match app.store().as_of(&entity, at, app.consistent()).await {
            Ok(Some(view)) => Found::Version(Box::new(view)),
            Ok(None) => Found::Nothing("It was not there yet.".to_owned()),
            Err(ReadError::Service(error)) => return Err(error.into()),
            Err(error) => Found::Nothing(format!("That cannot be said: {}.", shared::logging::chain(&error))),
        },
        (None, Some(number)) if number < head => match version::one(app, &entity, number).await {
            Ok(view) => Found::Version(Box::new(view)),
            Err(PageError::NotFound(why)) => Found::Nothing(format!("That cannot be said: {why}.")),
            Err(error) => return Err(error),
        },
        _ => Found::Version(Box::new(latest)),
    };
    let json = match &found {
        Found::Version(view) => {
            let mut json = view.to_json();
            json["Time"] = json!(view.time().ok().map(time::iso));
            json["At"] = json!(at.map(time::iso));
            json
        }
        Found::Nothing(why) => json!({"ID": entity.as_str(), "Version": null, "At": at.map(time::iso), "Why": why}),
    };
    Ok(View {
        title: format!("{} as of a time", entity.as_str()),
        place: Place::Entities,
        body: html! {
            (version::crumbs(&entity))
            h1 { "As of a time" }
            (forms(&found, entity.as_str(), at, head, floor))
            (shown(&found, head))
        },
        json,
    })
}

fn forms(found: &Found, id: &str, at: Option<EpochMillis>, head: Version, floor: Version) -> Markup {
    let version = match found {
        Found::Version(view) => view.version,
        Found::Nothing(_) => head,
    };
    let at = at.map(|at| time::iso(at).trim_end_matches('Z').to_owned());
    html! {
        form.row method="get" action="/as-of" {
            input type="hidden" name="id" value=(id);
            label { "Time, UTC " input type="text" name="at" value=[at] placeholder="2020-11-01T20:04:00" autocomplete="off" required; }
            button { "Show" }
        }
        form.row method="get" action="/as-of" data-slider {
            input type="hidden" name="id" value=(id);
            label.wide { "Version, " (floor) " to " (head) " " input type="range" name="version" min=(floor) max=(head) value=(version); }
            output { (version) }
            button { "Go" }
        }
    }
}

fn shown(found: &Found, head: Version) -> Markup {
    match found {
        Found::Nothing(why) => html! { p.note role="status" { (value::plain(why)) } },
        Found::Version(view) => html! {
            h2 {
                "It was version " (view.version)
                @if view.version == head { ", still the latest" }
                @if view.deleted { " " span.tag.dead { "deleted" } }
            }
            nav.pages aria-label="Of this version" {
                a href=(address::version(view.entity.as_str(), view.version.get())) { "Version " (view.version) ", whole" }
                @if view.version < head { a href=(address::compare(&view.entity, view.version.get(), head.get())) { "What changed since" } }
            }
            @if let Ok(time) = view.time() { p { "Made " (time::shown(time)) } }
            (version::attributes(&view.attributes, Much::SOME))
        },
    }
}
