//! Which requests a listener of the stack accepts: those of programs on this machine, and not those of web pages.
//!
//! A page of any site can send requests to the ports of this machine. The browser marks these requests:
//!
//! | header | value in the request of a foreign page |
//! |---|---|
//! | `Origin` | the origin of the page, or `null`: in each request with a method other than GET and HEAD, or whose response a script can read |
//! | `Sec-Fetch-Site` | `cross-site` or `same-site`: in each request, also for an image or a link |
//! | `Host` | the name of the page's site, if this name resolves to this machine (DNS rebinding) |
//!
//! Programs such as curl and the SDKs send neither `Origin` nor `Sec-Fetch-Site`. No listener of the stack serves pages that
//! send requests to it. The check applies to each request of a connection.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, Version, header},
    middleware::{self, Next},
    response::Response,
};
use history_console::hosts::{HostError, Hosts, reachable};

const SEC_FETCH_SITE: &str = "sec-fetch-site";
/// Values of `Sec-Fetch-Site` in a request of the listener's own pages, and of the user, who entered its address.
const OWN_SITES: [&str; 2] = ["same-origin", "none"];

/// Status and reason with which a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) &'static str);

impl Refusal {
    const VERSION: Self = Self(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is supported");
    const HOST_COUNT: Self = Self(StatusCode::BAD_REQUEST, "a request needs exactly one Host header");
    const HOST: Self = Self(
        StatusCode::MISDIRECTED_REQUEST,
        "use the host localhost or a loopback address",
    );
    const ORIGIN: Self = Self(StatusCode::FORBIDDEN, "the Origin header names another origin");
    const SITE: Self = Self(StatusCode::FORBIDDEN, "the Sec-Fetch-Site header names another site");
}

/// Adds the check to all routes of the listener at this address. `respond` makes the response to a refused request.
pub(crate) fn guarded(router: Router, address: SocketAddr, respond: fn(Refusal) -> Response) -> Router {
    let access = Arc::new(Access::at(address));
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        // Builds with other crates can enable HTTP/2, whose requests have no Host header.
        let checked = match request.version() {
            Version::HTTP_2 => Err(Refusal::VERSION),
            _ => access.check(request.uri(), request.headers()),
        };
        async move {
            match checked {
                Ok(()) => next.run(request).await,
                Err(refusal) => respond(refusal),
            }
        }
    }))
}

#[derive(Debug)]
struct Access {
    hosts: Hosts,
    /// Origins of this listener.
    origins: [String; 2],
}

impl Access {
    fn at(address: SocketAddr) -> Self {
        Self {
            hosts: Hosts::at(address.ip()),
            origins: [
                format!("http://{}", reachable(address)),
                format!("http://localhost:{}", address.port()),
            ],
        }
    }

    /// # Errors
    ///
    /// Returns a [`Refusal`] if a web page of another origin sent the request, or could have sent it.
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        self.hosts.check(uri, headers).map_err(|error| match error {
            HostError::Count => Refusal::HOST_COUNT,
            HostError::Name => Refusal::HOST,
        })?;
        let all = |name: &str, is_own: &dyn Fn(&str) -> bool| {
            let mut values = headers.get_all(name).iter();
            values.all(|value| value.to_str().is_ok_and(is_own))
        };
        let is_own = |origin: &str| self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin));
        if !all(header::ORIGIN.as_str(), &is_own) {
            return Err(Refusal::ORIGIN);
        }
        if !all(SEC_FETCH_SITE, &|site| OWN_SITES.contains(&site)) {
            return Err(Refusal::SITE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    /// Checks a request with these headers and a `Host` header of the listener.
    fn check(headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let access = Access::at("127.0.0.1:9001".parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in [("Host", "127.0.0.1:9001")].iter().chain(headers) {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        access.check(&Uri::from_static("/"), &map)
    }

    #[test]
    fn a_host_is_checked() {
        assert_eq!(check(&[("Host", "127.0.0.1:9001")]), Err(Refusal::HOST_COUNT));
        let access = Access::at("127.0.0.1:9001".parse().unwrap());
        let foreign = [(header::HOST, HeaderValue::from_static("evil.example"))];
        let checked = access.check(&Uri::from_static("/"), &foreign.into_iter().collect());
        assert_eq!(checked, Err(Refusal::HOST));
    }

    #[test]
    fn a_listener_on_all_addresses_accepts_each_address_and_no_name() {
        let access = Access::at("0.0.0.0:9001".parse().unwrap());
        let check = |host: &str, origin: &str| {
            let headers = [(header::HOST, host), (header::ORIGIN, origin)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
            access.check(&Uri::from_static("/"), &headers.into_iter().collect())
        };
        assert_eq!(check("10.0.0.1:9001", "http://127.0.0.1:9001"), Ok(()));
        assert_eq!(check("evil.example", "http://127.0.0.1:9001"), Err(Refusal::HOST));
        assert_eq!(check("10.0.0.1:9001", "http://10.0.0.1:9001"), Err(Refusal::ORIGIN));
    }

    #[test]
    fn an_origin_and_a_site_are_the_listener_itself_or_none() {
        let origins = "http://evil.example https://127.0.0.1:9001 http://127.0.0.1:8000 http://127.0.0.1 http://127.0.0.2:9001 \
                       http://[::1]:9001 http://localhost:9001.evil.example http://user@127.0.0.1:9001 http://127.0.0.1:9001/ \
                       http://localhost.:9001 null NULL é 127.0.0.1:9001 file://";
        for (name, own, foreign, refusal) in [
            (
                "Origin",
                ["http://127.0.0.1:9001", "HTTP://LOCALHOST:9001"],
                origins,
                Refusal::ORIGIN,
            ),
            (
                "Sec-Fetch-Site",
                ["none", "same-origin"],
                "cross-site same-site future-value",
                Refusal::SITE,
            ),
        ] {
            for own in own {
                assert_eq!(check(&[(name, own)]), Ok(()), "{own}");
            }
            for foreign in foreign.split(' ').chain([""]) {
                assert_eq!(check(&[(name, foreign)]), Err(refusal), "{foreign}");
                assert_eq!(check(&[(name, own[0]), (name, foreign)]), Err(refusal), "{foreign}");
            }
        }
    }
}
