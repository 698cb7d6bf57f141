//! Addresses of the console's pages.

use shared::domain::entity::EntityId;

use crate::query::link;

pub(crate) const SIGN_IN: &str = "/sign-in";
/// Path prefix of the static files. They need no token.
pub(crate) const ASSETS: &str = "/assets/";

pub(crate) fn of_entity(path: &str, id: &str) -> String {
    link(path, [("id", Some(id.to_owned()))])
}

pub(crate) fn version(path: &str, id: &str, version: u64) -> String {
    link(
        path,
        [("id", Some(id.to_owned())), ("version", Some(version.to_string()))],
    )
}

pub(crate) fn compare(entity: &EntityId, from: u64, to: u64) -> String {
    link(
        "/compare",
        [
            ("id", Some(entity.as_str().to_owned())),
            ("from", Some(from.to_string())),
            ("to", Some(to.to_string())),
        ],
    )
}
