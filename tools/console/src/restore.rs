//! Restore of an old version, and undelete.
//!
//! A page previews the change. Its form names the latest version that the preview is based on, and a request id: the change
//! is applied only if that version is still the latest, and only once.

use std::collections::BTreeMap;

use item_diff::{Change as Difference, Changes, Depth};
use maud::{Markup, html};
use operations::{
    error::OperationError,
    revision::{self, ChangeOptions},
};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{
        AttributeValue, Item, attribution, change::Change, entity::EntityId, names, plain, request_id::RequestId,
        version::Version, view::VersionView,
    },
};
use uuid::Uuid;
use writer_fn::{counter::WriteOutcome, update::ExpectedVersion};

use super::{
    app::App,
    compare,
    page::{self, FormResponse, Section, View, entity_link},
    query::{Param, link},
    time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    id: Param,
    version: Param,
    expected: Param,
    request: Param,
    actor: Param,
    reason: Param,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Restore(Version),
    Undelete,
}

impl Action {
    fn path(self) -> &'static str {
        match self {
            Self::Restore(_) => "/restore",
            Self::Undelete => "/undelete",
        }
    }

    fn version(self) -> Option<String> {
        match self {
            Self::Restore(version) => Some(version.to_string()),
            Self::Undelete => None,
        }
    }
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query.id.entity()?;
    let number = number(&query)?;
    let latest = version::with_time(app, latest(app, &entity).await?).await?;
    let old = app.store().version(&entity, number, app.consistent()).await?;
    let old = old.ok_or_else(|| PageError::NotFound(format!("there is no version {number} of {}", entity.as_str())))?;
    let (before, after) = (state(&latest), state(&old));
    let changes = Changes::between(&before, &after, Depth::Members);
    let is_same = changes.changed.is_empty() && latest.deleted == old.deleted;
    let lead = html! {
        @if is_same {
            p.note { "The attributes of version " (number) " are equal to those of the latest version, " (latest.version) "." }
        } @else {
            p { "The latest version is " (latest.version) ". A restore creates a new version with the attributes of version " (number) ", in the right column. The new version names version " (number) " in RestoredFrom." }
        }
        div.scroll role="region" aria-label="Changes" tabindex="0" { (compare::differences(&changes, &latest, &old)) }
        (not_copied(&old))
    };
    let mut json = json!({
        "ID": entity.as_str(), "Version": number, "Latest": latest.version,
        "Deleted": {"From": latest.deleted, "To": old.deleted},
        "Changed": changes.changed.iter().map(Difference::to_json).collect::<Vec<_>>(),
        "NotCopied": plain::attributes(&of_version(&old)),
    });
    let title = format!("Restore version {number}");
    Ok(page(
        app,
        &title,
        &entity,
        Action::Restore(number),
        &latest,
        &lead,
        &mut json,
    ))
}

pub(super) async fn undelete_view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query.id.entity()?;
    let latest = latest(app, &entity).await?;
    if !latest.deleted {
        return Err(PageError::Conflict(format!("{} is not deleted", entity.as_str())));
    }
    let old = revision::before_deletion(app.store(), &entity, latest.version).await;
    let old = old.map_err(OperationError::from)?;
    let lead = html! {
        p { "The latest version, " (latest.version) ", is a tombstone. Undelete creates a new version with the attributes of version " (old.version) ", the newest one before it that is not deleted." }
        (value::attributes(&state(&old), DisplayLimits::ITEM, usize::MAX))
        (not_copied(&old))
    };
    let mut json = json!({
        "ID": entity.as_str(), "Version": old.version, "Latest": latest.version, "Deleted": {"From": true, "To": false},
        "NotCopied": plain::attributes(&of_version(&old)),
    });
    Ok(page(
        app,
        "Undelete",
        &entity,
        Action::Undelete,
        &latest,
        &lead,
        &mut json,
    ))
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
    let attribute = |name: &str| match name {
        names::ACTOR => view.actor.clone(),
        names::REASON => view.reason.clone(),
        name => view.attributes.get(name).cloned(),
    };
    let mut item = Item::default();
    for name in attribution::OF_CLIENT {
        if let Some(value) = attribute(name) {
            item.insert(name.to_owned(), value);
        }
    }
    item
}

/// Renders the attributes of a version that the new version does not get.
fn not_copied(view: &VersionView) -> Markup {
    let item = of_version(view);
    html! {
        @if !item.is_empty() {
            h2 { "Not copied" }
            p { "These attributes describe version " (view.version) " only. They are not copied to the new version." }
            (value::attributes(&item, DisplayLimits::ITEM, usize::MAX))
        }
    }
}

fn page(
    app: &App,
    title: &str,
    entity: &EntityId,
    action: Action,
    latest: &VersionView,
    lead: &Markup,
    json: &mut Value,
) -> View {
    let id = entity.as_str();
    // A form that is sent twice creates one version.
    let request = Uuid::new_v4().to_string();
    json["AllowWrite"] = json!(app.writes.is_some());
    let version = action.version();
    if app.writes.is_some() {
        json["Form"] = json!({
            "Action": action.path(), "csrf": app.secrets.csrf(), "id": id, "version": version,
            "expected": latest.version.to_string(), "request": request,
        });
    }
    let body = html! {
        p { (entity_link(id)) }
        h1 { (title) }
        (lead)
        @if app.writes.is_some() {
            form method="post" action=(action.path()) {
                (page::csrf(app))
                input type="hidden" name="id" value=(id);
                @if let Some(version) = &version { input type="hidden" name="version" value=(version); }
                input type="hidden" name="expected" value=(latest.version);
                input type="hidden" name="request" value=(request);
                label.field { "Actor" input type="text" name="actor" maxlength="1024" autocomplete="off"; }
                label.field { "Reason" input type="text" name="reason" maxlength="1024" autocomplete="off"; }
                p.muted { "Optional. They describe the new version only. If a field is empty, the new version does not have the attribute." }
                button { (title) }
            }
        } @else {
            (page::read_only(action.path().trim_start_matches('/')))
        }
    };
    View {
        title: title.to_owned(),
        section: Section::Entities,
        body,
        json: json.take(),
    }
}

pub(super) async fn post(app: &App, query: Query) -> Result<FormResponse, PageError> {
    let options = app.writes()?;
    let (entity, number) = (query.id.entity()?, number(&query)?);
    let (request, change_options) = (request(&query)?, change_options(app, &query)?);
    let restored = revision::restore(app.store(), &entity, number, request, change_options, options).await?;
    Ok(response(&entity, Action::Restore(number), restored))
}

pub(super) async fn undelete_post(app: &App, query: Query) -> Result<FormResponse, PageError> {
    let options = app.writes()?;
    let entity = query.id.entity()?;
    let (request, change_options) = (request(&query)?, change_options(app, &query)?);
    let outcome = revision::undelete(app.store(), &entity, request, change_options, options).await?;
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => WriteOutcome::Unchanged {
            version: latest(app, &entity).await?.version,
        },
    };
    Ok(response(&entity, Action::Undelete, outcome))
}

fn response(entity: &EntityId, action: Action, outcome: WriteOutcome) -> FormResponse {
    let id = entity.as_str();
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. } => return conflict(entity, action, outcome),
    };
    let to = [
        ("id", Some(id.to_owned())),
        ("version", Some(version.to_string())),
        ("done", Some(name.to_owned())),
    ];
    FormResponse::SeeOther(
        link("/version", to),
        json!({"ID": id, "Version": version, "Outcome": name}),
    )
}

/// Returns the response if another update was applied first.
fn conflict(entity: &EntityId, action: Action, outcome: WriteOutcome) -> FormResponse {
    let why = OperationError::of_outcome(outcome)
        .map(|error| error.to_string())
        .unwrap_or_default();
    let body = html! {
        p { (entity_link(entity.as_str())) }
        h1 { "Conflict" }
        p.note role="alert" { "Another update was applied first: " (why) ". Nothing was changed." }
        p { a href=(link(action.path(), [("id", Some(entity.as_str().to_owned())), ("version", action.version())])) { "Preview the change again" } }
    };
    FormResponse::Conflict(View {
        title: "Conflict".to_owned(),
        section: Section::Entities,
        body,
        json: json!({"Error": why}),
    })
}

fn number(query: &Query) -> Result<Version, PageError> {
    query.version.version("version")?.ok_or(PageError::Missing("version"))
}

async fn latest(app: &App, entity: &EntityId) -> Result<VersionView, PageError> {
    let latest = app.store().latest(entity, true).await?;
    latest.ok_or_else(|| PageError::NotFound(format!("there is no {}", entity.as_str())))
}

fn request(query: &Query) -> Result<RequestId, PageError> {
    RequestId::new(query.request.required("request")?).map_err(|error| PageError::Invalid {
        field: "request",
        source: error.into(),
    })
}

/// Returns the actor, the reason and the expected latest version of the form.
fn change_options(app: &App, query: &Query) -> Result<ChangeOptions, PageError> {
    let expected = query
        .expected
        .version("expected")?
        .ok_or(PageError::Missing("expected"))?;
    let changes = [(names::ACTOR, &query.actor), (names::REASON, &query.reason)];
    let changes = changes.into_iter().filter_map(|(name, text)| {
        let text = text.0.clone()?;
        Some((name.to_owned(), Change::Set(AttributeValue::S(text))))
    });
    Ok(ChangeOptions {
        expected: Some(ExpectedVersion::Is(expected)),
        timestamp: (app.ordering == Ordering::Time).then(time::now),
        sent_at: None,
        changes: changes.collect::<BTreeMap<_, _>>(),
    })
}
