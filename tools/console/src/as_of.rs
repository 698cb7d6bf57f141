//! State of an entity at a point in time, or at a version that a slider selects.
//!
//! `at` selects by the times at which the versions were recorded, `effective` by the times of the client.

use maud::{Markup, html};
use operations::as_of::{as_of, effective_at::effective_at};
use serde::Deserialize;
use serde_json::json;
use shared::{
    domain::{
        recorded_at::RecordedAt,
        time::{ClientTime, InvalidTime},
        version::Version,
        view::VersionView,
    },
    dynamodb::read::versions::ReadError,
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

/// Parameter that selects a version.
#[derive(Clone, Copy)]
enum Selected {
    At(RecordedAt),
    Effective(ClientTime),
    Version(Version),
    Latest,
}

enum Found {
    Version(Box<VersionView>),
    /// No version, and the reason.
    None(String),
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query.id.entity()?;
    let selected = selected(&query)?;
    let newest = version::latest(app, &entity).await?;
    let floor = app.store().floor(&entity, app.consistent()).await?;
    let latest = newest.version;
    let undetermined = |why: &dyn std::error::Error| {
        Found::None(format!(
            "Cannot determine the version: {}.",
            shared::logging::chain(why)
        ))
    };
    let none = |result, none: &str| match result {
        Ok(Some(view)) => Ok(Found::Version(Box::new(view))),
        Ok(None) => Ok(Found::None(none.to_owned())),
        Err(ReadError::Service(error)) => Err(PageError::from(error)),
        Err(error) => Ok(undetermined(&error)),
    };
    let (store, consistent) = (app.store(), app.consistent());
    let found = match selected {
        Selected::At(at) => none(
            as_of(store, &entity, at, consistent).await,
            "The entity did not exist at this time.",
        )?,
        Selected::Effective(time) => none(
            effective_at(store, &entity, time, MAX_READ, consistent, |_| {}).await,
            "No version has this time of the client or an earlier one.",
        )?,
        Selected::Version(number) if number < latest || (number > latest && store.attached_table().is_some()) => {
            match version::one(app, &entity, number).await {
                Ok(view) => Found::Version(Box::new(view)),
                Err(error @ PageError::NotFound(_)) => undetermined(&error),
                Err(error) => return Err(error),
            }
        }
        Selected::Version(_) | Selected::Latest => Found::Version(Box::new(newest)),
    };
    let mut json = match &found {
        Found::Version(view) => record::view_json(view),
        Found::None(why) => json!({"ID": entity.as_str(), "Version": null, "Why": why}),
    };
    json["At"] = json!(selected.at().map(|at| at.to_string()));
    json["Effective"] = json!(selected.effective().map(|time| time.to_string()));
    Ok(View {
        title: format!("{} at a point in time", entity.as_str()),
        section: Section::Entities,
        body: html! {
            (version::breadcrumbs(&entity))
            h1 { "State at a point in time" }
            (forms(&found, entity.as_str(), selected, latest, floor))
            (shown(&found, latest))
        },
        json,
    })
}

impl Selected {
    fn at(self) -> Option<RecordedAt> {
        match self {
            Self::At(at) => Some(at),
            _ => None,
        }
    }

    fn effective(self) -> Option<ClientTime> {
        match self {
            Self::Effective(time) => Some(time),
            _ => None,
        }
    }
}

fn selected(query: &Query) -> Result<Selected, PageError> {
    let number = query.version.version("version")?;
    match (query.at.as_deref(), query.effective.as_deref()) {
        (Some(_), Some(_)) => Err(PageError::Unexpected {
            field: "effective",
            expected: "either at or effective, not both",
        }),
        (Some(at), None) => Ok(Selected::At(parsed("at", at, RecordedAt::parse)?)),
        (None, Some(at)) => Ok(Selected::Effective(parsed("effective", at, ClientTime::parse)?)),
        (None, None) => Ok(number.map_or(Selected::Latest, Selected::Version)),
    }
}

fn parsed<T>(field: &'static str, text: &str, parse: fn(&str) -> Result<T, InvalidTime>) -> Result<T, PageError> {
    parse(text).map_err(|error| PageError::Invalid {
        field,
        source: error.into(),
    })
}

fn forms(found: &Found, id: &str, selected: Selected, latest: Version, floor: Version) -> Markup {
    let version = match found {
        Found::Version(view) => view.version,
        Found::None(_) => latest,
    };
    let at = selected.at().map(time::exact);
    let picked = at.as_deref().map(time::of_picker);
    let effective = selected
        .effective()
        .map(|time| time.to_string().trim_end_matches('Z').to_owned());
    html! {
        form.row method="get" action="/as-of" {
            input type="hidden" name="id" value=(id);
            label { "Date and time " span.zone { "(UTC)" } " " input type="datetime-local" name="at" step="any" value=[picked] required; }
            button { "Show state" }
        }
        form.row method="get" action="/as-of" {
            input type="hidden" name="id" value=(id);
            label { "Exact time (UTC) " input type="text" name="at" value=[at] placeholder="2020-11-01T20:04:00.123456" size="30" autocomplete="off" required; }
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
            dl.facts { (record::facts(view, "Created")) }
            (value::attributes(&view.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
        },
    }
}
