//! Two versions side by side: the differences first, equal attributes collapsed.

use item_diff::{Change, Changes, Depth, Step};
use maud::{Markup, html};
use serde_json::json;
use shared::domain::{AttributeValue, entity::EntityId, version::Version, view::VersionView};

use super::{
    address,
    app::App,
    page::{View, count, deleted, form, more},
    query::Query,
    record,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

/// Maximum number of displayed differences. JSON contains all.
const MAX_CHANGES: usize = 300;
const MAX_SAME: usize = 200;

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let to = match query.version("to")? {
        Some(to) => version::one(app, &entity, to).await?,
        None => version::latest(app, &entity).await?,
    };
    // By default, the version before.
    let previous = Version::new(to.version.get().saturating_sub(1)).unwrap_or(to.version);
    let from = query.version("from")?.unwrap_or(previous);
    let from = version::one(app, &entity, from).await?;
    if let Some(omitted) = [&from, &to].into_iter().find(|view| view.is_omitted()) {
        return Err(PageError::NotFound(format!(
            "the state of version {} is not known: it did not fit, and its record is in quarantine",
            omitted.version
        )));
    }
    let changes = Changes::between(&from.attributes, &to.attributes, Depth::Members);
    let side = |view: &VersionView| {
        let mut side = record::json(view);
        side.insert("Deleted".to_owned(), view.deleted.into());
        side
    };
    let json = json!({
        "ID": entity.as_str(),
        "From": side(&from),
        "To": side(&to),
        "Changed": changes.changed.iter().map(Change::to_json).collect::<Vec<_>>(),
        "Same": changes.same,
    });
    let title = format!("Versions {} and {} of {}", from.version, to.version, entity.as_str());
    Ok(View::new(title, body(&entity, &from, &to, &changes), json))
}

fn body(entity: &EntityId, from: &VersionView, to: &VersionView, changes: &Changes<'_>) -> Markup {
    let (id, a, b) = (entity.as_str(), from.version.get(), to.version.get());
    let fields = html! {
        label { "From version " input type="number" name="from" min="1" value=(a) required; }
        label { "To version " input type="number" name="to" min="1" value=(b) required; }
        button { "Compare" }
        a href=(address::compare(id, b, a)) { "Swap" }
    };
    html! {
        (version::breadcrumbs(entity))
        h1 { "Compare versions " (a) " and " (b) }
        (form("/compare", id, &fields))
        nav.pages aria-label="Version pairs" {
            @if a > 1 && b > 1 { a rel="prev" href=(address::compare(id, a - 1, b - 1)) { "Previous pair" } }
            a rel="next" href=(address::compare(id, a.saturating_add(1), b.saturating_add(1))) { "Next pair" }
        }
        div.scroll role="region" aria-label="Changes" tabindex="0" {
            (differences(changes, from, to))
            (record::comparison(from, to))
        }
        @if !changes.same.is_empty() {
            details {
                summary { (count(changes.same.len() as u64, "unchanged attribute")) }
                dl.facts {
                    @for name in changes.same.iter().take(MAX_SAME) {
                        dt { (value::name(name)) }
                        dd { @if let Some(same) = to.attributes.get(*name) { (value::value(same, DisplayLimits::CELL)) } }
                    }
                }
                (more(changes.same.len().saturating_sub(MAX_SAME), ""))
            }
        }
    }
}

pub(super) fn differences(changes: &Changes<'_>, from: &VersionView, to: &VersionView) -> Markup {
    let side = |view: &VersionView| {
        html! {
            a href=(address::version("/version", view.entity.as_str(), view.version.get())) { "Version " (view.version) }
            (deleted(view.deleted))
            br; small { (record::created(view)) }
        }
    };
    let is_same = changes.changed.is_empty() && from.deleted == to.deleted;
    html! {
        table.compare {
            caption { @if is_same { "No differences" } @else { (count(changes.changed.len() as u64, "difference")) } }
            thead { tr { th scope="col" { "Attribute" } th scope="col" { (side(from)) } th scope="col" { (side(to)) } } }
            tbody {
                @for change in changes.changed.iter().take(MAX_CHANGES) { (row(change)) }
            }
        }
        (more(changes.changed.len().saturating_sub(MAX_CHANGES), " differences"))
    }
}

fn row(change: &Change<'_>) -> Markup {
    let kind = match (change.from, change.to) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    html! {
        tr class=(kind) {
            th scope="row" { (path(&change.path)) " " span.tag { (kind) } }
            @match &change.set {
                Some(set) => {
                    td.from { (elements("removed", set.removed.as_ref(), set.same)) }
                    td.to { (elements("added", set.added.as_ref(), set.same)) }
                }
                None => { td.from { (one(change.from)) } td.to { (one(change.to)) } }
            }
        }
    }
}

fn one(value: Option<&AttributeValue>) -> Markup {
    html! { @match value { Some(value) => (value::value(value, DisplayLimits::ITEM)), None => span.muted { "Not present" } } }
}

/// Renders the elements that were removed from a set or added to it, and the number of those that are `same`.
fn elements(what: &str, elements: Option<&AttributeValue>, same: usize) -> Markup {
    html! {
        @match elements {
            Some(elements) => { (what) ": " (value::value(elements, DisplayLimits::ITEM)) },
            None => span.muted { "Nothing " (what) },
        }
        @if same > 0 { div.muted { (count(same as u64, "unchanged element")) } }
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
