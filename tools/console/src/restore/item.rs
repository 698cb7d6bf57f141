//! Restore of an item of an attached table: a change of the item in the table, which comes back through the stream as a new version.

use std::time::Duration;

use maud::{Markup, html};
use operations::{
    error::OperationError,
    item_change::{ItemChange, ItemOptions, Wanted, change_item, plan_item_change},
    waiting::Waiting,
};
use shared::domain::{Item, attached::AttachedTable, attributes::same_value, version::Version, view::VersionView};

use super::conflict::conflict;
use crate::{
    app::App,
    error::PageError,
    page::{FormResponse, done},
    value,
};

/// Maximum time for which a restore waits for its version.
const MAX_WAIT: Duration = Duration::from_secs(2);

async fn plan(
    app: &App,
    table: &AttachedTable,
    old: &VersionView,
    options: &ItemOptions,
) -> Result<ItemChange, OperationError> {
    let key = table.keys().map(|key| &key.name);
    let key = key.filter_map(|name| Some((name.clone(), old.attributes.get(name)?.clone())));
    let key = Item::from(key.collect::<std::collections::HashMap<_, _>>());
    plan_item_change(app.store(), key, Wanted::Version(old.version), options).await
}

/// Returns the item before and after a restore, and what the user has to know about it.
pub(super) async fn preview(
    app: &App,
    table: &AttachedTable,
    old: &VersionView,
) -> Result<(Item, Item, Markup), PageError> {
    let planned = plan(app, table, old, &ItemOptions::default()).await?;
    let (before, after) = (planned.item.unwrap_or_default(), planned.wanted.unwrap_or_default());
    let counted = table
        .version_attribute()
        .filter(|name| match (after.get(*name), old.attributes.get(*name)) {
            (Some(after), Some(old)) => !same_value(after, old),
            _ => false,
        });
    let note = html! {
        p {
            "This changes the item in " bdi { (table.table()) } ", which other programs write. The change comes back through the stream as a new "
            "version."
            @if let Some(name) = counted { " " (value::name(name)) " is counted up, so that writers with optimistic locking notice the change." }
        }
    };
    Ok((before, after, note))
}

/// Restores a version if `expected` is still the latest one, and waits for the new version. `again` is the address of the preview.
pub(super) async fn apply(
    app: &App,
    table: &AttachedTable,
    (old, options): (&VersionView, &ItemOptions),
    expected: Version,
    again: &str,
) -> Result<FormResponse, PageError> {
    let latest = arrived(app, old, None).await?;
    let planned = match plan(app, table, old, options).await {
        Ok(planned) if planned.is_unchanged() => return Ok(done(&old.entity, latest, "Unchanged")),
        _ if latest != expected => {
            let error = OperationError::Expected {
                expected: expected.get(),
                latest: latest.get(),
            };
            return conflict(app, &old.entity, expected, (&error.to_string(), again)).await;
        }
        Err(error) => Err(error),
        Ok(planned) => change_item(app.store(), &planned).await,
    };
    let arrived = arrived(app, old, Some(expected)).await?;
    match planned {
        Err(error @ (OperationError::Differs | OperationError::Changed)) => {
            conflict(app, &old.entity, expected, (&error.to_string(), again)).await
        }
        Err(error) => Err(error.into()),
        Ok(()) if arrived > expected => Ok(done(&old.entity, arrived, "Written")),
        Ok(()) => Ok(done(&old.entity, arrived, "Sent")),
    }
}

/// Reads the number of the latest version, and waits until it is later than another one.
async fn arrived(app: &App, old: &VersionView, after: Option<Version>) -> Result<Version, PageError> {
    let mut waiting = Waiting::at_most(MAX_WAIT);
    loop {
        let latest = app.store().latest(&old.entity, true).await?;
        let latest = latest.map_or(old.version, |latest| latest.version);
        if after.is_none_or(|after| latest > after) || !waiting.again().await {
            return Ok(latest);
        }
    }
}
