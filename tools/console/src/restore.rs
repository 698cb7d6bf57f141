//! An old version brought back as a new one, and a deletion undone: first shown, then done, once.

use std::collections::BTreeMap;

use maud::{Markup, html};
use operations::error::OperationError;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{
    domain::{
        AttributeValue,
        entity::EntityId,
        request_id::RequestId,
        update::{Change, ExpectedVersion, Ordering},
        version::Version,
        view::VersionView,
    },
    dynamodb::write::{WriteOutcome, restore::ChangeOptions},
};
use uuid::Uuid;

use super::{
    app::App,
    compare::{
        self,
        changes::{Change as Difference, Changes},
    },
    page::{self, Answer, Place, View},
    query::{self, given, link},
    time, value,
};
use crate::error::PageError;

/// What an address or a form asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    version: Option<String>,
    #[serde(default, deserialize_with = "given")]
    expected: Option<String>,
    #[serde(default, deserialize_with = "given")]
    request: Option<String>,
    #[serde(default, deserialize_with = "given")]
    actor: Option<String>,
    #[serde(default, deserialize_with = "given")]
    reason: Option<String>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Restore(Version),
    Undelete,
}

impl Deed {
    fn path(self) -> &'static str {
        match self {
            Self::Restore(_) => "/restore",
            Self::Undelete => "/undelete",
        }
    }

    /// The page that shows what it would do.
    fn address(self, entity: &EntityId) -> String {
        let version = match self {
            Self::Restore(version) => Some(version.to_string()),
            Self::Undelete => None,
        };
        link(
            self.path(),
            [("id", Some(entity.as_str().to_owned())), ("version", version)],
        )
    }
}

/// What a restore would change.
pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query::entity(query.id.as_deref())?;
    let number = number(&query)?;
    let latest = latest(app, &entity).await?;
    let old = app.store().version(&entity, number, app.consistent()).await?;
    let old = old.ok_or_else(|| PageError::NotFound(format!("there is no version {number} of {}", entity.as_str())))?;
    let changes = Changes::between(&latest.attributes, &old.attributes);
    let is_same = changes.changed.is_empty() && latest.deleted == old.deleted;
    let lead = html! {
        @if is_same {
            p.note { "Version " (number) " has what the latest version, " (latest.version) ", has." }
        } @else {
            p { "The latest version is " (latest.version) ". The new one would have what version " (number) " has: what is in the right column." }
        }
        div.scroll role="region" aria-label="What would change" tabindex="0" { (compare::differences(&changes, &latest, &old)) }
    };
    let mut json = json!({
        "ID": entity.as_str(), "Version": number, "Latest": latest.version,
        "Deleted": {"From": latest.deleted, "To": old.deleted},
        "Changed": changes.changed.iter().map(Difference::to_json).collect::<Vec<_>>(),
    });
    let title = format!("Restore version {number}");
    Ok(page(
        app,
        &title,
        &entity,
        Deed::Restore(number),
        &latest,
        &lead,
        &mut json,
    ))
}

/// What undoing a deletion would do.
pub(super) async fn undelete_view(app: &App, query: Query) -> Result<View, PageError> {
    let entity = query::entity(query.id.as_deref())?;
    let latest = latest(app, &entity).await?;
    if !latest.deleted {
        return Err(PageError::Conflict(format!("{} is not deleted", entity.as_str())));
    }
    let lead = html! {
        p { "The latest version, " (latest.version) ", is a tombstone. The new one would have its attributes, and be none." }
        dl.facts {
            @let mut names: Vec<_> = latest.attributes.iter().collect();
            @let () = names.sort_by_key(|(name, _)| *name);
            @for (name, each) in names { dt { (value::name(name)) } dd { (value::value(each, value::Much::SOME)) } }
        }
    };
    let mut json = json!({"ID": entity.as_str(), "Latest": latest.version, "Deleted": {"From": true, "To": false}});
    Ok(page(
        app,
        "Undelete",
        &entity,
        Deed::Undelete,
        &latest,
        &lead,
        &mut json,
    ))
}

fn page(
    app: &App,
    title: &str,
    entity: &EntityId,
    deed: Deed,
    latest: &VersionView,
    lead: &Markup,
    json: &mut Value,
) -> View {
    let id = entity.as_str();
    // A form that is sent twice makes one version.
    let request = Uuid::new_v4().to_string();
    json["AllowWrite"] = json!(app.writes.is_some());
    let version = match deed {
        Deed::Restore(version) => Some(version),
        Deed::Undelete => None,
    };
    if app.writes.is_some() {
        json["Form"] = json!({
            "Action": deed.path(), "csrf": app.secrets.csrf(), "id": id, "version": version.map(|version| version.to_string()),
            "expected": latest.version.to_string(), "request": request,
        });
    }
    let body = html! {
        p { a href=(link("/entity", [("id", Some(id.to_owned()))])) { (value::word(id)) } }
        h1 { (title) }
        (lead)
        @if app.writes.is_some() {
            form method="post" action=(deed.path()) {
                (page::csrf(app))
                input type="hidden" name="id" value=(id);
                @if let Some(version) = version { input type="hidden" name="version" value=(version); }
                input type="hidden" name="expected" value=(latest.version);
                input type="hidden" name="request" value=(request);
                label.field { "Actor" input type="text" name="actor" maxlength="1024" autocomplete="off"; }
                label.field { "Reason" input type="text" name="reason" maxlength="1024" autocomplete="off"; }
                p.muted { "Both may stay empty. What is given becomes an attribute of the new version." }
                button { @match deed { Deed::Restore(version) => { "Make a new version with what version " (version) " has" }, Deed::Undelete => "Make a new version that is not deleted" } }
            }
        } @else {
            p.note { "The console is read-only: start it with " code { "--allow-write" } " to do this from here, or use "
                code { "vzero " (deed.path().trim_start_matches('/')) } "." }
        }
    };
    View {
        title: title.to_owned(),
        place: Place::Entities,
        body,
        json: json.take(),
    }
}

/// Restores a version.
pub(super) async fn post(app: &App, query: Query) -> Result<Answer, PageError> {
    let options = app.writes()?;
    let (entity, number) = (query::entity(query.id.as_deref())?, number(&query)?);
    let (request, revision) = (request(&query)?, revision(app, &query)?);
    let restored = app.store().restore(&entity, number, request, revision, options).await?;
    Ok(answer(&entity, Deed::Restore(number), restored))
}

/// Undoes a deletion.
pub(super) async fn undelete_post(app: &App, query: Query) -> Result<Answer, PageError> {
    let options = app.writes()?;
    let entity = query::entity(query.id.as_deref())?;
    let (request, revision) = (request(&query)?, revision(app, &query)?);
    let done = app
        .store()
        .set_deleted(&entity, false, request, revision, options)
        .await?;
    let outcome = match done {
        Some(outcome) => outcome,
        None => WriteOutcome::Unchanged {
            version: latest(app, &entity).await?.version,
        },
    };
    Ok(answer(&entity, Deed::Undelete, outcome))
}

fn answer(entity: &EntityId, deed: Deed, outcome: WriteOutcome) -> Answer {
    let id = entity.as_str();
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Conflict { .. } | WriteOutcome::Stale { .. } => return refused(entity, deed, outcome),
    };
    let to = [
        ("id", Some(id.to_owned())),
        ("version", Some(version.to_string())),
        ("done", Some(name.to_owned())),
    ];
    Answer::SeeOther(
        link("/version", to),
        json!({"ID": id, "Version": version, "Outcome": name}),
    )
}

/// Somebody was faster.
fn refused(entity: &EntityId, deed: Deed, outcome: WriteOutcome) -> Answer {
    let why = OperationError::of_outcome(outcome)
        .map(|error| error.to_string())
        .unwrap_or_default();
    let body = html! {
        p { a href=(link("/entity", [("id", Some(entity.as_str().to_owned()))])) { (value::word(entity.as_str())) } }
        h1 { "Not done" }
        p.note role="alert" { "Somebody was faster: " (why) ". Nothing was changed." }
        p { a href=(deed.address(entity)) { "Look again at what would change" } }
    };
    Answer::Conflict(View {
        title: "Not done".to_owned(),
        place: Place::Entities,
        body,
        json: json!({"Error": why}),
    })
}

fn number(query: &Query) -> Result<Version, PageError> {
    let number = query::version("version", query.version.as_deref())?;
    number.ok_or_else(|| PageError::Invalid("the address names no version: version".to_owned()))
}

async fn latest(app: &App, entity: &EntityId) -> Result<VersionView, PageError> {
    let latest = app.store().latest(entity, true).await?;
    latest.ok_or_else(|| PageError::NotFound(format!("there is no {}", entity.as_str())))
}

fn request(query: &Query) -> Result<RequestId, PageError> {
    let id = query.request.clone();
    let id = id.ok_or_else(|| PageError::Invalid("the form names no request: request".to_owned()))?;
    RequestId::new(id).map_err(|error| PageError::invalid("request", error))
}

/// What goes along with it, and only if the latest version is the one that was shown.
fn revision(app: &App, query: &Query) -> Result<ChangeOptions, PageError> {
    let expected = query::version("expected", query.expected.as_deref())?;
    let expected =
        expected.ok_or_else(|| PageError::Invalid("the form names no latest version: expected".to_owned()))?;
    let changes = [("Actor", &query.actor), ("Reason", &query.reason)];
    let changes = changes.into_iter().filter_map(|(name, text)| {
        let text = text.clone()?;
        Some((name.to_owned(), Change::Set(AttributeValue::S(text))))
    });
    Ok(ChangeOptions {
        expected: Some(ExpectedVersion::Is(expected)),
        timestamp: (app.ordering == Ordering::Time).then(time::now),
        changes: changes.collect::<BTreeMap<_, _>>(),
    })
}
