//! Two versions side by side: what changed first, what did not folded away.

pub(super) mod changes;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use shared::domain::{entity::EntityId, version::Version, view::VersionView};

use self::changes::{Change, Changes, Step};
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

/// The most differences that are shown. JSON has all.
const MOST: usize = 300;
/// The most attributes that are shown of what is the same.
const MOST_SAME: usize = 200;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    from: Option<String>,
    #[serde(default, deserialize_with = "given")]
    to: Option<String>,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query::entity(query.id.as_deref())?;
    let to = match query::version("to", query.to.as_deref())? {
        Some(to) => version::one(app, &entity, to).await?,
        None => version::latest(app, &entity).await?,
    };
    // Without another, it is compared with the one before.
    let before = Version::new(to.version.get().saturating_sub(1)).unwrap_or(to.version);
    let from = query::version("from", query.from.as_deref())?.unwrap_or(before);
    let from = version::one(app, &entity, from).await?;
    let changes = Changes::between(&from.attributes, &to.attributes);
    let side = |view: &VersionView| json!({"Version": view.version, "Deleted": view.deleted, "Time": view.time().ok().map(time::iso)});
    let json = json!({
        "ID": entity.as_str(),
        "From": side(&from),
        "To": side(&to),
        "Changed": changes.changed.iter().map(Change::to_json).collect::<Vec<_>>(),
        "Same": changes.same,
    });
    Ok(View {
        title: format!("{} and {} of {}", from.version, to.version, entity.as_str()),
        place: Place::Entities,
        body: body(&entity, &from, &to, &changes),
        json,
    })
}

fn body(entity: &EntityId, from: &VersionView, to: &VersionView, changes: &Changes<'_>) -> Markup {
    let (a, b) = (from.version.get(), to.version.get());
    html! {
        (version::crumbs(entity))
        h1 { "Version " (a) " and version " (b) }
        form.row method="get" action="/compare" {
            input type="hidden" name="id" value=(entity.as_str());
            label { "From version " input type="number" name="from" min="1" value=(a) required; }
            label { "to version " input type="number" name="to" min="1" value=(b) required; }
            button { "Compare" }
            a href=(address::compare(entity, b, a)) { "Swap" }
        }
        nav.pages aria-label="Neighbours" {
            @if a > 1 && b > 1 { a rel="prev" href=(address::compare(entity, a - 1, b - 1)) { "Both one older" } }
            a rel="next" href=(address::compare(entity, a + 1, b + 1)) { "Both one newer" }
        }
        div.scroll role="region" aria-label="What changed" tabindex="0" {
            (differences(changes, from, to))
        }
        @if !changes.same.is_empty() {
            details {
                summary { @match changes.same.len() { 1 => "1 attribute is the same", same => { (same) " attributes are the same" } } }
                dl.facts {
                    @for name in changes.same.iter().take(MOST_SAME) {
                        dt { (value::name(name)) }
                        dd { @if let Some(same) = to.attributes.get(*name) { (value::value(same, Much::LITTLE)) } }
                    }
                }
                @if changes.same.len() > MOST_SAME { p.muted { "and " (changes.same.len() - MOST_SAME) " more" } }
            }
        }
    }
}

/// What differs, a row each.
pub(super) fn differences(changes: &Changes<'_>, from: &VersionView, to: &VersionView) -> Markup {
    let side = |view: &VersionView| {
        html! {
            a href=(address::version(view.entity.as_str(), view.version.get())) { "Version " (view.version) }
            @if view.deleted { " " span.tag.dead { "deleted" } }
            @if let Ok(time) = view.time() { br; small { (time::shown(time)) } }
        }
    };
    let is_same = changes.changed.is_empty() && from.deleted == to.deleted;
    html! {
        table.compare {
            caption { @match (is_same, changes.changed.len()) {
                (true, _) => "Nothing differs",
                (false, 1) => "1 difference",
                (false, count) => { (count) " differences" }
            } }
            thead { tr { th scope="col" { "Attribute" } th scope="col" { (side(from)) } th scope="col" { (side(to)) } } }
            tbody {
                @for change in changes.changed.iter().take(MOST) { (row(change)) }
            }
        }
        @if changes.changed.len() > MOST { p.muted { "and " (changes.changed.len() - MOST) " more differences" } }
    }
}

fn row(change: &Change<'_>) -> Markup {
    let what = match (change.from, change.to) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    html! {
        tr class=(what) {
            th scope="row" { (path(&change.path)) " " span.tag { (what) } }
            td.from { @match change.from { Some(from) => (value::value(from, Much::SOME)), None => span.muted { "not there" } } }
            td.to { @match change.to { Some(to) => (value::value(to, Much::SOME)), None => span.muted { "not there" } } }
        }
    }
}

fn path(path: &[Step<'_>]) -> Markup {
    html! {
        @for (at, step) in path.iter().enumerate() {
            @if at > 0 { wbr; span.muted { "›" } }
            @match step { Step::Name(name) => (value::name(name)), Step::Index(index) => span.number { "[" (index) "]" } }
        }
    }
}
