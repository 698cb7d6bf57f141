//! Page of a change that was not applied, because another one came first.

use item_diff::change::{Change, Changes};
use maud::{Markup, html};
use serde_json::{Value, json};
use shared::domain::{Item, entity::EntityId, version::Version, view::VersionView};

use crate::{
    app::App,
    diff::Diff,
    error::PageError,
    page::{FormResponse, View, entity_link},
    version,
};

/// Renders the differences between the states of two versions, and returns them as JSON.
pub(super) fn differences(
    (from, before): (&VersionView, &Item),
    (to, after): (&VersionView, &Item),
) -> (Markup, Value) {
    let changes = Changes::between(Some(before), Some(after));
    let diff = Diff::new(&changes.changes, 0).view(&changes.coarse, [from, to], [before, after]);
    (diff, changes.changes.iter().map(Change::to_json).collect())
}

/// Shows what was changed since the version that a preview is based on. `again` is the address of the preview.
pub(super) async fn conflict(
    app: &App,
    entity: &EntityId,
    expected: Version,
    (why, again): (&str, &str),
) -> Result<FormResponse, PageError> {
    let latest = version::latest(app, entity).await?;
    let before = app.store().version(entity, expected, true).await?;
    let before = before.filter(|_| latest.version > expected);
    let between = before.map(|before| differences((&before, &before.attributes), (&latest, &latest.attributes)));
    let (between, changed) = between.unzip();
    let body = html! {
        p { (entity_link(entity.as_str())) }
        h1 { "Conflict" }
        p.note role="alert" { "Another update was applied first: " (why) ". Nothing was changed." }
        @if let Some(between) = between { h2 { "Changed in between" } (between) }
        p { a href=(again) { "Preview the change again" } }
    };
    let json = json!({"Error": why, "Changes": changed});
    Ok(FormResponse::Conflict(View::new("Conflict", body, json)))
}
