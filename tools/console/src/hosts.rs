//! Host names at which a listener accepts requests: the console, and the ports of the local stack.
//!
//! A page of another site can point its own host name to this machine (DNS rebinding), and then read responses of the
//! listener. Therefore a host name that is not configured is rejected. An IP address is accepted, because DNS rebinding
//! needs a name.

use std::net::{IpAddr, SocketAddr};

/// Host names at which a listener accepts requests. By default, `localhost` and loopback addresses, with any port.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Address of the listener, if it is not the loopback address.
    pub(super) bind: Option<IpAddr>,
    pub(super) names: Vec<String>,
}

impl Hosts {
    /// Returns `true` if a request with this `Host` header is accepted.
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
            None => address.to_string(),
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("[::1]:8100", true, true),
            ("[::1]", true, true),
            ("localhost:9", true, true),
            ("LOCALHOST", true, true),
            ("10.1.2.3:8100", false, true),
            ("history.example:8100", false, true),
            ("history.example", false, true),
            ("history.example.evil.example", false, false),
            ("evil.example:8100", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("user@127.0.0.1", false, false),
            ("", false, false),
        ] {
            assert_eq!((local.allows(host), open.allows(host)), (by_local, by_open), "{host}");
        }
        let unusual = "localhost. 127.0.0.1. user@localhost user:password@127.0.0.1 localhost@evil.example localhost/ localhost# \
                       localhost,evil.example 0x7f.1 2130706433 [::ffff:10.0.0.1] 0.0.0.0";
        for host in unusual.split(' ').chain(["localhost evil.example"]) {
            assert!(!local.allows(host) && !local.allows(&format!("{host}:8100")), "{host}");
        }
    }
}
