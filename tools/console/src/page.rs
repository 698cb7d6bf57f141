//! Frame of all pages, and the choice between HTML and JSON.

use std::{convert::Infallible, future::Future};

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{DOCTYPE, Markup, html};
use operations::tables::Kind;
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, recorded_at::RecordedAt, version::Version},
    logging::chain,
};

use super::{
    address::{self, ASSETS, SIGN_IN},
    app::App,
    current,
    secrets::CSRF,
    time,
    value::{self, DisplayLimits},
};
use crate::error::PageError;

/// Parameter of the JSON form of a page, for browsers.
const FORMAT_JSON: &str = "format=json";

pub(super) struct View {
    pub(super) title: String,
    /// Path of the section.
    pub(super) section: &'static str,
    pub(super) body: Markup,
    pub(super) json: Value,
}

impl View {
    /// Creates a page of the section of entities.
    pub(super) fn new(title: impl Into<String>, body: Markup, json: Value) -> Self {
        Self {
            title: title.into(),
            section: "/",
            body,
            json,
        }
    }
}

/// Name, content type and content of a file, which browsers save.
pub(super) type Download = (&'static str, &'static str, String);

/// Sections with their paths, and the keys that open them.
const SECTIONS: [(&str, &str, &str); 3] = [
    ("Entities", "/", "e"),
    ("Changes", "/changes", "c"),
    ("Health", "/health", "h"),
];

pub(super) enum FormResponse {
    /// Another update was applied first, and nothing was changed.
    Conflict(View),
    /// Redirection to a page, or the outcome as JSON.
    SeeOther(String, Value),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseFormat {
    json: bool,
}

impl<S: Sync> FromRequestParts<S> for ResponseFormat {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self {
            json: accepts_only_json(&parts.headers) || query.split('&').any(|pair| pair == FORMAT_JSON),
        })
    }
}

impl ResponseFormat {
    pub(super) async fn page(self, app: &App, view: impl Future<Output = Result<View, PageError>>) -> Response {
        match view.await {
            Ok(view) => self.view(app, view),
            Err(error) => self.error(app, &error),
        }
    }

    pub(super) async fn file(self, app: &App, file: impl Future<Output = Result<Download, PageError>>) -> Response {
        match file.await {
            Ok((name, kind, content)) => {
                let disposition = format!("attachment; filename=\"{name}\"");
                let headers = [
                    (header::CONTENT_TYPE, kind),
                    (header::CONTENT_DISPOSITION, &*disposition),
                ];
                (headers, content).into_response()
            }
            Err(error) => self.error(app, &error),
        }
    }

    pub(super) async fn form(self, app: &App, form: impl Future<Output = Result<FormResponse, PageError>>) -> Response {
        match form.await {
            Ok(FormResponse::Conflict(view)) => (StatusCode::CONFLICT, self.view(app, view)).into_response(),
            Ok(FormResponse::SeeOther(_, json)) if self.json => Json(json).into_response(),
            Ok(FormResponse::SeeOther(to, _)) => Redirect::to(&to).into_response(),
            Err(error) => self.error(app, &error),
        }
    }

    fn view(self, app: &App, view: View) -> Response {
        match self.json {
            true => Json(view.json).into_response(),
            false => page(app, &view.title, view.section, &view.body).into_response(),
        }
    }

    pub(super) fn error(self, app: &App, error: &PageError) -> Response {
        // The library's errors contain no attribute values.
        failed(error.status(), &chain(error), self.json, |title, body| {
            page(
                app,
                title,
                "",
                &html! { (body) p { a href=(address::page("/")) { "All entities" } } },
            )
        })
    }
}

pub(super) fn accepts_only_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let names = |kind: &str| accepted.iter().any(|value| value.contains(kind));
    names("application/json") && !names("text/html")
}

/// Renders a page with its header and footer.
fn page(app: &App, title: &str, section: &str, body: &Markup) -> Markup {
    let connection = &app.connection;
    let body = html! {
        a.skip href="#main" { "Skip to main content" }
        header {
            nav aria-label="Main" {
                a.brand href=(address::page("/")) { "vzero" }
                (tables(app))
                @for (name, path, key) in SECTIONS {
                    a href=(address::page(path)) data-key=(key) aria-current=[(section == path).then_some("page")] { (name) }
                }
            }
            form.find role="search" action="/" method="get" {
                (table_field())
                label.hidden for="find" { "Find entities by part of the key" }
                input #find type="search" name="find" placeholder="Find entities ( / )" autocomplete="off" spellcheck="false" maxlength="2048";
                button { "Find" }
            }
        }
        main #main tabindex="-1" { (body) }
        footer {
            "Table " b { bdi { (connection.table) } } (history_of(app))
            @if let Some(url) = &connection.endpoint_url { " at " (url) }
            ", "
            @if app.allows_writes() { strong { "writes are allowed" } } @else { "read-only" }
            ". " span #zone { "Times are in UTC." } " Keys: " kbd { "/" } " find, " kbd { "?" } " all keys."
        }
    };
    document(title, &body)
}

/// Renders the menu of tables, each with its kind and its keys.
fn tables(app: &App) -> Markup {
    html! {
        details.tables {
            summary { bdi { (app.connection.table) } }
            ul {
                @for (name, kind) in app.menu.listed().iter() {
                    @let parameter = app.menu.parameter(name);
                    li {
                        a href=(address::link_to(parameter.clone(), "/", [])) aria-current=[(parameter == current::parameter()).then_some("true")] {
                            bdi { (name) }
                        }
                        " " span.muted {
                            @match kind {
                                Kind::Own { history: None } => "own",
                                Kind::Own { history: Some(history) } => { "own, history in " bdi { (history) } },
                                Kind::Attached(attached) => {
                                    "attached: " @for key in attached.keys() { (value::name(&key.name)) " (" (key.kind) ") " }
                                },
                            }
                        }
                    }
                }
            }
        }
    }
}

fn history_of(app: &App) -> Markup {
    let history = app.store().own_history();
    html! { @if let Some(history) = history { ", history in " b { bdi { (history) } } } }
}

/// Renders the hidden field of a form that opens a page of the table.
pub(super) fn table_field() -> Markup {
    html! { @if let Some(table) = current::parameter() { input type="hidden" name=(address::TABLE) value=(table); } }
}

/// Renders a page without data of the table, for clients that are not signed in.
fn bare(title: &str, body: &Markup) -> Markup {
    document(title, &html! { main #main { (body) } })
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (value::plain(title)) " · vzero" }
                link rel="icon" href={ (ASSETS) "icon.svg" } type="image/svg+xml";
                link rel="stylesheet" href={ (ASSETS) "console.css" };
                script src={ (ASSETS) "console.js" } defer {}
            }
            body { (body) }
        }
    }
}

pub(super) fn rejection(status: StatusCode, why: &str, is_json: bool) -> Response {
    failed(status, why, is_json, bare)
}

/// Responds with an error, as JSON or on the page that `frame` renders.
fn failed(status: StatusCode, why: &str, is_json: bool, frame: impl FnOnce(&str, &Markup) -> Markup) -> Response {
    if is_json {
        return (status, Json(json!({"Error": why}))).into_response();
    }
    let title = status.canonical_reason().unwrap_or("Error");
    let body = html! { h1 { (title) } p.note role="alert" { (value::plain(why)) } };
    (status, frame(title, &body)).into_response()
}

/// Shows the sign-in form, which leads to a page. `is_invalid` if a token was wrong.
pub(super) fn sign_in(to: &str, is_invalid: bool) -> Response {
    let body = html! {
        h1 { "Sign in" }
        @if is_invalid {
            p.note role="alert" { "Invalid token." }
            p { "The link that the console opens in your browser is valid once, for a minute." }
        }
        p { "Enter the token of this console. It is part of the URL that the console printed when it started." }
        form method="post" action=(SIGN_IN) {
            input type="hidden" name="to" value=(to);
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required;
            button { "Sign in" }
        }
        // Browsers do not send the cookie with a link on another site.
        p.muted { "Signed in already? " a href=(to) { "Open the page." } }
    };
    (StatusCode::UNAUTHORIZED, bare("Sign in", &body)).into_response()
}

/// Renders the hidden field that every form needs.
pub(super) fn csrf(app: &App) -> Markup {
    html! { input type="hidden" name=(CSRF) value=(app.secrets.csrf.as_str()); }
}

/// Renders the button that copies a text. The script shows it.
pub(super) fn copy(text: &str, what: &str) -> Markup {
    html! { button.copy type="button" hidden data-copy=(text) aria-label={ "Copy " (what) } { "Copy" } }
}

/// Renders a form that opens a page of an entity.
pub(super) fn form(path: &str, id: &str, fields: &Markup) -> Markup {
    html! { form.row method="get" action=(path) { (table_field()) input type="hidden" name="id" value=(id); (fields) } }
}

/// Renders a field for a time. The script shows it in the time zone of the browser.
pub(super) fn picker(label: &str, name: &str, value: Option<RecordedAt>, is_required: bool) -> Markup {
    let value = value.map(time::of_picker);
    html! {
        label { (label) " " span.zone { "(UTC)" } " " input type="datetime-local" name=(name) step="any" value=[value] required[is_required]; }
    }
}

/// Renders a table that scrolls within the page.
pub(super) fn table(label: &str, columns: &[impl AsRef<str>], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table {
                caption.hidden { (label) }
                thead { tr { @for column in columns { th scope="col" { (value::plain(column.as_ref())) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Returns a number of things, such as `1 version`.
pub(super) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Renders the number of things that are not shown, nothing for 0.
pub(super) fn more(number: usize, things: &str) -> Markup {
    html! { @if number > 0 { p.muted { "and " (number) " more" (things) } } }
}

pub(super) fn deleted(is_deleted: bool) -> Markup {
    html! { @if is_deleted { " " span.tag.dead { "deleted" } } }
}

pub(super) fn entity_link(id: &str) -> Markup {
    html! { a.key href=(address::of_entity("/entity", id)) { (key(id)) } }
}

/// Renders the key of an entity: of an attached table, its attributes with their names and values.
pub(super) fn key(id: &str) -> Markup {
    html! {
        @match current::key(id) {
            None => (value::word(id)),
            Some(attributes) => @for (at, (name, value)) in attributes.iter().enumerate() {
                @if at > 0 { ", " }
                (value::name(name)) " " (value::value(value, DisplayLimits::KEY))
            },
        }
    }
}

/// Leads to a version that a form created or found.
pub(super) fn done(entity: &EntityId, version: Version, outcome: &str) -> FormResponse {
    let to = address::version("/version", entity.as_str(), version.get());
    let json = json!({"ID": entity.as_str(), "Version": version, "Outcome": outcome});
    FormResponse::SeeOther(format!("{to}&done={outcome}"), json)
}

/// Renders the members of a JSON object except one, as in `ID E#1, Version 7`, with a link to the entity.
pub(super) fn members(object: &Value, except: &str) -> Markup {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let members = object.as_object().into_iter().flatten();
    html! {
        @for (at, (name, member)) in members.filter(|(name, _)| *name != except).enumerate() {
            @if at > 0 { ", " }
            @match (name.as_str(), member.as_str()) {
                ("ID", Some(id)) => (entity_link(id)),
                _ => { (name) " " (value::word(&text(member))) }
            }
        }
    }
}
