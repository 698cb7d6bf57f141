//! Access control. Every request passes these checks, in this order:
//!
//! 1. Its `Host` is one of the console, against DNS rebinding.
//! 2. If it is not GET or HEAD, its `Origin` is the console, against cross-site requests. A request with the access token
//!    in its `Authorization` header needs no `Origin`, because other sites do not know the token.
//! 3. It carries the access token or the cookie of the console. Style, script, icon and the sign-in form need neither.
//! 4. A form contains the CSRF token of the console.
//!
//! A GET request whose address contains the access token or the single-use token gets the cookie, unless it is a prefetch, and is
//! redirected to the address without the token.

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
    address::SIGN_IN,
    assets,
    hosts::Hosts,
    page,
    secrets::{CSRF, Secrets},
};

const MAX_FORM_BYTES: usize = 64 * 1024;
/// Maximum time in which a client sends a form.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers of requests that browsers send before the user opens a page.
const PREFETCH: [&str; 4] = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/// Security headers of every response.
const HEADERS: [(HeaderName, &str); 8] = [
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
    (header::VARY, "Accept, Cookie"),
];

pub(super) struct Guard {
    secrets: Arc<Secrets>,
    hosts: Hosts,
    /// Name of the cookie. It contains the port, because consoles at other ports receive the same cookies.
    cookie: String,
}

impl Guard {
    pub(super) fn new(secrets: Arc<Secrets>, hosts: Hosts, port: u16) -> Self {
        Self {
            secrets,
            hosts,
            cookie: format!("vzero-{port}"),
        }
    }

    /// Returns the response to a request that is not authorized, `None` if it is.
    fn reject(&self, request: &Request, is_json: bool) -> Option<Response> {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let rejected = |status, why| Some(page::rejection(status, why, is_json));
        let Ok(host) = self.hosts.check(uri, headers) else {
            let why = "This host name is not allowed. To allow it, start the console with --host.";
            return rejected(StatusCode::MISDIRECTED_REQUEST, why);
        };
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let has_token = bearer.is_some_and(|token| self.secrets.token.is(token));
        let is_write = !matches!(*method, Method::GET | Method::HEAD);
        if is_write && !has_token && !is_same_origin(text(header::ORIGIN), host) {
            return rejected(StatusCode::FORBIDDEN, "The form was sent from another site.");
        }
        let sign_in = |to: &str, is_invalid| match is_json {
            true => rejected(
                StatusCode::UNAUTHORIZED,
                "The token is missing or invalid. Send the header Authorization: Bearer TOKEN.",
            ),
            false => Some(page::sign_in(to, is_invalid)),
        };
        match uri.path() {
            SIGN_IN if *method == Method::POST => return None,
            SIGN_IN => return sign_in("/", false),
            path if !is_write && assets::is_asset(path) => return None,
            _ => {}
        }
        let is_authorized = has_token || self.has_cookie(headers);
        match token_of(uri).filter(|_| !is_write) {
            Some((token, to)) => {
                // A preview does not use the single-use token up.
                let is_visit = *method == Method::GET && !PREFETCH.iter().any(|name| headers.contains_key(*name));
                let is_sign_in = is_visit && (self.secrets.token.is(&token) || self.secrets.redeem(&token));
                match is_sign_in || is_authorized {
                    // The address contains a token. The response removes it.
                    true => Some(self.redirect(&to, is_sign_in)),
                    false => sign_in(&to, true),
                }
            }
            None if is_authorized => None,
            // The address of a form can be without a page.
            None if is_write => sign_in("/", false),
            None => sign_in(&uri.to_string(), false),
        }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(header::COOKIE).iter();
        let mut cookies = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(name, value)| name == self.cookie && self.secrets.cookie.is(value))
    }

    /// Redirects to a page, and sets the cookie after a sign-in.
    fn redirect(&self, to: &str, is_sign_in: bool) -> Response {
        let mut response = StatusCode::SEE_OTHER.into_response();
        let (name, value) = (&self.cookie, self.secrets.cookie.as_str());
        let cookie = is_sign_in.then(|| format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict"));
        for (name, value) in [(header::LOCATION, Some(to)), (header::SET_COOKIE, cookie.as_deref())] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    /// Checks the form of a request, and responds.
    async fn form(&self, request: Request, next: Next, is_json: bool) -> Response {
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
            let to = form.get("to").filter(|to| is_own_path(to)).map_or("/", String::as_str);
            return match form.get("token") {
                Some(token) if self.secrets.token.is(token) => self.redirect(to, true),
                _ => page::sign_in(to, true),
            };
        }
        if !form.get(CSRF).is_some_and(|token| self.secrets.csrf.is(token)) {
            let why = "The form has expired or belongs to another console. Go back, reload the page and try again.";
            return page::rejection(StatusCode::FORBIDDEN, why, is_json);
        }
        next.run(Request::from_parts(parts, Body::from(body))).await
    }
}

/// Checks a request, and adds the security headers to its response.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let is_json = page::accepts_only_json(request.headers());
    let mut response = match guard.reject(&request, is_json) {
        Some(rejection) => rejection,
        None if request.method() == Method::POST => guard.form(request, next, is_json).await,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_same_origin(origin: Option<&str>, host: &str) -> bool {
    let authority = origin.and_then(|origin| origin.split_once("://"));
    authority.is_some_and(|(scheme, authority)| ["http", "https"].contains(&scheme) && authority == host)
}

/// Returns `true` if an address is a path of this console. Browsers remove tabs, and treat a backslash as a slash.
fn is_own_path(to: &str) -> bool {
    to.starts_with('/') && !to.starts_with("//") && !to.contains(|c: char| c == '\\' || c.is_control())
}

/// Returns the token of an address, and the path and the query without it.
fn token_of(uri: &Uri) -> Option<(String, String)> {
    let (mut token, mut rest) = (None, Vec::new());
    for pair in uri.query()?.split('&') {
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
mod tests {
    use axum::{Router, middleware, routing::post};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_form_that_is_sent_slowly_is_rejected() {
        let secrets = Arc::new(Secrets::new(None));
        let bearer = format!("Bearer {}", secrets.token.as_str());
        let guard = Arc::new(Guard::new(secrets, Hosts::default(), 8100));
        let pages = Router::new().route("/restore", post(async || "restored"));
        let router = pages.layer(middleware::from_fn_with_state(guard, check));
        for (path, authorization) in [(SIGN_IN, ""), ("/restore", bearer.as_str())] {
            // One byte every second, without end.
            let drip = futures::stream::unfold((), async |()| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, std::io::Error>("x"), ()))
            });
            let request = Request::post(path)
                .header(header::HOST, "localhost:8100")
                .header(header::ORIGIN, "http://localhost:8100")
                .header(header::AUTHORIZATION, authorization)
                .body(Body::from_stream(drip))
                .unwrap();
            let started = Instant::now();
            let response = TowerToHyperService::new(router.clone()).call(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
            assert_eq!(started.elapsed().as_secs(), FORM_TIMEOUT.as_secs(), "{path}");
        }
    }
}
