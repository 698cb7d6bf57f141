//! Seals versions in a public log.
