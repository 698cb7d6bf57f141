//! State of an entity at a point in time, or at a version that a slider selects.
//!
//! `at` selects by the times at which the versions were recorded, `effective` by the times of the client.

use maud::{Markup, html};
use operations::as_of::{
    as_of,
    effective_at::{client_time, effective_at},
};
use serde_json::json;
use shared::{
    domain::{recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::read::versions::ReadError,
    logging::chain,
};

use super::{
    address,
    app::App,
    current,
    page::{self, View, deleted, form, picker},
    query::Query,
    record, time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

/// Maximum number of versions that a search by the times of the client reads.
const MAX_READ: u64 = 10_000;

/// The version, or the reason why there is none.
type Found = Result<Box<VersionView>, String>;

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let number = query.version("version")?;
    let at = query.parsed("at", RecordedAt::parse)?;
    let effective = query.parsed("effective", client_time)?;
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
    let effective = effective.map(|time| time.to_string());
    json["At"] = json!(at.map(|at| at.to_string()));
    json["Effective"] = json!(effective);
    let version = found.as_ref().map_or(latest, |view| view.version);
    let text = |label: &str, name: &str, value: Option<&str>, example: &str, button: &str| {
        let fields = html! {
            label { (label) " (UTC) " input type="text" name=(name) value=[value] placeholder=(example) size="30" autocomplete="off" required; }
            button { (button) }
        };
        form("/as-of", entity.as_str(), &fields)
    };
    let exact = at.map(time::exact);
    let effective = effective.as_deref().map(|time| time.trim_end_matches('Z'));
    let body = html! {
        (version::breadcrumbs(&entity))
        h1 { "State at a point in time" }
        (form("/as-of", entity.as_str(), &html! { (picker("Date and time", "at", at, true)) button { "Show state" } }))
        (text("Exact time", "at", exact.as_deref(), "2020-11-01T20:04:00.123456", "Show"))
        (text("Time of the client", "effective", effective, "2020-11-01T20:04:00", "Show by time of the client"))
        form.row method="get" action="/as-of" data-slider {
            (page::table_field())
            input type="hidden" name="id" value=(entity.as_str());
            label.wide { "Version (" (floor) " to " (latest) ") " input type="range" name="version" min=(floor) max=(latest) value=(version); }
            output { (version) }
            button { "Show version" }
        }
        (shown(&found, latest))
    };
    Ok(View::new(
        format!("{} at a point in time", current::title(&entity)),
        body,
        json,
    ))
}

fn shown(found: &Found, latest: Version) -> Markup {
    let view = match found {
        Err(why) => return html! { p.note role="status" { (value::plain(why)) } },
        Ok(view) => view,
    };
    let (id, version) = (view.entity.as_str(), view.version.get());
    html! {
        h2 { "Version " (version) @if view.version == latest { " (latest)" } (deleted(view.deleted)) }
        nav.pages aria-label="Version" {
            a href=(address::version("/version", id, version)) { "View all attributes" }
            @if view.version < latest { a href=(address::compare(id, version, latest.get())) { "Compare with latest" } }
        }
        dl.facts { (record::facts(view, "Created")) }
        (value::attributes(&view.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
    }
}
