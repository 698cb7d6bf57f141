//! State of an entity at a point in time, or at a version that a slider selects.
//!
//! `at` selects by the times at which the versions were recorded, `effective` by the times of the client.

use maud::{Markup, html};
use operations::as_of::{as_of, effective_at::effective_at};
use serde::Deserialize;
use serde_json::json;
use shared::{
    domain::{recorded_at::RecordedAt, time::ClientTime, version::Version, view::VersionView},
    dynamodb::read::versions::ReadError,
    logging::chain,
};

use super::{
    address,
    app::App,
    page::{Section, View},
    query::Param,
    record, time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

/// Maximum number of versions that a search by the times of the client reads.
const MAX_READ: u64 = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    id: Param,
    at: Param,
    effective: Param,
    version: Param,
}

/// The version, or the reason why there is none.
type Found = Result<Box<VersionView>, String>;

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query.id.entity()?;
    let number = query.version.version("version")?;
    let at = query.at.parsed("at", RecordedAt::parse)?;
    let effective = query.effective.parsed("effective", ClientTime::parse)?;
    let newest = version::latest(app, &entity).await?;
    let (store, consistent) = (app.store(), app.consistent());
    let floor = store.floor(&entity, consistent).await?;
    let latest = newest.version;
    let undetermined = |why: &dyn std::error::Error| Err(format!("Cannot determine the version: {}.", chain(why)));
    let found = |result, none: &str| match result {
        Ok(Some(view)) => Ok(Ok(Box::new(view))),
        Ok(None) => Ok(Err(none.to_owned())),
        Err(ReadError::Service(error)) => Err(PageError::from(error)),
        Err(error) => Ok(undetermined(&error)),
    };
    let found: Found = match (at, effective, number) {
        (Some(_), Some(_), _) => {
            return Err(PageError::Unexpected("effective", "either at or effective, not both"));
        }
        (Some(at), None, _) => found(
            as_of(store, &entity, at, consistent).await,
            "The entity did not exist at this time.",
        )?,
        (None, Some(time), _) => found(
            effective_at(store, &entity, time, MAX_READ, consistent, |_| {}).await,
            "No version has this time of the client or an earlier one.",
        )?,
        (None, None, Some(number)) if number < latest || (number > latest && store.attached_table().is_some()) => {
            match version::one(app, &entity, number).await {
                Ok(view) => Ok(Box::new(view)),
                Err(error @ PageError::NotFound(_)) => undetermined(&error),
                Err(error) => return Err(error),
            }
        }
        _ => Ok(Box::new(newest)),
    };
    let mut json = match &found {
        Ok(view) => record::view_json(view),
        Err(why) => json!({"ID": entity.as_str(), "Version": null, "Why": why}),
    };
    let (effective, exact) = (effective.map(|time| time.to_string()), at.map(time::exact));
    json["At"] = json!(at.map(|at| at.to_string()));
    json["Effective"] = json!(effective);
    let version = found.as_ref().map_or(latest, |view| view.version);
    let effective = effective.as_deref().map(|time| time.trim_end_matches('Z'));
    let id = entity.as_str();
    Ok(View {
        title: format!("{id} at a point in time"),
        section: Section::Entities,
        body: html! {
            (version::breadcrumbs(&entity))
            h1 { "State at a point in time" }
            form.row method="get" action="/as-of" {
                input type="hidden" name="id" value=(id);
                label { "Date and time " span.zone { "(UTC)" } " " input type="datetime-local" name="at" step="any" value=[exact.as_deref().map(time::of_picker)] required; }
                button { "Show state" }
            }
            form.row method="get" action="/as-of" {
                input type="hidden" name="id" value=(id);
                label { "Exact time (UTC) " input type="text" name="at" value=[exact] placeholder="2020-11-01T20:04:00.123456" size="30" autocomplete="off" required; }
                button { "Show" }
            }
            form.row method="get" action="/as-of" {
                input type="hidden" name="id" value=(id);
                label { "Time of the client (UTC) " input type="text" name="effective" value=[effective] placeholder="2020-11-01T20:04:00" size="30" autocomplete="off" required; }
                button { "Show by time of the client" }
            }
            form.row method="get" action="/as-of" data-slider {
                input type="hidden" name="id" value=(id);
                label.wide { "Version (" (floor) " to " (latest) ") " input type="range" name="version" min=(floor) max=(latest) value=(version); }
                output { (version) }
                button { "Show version" }
            }
            (shown(&found, latest))
        },
        json,
    })
}

fn shown(found: &Found, latest: Version) -> Markup {
    match found {
        Err(why) => html! { p.note role="status" { (value::plain(why)) } },
        Ok(view) => html! {
            h2 {
                "Version " (view.version)
                @if view.version == latest { " (latest)" }
                @if view.deleted { " " span.tag.dead { "deleted" } }
            }
            nav.pages aria-label="Version" {
                a href=(address::version("/version", view.entity.as_str(), view.version.get())) { "View all attributes" }
                @if view.version < latest { a href=(address::compare(&view.entity, view.version.get(), latest.get())) { "Compare with latest" } }
            }
            dl.facts { (record::facts(view, "Created")) }
            (value::attributes(&view.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
        },
    }
}
