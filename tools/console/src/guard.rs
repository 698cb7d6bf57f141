//! Access control. Every request passes these checks, in this order:
//!
//! 1. Its `Host` is one of the console, against DNS rebinding.
//! 2. If it is not GET or HEAD, its `Origin` is the console, against cross-site requests. A request with the access token
//!    in its `Authorization` header needs no `Origin`, because other sites do not know the token.
//! 3. It carries the access token or the cookie of a session. Style, script, icon and the sign-in form need neither.
//! 4. A form contains the CSRF token of the console.
//!
//! A GET request whose address contains the access token or the single-use token starts a session, unless it is a prefetch. With
//! the access token, a request that is already authorized starts none.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Form,
    body::{Body, to_bytes},
    extract::{FromRequest as _, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{
    address::{SIGN_IN, SIGN_OUT},
    assets,
    hosts::Hosts,
    page,
    secrets::{CSRF, Secrets},
    sessions::{self, Sessions},
};

const MAX_FORM_BYTES: usize = 64 * 1024;
/// Maximum time in which a client sends a form.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers of requests that browsers send before the user opens a page.
const PREFETCH: [&str; 4] = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/// Security headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not "no-referrer": browsers then send forms with the Origin "null".
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) struct Guard {
    secrets: Arc<Secrets>,
    sessions: Sessions,
    hosts: Hosts,
    /// Name of the session cookie. It contains the port, because consoles at other ports receive the same cookies.
    cookie: String,
}

enum Rejection {
    Status(StatusCode, &'static str),
    /// The address contains a valid token. The response starts a session, and removes the token from the address.
    SignedIn {
        to: String,
    },
    Redirect {
        to: String,
    },
    SignIn {
        to: String,
        note: page::Note,
    },
}

use Rejection::Status;

impl Guard {
    pub(super) fn new(secrets: Arc<Secrets>, hosts: Hosts, port: u16) -> Self {
        Self {
            secrets,
            sessions: Sessions::default(),
            hosts,
            cookie: format!("vzero-{port}"),
        }
    }

    fn authorize(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Ok(host) = self.hosts.check(uri, headers) else {
            return Err(Status(
                StatusCode::MISDIRECTED_REQUEST,
                "This host name is not allowed. To allow it, start the console with --host.",
            ));
        };
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let has_token = bearer.is_some_and(|token| self.secrets.is_token(token));
        let is_write = !matches!(*method, Method::GET | Method::HEAD);
        if is_write && !has_token && !is_same_origin(text(header::ORIGIN), host) {
            return Err(Status(StatusCode::FORBIDDEN, "The form was sent from another site."));
        }
        match uri.path() {
            SIGN_IN if *method == Method::POST => return Ok(()),
            SIGN_IN => {
                return Err(Rejection::SignIn {
                    to: "/".to_owned(),
                    note: page::Note::SignedOut,
                });
            }
            path if !is_write && assets::is_asset(path) => return Ok(()),
            _ => {}
        }
        let is_authorized = has_token || self.sessions_of(headers).any(|cookie| self.sessions.contains(cookie));
        // A request for a preview starts no session.
        let is_visit = *method == Method::GET && !PREFETCH.iter().any(|name| headers.contains_key(*name));
        let is_valid = |token: &str| !is_authorized && self.secrets.is_token(token) || self.secrets.redeem(token);
        if is_write {
            // The address of a form can be without a page. The page of the form is its referrer.
            let to = text(header::REFERER).and_then(|page| own_page(page, host));
            return is_authorized.then_some(()).ok_or(Rejection::SignIn {
                to: to.unwrap_or_else(|| "/".to_owned()),
                note: page::Note::FormNotSent,
            });
        }
        match token_of(uri) {
            Some((token, to)) if is_visit && is_valid(&token) => Err(Rejection::SignedIn { to }),
            // The token is removed from the address even if the request is already authorized.
            Some((_, to)) if is_authorized => Err(Rejection::Redirect { to }),
            _ if is_authorized => Ok(()),
            Some((_, to)) => Err(Rejection::SignIn {
                to,
                note: page::Note::InvalidToken,
            }),
            None => Err(Rejection::SignIn {
                to: uri.to_string(),
                note: page::Note::SignedOut,
            }),
        }
    }

    /// Returns the values of the session cookie. Browsers send one.
    fn sessions_of<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let cookies = headers.get_all(header::COOKIE).iter();
        cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter_map(|(name, value)| (name == self.cookie).then_some(value))
    }

    fn start_session(&self, to: &str) -> Response {
        self.redirect(to, &self.sessions.start(), sessions::MAX_DURATION)
    }

    fn sign_out(&self, headers: &HeaderMap) -> Response {
        for cookie in self.sessions_of(headers) {
            self.sessions.end(cookie);
        }
        self.redirect("/", "", Duration::ZERO)
    }

    /// Redirects to a page, and sets the session cookie.
    fn redirect(&self, to: &str, session: &str, max_age: Duration) -> Response {
        let (name, max_age) = (&self.cookie, max_age.as_secs());
        let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}");
        let mut response = see_other(to);
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    fn reject(&self, rejection: Rejection, is_json: bool) -> Response {
        match rejection {
            Status(status, why) => page::rejection(status, why, is_json),
            Rejection::SignedIn { to } => self.start_session(&to),
            Rejection::Redirect { to } => see_other(&to),
            Rejection::SignIn { .. } if is_json => {
                let why = "The token is missing or invalid. Send the header Authorization: Bearer TOKEN.";
                page::rejection(StatusCode::UNAUTHORIZED, why, true)
            }
            Rejection::SignIn { to, note } => page::sign_in(&to, note),
        }
    }

    fn sign_in(&self, form: &HashMap<String, String>) -> Response {
        let to = form.get("to").filter(|to| is_own_path(to)).map_or("/", String::as_str);
        match form.get("token") {
            Some(token) if self.secrets.is_token(token) => self.start_session(to),
            _ => page::sign_in(to, page::Note::InvalidToken),
        }
    }
}

/// Checks a request, and adds the security headers to its response.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let is_json = page::accepts_only_json(request.headers());
    let authorized = guard.authorize(request.method(), request.uri(), request.headers());
    let mut response = match authorized {
        Err(rejection) => guard.reject(rejection, is_json),
        Ok(()) if request.method() == Method::POST => check_form(&guard, request, next, is_json).await,
        Ok(()) => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept, Cookie"));
    response
}

fn see_other(to: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Checks the CSRF token of a form.
async fn check_form(guard: &Guard, request: Request, next: Next, is_json: bool) -> Response {
    let invalid = || page::rejection(StatusCode::BAD_REQUEST, "The form cannot be parsed.", is_json);
    let (parts, body) = request.into_parts();
    let body = match tokio::time::timeout(FORM_TIMEOUT, to_bytes(body, MAX_FORM_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return invalid(),
        Err(_) => {
            let why = "The form was not received in time.";
            return page::rejection(StatusCode::REQUEST_TIMEOUT, why, is_json);
        }
    };
    let copy = Request::from_parts(parts.clone(), Body::from(body.clone()));
    let Ok(Form(form)) = Form::<HashMap<String, String>>::from_request(copy, &()).await else {
        return invalid();
    };
    if parts.uri.path() == SIGN_IN {
        return guard.sign_in(&form);
    }
    if !form.get(CSRF).is_some_and(|token| guard.secrets.is_csrf(token)) {
        let why = "The form has expired or belongs to another console. Go back, reload the page and try again.";
        return page::rejection(StatusCode::FORBIDDEN, why, is_json);
    }
    if parts.uri.path() == SIGN_OUT {
        return guard.sign_out(&parts.headers);
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

fn is_same_origin(origin: Option<&str>, host: &str) -> bool {
    let authority = origin.and_then(|origin| origin.split_once("://"));
    authority.is_some_and(|(scheme, authority)| ["http", "https"].contains(&scheme) && authority == host)
}

/// Returns `true` if an address is a path of this console. Browsers remove tabs, and treat a backslash as a slash.
fn is_own_path(to: &str) -> bool {
    to.starts_with('/') && !to.starts_with("//") && !to.contains(|c: char| c == '\\' || c.is_control())
}

/// Returns the path and the query of a page of this console.
fn own_page(address: &str, host: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let origin = format!("{}://{}", uri.scheme_str()?, uri.authority()?);
    let to = match token_of(&uri) {
        Some((_, to)) => to,
        None => uri.path_and_query()?.to_string(),
    };
    (is_same_origin(Some(&origin), host) && is_own_path(&to)).then_some(to)
}

/// Returns the token of an address, and the path and the query without it.
fn token_of(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let (mut token, mut rest) = (None, Vec::new());
    for pair in query.split('&') {
        match pair.strip_prefix("token=") {
            Some(found) => token = Some(found.to_owned()),
            None => rest.push(pair),
        }
    }
    // A path that begins with two slashes is an address of another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let to = match rest.is_empty() {
        true => path,
        false => format!("{path}?{}", rest.join("&")),
    };
    let to = Some(to).filter(|to| is_own_path(to)).unwrap_or_else(|| "/".to_owned());
    Some((token?, to))
}

#[cfg(test)]
mod tests;
