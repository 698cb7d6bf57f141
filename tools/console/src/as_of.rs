//! State of an entity at a point in time, or at a version that a slider selects.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use shared::{
    domain::{recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::read::versions::ReadError,
};

use super::{
    address,
    app::App,
    page::{Section, View},
    query::Param,
    time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    id: Param,
    at: Param,
    version: Param,
}

enum Found {
    Version(Box<VersionView>),
    /// No version, and the reason.
    None(String),
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query.id.entity()?;
    let at = query.at.as_deref().map(RecordedAt::parse).transpose();
    let at = at.map_err(|error| PageError::Invalid {
        field: "at",
        source: error.into(),
    })?;
    let number = query.version.version("version")?;
    let newest = version::latest(app, &entity).await?;
    let floor = app.store().floor(&entity, app.consistent()).await?;
    let latest = newest.version;
    let undetermined = |why: &dyn std::error::Error| {
        Found::None(format!(
            "Cannot determine the version: {}.",
            shared::logging::chain(why)
        ))
    };
    let found = match (at, number) {
        (Some(at), _) => match app.store().as_of(&entity, at, app.consistent()).await {
            Ok(Some(view)) => Found::Version(Box::new(view)),
            Ok(None) => Found::None("The entity did not exist at this time.".to_owned()),
            Err(ReadError::Service(error)) => return Err(error.into()),
            Err(error) => undetermined(&error),
        },
        (None, Some(number)) if number < latest => match version::one(app, &entity, number).await {
            Ok(view) => Found::Version(Box::new(view)),
            Err(error @ PageError::NotFound(_)) => undetermined(&error),
            Err(error) => return Err(error),
        },
        _ => Found::Version(Box::new(newest)),
    };
    let json = match &found {
        Found::Version(view) => {
            let mut json = view.to_json();
            json["Time"] = json!(view.time().ok().map(time::iso));
            json["At"] = json!(at.map(|at| at.to_string()));
            json
        }
        Found::None(why) => {
            json!({"ID": entity.as_str(), "Version": null, "At": at.map(|at| at.to_string()), "Why": why})
        }
    };
    Ok(View {
        title: format!("{} at a point in time", entity.as_str()),
        section: Section::Entities,
        body: html! {
            (version::breadcrumbs(&entity))
            h1 { "State at a point in time" }
            (forms(&found, entity.as_str(), at, latest, floor))
            (shown(&found, latest))
        },
        json,
    })
}

fn forms(found: &Found, id: &str, at: Option<RecordedAt>, latest: Version, floor: Version) -> Markup {
    let version = match found {
        Found::Version(view) => view.version,
        Found::None(_) => latest,
    };
    let at = at.map(|at| at.to_string().trim_end_matches('Z').to_owned());
    html! {
        form.row method="get" action="/as-of" {
            input type="hidden" name="id" value=(id);
            label { "Time (UTC) " input type="text" name="at" value=[at] placeholder="2020-11-01T20:04:00" autocomplete="off" required; }
            button { "Show" }
        }
        form.row method="get" action="/as-of" data-slider {
            input type="hidden" name="id" value=(id);
            label.wide { "Version (" (floor) " to " (latest) ") " input type="range" name="version" min=(floor) max=(latest) value=(version); }
            output { (version) }
            button { "Show version" }
        }
    }
}

fn shown(found: &Found, latest: Version) -> Markup {
    match found {
        Found::None(why) => html! { p.note role="status" { (value::plain(why)) } },
        Found::Version(view) => html! {
            h2 {
                "Version " (view.version)
                @if view.version == latest { " (latest)" }
                @if view.deleted { " " span.tag.dead { "deleted" } }
            }
            nav.pages aria-label="Version" {
                a href=(address::version("/version", view.entity.as_str(), view.version.get())) { "View all attributes" }
                @if view.version < latest { a href=(address::compare(&view.entity, view.version.get(), latest.get())) { "Compare with latest" } }
            }
            @if let Ok(time) = view.time() { p { "Created " (time::shown(time)) } }
            (value::attributes(&view.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
        },
    }
}
