//! Two versions and what differs between them.

use std::str::FromStr as _;

use item_diff::{
    change::Changes,
    path::{Path, value_at},
    versions::{Comparison, diff_json, with_tombstone},
};
use maud::html;
use shared::domain::{erased::hide, version::Version};

use super::{
    address,
    app::App,
    diff::{self, Diff},
    page::{View, form},
    query::Query,
    record,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let path = query.parsed("path", Path::from_str)?;
    let after = query.parsed("after", usize::from_str)?;
    let to = match query.version("to")? {
        Some(to) => version::one(app, &entity, to).await?,
        None => version::latest(app, &entity).await?,
    };
    // By default, the version before.
    let previous = Version::new(to.version.get().saturating_sub(1)).unwrap_or(to.version);
    let from = query.version("from")?.unwrap_or(previous);
    let from = version::one(app, &entity, from).await?;
    version::is_known(&from)?;
    version::is_known(&to)?;
    let (mut old, new) = (with_tombstone(&from), with_tombstone(&to));
    hide(&mut old, to.erased.paths());
    let comparison = Comparison::new(Some(&from), &to);
    let Changes { changes, coarse } = Changes::between(Some(&old), Some(&new));
    // The page of the path.
    let place = path
        .as_ref()
        .map(|path| changes.iter().position(|change| change.path.overlaps(path)));
    let equal = path
        .as_ref()
        .filter(|_| place == Some(None))
        .map(|path| (path, value_at(&new, path)));
    let page = place.flatten().unwrap_or_default() / diff::PAGE * diff::PAGE;
    let (id, a, b) = (entity.as_str(), from.version.get(), to.version.get());
    let address = address::compare(id, a, b);
    let mut diff = Diff::new(&changes, after.unwrap_or(page));
    diff.path.set(path.as_ref());
    diff.address = Some(&address);
    let fields = html! {
        label { "From version " input type="number" name="from" min="1" value=(a) required; }
        label { "To version " input type="number" name="to" min="1" value=(b) required; }
        button { "Compare" }
        a href=(address::compare(id, b, a)) { "Swap" }
    };
    let body = html! {
        (version::breadcrumbs(&entity))
        h1 { "Compare versions " (a) " and " (b) }
        (form("/compare", id, &fields))
        nav.pages aria-label="Version pairs" {
            @if a > 1 && b > 1 { a rel="prev" href=(address::compare(id, a - 1, b - 1)) { "Previous pair" } }
            a rel="next" href=(address::compare(id, a.saturating_add(1), b.saturating_add(1))) { "Next pair" }
            a href=(address::version("/blame", id, b)) { "Blame of version " (b) }
        }
        @if let Some((path, value)) = equal {
            p.note #path {
                (value::path(path)) @match value {
                    Some(value) => { " is equal in both versions: " (value::value(value, DisplayLimits::CELL)) },
                    None => " is in neither version.",
                }
            }
        }
        @if !comparison.erased().is_empty() { div.note { (record::erased(comparison.erased())) } }
        (diff.view(&coarse, [&from, &to], [&old, &new]))
    };
    // As `vzero diff --output json`.
    let json = diff_json(&from, &to);
    Ok(View::new(format!("Versions {a} and {b} of {id}"), body, json))
}
