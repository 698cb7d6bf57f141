//! What every page has around its view, and the choice between HTML and JSON.

use std::{convert::Infallible, future::Future};

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json};
use shared::logging::chain;

use super::{
    address::{ASSETS, SIGN_IN},
    app::App,
    secrets::CSRF,
    value,
};
use crate::error::PageError;

/// What is shown.
pub(super) struct View {
    pub(super) title: String,
    /// Which of the main pages it belongs to.
    pub(super) place: Place,
    pub(super) body: Markup,
    /// The same for programs.
    pub(super) json: Value,
}

/// The main pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Entities,
    Failures,
    Health,
}

impl Place {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Entities, "Entities", "/"),
        (Self::Failures, "Failures", "/failures"),
        (Self::Health, "Health", "/health"),
    ];
}

/// What a form ends in.
pub(super) enum Answer {
    View(View),
    /// Somebody was faster: nothing was done.
    Conflict(View),
    /// Another page, and the outcome for programs.
    SeeOther(String, Value),
}

/// In what form an answer is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    json: bool,
}

impl<S: Sync> FromRequestParts<S> for Wants {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self {
            json: wants_json(&parts.headers),
        })
    }
}

impl Wants {
    /// Shows a view, or why there is none.
    pub(super) async fn show(self, app: &App, view: impl Future<Output = Result<View, PageError>>) -> Response {
        match view.await {
            Ok(view) => self.view(app, view),
            Err(error) => self.error(app, &error),
        }
    }

    /// Answers a form.
    pub(super) async fn answer(self, app: &App, answer: impl Future<Output = Result<Answer, PageError>>) -> Response {
        match answer.await {
            Ok(Answer::View(view)) => self.view(app, view),
            Ok(Answer::Conflict(view)) => (StatusCode::CONFLICT, self.view(app, view)).into_response(),
            Ok(Answer::SeeOther(_, json)) if self.json => Json(json).into_response(),
            Ok(Answer::SeeOther(to, _)) => Redirect::to(&to).into_response(),
            Err(error) => self.error(app, &error),
        }
    }

    fn view(self, app: &App, view: View) -> Response {
        match self.json {
            true => Json(view.json).into_response(),
            false => page(app, &view.title, Some(view.place), &view.body).into_response(),
        }
    }

    pub(super) fn error(self, app: &App, error: &PageError) -> Response {
        let status = error.status();
        // The library's errors hold no attribute values.
        let why = chain(error);
        if self.json {
            return (status, Json(json!({"Error": why}))).into_response();
        }
        let title = match status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::BAD_REQUEST => "Not understood",
            StatusCode::CONFLICT => "Not done",
            _ => "Not to be had now",
        };
        let body = html! {
            h1 { (title) }
            p.note role="alert" { (value::plain(&why)) }
            p { a href="/" { "All entities" } }
        };
        (status, page(app, title, None, &body)).into_response()
    }
}

/// Whether JSON is asked for, and HTML is not.
pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<_> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let names = |kind: &str| accepted.iter().any(|value| value.contains(kind));
    names("application/json") && !names("text/html")
}

/// A page with its frame.
fn page(app: &App, title: &str, place: Option<Place>, body: &Markup) -> Markup {
    let connection = &app.connection;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    nav aria-label="Main" {
                        a.brand href="/" { "vzero" }
                        @for (each, name, path) in Place::ALL {
                            a href=(path) aria-current=[(place == Some(each)).then_some("page")] { (name) }
                        }
                    }
                    form.find role="search" action="/" method="get" {
                        label.hidden for="find" { "Find an entity by how its key begins" }
                        input #find type="search" name="prefix" placeholder="Find an entity ( / )" autocomplete="off" spellcheck="false" maxlength="2048";
                        button { "Find" }
                    }
                }
                main #main tabindex="-1" { (body) }
                footer {
                    "Table " b { bdi { (connection.table) } }
                    @if let Some(url) = &connection.endpoint_url { " at " (url) }
                    ", "
                    @if app.writes.is_some() { strong { "writes are allowed" } } @else { "read-only" }
                    ". Keys: " kbd { "/" } " find, " kbd { "←" } " older, " kbd { "→" } " newer, " kbd { "e" } " entities, "
                    kbd { "f" } " failures, " kbd { "h" } " health."
                }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (value::plain(title)) " · vzero" }
            link rel="icon" href={ (ASSETS) "icon.svg" } type="image/svg+xml";
            link rel="stylesheet" href={ (ASSETS) "console.css" };
            script src={ (ASSETS) "console.js" } defer {}
        }
    }
}

/// A page about no table: whoever reads it was not let in.
fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body { main #main { h1 { (title) } (body) } }
        }
    }
}

/// A refusal.
pub(super) fn plain(status: StatusCode, why: &str, wants_json: bool) -> Response {
    if wants_json {
        return (status, Json(json!({"Error": why}))).into_response();
    }
    let title = status.canonical_reason().unwrap_or("Refused");
    (status, bare(title, &html! { p.note role="alert" { (why) } })).into_response()
}

/// The form for the token.
pub(super) fn sign_in(to: &str, is_wrong: bool) -> Response {
    let body = html! {
        @if is_wrong { p.note role="alert" { "The token is not the one of this console." } }
        p { "The console's token is in the address that it said when it was started." }
        form method="post" action=(SIGN_IN) {
            input type="hidden" name="to" value=(to);
            label for="token" { "Token" }
            input #token type="password" name="token" autocomplete="current-password" required;
            button { "Go on" }
        }
    };
    (StatusCode::UNAUTHORIZED, bare("Sign in", &body)).into_response()
}

/// The hidden fields that every form needs to be taken.
pub(super) fn csrf(app: &App) -> Markup {
    html! { input type="hidden" name=(CSRF) value=(app.secrets.csrf()); }
}
