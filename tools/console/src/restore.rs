//! Restore of an old version, and undelete.
//!
//! A page previews the change. Its form names the latest version that the preview is based on, and a request id: the change
//! is applied only if that version is still the latest, and only once. A conflict shows what was changed in between.

mod conflict;
mod item;

use item_diff::versions::erased_lines;
use maud::{Markup, html};
use operations::{
    error::OperationError,
    item_change::ItemOptions,
    revision::{self, ChangeOptions},
};
use serde_json::json;
use shared::{
    config::Ordering,
    domain::{
        AttributeValue, Item, attached::AttachedTable, attribution, change::Change, entity::EntityId, names, plain,
        request_id::RequestId, version::Version, view::VersionView,
    },
};
use uuid::Uuid;
use writer_fn::{counter::WriteOutcome, update::ExpectedVersion};

use super::{
    address,
    app::App,
    page::{self, FormResponse, View, entity_link},
    query::Query,
    record,
    secrets::CSRF,
    time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

const RESTORE: &str = "/restore";
const UNDELETE: &str = "/undelete";

/// Returns the request id, and the actor, the reason and the expected latest version of a form.
fn change(app: &App, query: &Query, expected: Version) -> Result<(RequestId, ChangeOptions), PageError> {
    let request = query.parsed("request", |text| RequestId::new(text.to_owned()))?;
    let changes = [(names::ACTOR, "actor"), (names::REASON, "reason")].into_iter();
    let changes = changes.filter_map(|(name, field)| {
        let text = AttributeValue::S(query.text(field)?.to_owned());
        Some((name.to_owned(), Change::Set(text)))
    });
    let options = ChangeOptions {
        expected: Some(ExpectedVersion::Is(expected)),
        timestamp: (app.options.ordering == Ordering::Time).then(time::now),
        sent_at: None,
        changes: changes.collect(),
    };
    Ok((request.ok_or(PageError::Missing("request"))?, options))
}

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let number = query.required_version("version")?;
    let latest = version::with_time(app, latest(app, &entity).await?).await?;
    let old = app.store().version(&entity, number, app.consistent()).await?;
    let old = old.ok_or_else(|| PageError::no_version(&entity, number))?;
    planned(app, RESTORE, &latest, &old).await
}

pub(super) async fn undelete_view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let latest = latest(app, &entity).await?;
    if !latest.deleted {
        return Err(PageError::Conflict(format!("{} is not deleted", entity.as_str())));
    }
    let old = revision::before_deletion(app.store(), &entity, latest.version).await?;
    planned(app, UNDELETE, &latest, &old).await
}

/// Shows the change from the latest version to the state of an old one.
async fn planned(app: &App, action: &'static str, latest: &VersionView, old: &VersionView) -> Result<View, PageError> {
    let (number, last) = (old.version, latest.version);
    let (before, after, note) = if let Some(table) = app.store().attached_table() {
        Box::pin(item::preview(app, table, old)).await?
    } else {
        let note = html! {
            p { "This creates a new version with the attributes of version " (number) ". The new version names version " (number) " in RestoredFrom." }
        };
        (state(latest), kept(old, latest), note)
    };
    let (changes, changed) = conflict::differences((latest, &before), (old, &after));
    let is_same = changed == json!([]) && latest.deleted == old.deleted;
    let lead = html! {
        @if is_same {
            p.note { "The attributes of version " (number) " are equal to those of the latest version, " (last) "." }
        } @else {
            p {
                "The latest version is " (last) @if latest.deleted { ", a tombstone" }
                ". The right column has the attributes of version " (number)
                @if action == UNDELETE { ", the newest one before it that is not deleted" } "."
            }
            (note)
            @if !old.erased.is_empty() { p { "Not restored:" } (record::erased(&erased_lines(&old.erased))) }
        }
        (changes)
    };
    let mut page = preview(app, action, latest, old, &lead);
    page.json["Changes"] = changed;
    Ok(page)
}

/// Returns the attributes after a restore or an undelete: what was erased stays as it is.
fn kept(old: &VersionView, latest: &VersionView) -> Item {
    let attributes = revision::restorable(old, Some(latest));
    state(&VersionView {
        attributes,
        ..old.clone()
    })
}

/// Returns the attributes that a restore or an undelete copies.
fn state(view: &VersionView) -> Item {
    let mut state = view.attributes.clone();
    for name in attribution::OF_CLIENT {
        state.remove(name);
    }
    state
}

/// Returns the attributes of the client that describe this version only.
fn of_version(view: &VersionView) -> Item {
    let mut item = Item::default();
    for name in attribution::OF_CLIENT {
        let value = match name {
            names::ACTOR => view.actor.clone(),
            names::REASON => view.reason.clone(),
            names::CHANGE_SET => view.change_set.clone(),
            name => view.attributes.get(name).cloned(),
        };
        if let Some(value) = value {
            item.insert(name.to_owned(), value);
        }
    }
    item
}

/// Returns the page of a change, with its form if the console allows it.
fn preview(app: &App, action: &'static str, latest: &VersionView, old: &VersionView, lead: &Markup) -> View {
    let id = latest.entity.as_str();
    let table = app.store().attached_table();
    let not_copied = table.map_or_else(|| of_version(old), |_| Item::default());
    let fields = table.map(AttachedTable::settings).map_or([true; 2], |settings| {
        let attributes = [&settings.actor_attribute, &settings.reason_attribute];
        // A deleted item has no attributes.
        attributes.map(|attribute| attribute.is_some() && !old.deleted)
    });
    let fields: Vec<_> = ["Actor", "Reason"]
        .iter()
        .zip(fields)
        .filter(|(_, is_shown)| *is_shown)
        .collect();
    let title = match action {
        RESTORE => format!("Restore version {}", old.version),
        _ => "Undelete".to_owned(),
    };
    // A form that is sent twice creates one version.
    let request = Uuid::new_v4().to_string();
    let (csrf, version, expected) = (
        app.secrets.csrf.as_str(),
        old.version.to_string(),
        latest.version.to_string(),
    );
    let hidden = [
        (CSRF, csrf),
        ("id", id),
        ("version", &version),
        ("expected", &expected),
        ("request", &request),
    ];
    let mut json = json!({
        "ID": id, "Version": old.version, "Latest": latest.version, "Deleted": {"From": latest.deleted, "To": old.deleted},
        "NotCopied": plain::attributes(&not_copied), "AllowWrite": app.allows_writes(),
    });
    if app.allows_writes() {
        json["Form"] = hidden
            .into_iter()
            .chain([("Action", &*address::page(action))])
            .collect();
    }
    let body = html! {
        p { (entity_link(id)) }
        h1 { (title) }
        (lead)
        @if !not_copied.is_empty() {
            h2 { "Not copied" }
            p { "These attributes describe version " (old.version) " only. They are not copied to the new version." }
            (value::attributes(&not_copied, DisplayLimits::ITEM, usize::MAX))
        }
        @if app.allows_writes() {
            form method="post" action=(address::page(action)) {
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                @for (field, _) in &fields { label.field { (field) input type="text" name=(field.to_lowercase()) maxlength="1024" autocomplete="off"; } }
                @if table.is_some() && !fields.is_empty() {
                    p.muted { "Optional. The item gets them. If a field is empty, its attribute does not change." }
                } @else if !fields.is_empty() {
                    p.muted { "Optional. They describe the new version only. If a field is empty, the new version does not have the attribute." }
                }
                button { (title) }
            }
        } @else {
            p.note {
                "The console is read-only. To apply this change, start the console with " code { "--write" } " or run "
                code { "vzero " (action.trim_start_matches('/')) } "."
            }
        }
    };
    View::new(title, body, json)
}

pub(super) async fn post(app: &App, query: &Query) -> Result<FormResponse, PageError> {
    apply(app, query, Some(query.required_version("version")?)).await
}

pub(super) async fn undelete_post(app: &App, query: &Query) -> Result<FormResponse, PageError> {
    apply(app, query, None).await
}

/// Restores a version, or undeletes the entity.
async fn apply(app: &App, query: &Query, restored: Option<Version>) -> Result<FormResponse, PageError> {
    let options = app.writes()?;
    let (store, entity, expected) = (app.store(), query.entity()?, query.required_version("expected")?);
    let again = match restored {
        Some(version) => address::version(RESTORE, entity.as_str(), version.get()),
        None => address::of_entity(UNDELETE, entity.as_str()),
    };
    if let Some(table) = store.attached_table() {
        let old = match restored {
            Some(number) => store.version(&entity, number, true).await?,
            None => Some(revision::before_deletion(store, &entity, expected).await?),
        };
        let old = old.ok_or(OperationError::NoVersion)?;
        let text = |field| query.text(field).map(str::to_owned);
        let options = ItemOptions {
            actor: text("actor"),
            reason: text("reason"),
            ..ItemOptions::default()
        };
        return Box::pin(item::apply(app, table, (&old, &options), expected, &again)).await;
    }
    let (request, change) = change(app, query, expected)?;
    let outcome = match restored {
        Some(number) => Some(revision::restore(store, &entity, number, request, change, options).await?),
        None => revision::undelete(store, &entity, request, change, options).await?,
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => WriteOutcome::Unchanged {
            version: latest(app, &entity).await?.version,
        },
    };
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. } => {
            let why = OperationError::of_outcome(outcome).map_or_else(String::new, |error| error.to_string());
            return conflict::conflict(app, &entity, expected, (&why, &again)).await;
        }
    };
    Ok(page::done(&entity, version, name))
}

async fn latest(app: &App, entity: &EntityId) -> Result<VersionView, PageError> {
    let latest = app.store().latest(entity, true).await?;
    latest.ok_or_else(|| PageError::no_entity(entity))
}
