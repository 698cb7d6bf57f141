//! The names that the console answers to.
//!
//! A page of somebody else can have its own name lead to this machine, and then read what is served here. A name that is
//! not ours is therefore refused; an address is not, since no such page is at one.

use std::net::{IpAddr, SocketAddr};

/// The names that the console answers to.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    /// The address that it was asked to listen at. This machine's own otherwise.
    pub(super) bind: Option<IpAddr>,
    /// Further names.
    pub(super) names: Vec<String>,
}

impl Hosts {
    /// Whether a `Host` header means this console.
    pub(super) fn knows(&self, host: &str) -> bool {
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

    /// The address as people are told it.
    pub(super) fn shown(&self, address: SocketAddr) -> String {
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
    fn names_of_others_are_refused() {
        let alone = Hosts::default();
        let open = Hosts {
            bind: Some("0.0.0.0".parse().unwrap()),
            names: vec!["history.example".to_owned()],
        };
        for (host, by_alone, by_open) in [
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
            assert_eq!((alone.knows(host), open.knows(host)), (by_alone, by_open), "{host}");
        }
    }
}
