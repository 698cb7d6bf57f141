//! Who is let in, and what may be written. Every request comes by here.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Form,
    body::{Body, to_bytes},
    extract::{FromRequest as _, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{
    address::{ASSETS, SIGN_IN},
    hosts::Hosts,
    page,
    secrets::{CSRF, Secrets},
};

/// No form of ours is longer.
const MAX_FORM_BYTES: usize = 64 * 1024;
/// How long who was let in stays so.
const SESSION_SECONDS: u32 = 24 * 60 * 60;

/// What browsers are told of every page.
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

/// Who is let in, and what may be written.
#[derive(Debug)]
pub(super) struct Guard {
    secrets: Arc<Secrets>,
    hosts: Hosts,
    /// Named after the port: cookies do not tell the ports of one machine apart.
    cookie: String,
}

/// Why a request goes no further.
enum Refusal {
    Status(StatusCode, &'static str),
    /// The token of the address lets in, and is not to be seen again.
    Welcome {
        to: String,
    },
    SignIn {
        to: String,
        is_wrong: bool,
    },
}

use Refusal::Status;

impl Guard {
    pub(super) fn new(secrets: Arc<Secrets>, hosts: Hosts, port: u16) -> Self {
        Self {
            secrets,
            hosts,
            cookie: format!("vzero-{port}"),
        }
    }

    fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).filter(|host| self.hosts.knows(host));
        let Some(host) = host else {
            return Err(Status(
                StatusCode::MISDIRECTED_REQUEST,
                "The console does not answer to this name.",
            ));
        };
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let has_token = bearer.is_some_and(|token| self.secrets.is_token(token));
        let is_write = !matches!(*method, Method::GET | Method::HEAD);
        // A browser says where a form came from. What is no browser brings the token itself, which no page of others knows.
        if is_write && !has_token && !is_own(text(header::ORIGIN), host) {
            return Err(Status(
                StatusCode::FORBIDDEN,
                "The form came from another page than the console's.",
            ));
        }
        if uri.path().starts_with(ASSETS) || uri.path() == SIGN_IN || has_token || self.has_cookie(headers) {
            return match token_of(uri) {
                // Whoever is in already still gets rid of the token in the address.
                Some((_, to)) if !is_write && uri.path() != SIGN_IN => Err(Refusal::Welcome { to }),
                _ => Ok(()),
            };
        }
        match token_of(uri) {
            Some((token, to)) if self.secrets.is_token(&token) => Err(Refusal::Welcome { to }),
            Some((_, to)) => Err(Refusal::SignIn { to, is_wrong: true }),
            None => Err(Refusal::SignIn {
                to: uri.to_string(),
                is_wrong: false,
            }),
        }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter();
        cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(name, value)| name == self.cookie && self.secrets.is_session(value))
    }

    fn welcome(&self, to: &str) -> Response {
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SESSION_SECONDS}",
            self.cookie,
            self.secrets.session()
        );
        let mut response = StatusCode::SEE_OTHER.into_response();
        for (name, value) in [(header::SET_COOKIE, cookie.as_str()), (header::LOCATION, to)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    fn refuse(&self, refusal: Refusal, wants_json: bool) -> Response {
        match refusal {
            Status(status, why) => page::plain(status, why, wants_json),
            Refusal::Welcome { to } => self.welcome(&to),
            Refusal::SignIn { .. } if wants_json => {
                let why = "The token is missing or wrong: Authorization: Bearer TOKEN.";
                page::plain(StatusCode::UNAUTHORIZED, why, true)
            }
            Refusal::SignIn { to, is_wrong } => page::sign_in(&to, is_wrong),
        }
    }

    /// The token of the sign-in form lets in.
    fn sign_in(&self, form: &HashMap<String, String>) -> Response {
        let to = form.get("to").filter(|to| is_ours(to)).map_or("/", String::as_str);
        match form.get("token") {
            Some(token) if self.secrets.is_token(token) => self.welcome(to),
            _ => page::sign_in(to, true),
        }
    }
}

/// Lets a request in, or not.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let wants_json = page::wants_json(request.headers());
    let judged = guard.judge(request.method(), request.uri(), request.headers());
    let mut response = match judged {
        Err(refusal) => guard.refuse(refusal, wants_json),
        Ok(()) if request.method() == Method::POST => posted(&guard, request, next, wants_json).await,
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

/// A form goes on only with the token of its page.
async fn posted(guard: &Guard, request: Request, next: Next, wants_json: bool) -> Response {
    let unreadable = || page::plain(StatusCode::BAD_REQUEST, "The form cannot be read.", wants_json);
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_FORM_BYTES).await else {
        return unreadable();
    };
    let copy = Request::from_parts(parts.clone(), Body::from(body.clone()));
    let Ok(Form(form)) = Form::<HashMap<String, String>>::from_request(copy, &()).await else {
        return unreadable();
    };
    if parts.uri.path() == SIGN_IN {
        return guard.sign_in(&form);
    }
    if !form.get(CSRF).is_some_and(|token| guard.secrets.is_csrf(token)) {
        let why = "The form is not one of this console, or of an earlier run of it. Go back and load its page again.";
        return page::plain(StatusCode::FORBIDDEN, why, wants_json);
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Whether a form came from a page at this very host.
fn is_own(origin: Option<&str>, host: &str) -> bool {
    let authority = origin.and_then(|origin| origin.split_once("://"));
    authority.is_some_and(|(scheme, authority)| ["http", "https"].contains(&scheme) && authority == host)
}

/// Whether an address is a path of this console. Browsers leave tabs out, and take a backslash for a slash.
fn is_ours(to: &str) -> bool {
    to.starts_with('/') && !to.starts_with("//") && !to.contains(|c: char| c == '\\' || c.is_control())
}

/// The token in an address, and the address without it.
fn token_of(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let (mut token, mut rest) = (None, Vec::new());
    for pair in query.split('&') {
        match pair.strip_prefix("token=") {
            Some(found) => token = Some(found.to_owned()),
            None => rest.push(pair),
        }
    }
    // A path of two slashes would be somebody else's address.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let to = match rest.is_empty() {
        true => path,
        false => format!("{path}?{}", rest.join("&")),
    };
    Some((token?, to))
}
