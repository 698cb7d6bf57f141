//! Host names at which a listener accepts requests: the console, and the ports of the local stack.
//!
//! A page of another site can point its own host name to this machine (DNS rebinding), and then read responses of the
//! listener. Therefore a host name that is not configured is rejected. An IP address is accepted, because DNS rebinding
//! needs a name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, Uri, header, uri::Authority};

/// Host names at which a listener accepts requests. By default, `localhost` and loopback addresses, with any port.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Address of the listener, through which other machines connect, if it is not the loopback address.
    pub bind: Option<IpAddr>,
    pub names: Vec<String>,
}

/// Why no host of a request is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostError {
    /// The request does not have exactly one `Host` header.
    Count,
    /// The header, or the request target, names another host.
    Name,
}

impl Hosts {
    /// Returns the hosts of a listener at this address.
    pub fn at(address: IpAddr) -> Self {
        Self {
            bind: (!address.is_loopback()).then_some(address),
            names: Vec::new(),
        }
    }

    /// Returns the `Host` header of a request.
    ///
    /// # Errors
    ///
    /// Returns [`HostError`] if there is not exactly one, or if it or the request target, such as `http://name/`, contains a host
    /// at which the listener does not accept requests.
    pub fn check<'a>(&self, uri: &Uri, headers: &'a HeaderMap) -> Result<&'a str, HostError> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(HostError::Count);
        };
        let host = host.to_str().map_err(|_| HostError::Name)?;
        let target = uri.authority().map(Authority::as_str);
        let is_allowed = self.allows(host) && target.is_none_or(|target| self.allows(target));
        is_allowed.then_some(host).ok_or(HostError::Name)
    }

    /// Returns `true` if the listener accepts requests at this host, with or without a port.
    pub fn allows(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => self.bind.is_some() || address.is_loopback(),
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
            }
        }
    }

    /// Returns host and port for the URL of the console.
    pub(super) fn authority(&self, address: SocketAddr) -> String {
        match self.names.first() {
            Some(name) => format!("{name}:{}", address.port()),
            None => reachable(address).to_string(),
        }
    }
}

/// Returns the address at which programs on this machine reach a listener: the loopback address if it listens on all.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    address
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(hosts: &Hosts, target: &str, headers: &[&str]) -> Result<(), HostError> {
        let values = headers
            .iter()
            .map(|host| HeaderValue::from_bytes(host.as_bytes()).unwrap());
        let headers = values.map(|value| (header::HOST, value)).collect();
        hosts.check(&target.parse().unwrap(), &headers).map(|_| ())
    }

    #[test]
    fn unknown_host_names_are_rejected() {
        let local = Hosts::default();
        let open = Hosts {
            bind: Some("0.0.0.0".parse().unwrap()),
            names: vec!["history.example".to_owned()],
        };
        for (host, by_local, by_open) in [
            ("127.0.0.1:8100", true, true),
            ("127.0.0.1", true, true),
            ("127.3.2.1:7", true, true),
            ("[::1]:8100", true, true),
            ("[::1]", true, true),
            ("localhost:9", true, true),
            ("LOCALHOST", true, true),
            ("10.1.2.3:8100", false, true),
            ("0.0.0.0:9001", false, true),
            ("history.example:8100", false, true),
            ("history.example", false, true),
            ("history.example.evil.example", false, false),
            ("evil.example:8100", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("localhost.:9001", false, false),
            ("127.0.0.1.:9001", false, false),
            ("user@127.0.0.1", false, false),
            ("127.0.0.1:9001@evil.example", false, false),
            ("127.0.0.1, evil.example", false, false),
            ("é", false, false),
            ("", false, false),
        ] {
            for (hosts, is_allowed) in [(&local, by_local), (&open, by_open)] {
                let expected = if is_allowed { Ok(()) } else { Err(HostError::Name) };
                assert_eq!(check(hosts, "/", &[host]), expected, "{host}");
            }
        }
        let own = "127.0.0.1:9001";
        for hosts in [&[][..], &[own, own], &[own, "evil.example"]] {
            assert_eq!(check(&local, "/", hosts), Err(HostError::Count), "{hosts:?}");
        }
        let unusual = "localhost. 127.0.0.1. user@localhost user:password@127.0.0.1 localhost@evil.example localhost/ localhost# \
                       localhost,evil.example 0x7f.1 2130706433 [::ffff:10.0.0.1] 0.0.0.0";
        for host in unusual.split(' ').chain(["localhost evil.example"]) {
            assert!(!local.allows(host) && !local.allows(&format!("{host}:8100")), "{host}");
        }
    }

    #[test]
    fn an_absolute_request_target_needs_an_own_host_as_well() {
        let hosts = Hosts::default();
        for (target, expected) in [
            ("http://127.0.0.1:9001/a", Ok(())),
            ("http://localhost/", Ok(())),
            ("http://evil.example/", Err(HostError::Name)),
            ("http://user@127.0.0.1:9001/", Err(HostError::Name)),
            ("http://127.0.0.1:9001@evil.example/", Err(HostError::Name)),
            ("evil.example:443", Err(HostError::Name)),
        ] {
            assert_eq!(check(&hosts, target, &["127.0.0.1:9001"]), expected, "{target}");
        }
        assert_eq!(
            check(&hosts, "http://127.0.0.1/", &["evil.example"]),
            Err(HostError::Name)
        );
    }
}
