//! What the listeners of the stack have in common: which requests they accept, how much they hold in memory, and a port that
//! web pages cannot find.

pub(crate) mod access;
pub(crate) mod budget;

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

use uuid::Uuid;

/// Number of random bits in the address of [`bind_random_address`].
const RANDOM_BITS: u32 = 24;

/// Binds a free port of a random loopback address, 127.a.b.c.
///
/// A web page that tries all ports of 127.0.0.1 does not find it, and there are too many addresses to try them all. A system
/// with only one loopback address, such as macOS, gets a free port of 127.0.0.1.
///
/// # Errors
///
/// No port is free.
pub(crate) fn bind_random_address() -> io::Result<TcpListener> {
    let random = Uuid::new_v4().as_u128() & ((1 << RANDOM_BITS) - 1);
    // The mask leaves fewer bits than a u32 has.
    let address = u32::from(Ipv4Addr::new(127, 0, 0, 0)) | u32::try_from(random).unwrap_or_default();
    TcpListener::bind((Ipv4Addr::from(address), 0)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_random() {
        let listeners = [(); 8].map(|()| bind_random_address().unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap().ip());
        let different: std::collections::BTreeSet<_> = addresses.iter().collect();
        assert_eq!(different.len(), addresses.len(), "{addresses:?}");
        assert!(
            addresses
                .iter()
                .all(|address| address.is_loopback() && *address != Ipv4Addr::LOCALHOST)
        );
    }
}
